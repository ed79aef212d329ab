package api

import (
	"context"
	"errors"
	"net/http"

	"ttfabric/node/session"
	"ttfabric/wire"
)

// MaxWaits is the largest number of calls of a chip that wait on a word or at a barrier.
const MaxWaits = 200

// WaitBody asks the chip to wait on a word of its own memory.
type WaitBody struct {
	Tile  string `json:"tile,omitempty"`  // the NoC coordinates of the tile, if the address names no tile, such as 1-1
	Addr  Addr   `json:"addr"`            // the address of the word of 32 bits, a multiple of 4
	Value uint32 `json:"value"`           // the value to compare the word with
	Equal bool   `json:"equal,omitempty"` // true: the word must equal the value; false: the word must be at least the value
}

// WaitView is the word that ended a wait.
type WaitView struct {
	Word uint32 `json:"word"` // the word
}

// Wait returns the address and the test. The error names a bad value.
func (b *WaitBody) Wait() (a wire.NocAddr, t session.Test, err error) {
	if a, err = b.Addr.in(b.Tile); !b.Equal {
		t = session.AtLeast
	}
	return a, t, err
}

// Await waits until a word of the chip's memory passes a test; see [session.Waiter].
func (c *Client) Await(ctx context.Context, a wire.NocAddr, t session.Test, value uint32) (uint32, error) {
	var v WaitView
	err := c.call(ctx, "POST", "/v1/wait", WaitBody{Addr: NewAddr(a), Value: value, Equal: t == session.Equal}, &v)
	return v.Word, ended(ctx, err)
}

// BarrierBody says which rank waits at a barrier of this chip.
type BarrierBody struct {
	Name  string `json:"name"`  // the name of the barrier, of 1 to 64 bytes
	Rank  int    `json:"rank"`  // the number of the rank, from 0
	Ranks int    `json:"ranks"` // the number of ranks that must come, at most 16384
}

// Barrier waits until all ranks have called Barrier with the same name at this chip. If ctx ends first,
// the barrier breaks, and the calls of the other ranks return an error.
func (c *Client) Barrier(ctx context.Context, name string, rank, ranks int) error {
	return ended(ctx, c.call(ctx, "POST", "/v1/barrier", BarrierBody{name, rank, ranks}, nil))
}

// ClaimBody names a part of the chip that the caller uses alone.
type ClaimBody struct {
	Name   string `json:"name"`   // what the caller claims, 1 to 64 bytes
	Holder string `json:"holder"` // the caller, 1 to 256 bytes; the error of the next caller shows this text
}

// Claim claims a part of the chip; see [session.Claimer]. The chip keeps the claim as long as the call's
// connection lasts.
func (c *Client) Claim(ctx context.Context, name, holder string) (release func(), err error) {
	hold, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	resp, err := c.open(hold, "POST", "/v1/claim", ClaimBody{name, holder})
	if !stop() { // ctx has ended
		err = errors.Join(err, ctx.Err())
	}
	if err != nil {
		end()
		if resp != nil {
			resp.Body.Close()
		}
		var refused *StatusError
		if errors.As(err, &refused) && refused.Code == http.StatusConflict {
			return nil, &session.HeldError{Text: refused.Detail}
		}
		return nil, err
	}
	return func() {
		end()
		resp.Body.Close()
	}, nil
}

// ended adds the error of an ended ctx to the error of a call.
func ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	return err
}

// waitRoutes are the calls that wait.
var waitRoutes = []Route{
	{Method: "POST", Path: "/v1/claim", Summary: "Claims a part of the chip that only one program can use at a time. The chip answers at once, and does not end the answer. The claim ends when the caller disconnects.",
		Bodies: []any{ClaimBody{}}, Answers: one(OK{}),
		Errors: []Failure{{Status: http.StatusUnprocessableEntity, When: "A value is out of range, or the chip keeps as many claims as it may."},
			{Status: http.StatusConflict, When: "Another program has the claim. The detail names its holder."}, {Status: http.StatusServiceUnavailable, When: "The chip has as many waits as it may have."}}},
	{Method: "POST", Path: "/v1/wait", Summary: "Waits until a word of the chip's own memory equals a value, or is at least a value. The chip looks at the word after each of its steps. A caller who disconnects ends the wait.",
		Bodies: []any{WaitBody{}}, Answers: one(WaitView{}),
		Errors: []Failure{{Status: http.StatusUnprocessableEntity, When: "The address names no word, or the chip shuts down."},
			{Status: http.StatusServiceUnavailable, When: "The chip has as many waits as it may have."}}},
	{Method: "POST", Path: "/v1/barrier", Summary: "Waits until all ranks of a job have made this call with the same name. A caller who disconnects breaks the barrier for the ranks that wait.",
		Bodies: []any{BarrierBody{}}, Answers: one(OK{}),
		Errors: []Failure{{Status: http.StatusUnprocessableEntity, When: "A value is out of range, the rank waits already, or other ranks state another number of ranks."},
			{Status: http.StatusConflict, When: "A rank has left the barrier."}, {Status: http.StatusServiceUnavailable, When: "The chip has as many waits as it may have."}}},
}
