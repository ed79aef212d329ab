package ttlink

import (
	"time"

	"ttfabric/wire/mono"
)

// This file handles refusals of datagrams. A host refuses a datagram of the link if no process has
// the peer's socket. A peer that is late keeps its socket. A refusal is therefore strong evidence
// that the peer is dead. Anybody can forge a refusal. Therefore the link first asks the peer, and a
// live peer answers.

// Times after a refusal, our own choices.
const (
	refusedMin     = 250 * time.Millisecond // shortest time without a frame from the peer after a refusal until the link goes down
	refusedUnknown = time.Second            // value instead of refusedMin if the link has measured no round trip yet
	refusedAsks    = 4                      // number of times that the link asks the peer in this time
	refusedTrips   = 2                      // the time is at least this many times the shortest measured round trip
)

// Refused tells the link that a host refused a datagram that the link sent by its own cable. If the
// link is up on this cable, and no frame of the peer comes within a short time, the link goes down.
// This time is at least 250 ms and at least two round trips. If the link is not up on this cable,
// Refused does nothing. Refused also does nothing if silence alone takes the link down in this
// time, as with ProfileLAN.
func (l *Link) Refused(now mono.Time) {
	if l.now = now; !l.Carries() || l.refused() || l.refusedDead() >= l.cfg.Profile.DeadIdle {
		return
	}
	l.sess.refused = now
	l.sess.asked, l.tx.solicitDue = now, true
}

// refused reports whether a host has refused a datagram, and no frame has come from the peer since.
func (l *Link) refused() bool {
	return l.sess.refused != 0 && !l.sess.life.After(l.sess.refused) && l.Carries()
}

// refusedDead returns the time after a refusal after which the link goes down.
func (l *Link) refusedDead() time.Duration {
	if l.rtt.least == 0 {
		return refusedUnknown
	}
	return max(refusedMin, refusedTrips*l.rtt.least)
}
