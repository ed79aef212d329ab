package ttlink

import (
	"math"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// training is the exchange of hellos.
type training struct {
	number   uint32        // of this end's training: counted up when the path is lost or the session replaced
	helloAt  mono.Time     // when the next periodic hello is due
	interval time.Duration // between periodic hellos
	greet    pathSet       // paths that a hello is due on
	echoed   mono.Time     // when the newest hello of this end that was answered was sent
	echoedBy pathSet       // paths that the hellos of that instant were answered on
	asking   bool          // a hello is due because the owner asked for it
	refine   int           // hellos that may yet be spent on measuring a long round trip again

	answers   answer // to the session's peer, or to a hello that proved itself
	strangers answer // to unknown incarnations; apart, so that they can't crowd out the peer
	heard     echo   // last unproved hello while there is no session

	heardPeer  bool      // a hello of the right peer has come since this training began
	heardAt    mono.Time // when one came last that echoes this end
	miswired   bool
	found      stranger
	mismatched Mismatch  // last reported
	reported   mono.Time // when a wrong cable or a mismatch was reported last; 0: never
}

// stranger is who was found at the other end of a wrong cable.
type stranger struct {
	port, expects wire.PortID
	fabric        uint32
}

// echo is what of a peer's hello is repeated to it.
type echo struct {
	incarnation wire.Incarnation
	training    uint32
	stamp       uint64
}

// answer is a hello that is owed, and the bucket that limits how many.
type answer struct {
	due    bool
	path   Path // that it goes by: the one that the question came by
	room   int  // payload of the question with its padding, in bytes: the answer has no more
	short  bool // the question was shorter than the longest frame that both ends take
	final  bool // the question was an answer: no more is asked
	echo   echo
	tokens int
	last   mono.Time // when the bucket was filled last
}

// owe notes that a hello is to be answered, if the bucket allows, by one that
// is no longer than the question, lest a forger have this end send much to its peer with little.
// Of several that wait by one path the longest is answered: it proves the most.
func (a *answer) owe(now mono.Time, p Path, room int, short, final bool, e echo) bool {
	if n := int64(now.Sub(a.last) / answerRefill); n > 0 {
		a.tokens = int(min(int64(a.tokens)+n, answerBurst))
		a.last = now
	}
	if !a.due {
		if a.tokens == 0 {
			return false
		}
		a.tokens--
	}
	if a.due && a.path == p && a.room > room && a.echo.incarnation == e.incarnation && a.echo.training == e.training {
		return true
	}
	a.due, a.path, a.room, a.short, a.final, a.echo = true, p, room, short, final, e
	return true
}

// handleHello decides what a hello proves and answers it.
func (l *Link) handleHello(now mono.Time, p Path, f *wire.Frame) {
	h, err := wire.DecodeHello(f.Payload)
	if err != nil {
		l.counters.MalformedHellos++
		return
	}
	l.counters.HellosReceived++
	if p != Own && !l.paths.alternates.has(p) {
		l.counters.WrongPath++
		return
	}
	if !l.identified(now, p, &h) {
		return
	}
	if l.state == StateOff || l.state == StateClosed {
		l.counters.NotUp++
		return
	}
	if p == Own && l.held() {
		l.counters.HeldHellos++
		return
	}
	known := l.sess.id != 0 && h.Incarnation == l.sess.peer
	if l.hasEnded(h.Incarnation) || (known && int32(h.Training-l.sess.training) < 0) {
		l.counters.StaleHellos++
		return
	}
	if !l.fits(&h, known) {
		return
	}
	l.train.heardPeer = true
	room, want := max(f.Padded, len(f.Payload)), min(l.payload, int(h.MaxPayload))
	echoed := h.EchoIncarnation == l.cfg.Incarnation
	if echoed {
		l.heard(now, room, want)
	}
	size, proves := 0, echoed && h.EchoTraining == l.train.number && l.paths.proves(p, &h)
	if proves && (l.state == StateTraining || !known) {
		size, proves = l.passes(f, &h)
	}
	switch {
	case known:
		l.helloOfPeer(now, p, f, &h, echoed, proves, size)
	case proves:
		l.startSession(now, &h)
		l.comeUp(now, p, f, &h, size)
	default:
		l.counters.UnprovedHellos++
		if l.sess.id == 0 {
			l.train.heard = echo{h.Incarnation, h.Training, 0}
		}
	}
	if !h.WantAnswer {
		return
	}
	a := &l.train.strangers
	if known || proves {
		a = &l.train.answers
	}
	if !a.owe(now, p, room, room < want, h.EchoStamp != 0, echo{h.Incarnation, h.Training, h.Stamp}) {
		l.counters.AnswersSuppressed++
	}
}

// helloOfPeer takes a hello of the session's incarnation that isn't stale.
// If it proves the path, size is what frames may have.
func (l *Link) helloOfPeer(now mono.Time, p Path, f *wire.Frame, h *wire.Hello, echoed, proves bool, size int) {
	if echoed {
		l.paths.announced.add(p)
	}
	newer := h.Training != l.sess.training
	l.sess.training = h.Training
	if l.state == StateTraining {
		if proves {
			l.comeUp(now, p, f, h, size)
		}
		return
	}
	// Up with a newer number is a peer that replaced its session on our proof: it lost nothing.
	if newer && !h.Up && l.sess.confirmed {
		missed := l.misses(now)
		l.applyHello(now, f, h)
		if l.goDown(now, DownPeerRetrained); missed {
			l.ownFailed(now)
		}
		return
	}
	if echoed {
		l.applyHello(now, f, h)
		if rtt, ok := l.helloRTT(now, h, MaxRTT); ok {
			if p == l.paths.now {
				l.rtt.sample(rtt)
			}
			if !stampTime(h.EchoStamp).Before(l.since) {
				l.train.refine--
			}
			l.comeHome(now, p, f, h)
		}
		if h.EchoStamp != 0 && proves {
			l.answered(now, p, f, h)
		}
		if h.Up && f.Session == l.sess.id {
			l.sess.life = now
			l.sess.confirmed = true
		}
	}
}

// identified reports whether h comes from the port that the cable should lead
// to and means this one. While the link trains, a wrong cable is reported once
// per change, here and, since both ends say hello on their own, at the other end
// too. A link that is up has the right cable, whatever is forged; were it moved, silence would tell.
func (l *Link) identified(now mono.Time, p Path, h *wire.Hello) bool {
	fabricOK := h.Fabric == l.cfg.Fabric || h.Fabric == 0 || l.cfg.Fabric == 0
	viaOK := l.paths.claimed(p, h.Via)
	if h.From == l.cfg.Peer && h.Expected == l.cfg.Local && fabricOK && viaOK {
		l.train.miswired = false
		return true
	}
	l.counters.MiswiredHellos++
	if l.state == StateUp {
		return false
	}
	found := stranger{h.From, h.Expected, h.Fabric}
	if !viaOK && h.Via > 0 {
		found.port.Channel = wire.Channel(h.Via - 1)
	}
	if (!l.train.miswired || found != l.train.found) && l.mayReport(now) {
		l.train.miswired, l.train.found = true, found
		l.events.push(Event{Kind: EventMiswired, At: now, Session: l.sess.id, Retrains: l.history.retrains,
			Found: h.From, FoundExpects: h.Expected, FoundFabric: h.Fabric})
	}
	return false
}

// fits reports whether the two ends can work together.
func (l *Link) fits(h *wire.Hello, known bool) bool {
	switch {
	case h.Slots == [wire.NumVCs]uint16{}, known && h.Slots != l.sess.slots:
		l.incompatible(MismatchSlots)
		return false
	case int(h.MaxPayload) < MinPayload:
		l.incompatible(MismatchPayload)
		return false
	}
	return true
}

// mayReport reports whether a person is to be told of what a hello says: once
// per reportEvery, as hellos that say ever new things can be forged.
func (l *Link) mayReport(now mono.Time) bool {
	if l.train.reported != 0 && now.Sub(l.train.reported) < reportEvery {
		return false
	}
	l.train.reported = now
	return true
}

// incompatible reports a mismatch once per change, while the link trains.
func (l *Link) incompatible(m Mismatch) {
	if l.state == StateTraining && l.train.mismatched != m && l.mayReport(l.now) {
		l.train.mismatched = m
		l.events.push(Event{Kind: EventIncompatible, At: l.now, Session: l.sess.id, Retrains: l.history.retrains, Mismatch: m})
	}
}

func (l *Link) hasEnded(i wire.Incarnation) bool {
	for _, e := range l.sess.ended {
		if e == i {
			return true
		}
	}
	return false
}

// startSession begins a session with the incarnation that h proved, and ends
// the one before it, if any, with its packets' fate reported.
func (l *Link) startSession(now mono.Time, h *wire.Hello) {
	if l.sess.id != 0 {
		if l.state == StateUp {
			l.goDown(now, DownPeerRestarted)
		}
		l.sess.ended[l.sess.endedNext] = l.sess.peer
		l.sess.endedNext = (l.sess.endedNext + 1) % endedRemember
		l.books.close(l.sess.id, l.sess.peer)
		l.events.push(Event{Kind: EventSessionEnded, At: now, Session: l.sess.id, Retrains: l.history.retrains, Unknown: l.tx.unacked()})
	}
	// The number that was proved is used up: a late proof of a former
	// incarnation, which nobody had seen, must not end this session.
	l.train.number++
	l.sess.id = wire.NewSessionID(l.cfg.Local, l.cfg.Incarnation, l.cfg.Peer, h.Incarnation)
	l.sess.peer, l.sess.training, l.sess.slots = h.Incarnation, h.Training, h.Slots
	l.paths.announced = 0
	l.tx.reset(wire.InitialSeq(l.cfg.Incarnation), h.Slots)
	l.rx.reset(wire.InitialSeq(h.Incarnation))
	l.events.push(Event{Kind: EventSessionStarted, At: now, Session: l.sess.id, Retrains: l.history.retrains})
}

// comeUp takes the link up on a hello that proves the path, and lets the
// session go on where both ends left it, with frames of size bytes of padded payload at most.
func (l *Link) comeUp(now mono.Time, p Path, f *wire.Frame, h *wire.Hello, size int) {
	l.paths.now, l.paths.home = p, 0
	l.paths.own(now, p == Own)
	l.paths.announced.add(p)
	l.applyHello(now, f, h)
	if l.tx.widest() > size {
		l.renew(now)
		return
	}
	l.history.up(now)
	if p == Own {
		l.damping.inUse = now
	}
	l.train.mismatched = MismatchNone
	l.sess.life = now
	l.sess.confirmed = h.Up && f.Session == l.sess.id
	l.train.refine = refineMost
	if rtt, ok := l.helloRTT(now, h, math.MaxInt64); ok {
		l.rtt = rttEstimate{}
		l.rtt.sample(rtt)
	}
	l.tx.resume(now, &l.rtt, &l.cfg.Profile)
	l.rx.resume()
	l.train.interval = l.cfg.Profile.HelloMin
	l.train.helloAt = now.Add(l.jitter(l.train.interval))
	l.train.greet = 0
	if !l.sess.confirmed && !h.WantAnswer {
		l.train.greet.add(p)
	}
	l.tx.keepaliveAt = now.Add(l.jitter(l.cfg.Profile.Keepalive))
	l.setState(now, StateUp)
	l.events.push(Event{Kind: EventUp, At: now, Session: l.sess.id, Retrains: l.history.retrains, Path: p})
	l.settle(now, size, h)
}

// renew ends the session although both ends live: frames that were cut for a
// wider path wait in the slab, and would never get through. They cannot be cut
// again, since nobody knows how much of them the peer has got. This end takes
// another incarnation, and the fate of what the peer has not acknowledged is unknown.
func (l *Link) renew(now mono.Time) {
	l.events.push(Event{Kind: EventSessionEnded, At: now, Session: l.sess.id, Retrains: l.history.retrains, Unknown: l.tx.unacked()})
	l.books.close(l.sess.id, l.sess.peer)
	l.cfg.Incarnation = wire.Incarnation(l.rng.Uint64() | 1)
	l.tx.abandon()
	l.sess = session{ended: l.sess.ended, endedNext: l.sess.endedNext}
	l.train.number++
	l.restartHellos(now)
}

// Forsake gives up what a link that is down holds for its peer, for good: the
// session ends, if anything in it is unacknowledged, and its packets' fate is
// unknown. It is for a link that traffic has been led around: what it holds
// would arrive when everybody has done without it, and perhaps started anew.
func (l *Link) Forsake(now mono.Time) {
	l.now = now
	if l.sess.id != 0 && l.state != StateUp && l.state != StateClosed && l.tx.slab.used > 0 {
		l.renew(now)
	}
}

// applyHello takes a hello's acknowledgement and grants, if they are of this session.
func (l *Link) applyHello(now mono.Time, f *wire.Frame, h *wire.Hello) {
	if f.Session != l.sess.id || h.EchoIncarnation != l.cfg.Incarnation {
		return
	}
	l.handleAck(now, f.RxSeq)
	l.handleGrants(h.Grants)
}

// helloRTT measures the round trip of a hello that this end sent and the peer
// answered. It is no measurement where a later hello was answered before, this
// one was, this end stood still meanwhile, or it took longer than most.
func (l *Link) helloRTT(now mono.Time, h *wire.Hello, most time.Duration) (time.Duration, bool) {
	sent := stampTime(h.EchoStamp)
	if h.EchoStamp == 0 || sent.After(now) || now.Sub(sent) > most || sent.Before(l.stalled) || sent.Before(l.train.echoed) {
		return 0, false
	}
	p := stampPath(h.EchoStamp)
	if sent.After(l.train.echoed) {
		l.train.echoed, l.train.echoedBy = sent, 0
	}
	if l.train.echoedBy.has(p) {
		return 0, false
	}
	l.train.echoedBy.add(p)
	return now.Sub(sent), true
}

// goDown leaves the state Up. The session stays; what was not acknowledged is sent again after the next training.
func (l *Link) goDown(now mono.Time, why DownReason) {
	if l.state != StateUp {
		panic("ttlink: down while " + l.state.String())
	}
	l.history.down(now, l.since, why)
	l.paths.own(now, false)
	l.train.number++
	l.train.heardPeer = false
	l.size.train()
	l.setState(now, StateTraining)
	l.restartHellos(now)
	l.events.push(Event{Kind: EventDown, At: now, Session: l.sess.id, Retrains: l.history.retrains, Reason: why})
}

// restartHellos says hello at once, and then at growing intervals.
func (l *Link) restartHellos(now mono.Time) {
	l.train.greet = l.greets()
	l.train.interval = l.cfg.Profile.HelloMin
	l.train.helloAt = now.Add(l.jitter(l.train.interval))
}

// saysHello reports whether hellos are sent on this end's own account: while
// training, until the peer has shown that it is up, and a few times more where
// the round trip seems long, lest an answer that came late because somebody
// stood still makes this end wait long for a dead peer.
func (l *Link) saysHello() bool {
	return l.state == StateTraining ||
		(l.state == StateUp && (!l.sess.confirmed || l.paths.now != Own || (l.train.refine > 0 && l.rtt.doubtful(&l.cfg.Profile))))
}

// tickHello makes the periodic hello due.
func (l *Link) tickHello(now mono.Time) {
	if !l.saysHello() || now.Before(l.train.helloAt) {
		return
	}
	l.train.greet = l.greets()
	if l.size.proofs == 0 { // else somebody answers, though not to all
		l.train.interval = min(2*l.train.interval, l.cfg.Profile.HelloMax)
	}
	every := l.train.interval
	if l.state == StateUp { // what measures a slow path must not fill it
		every = max(every, l.rtt.smoothed)
	}
	l.train.helloAt = now.Add(l.jitter(every))
	if l.state == StateTraining {
		l.tickTraining(now)
	}
}

// pollHello returns the next hello that is due.
func (l *Link) pollHello(now mono.Time) (Transmit, bool) {
	if l.state != StateTraining && l.state != StateUp {
		return Transmit{}, false
	}
	for _, a := range []*answer{&l.train.answers, &l.train.strangers} {
		if !a.due {
			continue
		}
		a.due = false
		// An answer to the peer that asks back does what a hello would. A
		// stranger is asked back by an end that is up, too: where there are
		// several paths, only an answered stamp proves that this is our peer, restarted.
		// An answer to an answer asks nothing: on a path that is slow to
		// deliver them, each would have another follow for ever.
		want := !a.final && (l.state != StateUp || a == &l.train.strangers)
		if want && a == &l.train.answers && a.room >= l.payload {
			l.train.greet.remove(a.path)
		}
		l.size.short = l.size.short || a.short
		return l.hello(now, a.path, a.echo, want, min(a.room, l.payload)), true
	}
	if t, ok := l.pollAsk(now); ok {
		return t, true
	}
	if t, ok := l.pollSize(now); ok {
		return t, true
	}
	e := l.train.heard
	if l.sess.id != 0 {
		e = echo{l.sess.peer, l.sess.training, 0}
	}
	p, ok := l.train.greet.first()
	if !ok || !l.saysHello() {
		l.train.greet = 0
		return l.pollShort(now, e)
	}
	l.train.greet.remove(p)
	return l.hello(now, p, e, true, l.greetSize()), true
}

// greetSize is the padded payload of a periodic hello: as long as the longest
// frame that follows, so that a path that does not take those shows, and one that is
// slow to carry them is measured as such: a short one's round trip would have a link
// go down as soon as there is traffic.
func (l *Link) greetSize() int {
	switch {
	case l.state == StateUp:
		return l.agreed
	case l.size.knock:
		return knockSize
	}
	return l.payload
}

// hello makes a hello that is padded to size bytes of payload, or to none where it is longer.
func (l *Link) hello(now mono.Time, p Path, e echo, want bool, size int) Transmit {
	h := wire.Hello{
		Up: l.state == StateUp, WantAnswer: want, From: l.cfg.Local, Expected: l.cfg.Peer,
		MaxPayload: uint16(l.payload), Incarnation: l.cfg.Incarnation, EchoIncarnation: e.incarnation,
		Training: l.train.number, EchoTraining: e.training, Stamp: helloStamp(now, p), EchoStamp: e.stamp, Via: uint8(p),
		Fabric: l.cfg.Fabric,
	}
	for v, s := range l.cfg.Slots {
		h.Slots[v] = uint16(s)
	}
	f := wire.Frame{Kind: wire.KindHello, Session: l.sess.id}
	if l.sess.id != 0 {
		h.Grants = l.grants()
		f.RxSeq = l.rx.expected
	}
	f.Payload = h.Append(l.control[wire.EnvelopeLen+wire.HeaderLen : wire.EnvelopeLen+wire.HeaderLen])
	if n := size / wire.PadUnit * wire.PadUnit; n >= wire.PadTo(len(f.Payload)) {
		f.Padded = n
	}
	l.counters.HellosSent++
	return l.sealControl(&f, p)
}
