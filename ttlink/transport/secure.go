package transport

import (
	"fmt"
	"net/netip"

	"ttfabric/wire"
)

// Cable says which cable a port belongs to, for transports that check who is at the other end.
type Cable struct {
	Fabric      string           // the fabric's name, equal at both ends
	From, To    wire.PortID      // the port of this end and the port of the expected neighbour
	Incarnation wire.Incarnation // incarnation of this process; random, not zero
	// The port calls Tell when the port becomes ready, and when the port refuses its peer.
	// Goroutines of the port call Tell without holding a lock. If Tell is nil, the port tells
	// nobody.
	Tell func(Notice)
}

// tell passes a notice to Tell.
func (c *Cable) tell(n Notice) {
	if c.Tell != nil {
		c.Tell(n)
	}
}

// Notice is a message of a port that checks its peer.
type Notice struct {
	Ready   bool   // the ends have agreed on keys: datagrams sent from now on reach the peer
	Refused string // why this port refused the peer, or the peer refused this port; the port tells a reason once until the reason changes or the port is ready
}

// Keyed is a port that agrees on keys with its peer before it carries datagrams. Until then the
// port drops the datagrams that a caller sends, and counts them in Stats.Auth.Unkeyed.
type Keyed interface {
	Port
	// Ready reports whether keys are agreed.
	Ready() bool
}

// AuthStats holds counts of a port that checks its peer. The port counts each refused datagram
// under one of the reasons.
type AuthStats struct {
	Keyings     uint64 // times that the ends agreed on keys
	Unkeyed     uint64 // datagrams not sent because the ends had not agreed on keys yet
	Malformed   uint64 // datagrams that are not of this transport's format
	Plain       uint64 // datagrams counted in Malformed that are frames in the clear
	WrongKey    uint64 // handshake messages of a peer with another key, or damaged handshake messages
	WrongPeer   uint64 // handshakes of another chip, port or fabric, recognized by key or certificate
	Stale       uint64 // handshake messages that answer no open ask, or that came before
	Limited     uint64 // handshake messages beyond the rate at which this port answers
	UnknownKey  uint64 // datagrams under keys that are unknown, or no longer known
	Forged      uint64 // datagrams whose tag does not fit: damaged or forged
	Replayed    uint64 // datagrams that came before, or are older than the replay window
	RefusedByIt uint64 // handshakes that the peer refused
	Strangers   uint64 // handshakes begun from other addresses than the peer's
	Failed      uint64 // handshakes that did not finish in time
}

// Rejected returns how many messages the port refused, for all reasons together.
func (a *AuthStats) Rejected() uint64 {
	return a.Malformed + a.WrongKey + a.WrongPeer + a.Stale + a.Limited + a.UnknownKey + a.Forged + a.Replayed
}

// fence is a port that refuses peers outside some networks.
type fence struct {
	Port
	within func(netip.Addr) bool
}

// Fence wraps a port that does not check its peer. SetPeer refuses peers whose address is not
// within the given networks.
func Fence(p Port, within func(netip.Addr) bool) Port { return &fence{p, within} }

// SetPeer implements [Port].
func (f *fence) SetPeer(a netip.AddrPort) error {
	if a.IsValid() && !f.within(a.Addr().Unmap()) {
		return fmt.Errorf("peer %s is beyond the networks that are trusted: use --auth psk or --transport quic, or name its network with --trust-network", a)
	}
	return f.Port.SetPeer(a)
}
