package ttlink

import "ttfabric/wire/mono"

// This file decides when an end sends periodic hellos.

// restartHellos makes periodic hellos due now, and further hellos at growing intervals.
func (l *Link) restartHellos(now mono.Time) {
	l.train.greet = l.greets()
	l.train.interval = l.cfg.Profile.HelloMin
	l.train.helloAt = now.Add(l.jitter(l.train.interval))
}

// saysHello reports whether this end sends periodic hellos now. An end sends periodic hellos while
// the end trains, and while the end is up but not confirmed. An end also sends periodic hellos
// while its frames use a fallback path. An end that wants to leave its own cable sends periodic
// hellos while it looks for a fallback path. If the measured round trip is long, an end sends a few
// hellos too, because a stall may have made the measurement wrong.
func (l *Link) saysHello() bool {
	return l.state == StateTraining ||
		(l.state == StateUp && (!l.sess.confirmed || l.paths.now != Own || l.seeks() != 0 || (l.train.refine > 0 && l.rtt.doubtful(&l.cfg.Profile))))
}

// tickHello makes periodic hellos due if it is time.
func (l *Link) tickHello(now mono.Time) {
	if !l.saysHello() || now.Before(l.train.helloAt) {
		return
	}
	trial := l.onTrial() && l.tickTrial(now)
	if now.Before(l.train.helloAt) {
		return // the trial failed, and the link trains
	}
	l.train.greet = l.greets()
	if trial && l.paths.home > 0 {
		l.train.interval = l.cfg.Profile.HelloMin
	} else if l.size.proofs == 0 { // the interval stays short if the peer has answered short hellos
		l.train.interval = min(2*l.train.interval, l.cfg.Profile.HelloMax)
	}
	every := l.train.interval
	if l.state == StateUp { // on a slow path, at most one hello per round trip
		every = max(every, l.rtt.smoothed)
	}
	l.train.helloAt = now.Add(l.jitter(every))
	if l.state == StateTraining {
		l.tickTraining(now)
	}
}
