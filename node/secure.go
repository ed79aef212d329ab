package node

import (
	"net/netip"
	"time"

	"ttfabric/ttlink/transport"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// PortEvent reports that a port or its peer refused the connection between the two. When the port
// accepts the peer after a refusal, the node publishes one more PortEvent.
type PortEvent struct {
	Local, Peer wire.PortID
	Refused     string // reason of the refusal; "": the port has accepted the peer
}

// openPipe opens the transport of a channel.
func (n *Node) openPipe(local netip.AddrPort, p *livePort) (transport.Port, error) {
	if n.cfg.Cable == nil {
		return n.cfg.Port(local)
	}
	refused := false // whether the port's latest report was a refusal
	return n.cfg.Cable(local, transport.Cable{From: wire.PortID{Node: n.cfg.Node, Channel: p.ch}, To: p.peer, Incarnation: n.cfg.Incarnation,
		Tell: func(x transport.Notice) {
			e := PortEvent{wire.PortID{Node: n.cfg.Node, Channel: p.ch}, p.peer, x.Refused}
			if x.Refused != "" {
				n.log.Warn("peer refused", "chip", n.cfg.Node, "channel", p.ch, "reason", x.Refused)
			}
			n.mu.Lock()
			tell := x.Refused != "" || refused
			refused = x.Refused != ""
			n.mu.Unlock()
			if tell {
				n.events.publish(Event{Time: time.Now(), Port: &e})
			}
			if x.Ready {
				n.step(asked, func(now mono.Time) { n.trains(now, p) })
			}
		}})
}

// trains begins the training of a port's link after the peer's address has been set. If the
// transport still has to agree on keys with the peer, the training does not begin yet.
func (n *Node) trains(now mono.Time, p *livePort) {
	n.resize(now, p)
	if k, ok := p.pipe.(transport.Keyed); !ok || k.Ready() {
		n.chip.SetPath(now, p.ch, true)
	}
}

// KeyLog returns the secrets of the ports' connections, with which people decrypt captured traffic.
// If nobody asked for the secrets, KeyLog returns nil. See [transport.KeyLog].
func (n *Node) KeyLog() *transport.KeyLog { return n.cfg.KeyLog }
