package model

import (
	"slices"
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/firmware"
	"ttfabric/node/flow"
	"ttfabric/node/kernel"
	"ttfabric/node/traffic/client"
	"ttfabric/router"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// tape wraps the inputs of a chip. It notes the inputs that only hosts make, and leaves out the inputs of the simulator
// itself, which a replay makes by itself.
type tape struct {
	chip.Inputs
	m *Machine
	i int // the chip's place
}

// wrap returns the function with which a starting chip wraps its inputs.
func (m *Machine) wrap(_ mono.Time, cfg chip.Config) func(chip.Inputs) chip.Inputs {
	i := m.topology.Index(cfg.Node)
	return func(in chip.Inputs) chip.Inputs { return &tape{in, m, i} }
}

// note notes an input. A replay calls "again" with the chip.
func (t *tape) note(bytes int, again func(c *chip.Chip, now mono.Time)) {
	i := t.i
	t.m.note(bytes, func(m *Machine, now mono.Time) {
		if c := m.Chip(i); c != nil {
			again(c, now)
		}
	})
}

// HandleRequest notes the call.
func (t *tape) HandleRequest(now mono.Time, r flow.Request) flow.Admission {
	kept := r
	kept.Payload, kept.Into, kept.Via = slices.Clone(r.Payload), make([]byte, len(r.Into)), slices.Clone(r.Via)
	t.note(len(r.Payload)+len(r.Into), func(c *chip.Chip, now mono.Time) { c.HandleRequest(now, kept) })
	return t.Inputs.HandleRequest(now, r)
}

// SetClient notes the call. In a replay, a new client with the same options stands for the client, because clients
// have a state of their own.
func (t *tape) SetClient(cl chip.Client) {
	i := t.i
	live, ok := cl.(*client.Client)
	sends := ok && live.Sending
	t.m.note(0, func(m *Machine, _ mono.Time) {
		c := m.Chip(i)
		if m.replay.at[i] = live; c == nil {
			return
		}
		if live == nil {
			c.SetClient(nil)
			return
		}
		now := m.replay.clients[live]
		if now == nil {
			now = client.New(live.Spec, m.topology.Chips[i].Node, live.Pairs, m.topology)
			m.replay.clients[live] = now
		}
		now.Sending = sends
		c.SetClient(now)
	})
	t.Inputs.SetClient(cl)
}

// Avoid notes the call.
func (t *tape) Avoid(now mono.Time, ch wire.Channel, on bool) bool {
	t.note(0, func(c *chip.Chip, now mono.Time) { c.Avoid(now, ch, on) })
	return t.Inputs.Avoid(now, ch, on)
}

// Assign notes the call.
func (t *tape) Assign(now mono.Time, ch, by wire.Channel) error {
	t.note(0, func(c *chip.Chip, now mono.Time) { _ = c.Assign(now, ch, by) })
	return t.Inputs.Assign(now, ch, by)
}

// Cut notes the call.
func (t *tape) Cut(now mono.Time, ch wire.Channel, on bool) {
	t.note(0, func(c *chip.Chip, now mono.Time) { c.Cut(now, ch, on) })
	t.Inputs.Cut(now, ch, on)
}

// Command notes the call.
func (t *tape) Command(now mono.Time, ch wire.Channel, cmd router.Command) error {
	t.note(0, func(c *chip.Chip, now mono.Time) { _ = c.Command(now, ch, cmd) })
	return t.Inputs.Command(now, ch, cmd)
}

// Flush notes the call.
func (t *tape) Flush(now mono.Time, ch wire.Channel) (int, error) {
	t.note(0, func(c *chip.Chip, now mono.Time) { _, _ = c.Flush(now, ch) })
	return t.Inputs.Flush(now, ch)
}

// Ask notes the call.
func (t *tape) Ask(now mono.Time, ch wire.Channel) time.Duration {
	t.note(0, func(c *chip.Chip, now mono.Time) { c.Ask(now, ch) })
	return t.Inputs.Ask(now, ch)
}

// Mark notes the call.
func (t *tape) Mark(now mono.Time, number uint32) {
	t.note(0, func(c *chip.Chip, now mono.Time) { c.Mark(now, number) })
	t.Inputs.Mark(now, number)
}

// StartJob notes the call.
func (t *tape) StartJob(now mono.Time, j kernel.Job) error {
	t.note(0, func(c *chip.Chip, now mono.Time) { _ = c.StartJob(now, j) })
	return t.Inputs.StartJob(now, j)
}

// EndJob notes the call.
func (t *tape) EndJob(now mono.Time, id kernel.JobID, e kernel.End) bool {
	t.note(0, func(c *chip.Chip, now mono.Time) { c.EndJob(now, id, e) })
	return t.Inputs.EndJob(now, id, e)
}

// Lend notes the call.
func (t *tape) Lend(now mono.Time, n uint64) {
	t.note(0, func(c *chip.Chip, now mono.Time) { c.Lend(now, n) })
	t.Inputs.Lend(now, n)
}

// HandleTransfer notes the call.
func (t *tape) HandleTransfer(now mono.Time, id uint64, o wire.Outcome, b []byte) {
	t.note(len(b), func(c *chip.Chip, now mono.Time) { c.HandleTransfer(now, id, o, slices.Clone(b)) })
	t.Inputs.HandleTransfer(now, id, o, b)
}

// PollTransfer notes the call.
func (t *tape) PollTransfer() (firmware.Transfer, bool) {
	t.note(0, func(c *chip.Chip, _ mono.Time) { c.PollTransfer() })
	return t.Inputs.PollTransfer()
}

// HandleStore notes the call.
func (t *tape) HandleStore(now mono.Time, ch wire.Channel, off uint64, b []byte) wire.Outcome {
	kept := slices.Clone(b)
	t.note(len(b), func(c *chip.Chip, now mono.Time) { c.HandleStore(now, ch, off, kept) })
	return t.Inputs.HandleStore(now, ch, off, b)
}
