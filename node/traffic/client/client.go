// Package client joins a traffic generator and a verifier to a chip. The client sends the
// generator's packets, and checks arriving packets with the verifier. Live and simulated chips use
// the same client.
package client

import (
	"ttfabric/node/flow"
	"ttfabric/node/noc"
	"ttfabric/node/traffic"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Client sends and verifies a chip's packets of one run of traffic. A Client implements
// chip.Client. A Client has no lock, because only the code that drives the chip calls a Client.
type Client struct {
	Spec    traffic.Spec
	Pairs   []traffic.Pair
	Gen     *traffic.Generator
	Ver     *traffic.Verifier
	Sending bool // true: the client sends and verifies; false: the client only verifies

	open  []place  // places for the packets under way; the low bits of a request's token are the index of the packet's place
	free  []uint32 // indices of the free places, in the order in which the places became free
	token uint64   // the high bits of the run's tokens
	buf   []byte
	last  uint32         // index of the place of the packet that Next returned last
	again traffic.Packet // after Undo: the packet whose bytes buf still holds
	kept  bool           // again is valid
	back  []byte
}

// place holds a packet that is under way.
type place struct {
	packet traffic.Packet
	used   bool
}

// tokenBits is the number of low bits of a token that hold the index of the packet's place. The high
// bits come from the run's number. Packets of an earlier run that are still under way therefore have
// other tokens.
const tokenBits = 32

// New returns a Client for a chip's part of a run. The client only verifies until the caller sets
// the field Sending.
//
// The topology t says which Tensix tiles are harvested.
func New(spec traffic.Spec, self wire.FabricNodeID, pairs []traffic.Pair, t *topo.Topology) *Client {
	tiles := func(n wire.FabricNodeID) (xs, ys []uint8) {
		c, _ := t.Chip(n)
		return noc.Shared(t.Arch, noc.Harvested(c.Harvested))
	}
	c := &Client{Spec: spec, Pairs: pairs, Gen: traffic.NewGenerator(spec, self, pairs), Ver: traffic.NewVerifier(spec, self, pairs),
		token: spec.Run << tokenBits, buf: make([]byte, spec.Size), back: make([]byte, wire.MaxPayload)}
	c.Gen.Place(tiles)
	c.Ver.Place(tiles)
	return c
}

// Next returns the generator's next packet as a request.
func (c *Client) Next(now mono.Time) (flow.Request, bool) {
	if !c.Sending {
		return flow.Request{}, false
	}
	p, ok := c.Gen.Next(now)
	if !ok {
		return flow.Request{}, false
	}
	if !c.kept || p != c.again {
		c.Gen.Fill(p, c.buf)
	}
	c.again, c.kept = p, false
	if len(c.free) == 0 {
		c.free = append(c.free, uint32(len(c.open)))
		c.open = append(c.open, place{})
	}
	k := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	c.open[k] = place{p, true}
	c.last = k
	return flow.Request{Token: c.token | uint64(k), Dst: p.Dst, Plane: p.Plane, Other: p.Other, Payload: c.buf, Command: wire.Command{Type: wire.NocUnicastWrite, Addr: p.Addr}}, true
}

// Deadline returns the time at which the next packet arrives in the generator's queue. Deadline
// returns false if the client does not send, or if the generator has no deadline.
func (c *Client) Deadline() (mono.Time, bool) {
	if !c.Sending {
		return 0, false
	}
	return c.Gen.Deadline()
}

// Undo gives the last packet back to the generator. The chip often gives a packet back several times
// before there is room for the packet, so Undo keeps the packet's bytes.
func (c *Client) Undo() {
	c.kept = true
	c.leave(c.last)
	c.Gen.Undo()
}

// leave frees place k.
func (c *Client) leave(k uint32) {
	c.open[k].used = false
	c.free = append(c.free, k)
}

// Done tells the generator how a packet ended. Done ignores the results of an earlier run's
// packets.
func (c *Client) Done(now mono.Time, r flow.Result) {
	k := r.Token & (1<<tokenBits - 1)
	if r.Token>>tokenBits != c.token>>tokenBits || k >= uint64(len(c.open)) || !c.open[k].used {
		return
	}
	p := c.open[k].packet
	c.leave(uint32(k))
	c.Gen.Done(p, r.Sent, now, r.Outcome, r.Fate == flow.FateLost || r.Fate == flow.FateUnknown)
}

// Performed reads the data of a unicast write back from memory, and hands the data to the verifier.
// Performed ignores other commands, and writes to addresses that the verifier does not own.
func (c *Client) Performed(_ mono.Time, src wire.FabricNodeID, plane wire.Plane, other bool, cmd *wire.Command, m *noc.Memory) {
	if cmd.Type != wire.NocUnicastWrite || !c.Ver.Owns(cmd.Addr) {
		return
	}
	b := c.back[:cmd.Size]
	if m.Read(cmd.Addr, b) == wire.OutcomeDone {
		c.Ver.Arrived(src, plane, other, b)
	}
}
