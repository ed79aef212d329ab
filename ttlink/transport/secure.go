package transport

import (
	"fmt"
	"net/netip"

	"ttfabric/wire"
)

// Cable names the two ends of a port's cable. A transport that checks its peer needs a Cable.
type Cable struct {
	Fabric      string           // the fabric's name, equal at both ends
	From, To    wire.PortID      // the port of this end and the port of the expected neighbour
	Incarnation wire.Incarnation // incarnation of this process; random, not zero
	// The port calls Tell when keys are agreed, when the port finds that the path takes longer
	// datagrams, and when one end refuses the other. Tell may be nil. The port holds no lock while
	// it calls Tell.
	Tell func(Notice)
}

// tell calls c.Tell, unless c.Tell is nil.
func (c *Cable) tell(n Notice) {
	if c.Tell != nil {
		c.Tell(n)
	}
}

// Notice tells the owner of a [Keyed] port about the port's handshake.
type Notice struct {
	Ready   bool   // the ends have agreed on keys, and the port carries datagrams; a repeated notice means that the port may take longer datagrams
	Refused string // the reason why this port refused the peer, or the peer refused this port; the port repeats a reason only after another notice
}

// Keyed is a port that must agree on keys with its peer before it carries datagrams. Before the
// keys are agreed, the port drops the datagrams that a caller sends. The port counts the dropped
// datagrams in Stats.Auth.Unkeyed, or in Stats.NoPeer before SetPeer.
type Keyed interface {
	Port
	// Ready reports whether the port and its peer have agreed on keys.
	Ready() bool
}

// AuthStats holds the counters of a port that checks its peer. Each datagram that the port refuses
// counts under one reason, from Malformed to Replayed, and [AuthStats.Rejected] adds these counts.
// Plain is a part of Malformed, and not another reason.
type AuthStats struct {
	Keyings     uint64 // times that the ends agreed on keys
	Unkeyed     uint64 // datagrams not sent because the ends had not agreed on keys yet
	Malformed   uint64 // datagrams that do not have this transport's format
	Plain       uint64 // datagrams in Malformed that are unencrypted frames
	WrongKey    uint64 // handshake messages that another key authenticates, or that are damaged
	WrongPeer   uint64 // handshakes of a peer that is another chip, port or fabric than the cable names
	Stale       uint64 // handshake messages that answer no open ask, or that this port has received before
	Limited     uint64 // handshake messages that this port did not answer because too many came
	UnknownKey  uint64 // datagrams sealed under keys that this port does not know, or has forgotten
	Forged      uint64 // datagrams whose tag is wrong, because they are damaged or forged
	Replayed    uint64 // datagrams that this port has received before, or that are older than the replay window
	RefusedByIt uint64 // handshakes that the peer refused
	Strangers   uint64 // handshakes that began from another address than the peer's
	Failed      uint64 // handshakes that did not finish in time
}

// Rejected returns the number of datagrams that the port refused, for all reasons together. The
// counts RefusedByIt, Strangers and Failed are not included.
func (a *AuthStats) Rejected() uint64 {
	return a.Malformed + a.WrongKey + a.WrongPeer + a.Stale + a.Limited + a.UnknownKey + a.Forged + a.Replayed
}

// fence is a port that accepts only peers in trusted networks.
type fence struct {
	Port
	within func(netip.Addr) bool
}

// Fence wraps a port that does not check its peer. The wrapper's SetPeer returns an error for an
// address for which the function "within" returns false.
func Fence(p Port, within func(netip.Addr) bool) Port { return &fence{p, within} }

// SetPeer implements [Port].
func (f *fence) SetPeer(a netip.AddrPort) error {
	if a.IsValid() && !f.within(a.Addr().Unmap()) {
		return fmt.Errorf("peer %s is outside the trusted networks: use --auth psk or --transport quic, or name the peer's network with --trust-network", a)
	}
	return f.Port.SetPeer(a)
}
