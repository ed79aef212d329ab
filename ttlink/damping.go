package ttlink

import (
	"time"

	"ttfabric/wire/mono"
)

// This file implements damping. If a cable goes down again and again, the link holds the cable. To
// hold a cable means to keep the cable out of use for a while.
//
// When a link's frames change between the link's own cable and the cable of another link, the
// change costs a silence until an end notices the failure. The link sends the frames of that
// silence again. If a cable fails [FlapLimit] times within [FlapWindow], the link therefore holds
// the cable for [HoldFirst]. Meanwhile the link's frames use the cable of another link. From then
// on each further failure holds the cable again, for twice as long, up to [HoldMost]. Each
// [FlapDecay] in which the cable carries frames without a failure takes back one doubling.
//
// A failure is a silence on the own cable that this end notices. The peer may notice the silence
// first and train anew. If half of the silence is over at this end by then, this end counts a
// failure too. If the peer left, restarted or was told to train again, this end counts no failure.
// The two ends count separately. One end that holds the cable is enough. That end neither sends nor
// answers hellos by the cable. The peer therefore cannot prove the path either, and waits as for a
// cut cable.
//
// If no other cable carries the frames, a hold makes the peer unreachable. For that reason a link
// that trains holds its cable no longer than holdAlone times the profile's DeadTraffic. That time
// is half of the time for which the chips let packets wait for a next hop that is down. A hold by
// itself loses no packet.

// Limits of damping. The limits follow the default of a large vendor's switches (port error-disable
// with link-flap as its cause). There, five failures within ten seconds are too many, and a port
// stays off for at most five minutes.
const (
	// FlapLimit is the number of failures of a cable within [FlapWindow] that make the link hold
	// the cable.
	FlapLimit = 5
	// FlapWindow is the time within which [FlapLimit] failures make the link hold the cable.
	FlapWindow = 10 * time.Second
	// HoldFirst is the length of the first hold.
	HoldFirst = 5 * time.Second
	// HoldMost is the longest length of a hold.
	HoldMost = 5 * time.Minute
	// FlapDecay is the time in use without a failure that takes back one doubling of the hold.
	FlapDecay = time.Minute

	holdAlone     = 2 // while no other cable carries the frames, a hold lasts at most this many times the profile's DeadTraffic
	holdDoublings = 6 // doublings of HoldFirst after which a hold reaches HoldMost
)

// damping is what a link knows about the failures of its own cable.
//
// Invariant: while until is not 0, the link is not up by its own cable.
type damping struct {
	flaps  int                  // failures since the link was made
	recent [FlapLimit]mono.Time // ring of the times of the latest failures since the last call of forgive
	n      int                  // failures entered in recent
	level  int                  // doublings of the next hold, plus one; 0: recent decides whether there is a next hold
	inUse  mono.Time            // when the cable began to carry frames
	until  mono.Time            // end of the hold; 0: the link does not hold the cable
}

// forgive forgets the failures that lead to holds. The count of failures stays.
func (d *damping) forgive() { d.n, d.level = 0, 0 }

// flap counts a failure. flap returns for how long the link must hold the cable; 0 means no hold.
func (d *damping) flap(now mono.Time) time.Duration {
	d.flaps++
	d.level = d.remembered(now)
	d.recent[d.n%FlapLimit] = now
	d.n++
	often := d.n >= FlapLimit && now.Sub(d.recent[d.n%FlapLimit]) <= FlapWindow
	if d.level == 0 && !often {
		return 0
	}
	hold := min(HoldFirst<<d.level, HoldMost)
	d.level = min(d.level+1, holdDoublings)
	return hold
}

// remembered returns the level without the doublings that the time in use has taken back.
func (d *damping) remembered(now mono.Time) int {
	if d.level == 0 || d.until != 0 {
		return d.level
	}
	return max(d.level-int(now.Sub(d.inUse)/FlapDecay), 0)
}

// held reports whether the link holds its own cable.
func (l *Link) held() bool { return l.damping.until != 0 }

// ownFailed counts a failure of the own cable. After too many failures, ownFailed begins a hold.
func (l *Link) ownFailed(now mono.Time) {
	d := &l.damping
	hold := d.flap(now)
	if hold == 0 {
		return
	}
	d.until = now.Add(hold)
	for _, a := range []*answer{&l.train.answers, &l.train.strangers} {
		if a.path == Own {
			a.due = false
		}
	}
	l.train.greet.remove(Own)
	until := d.until
	if l.paths.alternates == 0 {
		until = l.holdEnd()
	}
	l.events.push(Event{Kind: EventHeld, At: now, Session: l.sess.id, Retrains: l.history.retrains, Flaps: d.flaps, Until: until})
}

// misses reports whether the own cable has been silent for half of the time after which silence
// takes down a link with frames under way.
func (l *Link) misses(now mono.Time) bool {
	if l.state != StateUp || l.paths.now != Own || !l.tx.outstanding() {
		return false
	}
	return now.Sub(max(l.sess.life, l.tx.outSince)) >= l.rtt.dead(&l.cfg.Profile)/2
}

// holdEnd returns when the hold ends. While the link trains, a hold ends sooner.
func (l *Link) holdEnd() mono.Time {
	if l.state == StateTraining && l.held() {
		return mono.Min(l.damping.until, l.since.Add(holdAlone*l.cfg.Profile.DeadTraffic))
	}
	return l.damping.until
}

// tickHold ends the hold when the hold's time is over.
func (l *Link) tickHold(now mono.Time) {
	if l.held() && !now.Before(l.holdEnd()) {
		l.letGo(now)
	}
}

// letGo ends a hold. The link at once sends hellos by its own cable again.
func (l *Link) letGo(now mono.Time) {
	if !l.held() {
		return
	}
	l.damping.until = 0
	l.events.push(Event{Kind: EventReleased, At: now, Session: l.sess.id, Retrains: l.history.retrains, Flaps: l.damping.flaps})
	switch l.state {
	case StateTraining:
		l.restartHellos(now)
	case StateUp:
		l.train.greet.add(Own)
		l.train.interval = l.cfg.Profile.HelloMin
		l.train.helloAt = now.Add(l.jitter(l.train.interval))
	}
}
