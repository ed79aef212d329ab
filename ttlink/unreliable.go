package ttlink

import (
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// This file judges a link's own cable while the cable carries the link's frames. The link counts
// frames in windows. A window is bad if too many of its frames were sent again or came damaged.
// After [UnreliableWindows] bad windows in a row, the cable is unreliable (Spec §7.4.1). A link
// with an unreliable cable goes into reroute mode as soon as a reliable fallback path answers. The
// link then holds its own cable (see reroute.go and damping.go). Retrains count as failures of the
// cable, and have the limit [FlapLimit].
//
// A cable becomes reliable again in one of two ways. If the cable carries frames, the link needs
// [ReliableWindows] good windows in a row. If a fallback path carries the frames, the link waits
// for the end of the hold, and then asks by its own cable. The peer must answer [ReliableProofs]
// hellos before it has missed more than reliableMisses. Otherwise the link holds the cable again,
// for twice as long.
//
// A window in which this end's loop stalled for at least the profile's RTOMin counts for nothing.
// Frames that came too late look like lost frames. If the peer's loop stalls, this end sends frames
// again that are not lost. A frame sent again counts only if a NACK shows the loss, or if the peer was
// alive shortly before the timeout (see tickSend).

// Limits of an unreliable cable. The specification names no limits, so the limits are choices of
// this project. A go-back repeats every frame under way, so the share of data frames sent again
// exceeds the share of lost frames. At losses of 0.5 %, 2 %, 5 % and 10 %, a saturated link sent 6
// %, 24 %, 54 % and 72 % of its data frames again. At the same losses, a link with little traffic
// sent 5 %, 5 %, 20 % and 35 % again.
const (
	// UnreliableWindow is the shortest time for which a link counts frames before the link judges
	// the cable.
	UnreliableWindow = time.Second
	// UnreliableFrames is the smallest number of data frames sent, or of frames received, that the
	// link judges. A window lasts until the window has this number of frames.
	UnreliableFrames = 64
	// UnreliableWindows is the number of bad windows in a row after which a cable is unreliable.
	UnreliableWindows = 3
	// UnreliableResent is a share of the sent data frames, in percent. A window is bad if the link
	// sent at least this share of the frames again.
	UnreliableResent = 30
	// UnreliableDamaged is a share of the received frames, in percent. A window is bad if at least
	// this share of the frames had a wrong checksum.
	UnreliableDamaged = 2
	// ReliableResent is the largest share of the sent data frames, in percent, that the link sends
	// again in a good window.
	ReliableResent = 10
	// ReliableDamaged is the largest share of the received frames, in percent, with wrong checksums
	// in a good window.
	ReliableDamaged = 1
	// ReliableWindows is the number of good windows in a row after which a cable is reliable again.
	ReliableWindows = 3
	// ReliableProofs is the number of hellos that the peer must answer on an unreliable cable before
	// the link's frames return to the cable.
	ReliableProofs = 32

	reliableMisses = 2 // number of these hellos that may stay unanswered
)

// Shares are what a link saw on its own cable in one window, in percent.
type Shares struct {
	Resent  int // data frames that the link sent again, as a share of the sent data frames
	Damaged int // frames with a wrong checksum, but at most as many as data frames behind a gap, as a share of the received frames
}

// quality holds what a link knows about the frames on its own cable.
type quality struct {
	unreliable bool
	level      int       // number of doublings of the next hold because the cable is unreliable
	last       Shares    // the latest complete window
	bad, good  int       // bad or good windows in a row
	from       mono.Time // start of the window
	until      mono.Time // earliest end of the window; 0: no window has begun
	proved     bool      // the peer was alive when the latest go-back showed that frames were lost
	unproved   uint64    // data frames sent again since the link was made, without a proof that frames were lost
	base       tolls     // while the own cable carries the frames: the link's counts minus the window's counts
	stalled    mono.Time // when the owner's loop last continued after a stall of at least RTOMin; 0: never
	seen       tolls     // while the own cable does not carry the frames: the window's counts

	asked   int  // hellos by the own cable since the first one that the peer answered, while a fallback path carries the frames
	peerOwn bool // since the first answer, the peer has sent frames of the session by the own cable
}

// tolls are counts of frames. The counts of sent frames are data frames sent, and data frames sent
// again. The counts of received frames are all frames, frames with a wrong checksum, data frames
// behind a gap, and accepted data frames. The counts leave out frames that were sent again without
// a proof of a loss.
type tolls struct{ sent, resent, received, damaged, gaps, data uint64 }

func (l *Link) tolls() tolls {
	c, unproved := &l.counters, l.damping.unproved
	damaged := c.Faults[wire.FaultChecksum]
	return tolls{c.DataSent - unproved, c.Retransmitted - unproved, c.FramesReceived + damaged, damaged, c.Gaps, c.DataReceived}
}

func (a tolls) minus(b tolls) tolls {
	return tolls{a.sent - b.sent, a.resent - b.resent, a.received - b.received, a.damaged - b.damaged, a.gaps - b.gaps, a.data - b.data}
}

// beginWindow begins a window.
func (l *Link) beginWindow(now mono.Time) {
	q := &l.damping.quality
	q.from, q.until, q.base = now, now.Add(UnreliableWindow), l.tolls()
}

// carry notes at the instant now whether the own cable carries the link's frames. Time during which
// the cable does not carry the frames does not make the next hold shorter. A window leaves this
// time out. If this time is longer than a window, the windows begin anew.
func (l *Link) carry(now mono.Time, on bool) {
	if q := &l.damping.quality; l.paths.carries != on {
		if on {
			l.damping.inUse = now
		} else {
			l.damping.decay(now)
		}
		switch c := l.tolls(); {
		case !on:
			q.seen = c.minus(q.base)
		case now.Sub(l.paths.since) <= UnreliableWindow:
			q.base = c.minus(q.seen)
		default:
			q.bad, q.good = 0, 0
			l.beginWindow(now)
		}
	}
	l.paths.own(now, on)
}

// share returns the number n as a share of all in percent. If "all" is below [UnreliableFrames],
// share returns 0.
func share(n, all uint64) int {
	if all < UnreliableFrames {
		return 0
	}
	return int(n * 100 / all)
}

// assess ends the window of the link's own cable if its time is over and it has enough frames.
func (l *Link) assess(now mono.Time) {
	q := &l.damping.quality
	if now.Before(q.until) {
		return
	}
	if !l.Carries() {
		return
	}
	if q.until == 0 || q.stalled != 0 && !q.stalled.Before(q.from) {
		l.beginWindow(now)
		return
	}
	n := l.tolls().minus(q.base)
	if n.sent < UnreliableFrames && n.received < UnreliableFrames {
		return
	}
	// A damaged data frame leaves a gap between data frames that the link accepts. Other damage comes
	// from a forger, whose datagrams must not move the link.
	q.last = Shares{Resent: share(n.resent, n.sent)}
	if n.data >= UnreliableFrames {
		q.last.Damaged = share(min(n.damaged, n.gaps), n.received)
	}
	l.beginWindow(now)
	switch {
	case q.last.Resent >= UnreliableResent || q.last.Damaged >= UnreliableDamaged:
		q.bad, q.good = q.bad+1, 0
	case q.last.Resent <= ReliableResent && q.last.Damaged <= ReliableDamaged:
		q.bad, q.good = 0, q.good+1
	default:
		q.bad, q.good = 0, 0
	}
	switch {
	case !q.unreliable && q.bad >= UnreliableWindows:
		q.unreliable = true
		l.events.push(Event{Kind: EventUnreliable, At: now, Session: l.sess.id, Retrains: l.history.retrains, Shares: q.last})
		l.seek(now)
	case q.unreliable && q.good >= ReliableWindows:
		l.trust(now)
	}
}

// trust notes that the link's own cable is reliable again.
func (l *Link) trust(now mono.Time) {
	q := &l.damping.quality
	if !q.unreliable {
		return
	}
	*q = quality{level: q.level, last: q.last, unproved: q.unproved}
	l.events.push(Event{Kind: EventReliable, At: now, Session: l.sess.id, Retrains: l.history.retrains, Shares: q.last})
}

// onTrial reports whether the own cable must answer [ReliableProofs] hellos before the link's frames
// return to the cable.
func (l *Link) onTrial() bool {
	return l.damping.unreliable && !l.cfg.KeepUnreliable && l.state == StateUp && l.paths.now != Own && !l.held() && !l.paths.poor.has(l.paths.now)
}

// tickTrial counts a hello by the own cable of a link that is on trial, and returns true. If too
// many hellos stayed unanswered, tickTrial holds the cable again and returns false. If the peer's
// frames came by the cable meanwhile, the link then also trains again, so that the peer leaves the
// cable too.
func (l *Link) tickTrial(now mono.Time) bool {
	q, s := &l.damping.quality, &l.paths
	if s.home == 0 { // no answer yet: the peer may hold the cable
		q.asked, q.peerOwn = 1, false
		return true
	}
	if q.asked-s.home <= reliableMisses {
		q.asked++
		return true
	}
	s.home, q.asked = 0, 0
	l.hold(now, now.Add(next(&q.level)), HoldUnreliable)
	if q.peerOwn {
		l.goDown(now, DownRerouted)
	}
	return false
}
