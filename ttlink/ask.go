package ttlink

import "ttfabric/wire/mono"

// Ask makes a link that is up on its own cable send a hello to its peer by that cable. A peer that
// lives answers at once. The counter of received frames then shows the answer. In any other state
// the link sends hellos anyway, and Ask does nothing.
func (l *Link) Ask(now mono.Time) {
	l.now = now
	l.train.asking = l.Carries()
}

// Carries reports whether the link is up and its frames go by its own cable.
func (l *Link) Carries() bool { return l.state == StateUp && l.paths.now == Own }

// pollAsk returns the hello that [Link.Ask] has made due.
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
