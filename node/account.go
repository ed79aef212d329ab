package node

import (
	"context"

	"ttfabric/node/chip"
	"ttfabric/node/losses"
	"ttfabric/wire/mono"
)

// Account is what the chip's router and links have counted of packets, see [chip.Chip.Account]; all zero when the node has been closed.
func (n *Node) Account() (a losses.Chip) {
	n.WithChip(func(_ mono.Time, c *chip.Chip) { a = c.Account() })
	return a
}

// Moment is how the chip's requests have ended up to now. It makes the node a session.Counter.
func (n *Node) Moment(context.Context) (m chip.Moment, err error) {
	err = ErrClosed
	n.WithChip(func(_ mono.Time, c *chip.Chip) { m, err = c.Moment(), nil })
	return m, err
}
