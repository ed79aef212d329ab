package ttlink

import (
	"time"

	"ttfabric/wire/mono"
)

// This file implements holds. To hold a cable means to keep the cable out of use for a while. A
// link holds its own cable if the cable failed too often, if the cable is unreliable
// (unreliable.go), or if the owner ordered the hold (reroute.go).
//
// When a cable fails, some time passes before an end detects the failure and the link uses a
// fallback path. A cable that fails often therefore costs much time. If a cable fails [FlapLimit]
// times within [FlapWindow], the link holds the cable for [HoldFirst]. During the hold, the link's
// frames use a fallback path, if one works. Each further failure causes another hold that is twice
// as long, up to [HoldMost]. Each period of [FlapDecay] in which the cable carries frames without a
// failure takes back one doubling. Holds of an unreliable cable become longer in the same way, but
// have a level of their own. A cable that was unreliable is therefore not held after one failure.
//
// An end counts a failure if the link goes down because no frames, or no acknowledgements, come by
// the own cable. If the peer goes down first, this end may learn of the failure from the peer's
// hellos. This end then counts a failure if its frames are under way on the own cable, and if no
// frame has come for long enough. Half of the silence that takes the link down is enough. An end
// counts no failure if the peer closed the link, restarted, or trained again without such a
// silence. The two ends count separately, but a hold by one end keeps the cable out of use at both
// ends. The end that holds the cable neither sends nor answers hellos by the cable, so the peer
// cannot use the cable either.
//
// If the link has no working fallback path, a hold makes the peer unreachable by this link. A link
// that trains therefore ends the hold after the profile's Hold divided by holdAlone, which is
// before the tables avoid the cable. The rest of Hold is for the training.

// HoldReason says why a link holds its own cable.
type HoldReason uint8

// The reasons of a hold.
const (
	HoldNone       HoldReason = iota // the link does not hold its cable
	HoldFlaps                        // the cable failed too often
	HoldOrdered                      // the owner called [Link.Reroute]
	HoldUnreliable                   // the cable is unreliable
)

// String returns the reason in words.
func (r HoldReason) String() string {
	switch r {
	case HoldNone:
		return "none"
	case HoldFlaps:
		return "failed too often"
	case HoldOrdered:
		return "ordered"
	case HoldUnreliable:
		return "unreliable"
	}
	return "unknown"
}

// Limits of damping. The values of FlapLimit, FlapWindow and HoldMost are the defaults of a large
// vendor's ethernet switches (port error-disable because of link flaps).
const (
	// FlapLimit is the number of failures of a cable within [FlapWindow] that make the link hold
	// the cable.
	FlapLimit = 5
	// FlapWindow is the time within which [FlapLimit] failures make the link hold the cable.
	FlapWindow = 10 * time.Second
	// HoldFirst is the length of the first hold.
	HoldFirst = 5 * time.Second
	// HoldMost is the length of the longest hold.
	HoldMost = 5 * time.Minute
	// FlapDecay is the time of use without a failure after which the next hold becomes half as
	// long.
	FlapDecay = time.Minute

	holdAlone     = 2 // while the link trains, a hold lasts at most the profile's Hold divided by this number
	holdDoublings = 6 // number of doublings of HoldFirst that reach HoldMost
)

// damping holds what a link knows about the failures of its own cable.
//
// Invariant: while until is not 0, the link is not up by its own cable.
type damping struct {
	flaps  int                  // failures since the link was made
	recent [FlapLimit]mono.Time // times of the latest failures since the last call of forgive; failure i is at index i modulo FlapLimit
	n      int                  // number of failures since the last call of forgive
	level  int                  // number of doublings of the next hold because of failures; 0: there is no hold before FlapLimit failures within FlapWindow
	inUse  mono.Time            // start of the present period of FlapDecay, while the cable carries frames
	until  mono.Time            // end of the hold; 0: the link does not hold the cable; mono.Never: until the owner ends the reroute mode
	why    HoldReason           // reason of the hold

	quality
}

// forgive forgets the failures that lead to a hold, and all earlier holds. The counter "flaps"
// keeps its value.
func (d *damping) forgive() { d.n, d.level, d.quality.level = 0, 0, 0 }

