package chip

import (
	"fmt"

	"ttfabric/router"
)

// CheckInvariants returns an error if the chip's own state is inconsistent. Tests and
// the simulator call CheckInvariants.
func (c *machine) CheckInvariants() error {
	for i := range c.ports.list {
		if err := c.ports.list[i].link.CheckInvariants(); err != nil {
			return err
		}
	}
	for _, check := range []func() error{c.router.CheckInvariants, c.checkSlots, c.source.CheckInvariants, c.sink.CheckInvariants, c.firmware.CheckInvariants, c.lent.check, c.waiting.check} {
		if err := check(); err != nil {
			return fmt.Errorf("chip %s: %w", c.cfg.Node, err)
		}
	}
	return nil
}

// checkSlots compares two numbers: the packet buffers in use, and the packets that the
// chip holds. checkSlots returns an error if the numbers differ.
func (c *machine) checkSlots() error {
	held := c.router.InFlight() + len(c.outbox.replies)
	for i := range c.ports.list {
		if c.ports.list[i].partial != router.NoSlot {
			held++
		}
	}
	if got := c.pool.InUse(); got != held {
		return fmt.Errorf("%d packet buffers are in use, but the chip holds %d packets", got, held)
	}
	return nil
}
