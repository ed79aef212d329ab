// Package client joins a generator and a verifier of traffic to a chip: it sends
// what the one says and verifies what comes with the other. Live chips and
// simulated ones use the same.
package client

import (
	"ttfabric/node/chip"
	"ttfabric/node/noc"
	"ttfabric/node/traffic"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Client is a chip's part in one run of traffic. It is a chip.Client, and has
// no lock: whoever drives the chip calls it.
type Client struct {
	Spec    traffic.Spec
	Gen     *traffic.Generator
	Ver     *traffic.Verifier
	Sending bool // or only verifying

	open  map[uint64]traffic.Packet // by token
	token uint64
	buf   []byte
	back  []byte
}

// tokenBits number the packets of one run: what is still under way of the run before has other tokens.
const tokenBits = 32

// New returns the part of a chip in a run; it only verifies until Sending is set.
func New(spec traffic.Spec, self wire.FabricNodeID, pairs []traffic.Pair) *Client {
	return &Client{Spec: spec, Gen: traffic.NewGenerator(spec, self, pairs), Ver: traffic.NewVerifier(spec, self, pairs),
		open: map[uint64]traffic.Packet{}, token: spec.Run << tokenBits, buf: make([]byte, spec.Size), back: make([]byte, wire.MaxPayload)}
}

// Next is the generator's next packet as a request.
func (c *Client) Next(now mono.Time) (chip.Request, bool) {
	if !c.Sending {
		return chip.Request{}, false
	}
	p, ok := c.Gen.Next(now)
	if !ok {
		return chip.Request{}, false
	}
	c.Gen.Fill(p, c.buf)
	c.token++
	c.open[c.token] = p
	return chip.Request{Token: c.token, Dst: p.Dst, Plane: p.Plane, Other: p.Other, Payload: c.buf, Command: wire.Command{Type: wire.NocUnicastWrite, Addr: p.Addr}}, true
}

// Deadline is when a packet arrives that is to be sent.
func (c *Client) Deadline() (mono.Time, bool) {
	if !c.Sending {
		return 0, false
	}
	return c.Gen.Deadline()
}

// Undo gives the last packet back to the generator.
func (c *Client) Undo() {
	delete(c.open, c.token)
	c.token--
	c.Gen.Undo()
}

// Done tells the generator what became of a packet. Those of an earlier run are nobody's.
func (c *Client) Done(now mono.Time, r chip.Result) {
	p, ok := c.open[r.Token]
	if !ok {
		return
	}
	delete(c.open, r.Token)
	c.Gen.Done(p, r.Sent, now, r.Outcome, r.Fate == chip.FateLost || r.Fate == chip.FateUnknown)
}

// Performed verifies what has been written, as it now stands in memory.
func (c *Client) Performed(_ mono.Time, src wire.FabricNodeID, plane wire.Plane, other bool, cmd *wire.Command, m *noc.Memory) {
	if cmd.Type != wire.NocUnicastWrite || !c.Ver.Owns(cmd.Addr) {
		return
	}
	b := c.back[:cmd.Size]
	if m.Read(cmd.Addr, b) == wire.OutcomeDone {
		c.Ver.Arrived(src, plane, other, b)
	}
}