// flap counts a failure, and returns the time for which the link must hold the cable. The result 0
// means that there is no hold.
func (d *damping) flap(now mono.Time) time.Duration {
	d.flaps++
	d.decay(now)
	d.recent[d.n%FlapLimit] = now
	d.n++
	often := d.n >= FlapLimit && now.Sub(d.recent[d.n%FlapLimit]) <= FlapWindow
	if d.level == 0 && !often {
		return 0
	}
	return next(&d.level)
}

// next returns the time of a hold that begins now, after the given number of doublings. next also
// adds one doubling for the following hold.
func next(level *int) time.Duration {
	hold := min(HoldFirst<<*level, HoldMost)
	*level = min(*level+1, holdDoublings)
	return hold
}

// decay takes back one doubling of each kind of hold for each period of FlapDecay that is complete.
// The cable must have carried frames until the instant now.
func (d *damping) decay(now mono.Time) {
	n := now.Sub(d.inUse) / FlapDecay
	d.inUse = d.inUse.Add(n * FlapDecay)
	d.level, d.quality.level = max(d.level-int(n), 0), max(d.quality.level-int(n), 0)
}

// held reports whether the link holds its own cable.
func (l *Link) held() bool { return l.damping.until != 0 }

// ownFailed counts a failure of the own cable, and begins a hold if the cable has failed too often
// (see flap).
func (l *Link) ownFailed(now mono.Time) {
	if hold := l.damping.flap(now); hold != 0 {
		l.hold(now, now.Add(hold), HoldFlaps)
	}
}

// hold begins a hold of the own cable.
func (l *Link) hold(now, until mono.Time, why HoldReason) {
	d := &l.damping
	d.until, d.why = until, why
	l.train.answers.forget(Own)
	l.train.strangers.forget(Own)
	l.train.greet.remove(Own)
	if l.paths.alternates == 0 {
		until = l.holdEnd()
	}
	l.events.push(Event{Kind: EventHeld, At: now, Session: l.sess.id, Retrains: l.history.retrains, Flaps: d.flaps, Until: until, Hold: why})
}

// misses reports whether a training that the peer began counts as a failure of the own cable. The
// result is true if frames are under way on the own cable, and the peer has been silent for long.
// Half of the time that rttEstimate.dead returns is long enough.
func (l *Link) misses(now mono.Time) bool {
	if l.state != StateUp || l.paths.now != Own || !l.tx.outstanding() {
		return false
	}
	return now.Sub(max(l.sess.life, l.tx.outSince)) >= l.rtt.dead(&l.cfg.Profile)/2
}

// holdEnd returns the instant at which the hold ends. While the link trains, the limit holdAlone
// applies. If there is no hold, holdEnd returns 0.
func (l *Link) holdEnd() mono.Time {
	if l.state == StateTraining && l.held() {
		return mono.Min(l.damping.until, l.since.Add(l.cfg.Profile.Hold/holdAlone))
	}
	return l.damping.until
}

// tickHold ends the hold if its time is over. If the link is up in reroute mode, the hold goes on.
func (l *Link) tickHold(now mono.Time) {
	switch {
	case !l.held() || now.Before(l.holdEnd()):
	case l.state == StateUp && l.paths.ordered:
		l.damping.until, l.damping.why = mono.Never, HoldOrdered
	default:
		l.letGo(now)
	}
}

// letGo ends the hold, if there is one. The link then sends hellos by its own cable at once.
func (l *Link) letGo(now mono.Time) {
	if !l.held() {
		return
	}
	why := l.damping.why
	l.damping.until, l.damping.why, l.paths.home = 0, HoldNone, 0
	l.events.push(Event{Kind: EventReleased, At: now, Session: l.sess.id, Retrains: l.history.retrains, Flaps: l.damping.flaps, Hold: why})
	switch l.state {
	case StateTraining:
		l.restartHellos(now)
	case StateUp:
		l.train.greet.add(Own)
		l.train.interval = l.cfg.Profile.HelloMin
		l.train.helloAt = now.Add(l.jitter(l.train.interval))
	}
}
