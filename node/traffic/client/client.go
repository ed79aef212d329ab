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
	Gen     *traffic.Generator
	Ver     *traffic.Verifier
	Sending bool // true: the client sends and verifies; false: the client only verifies

	open  map[uint64]traffic.Packet // packets under way, by the token of their request
	token uint64
	buf   []byte
	again traffic.Packet // after Undo: the packet whose bytes buf still holds
	kept  bool           // again is valid
	back  []byte
}

// tokenBits is the number of low bits of a token that count the packets of a run. The high bits
// come from the run's number. Packets of an earlier run that are still under way therefore have
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
	c := &Client{Spec: spec, Gen: traffic.NewGenerator(spec, self, pairs), Ver: traffic.NewVerifier(spec, self, pairs),
		open: map[uint64]traffic.Packet{}, token: spec.Run << tokenBits, buf: make([]byte, spec.Size), back: make([]byte, wire.MaxPayload)}
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
	c.token++
	c.open[c.token] = p
	return flow.Request{Token: c.token, Dst: p.Dst, Plane: p.Plane, Other: p.Other, Payload: c.buf, Command: wire.Command{Type: wire.NocUnicastWrite, Addr: p.Addr}}, true
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
	delete(c.open, c.token)
	c.token--
	c.Gen.Undo()
}

// Done tells the generator how a packet ended. Done ignores the results of an earlier run's
// packets.
func (c *Client) Done(now mono.Time, r flow.Result) {
	p, ok := c.open[r.Token]
	if !ok {
		return
	}
	delete(c.open, r.Token)
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
