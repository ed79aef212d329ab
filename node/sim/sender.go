package sim

import (
	"ttfabric/node/chip"
	"ttfabric/node/noc"
	"ttfabric/node/traffic"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// sender is the client of a chip that takes part in traffic: it sends what its
// generator says and verifies what comes, as that of a live chip does.
type sender struct {
	gen     *traffic.Generator
	ver     *traffic.Verifier
	sending bool
	open    map[uint64]traffic.Packet // by token
	token   uint64
	buf     []byte
	back    []byte
}

// Next is the generator's next packet as a request.
func (c *sender) Next(now mono.Time) (chip.Request, bool) {
	if !c.sending {
		return chip.Request{}, false
	}
	p, ok := c.gen.Next(now)
	if !ok {
		return chip.Request{}, false
	}
	c.gen.Fill(p, c.buf)
	c.token++
	c.open[c.token] = p
	return chip.Request{Token: c.token, Dst: p.Dst, Plane: p.Plane, Payload: c.buf, Command: wire.Command{Type: wire.NocUnicastWrite, Addr: p.Addr}}, true
}

// Deadline is when a packet arrives that is to be sent.
func (c *sender) Deadline() (mono.Time, bool) {
	if !c.sending {
		return 0, false
	}
	return c.gen.Deadline()
}

// Undo gives the last packet back to the generator.
func (c *sender) Undo() {
	delete(c.open, c.token)
	c.token--
	c.gen.Undo()
}

// Done tells the generator what became of a packet. Those of an earlier run are nobody's.
func (c *sender) Done(now mono.Time, r chip.Result) {
	p, ok := c.open[r.Token]
	if !ok {
		return
	}
	delete(c.open, r.Token)
	c.gen.Done(p, r.Sent, now, r.Outcome, r.Fate == chip.FateLost || r.Fate == chip.FateUnknown)
}

// Performed verifies what has been written, as it now stands in memory.
func (c *sender) Performed(_ mono.Time, src wire.FabricNodeID, plane wire.Plane, cmd *wire.Command, m *noc.Memory) {
	if cmd.Type != wire.NocUnicastWrite || !c.ver.Owns(cmd.Addr) {
		return
	}
	b := c.back[:cmd.Size]
	if m.Read(cmd.Addr, b) == wire.OutcomeDone {
		c.ver.Arrived(src, plane, b)
	}
}
