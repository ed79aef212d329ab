package api

import (
	"context"
	"errors"

	"ttfabric/node/chip"
	"ttfabric/node/session"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Submit starts requests on the chip, each in a call of its own; see session.Fabric.
func (c *Client) Submit(ctx context.Context, rs []chip.Request, done func(i int, r chip.Result)) (int, error) {
	for i, r := range rs {
		go func() { done(i, c.request(ctx, r)) }()
	}
	return len(rs), nil
}

func (c *Client) request(ctx context.Context, r chip.Request) chip.Result {
	var b ResultBody
	err := c.call(ctx, "POST", "/v1/requests", RequestBody{r.Dst, r.Plane, r.Probe, r.Command, r.Payload, r.Trace, r.Via, r.Other, r.Ranges}, &b)
	var refused *StatusError
	if errors.As(err, &refused) && refused.Code/100 == 4 { // nothing was begun
		if refused.kind == NoWayType {
			err = &session.NoWayError{Src: c.self, Dst: r.Dst, Plane: r.Plane}
		}
		return chip.Result{Token: r.Token, Dst: r.Dst, Fate: chip.FateRefused, Err: err}
	}
	if err != nil {
		// The chip may have begun before it went silent.
		return chip.Result{Token: r.Token, Dst: r.Dst, Fate: chip.FateUnknown, Doubt: chip.DoubtTimeout, Err: err}
	}
	res := chip.Result{Token: r.Token, Dst: r.Dst, Fate: b.Fate, Outcome: b.Outcome, Drop: b.Drop, At: b.At, Doubt: b.Doubt, Data: b.Data, Done: mono.Time(b.Nanos)}
	for _, m := range b.Members {
		res.Members = append(res.Members, chip.MemberResult(m))
	}
	return res
}

// RequestBody is a NoC command on its way to a chip. Payload is base64 in JSON.
type RequestBody struct {
	Dst     wire.FabricNodeID `json:"dst"`
	Plane   wire.Plane        `json:"plane"`
	Probe   bool              `json:"probe,omitempty"`
	Command wire.Command      `json:"command"`
	Payload []byte            `json:"payload,omitempty"`
	Trace   bool              `json:"trace,omitempty"`
	Via     []wire.Direction  `json:"via,omitempty"`   // hops, 0 to 3 for east, west, north, south
	Other   bool              `json:"other,omitempty"` // where two ways round a ring are equally long, take the other one: a flow of its own; neither via nor multicast goes with it

	Multicast wire.Ranges `json:"multicast,omitzero"` // "E2,N1": to these chips from the one that is asked; then dst is not used
}

// MemberBody is what became of a multicast at one of its members.
type MemberBody struct {
	Node    wire.FabricNodeID `json:"chip"`
	Fate    chip.Fate         `json:"fate"`
	Outcome wire.Outcome      `json:"outcome"`
	Drop    wire.DropReason   `json:"drop"`
	At      wire.FabricNodeID `json:"at"`
	Doubt   chip.Doubt        `json:"doubt"`
}

// ResultBody is its end.
type ResultBody struct {
	Fate    chip.Fate         `json:"fate"`
	Outcome wire.Outcome      `json:"outcome"`
	Drop    wire.DropReason   `json:"drop"`
	At      wire.FabricNodeID `json:"at"`
	Doubt   chip.Doubt        `json:"doubt"`
	Data    []byte            `json:"data,omitempty"`
	Nanos   int64             `json:"nanoseconds"`       // from the request to its end, on the source chip's clock
	Members []MemberBody      `json:"members,omitempty"` // of a multicast: those where it was not done
}
