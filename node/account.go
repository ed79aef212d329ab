package node

import (
	"context"

	"ttfabric/node/chip"
	"ttfabric/node/flow"
	"ttfabric/node/losses"
	"ttfabric/wire/mono"
)

// Account returns the packet counts of the chip's router and links; see [chip.Chip.Account]. On a
// closed node, Account returns zeros.
func (n *Node) Account() (a losses.Chip) {
	n.WithChip(func(_ mono.Time, c *chip.Chip) { a = c.Account() })
	return a
}

// Moment returns how many of the chip's requests have ended up to now, by destination and fate. On
// a closed node, Moment returns ErrClosed. Moment implements session.Counter.
func (n *Node) Moment(context.Context) (m flow.Moment, err error) {
	err = ErrClosed
	n.WithChip(func(_ mono.Time, c *chip.Chip) { m, err = c.Moment(), nil })
	return m, err
}
