package ttlink

import (
	"time"

	"ttfabric/wire/mono"
)

// Damping: a cable that goes down again and again is held down for a while.
//
// Each change between a link's own cable and that of another costs a silence
// until it is noticed, and what was sent meanwhile is sent again. So a cable
// that has failed [FlapLimit] times within [FlapWindow] carries nothing for
// [HoldFirst], while the link's frames go by the cable of another. From then on
// each further failure holds it again, for twice as long, up to [HoldMost];
// each [FlapDecay] that it carries frames without failing takes back one doubling.
//
// A failure is a silence that this end notices on the own cable, or was about
// to when the peer, having noticed it, trained anew. That the peer left,
// restarted or was told to train again is none. The two ends count on their own,
// and one that holds is enough: it says no hello by the cable and answers none, so
// that the peer cannot prove the path either, and waits as for a cable that is cut.
//
// Where no other cable carries the frames, holding costs reachability. So a link
// that trains holds its cable no longer than holdAlone times the profile's
// DeadTraffic: half of the time for which the chips let packets wait for a
// next hop that is down. A hold by itself loses no packet.

// Limits of damping. That five failures within ten seconds are too many, and
// five minutes are the longest time out, is what the switches of a large vendor
// do by default: their port error-disable with link-flap as its cause.
const (
	// FlapLimit is the number of failures of a cable within [FlapWindow] that hold it.
	FlapLimit = 5
	// FlapWindow is the time within which failures are counted together.
	FlapWindow = 10 * time.Second
	// HoldFirst is the time of the first hold.
	HoldFirst = 5 * time.Second
	// HoldMost is the longest time of a hold.
	HoldMost = 5 * time.Minute
	// FlapDecay is the time in use that takes back one doubling.
	FlapDecay = time.Minute

	holdAlone     = 2 // times of the profile's DeadTraffic that a hold lasts while no other cable carries the frames
	holdDoublings = 6 // of HoldFirst until HoldMost is reached
)

// damping is what a link knows of the failures of its own cable.
//
// Invariant: while until is not 0, the link is not up by its own cable.
type damping struct {
	flaps  int                  // failures in the link's life
	recent [FlapLimit]mono.Time // the latest of them since all was forgiven, round and round
	n      int                  // that were put there
	level  int                  // doublings plus one of the next hold; 0: the window decides
	inUse  mono.Time            // since when the cable carries frames
	until  mono.Time            // end of the hold; 0: not held
}

// forgive forgets what led to holds; the count of failures stays.
func (d *damping) forgive() { d.n, d.level = 0, 0 }

// flap counts a failure. It returns for how long the cable is to be held; 0: not at all.
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

// remembered is the level without the doublings that time in use has taken back.
func (d *damping) remembered(now mono.Time) int {
	if d.level == 0 || d.until != 0 {
		return d.level
	}
	return max(d.level-int(now.Sub(d.inUse)/FlapDecay), 0)
}

// held reports whether the own cable is held down.
func (l *Link) held() bool { return l.damping.until != 0 }

// ownFailed counts a failure of the own cable and holds it if there were too many.
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

// misses reports whether half of the silence under traffic that takes the link
// down is over on the own cable.
func (l *Link) misses(now mono.Time) bool {
	if l.state != StateUp || l.paths.now != Own || !l.tx.outstanding() {
		return false
	}
	return now.Sub(max(l.sess.life, l.tx.outSince)) >= l.rtt.dead(&l.cfg.Profile)/2
}

// holdEnd is when the hold ends: sooner while the link trains.
func (l *Link) holdEnd() mono.Time {
	if l.state == StateTraining && l.held() {
		return mono.Min(l.damping.until, l.since.Add(holdAlone*l.cfg.Profile.DeadTraffic))
	}
	return l.damping.until
}

// tickHold lets the cable go when its time is over.
func (l *Link) tickHold(now mono.Time) {
	if l.held() && !now.Before(l.holdEnd()) {
		l.letGo(now)
	}
}

// letGo ends a hold: hellos go by the own cable again, at once.
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
