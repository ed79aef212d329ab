package chip

import (
	"fmt"

	"ttfabric/router"
)

// checkSlots finds that every packet buffer is where it should be, and none is lost.
func (c *Chip) checkSlots() error {
	held := c.router.InFlight() + len(c.replies)
	for i := range c.ports {
		if c.ports[i].partial != router.NoSlot {
			held++
		}
	}
	if got := c.pool.InUse(); got != held {
		return fmt.Errorf("chip %s: %d packet buffers are out and %d are accounted for", c.cfg.Node, got, held)
	}
	open := 0
	for _, f := range c.outOrder {
		for _, o := range f.openOps() {
			if !o.settled {
				open++
			}
		}
	}
	for _, g := range c.groups.list {
		n, err := g.check()
		if err != nil {
			return fmt.Errorf("chip %s: %w", c.cfg.Node, err)
		}
		open += n
	}
	for id := range c.reads {
		ref := c.reads[id]
		if !ref.openIn() {
			open++
		}
	}
	if open != c.open {
		return fmt.Errorf("chip %s: %d requests are open and %d are counted", c.cfg.Node, open, c.open)
	}
	return nil
}
