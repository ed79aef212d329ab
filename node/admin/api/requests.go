package api

import (
	"fmt"

	"ttfabric/node/flow"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// CommandBody is the NoC command that the destination of a packet performs ([wire.Command]).
type CommandBody struct {
	Type    SendType `json:"type"`              // the NoC command
	Tile    string   `json:"tile,omitempty"`    // the NoC coordinates of the tile for addresses that name no tile, such as 1-1
	Addr    Addr     `json:"addr,omitzero"`     // for every command except scatter-write: the address
	Sem     Addr     `json:"sem,omitzero"`      // for fused-write-inc: the address of the counter
	Value   uint32   `json:"value,omitempty"`   // for inline-write: the value to write; for atomic-inc and fused-write-inc: the increment
	Flush   bool     `json:"flush,omitempty"`   // for atomic-inc and fused-write-inc: whether the destination first performs earlier writes of the flow
	Size    uint16   `json:"size,omitempty"`    // for read: the number of bytes to read; for other commands the chip uses the length of the payload
	Chunks  uint8    `json:"chunks,omitempty"`  // for scatter-write: the number of chunks, 2 to 4
	Scatter []Addr   `json:"scatter,omitempty"` // for scatter-write: the address of each chunk
	Sizes   []uint16 `json:"sizes,omitempty"`   // for scatter-write: the length of each chunk, in bytes; the last chunk gets the rest of the payload
}

func newCommand(c *wire.Command) CommandBody {
	b := CommandBody{Type: SendType(c.Type), Value: c.Value, Flush: c.Flush, Size: c.Size, Chunks: c.Chunks}
	if c.Addr != 0 {
		b.Addr = NewAddr(c.Addr)
	}
	if c.Sem != 0 {
		b.Sem = NewAddr(c.Sem)
	}
	if c.Chunks > 0 {
		for _, a := range c.Scatter {
			b.Scatter = append(b.Scatter, NewAddr(a))
		}
		b.Sizes = append(b.Sizes, c.Sizes[:]...)
	}
	return b
}

func (b *CommandBody) command() (c wire.Command, err error) {
	c = wire.Command{Type: wire.NocSendType(b.Type), Value: b.Value, Flush: b.Flush, Size: b.Size, Chunks: b.Chunks}
	if len(b.Scatter) > wire.MaxScatter || len(b.Sizes) > wire.MaxScatter {
		return c, fmt.Errorf("a scatter write of %d chunks: want 2 to %d", max(len(b.Scatter), len(b.Sizes)), wire.MaxScatter)
	}
	copy(c.Sizes[:], b.Sizes)
	if c.Addr, err = b.Addr.in(b.Tile); err == nil && b.Sem != (Addr{}) {
		c.Sem, err = b.Sem.in(b.Tile)
	}
	for i := 0; i < len(b.Scatter) && err == nil; i++ {
		c.Scatter[i], err = b.Scatter[i].in(b.Tile)
	}
	return c, err
}

// RequestBody asks the chip to send one NoC command.
type RequestBody struct {
	Dst     wire.FabricNodeID `json:"dst"`               // the destination chip; a multicast to members uses only the mesh, and a multicast by ranges does not use this field
	Plane   wire.Plane        `json:"plane"`             // the routing plane
	Probe   bool              `json:"probe,omitempty"`   // whether to send a probe, which only asks for an answer; a probe does not use command and payload
	Command CommandBody       `json:"command,omitzero"`  // the command that the destination performs
	Payload []byte            `json:"payload,omitempty"` // the payload, at most 4096 bytes
	Trace   bool              `json:"trace,omitempty"`   // whether each chip on the route notes the packet; GET /v1/traces lists the noted packets
	Via     Hops              `json:"via,omitempty"`     // the directions that the packet takes, hop by hop, at most 67; empty: the packet follows the routing tables
	Other   bool              `json:"other,omitempty"`   // whether the packet takes the other direction round a ring if both directions are equally long; packets with other have a flow of their own; other cannot be combined with via, multicast or members

	Multicast wire.Ranges  `json:"multicast,omitzero"` // the destinations of a multicast, as ranges of hops from the called chip, such as "E2,N1"
	Members   wire.Members `json:"members,omitzero"`   // the destinations of a multicast, as chips of the mesh of dst, such as "0-3,7"; cannot be combined with multicast
	Posted    bool         `json:"posted,omitempty"`   // whether the request ends as posted when the chip has sent it; the result of a later probe with flush says how many posted requests were missed; reads and probes cannot be posted
	Flush     bool         `json:"flush,omitempty"`    // for a probe: whether the result says how many posted requests were missed
}

// NewRequest converts a request to the type of the API.
func NewRequest(r *flow.Request) RequestBody {
	return RequestBody{r.Dst, r.Plane, r.Probe, newCommand(&r.Command), r.Payload, r.Trace, r.Via, r.Other, r.Ranges, r.Members, r.Posted, r.Flush}
}

// Request converts the body to a request. The error names a bad value.
func (b *RequestBody) Request() (flow.Request, error) {
	c, err := b.Command.command()
	return flow.Request{Dst: b.Dst, Plane: b.Plane, Probe: b.Probe, Command: c, Payload: b.Payload, Via: b.Via, Trace: b.Trace, Ranges: b.Multicast, Members: b.Members,
		Posted: b.Posted, Flush: b.Flush, Other: b.Other}, err
}

// EndBody says how a request ended at one destination.
type EndBody struct {
	Fate    Fate               `json:"fate"`              // done: the destination performed the request; refused: the destination received the request and did not perform it; lost: the destination certainly did not perform the request; unknown: the destination may have performed the request; posted: the chip has sent the posted request, and nobody reports how it ends
	Outcome Outcome            `json:"outcome,omitempty"` // why the destination refused the request; absent if the destination did not refuse the request
	Drop    DropReason         `json:"drop,omitempty"`    // why a router dropped the request; absent if no router reported a drop
	At      *wire.FabricNodeID `json:"at,omitempty"`      // the chip that dropped the request; present only together with drop
	Doubt   Doubt              `json:"doubt,omitempty"`   // why the source does not know whether the request was performed; present only with the fate unknown
}

func newEnd(f flow.Fate, o wire.Outcome, r wire.DropReason, at wire.FabricNodeID, d flow.Doubt) EndBody {
	b := EndBody{Fate: Fate(f), Outcome: Outcome(o), Drop: DropReason(r), Doubt: Doubt(d)}
	if r != 0 {
		b.At = &at
	}
	return b
}

// The method "at" returns the chip that dropped the request, or the zero chip.
func (b *EndBody) at() (n wire.FabricNodeID) {
	if b.At != nil {
		n = *b.At
	}
	return n
}

// MemberBody says how a multicast ended at one of its destinations.
type MemberBody struct {
	Node wire.FabricNodeID `json:"chip"` // the destination
	EndBody
}

// ResultBody is the result of a request.
type ResultBody struct {
	EndBody
	Data    []byte       `json:"data,omitempty"`    // the data that a read returned
	Nanos   int64        `json:"nanoseconds"`       // the time from the start of the request to its end, by the clock of the called chip
	Members []MemberBody `json:"members,omitempty"` // for a multicast: the destinations that did not perform the request
	Missed  uint64       `json:"missed,omitempty"`  // for a probe with flush: the number of earlier posted requests to the same destinations, since the last such probe, that did not end as done
}

// NewResult converts the result of a request to the type of the API.
func NewResult(r *flow.Result) ResultBody {
	b := ResultBody{EndBody: newEnd(r.Fate, r.Outcome, r.Drop, r.At, r.Doubt), Data: r.Data, Nanos: int64(r.Done.Sub(r.Sent)), Missed: r.Missed}
	for i := range r.Members {
		m := &r.Members[i]
		b.Members = append(b.Members, MemberBody{m.Node, newEnd(m.Fate, m.Outcome, m.Drop, m.At, m.Doubt)})
	}
	return b
}

// result converts the body to the result of a request to dst. The result has 0 as the time of
// sending.
func (b *ResultBody) result(token uint64, dst wire.FabricNodeID) flow.Result {
	r := flow.Result{Token: token, Dst: dst, Fate: flow.Fate(b.Fate), Outcome: wire.Outcome(b.Outcome), Drop: wire.DropReason(b.Drop), At: b.at(),
		Doubt: flow.Doubt(b.Doubt), Data: b.Data, Missed: b.Missed, Done: mono.Time(b.Nanos)}
	for i := range b.Members {
		m := &b.Members[i]
		r.Members = append(r.Members, flow.MemberResult{Node: m.Node, Fate: flow.Fate(m.Fate), Outcome: wire.Outcome(m.Outcome), Drop: wire.DropReason(m.Drop),
			At: m.at(), Doubt: flow.Doubt(m.Doubt)})
	}
	return r
}

// BatchStart is one line of the answer to a batch. BatchStart says how many requests of the batch
// the chip started. The chip starts requests in the order of the batch.
type BatchStart struct {
	Started int      `json:"started"`           // the number of requests that the chip started
	Problem *Problem `json:"problem,omitempty"` // why the chip started no further requests; absent if the chip started all requests
}

// BatchEnd is one line of the answer to a batch. BatchEnd says how one request of the batch ended.
type BatchEnd struct {
	Index int `json:"index"` // the request's index in the batch, from 0
	ResultBody
}
