package topo

import "ttfabric/wire"

// The cables between the two chips of an n300 board, from the chip with PCIe to the other chip (tt-umd,
// cluster descriptors of n300 boards).
var n300Inside = map[wire.Channel]wire.Channel{8: 0, 9: 1}

// n300Reserved is the channel, at the chip with PCIe, of the cable that the dispatcher reserves. The
// public documents say that the reserved cable is one of the two. The choice is our own.
const n300Reserved wire.Channel = 9

// Reserved reports whether the dispatcher of host programs has reserved a cable, which is named by one
// of its ports. On each n300 board, the dispatcher reserves one of the two cables between the chips of
// the board (CCL guide, "N300" and "T3000"). User kernels must not use a reserved cable, but the
// fabric's router uses it.
func (t *Topology) Reserved(p wire.PortID) bool {
	var peer wire.PortID
	for _, q := range t.Ports(p.Node) {
		if q.Local == p {
			peer = q.Peer
		}
	}
	a, oka := t.Chip(p.Node)
	b, okb := t.Chip(peer.Node)
	if !oka || !okb || a.Board != "n300" || b.Board != "n300" || a.MMIO == b.MMIO {
		return false
	}
	local, remote := p.Channel, peer.Channel
	if b.MMIO {
		local, remote = remote, local
	}
	far, inside := n300Inside[local]
	return inside && far == remote && local == n300Reserved
}
