package node

import (
	"fmt"
	"net/netip"

	"ttfabric/wire"
)

// defaultPayload is the largest padded payload of a frame until the node knows the path's MTU, in
// bytes. Its frame fits into an MTU of 1500 bytes, with the headers of IPv4 and UDP (28 bytes).
const defaultPayload = (1500 - 28 - wire.FrameOverhead) / wire.PadUnit * wire.PadUnit

func (n *Node) openPorts() error {
	for _, p := range n.chip.Channels() {
		local := netip.AddrPortFrom(n.cfg.Listen, 0)
		if n.cfg.PortBase != 0 {
			local = netip.AddrPortFrom(n.cfg.Listen, n.cfg.PortBase+uint16(p.Local.Channel))
		}
		lp := &livePort{ch: p.Local.Channel, peer: p.Peer, plane: p.Plane, most: n.cfg.limited(wire.PadTo(wire.MaxPacket))}
		pipe, err := n.openPipe(local, lp)
		if err != nil {
			return fmt.Errorf("chip %s channel %d: %w", n.cfg.Node, p.Local.Channel, err)
		}
		lp.pipe, lp.out = pipe, pipe
		n.ports = append(n.ports, lp)
		n.byCh[lp.ch] = lp
	}
	return nil
}

// release closes the ports and the clock.
func (n *Node) release() {
	if n.clock != nil {
		n.clock.close()
	}
	for _, p := range n.ports {
		p.close()
	}
}
