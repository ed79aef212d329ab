package node

import (
	"ttfabric/node/chip"
	"ttfabric/node/losses"
	"ttfabric/wire/mono"
)

// Account is what the chip's router and links have counted of packets, see [chip.Chip.Account]; all zero when the node has been closed.
func (n *Node) Account() (a losses.Chip) {
	n.WithChip(func(_ mono.Time, c *chip.Chip) { a = c.Account() })
	return a
}
