package ttlink

import "ttfabric/wire/mono"

// Ask makes a link send a hello by its own cable if the link is up on that cable. A live peer
// answers at once, and the answer counts in Counters.FramesReceived. Otherwise Ask does nothing. A
// link that trains, or that is up by a fallback path, sends periodic hellos anyway.
func (l *Link) Ask(now mono.Time) {
	l.now = now
	l.train.asking = l.Carries()
}

// Carries reports whether the link is up and sends its frames by its own cable.
func (l *Link) Carries() bool { return l.state == StateUp && l.paths.now == Own }

// pollAsk returns the hello that a call of [Link.Ask] requested. If no hello is requested, or the
// link has gone down meanwhile, pollAsk returns false.
func (l *Link) pollAsk(now mono.Time) (Transmit, bool) {
	if !l.train.asking {
		return Transmit{}, false
	}
	l.train.asking = false
	if !l.Carries() {
		return Transmit{}, false
	}
	return l.hello(now, Own, echo{l.sess.peer, l.sess.training, 0}, true, 0), true
}
