package ttlink

import (
	"math"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// training holds the state of this end's exchange of hellos.
type training struct {
	number   uint32        // training number of this end; grows when the link goes down, and when a session begins or ends
	helloAt  mono.Time     // when the next periodic hello is due
	interval time.Duration // time between two periodic hellos
	greet    pathSet       // paths by which a hello is due
	echoed   mono.Time     // sending time of the newest hello that the peer answered
	echoedBy pathSet       // paths of the answered hellos that this end sent at the time in echoed
	asking   bool          // a hello is due because of a call of [Link.Ask]
	refine   int           // number of answers for which this end still sends hellos, to measure a long round trip again

	answers   answers // answers to the session's peer
	strangers answers // answers to other incarnations; they have a rate limit of their own, so that forgers cannot use up the limit of the peer
	heard     echo    // while there is no session: what to echo of the last hello that did not prove the path

	heardPeer  bool      // a hello of the expected peer has come since this training began
	heardAt    mono.Time // when the last hello came that echoes this end's incarnation
	miswired   bool
	found      stranger
	mismatched Mismatch  // mismatch in the last EventIncompatible
	reported   mono.Time // time of the last EventMiswired or EventIncompatible; 0: never
}

// stranger is the port at the other end of a miswired cable. Package wire uses the word "stranger"
// for another incarnation.
type stranger struct {
	port, expects wire.PortID
	fabric        uint32
}

// echo holds the fields of a received hello that this end repeats in its own hello.
type echo struct {
	incarnation wire.Incarnation
	training    uint32
	stamp       uint64
}

// answers holds the answers to hellos that wait to be sent, and a token bucket that limits the rate of
// answers.
type answers struct {
	owed   [answerBurst]answer // the first n are due, in the order of the questions, at most one for each path
	n      int
	tokens int
	last   mono.Time // when the token bucket was last filled
}

// answer is an answer that is due.
type answer struct {
	path  Path // path by which the question came and the answer must go
	room  int  // padded payload of the question in bytes, which limits the length of the answer
	short bool // the question was shorter than the longest frame that both ends take
	final bool // the question was itself an answer, so the answer must not have WANT
	echo  echo
}

// owe makes an answer due, or returns false if no answer is due on the path p and the token bucket is
// empty. The argument "room" limits the answer's length, because a forger could otherwise cause much
// traffic. If several questions of one peer wait on a path, this end answers only the longest.
func (a *answers) owe(now mono.Time, p Path, room int, short, final bool, e echo) bool {
	if n := int64(now.Sub(a.last) / answerRefill); n > 0 {
		a.tokens = int(min(int64(a.tokens)+n, answerBurst))
		a.last = now
	}
	next := answer{p, room, short, final, e}
	for i := range a.owed[:a.n] {
		if o := &a.owed[i]; o.path == p {
			if o.room <= room || o.echo.incarnation != e.incarnation || o.echo.training != e.training {
				*o = next
			}
			return true
		}
	}
	if a.tokens == 0 || a.n == len(a.owed) {
		return false
	}
	a.tokens--
	a.owed[a.n] = next
	a.n++
	return true
}

// poll removes and returns the answer that has been due for the longest time.
func (a *answers) poll() (next answer, ok bool) {
	if a.n == 0 {
		return next, false
	}
	next = a.owed[0]
	a.n--
	copy(a.owed[:a.n], a.owed[1:])
	return next, true
}

// forget removes the answer that is due on a path, if there is one.
func (a *answers) forget(p Path) {
	for i := range a.owed[:a.n] {
		if a.owed[i].path == p {
			a.n--
			copy(a.owed[i:a.n], a.owed[i+1:])
			return
		}
	}
}

// handleHello processes a received hello, by the steps that package wire describes.
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

// helloOfPeer processes a hello of the session's peer. If proves is true, the link may come up with
// frame payloads of at most size bytes.
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
	// A newer training number without UP means that the peer has lost the path. A newer number with
	// UP means only that the peer has replaced its session.
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
			if l.change(now, p, f, h) {
				return
			}
		}
		if h.EchoStamp != 0 && proves {
			l.answered(now, p, f, h)
		}
		if h.Up && f.Session == l.sess.id {
			l.alive(now)
			l.sess.confirmed = true
		}
	}
}

// identified reports whether h comes from the port, the fabric and the path that this end expects,
// and itself expects this port. For each new wrong port, a link that is not up queues an
// EventMiswired. If the link is up, the cable is right, and a hello from a wrong port is forged.
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
			Found: found.port, FoundExpects: h.Expected, FoundFabric: h.Fabric})
	}
	return false
}

// fits reports whether this end can work with the sender of h. If the result is false, fits also
// calls incompatible.
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

// mayReport reports whether the link may queue an EventMiswired or EventIncompatible now. One event
// per reportEvery is allowed, because a forger can send many different hellos.
func (l *Link) mayReport(now mono.Time) bool {
	if l.train.reported != 0 && now.Sub(l.train.reported) < reportEvery {
		return false
	}
	l.train.reported = now
	return true
}

// incompatible queues an EventIncompatible if the link trains, the mismatch differs from the last
// reported mismatch, and mayReport allows an event.
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

// startSession ends an earlier session, and begins a session with the sender of h.
func (l *Link) startSession(now mono.Time, h *wire.Hello) {
	if l.sess.id != 0 {
		if l.state == StateUp {
			l.goDown(now, DownPeerRestarted)
		}
		l.sess.ended[l.sess.endedNext] = l.sess.peer
		l.sess.endedNext = (l.sess.endedNext + 1) % endedRemember
		why := EndPeerRenewed
		if l.sess.peer.Life() != h.Incarnation.Life() {
			why = EndPeerRestarted
		}
		l.sessionEnded(now, why)
	}
	// With the new number, a late hello of an earlier incarnation of the peer echoes an old number,
	// and cannot end this session.
	l.train.number++
	l.sess.id = wire.NewSessionID(l.cfg.Local, l.cfg.Incarnation, l.cfg.Peer, h.Incarnation)
	anew := l.sess.last != 0 && l.sess.last.Life() != h.Incarnation.Life()
	l.sess.peer, l.sess.last, l.sess.training, l.sess.slots = h.Incarnation, h.Incarnation, h.Training, h.Slots
	l.paths.announced = 0
	l.tx.reset(wire.InitialSeq(l.cfg.Incarnation), h.Slots)
	l.rx.reset(wire.InitialSeq(h.Incarnation))
	l.events.push(Event{Kind: EventSessionStarted, At: now, Session: l.sess.id, Retrains: l.history.retrains,
		SessionNews: SessionNews{Peer: h.Incarnation, Anew: anew}})
}

// comeUp takes the link up by the path p, because the hello h proves the path. The largest frame
// payload is size bytes. If the session holds longer unacknowledged frames, comeUp ends the session
// instead (see renew).
func (l *Link) comeUp(now mono.Time, p Path, f *wire.Frame, h *wire.Hello, size int) {
	l.paths.now, l.paths.home = p, 0
	l.carry(now, p == Own)
	l.paths.announced.add(p)
	l.applyHello(now, f, h)
	if l.tx.widest() > size {
		l.renew(now, EndNarrow)
		return
	}
	l.history.up(now)
	if p != Own && l.paths.ordered && !l.held() {
		l.hold(now, mono.Never, HoldOrdered)
	}
	l.train.mismatched = MismatchNone
	l.alive(now)
	l.sess.confirmed = h.Up && f.Session == l.sess.id
	l.train.refine = refineMost
	if rtt, ok := l.helloRTT(now, h, math.MaxInt64); ok {
		l.rtt = rttEstimate{}
		l.rtt.sample(rtt)
	}
	l.tx.resume(now, &l.rtt, &l.cfg.Profile)
	l.damping.proved = false
	l.rx.resume()
	l.train.interval = l.cfg.Profile.HelloMin
	l.train.helloAt = now.Add(l.jitter(l.train.interval))
	l.train.greet = 0
	if !l.sess.confirmed && !h.WantAnswer {
		l.train.greet.add(p)
	}
	l.sentOfSession(now)
	l.setState(now, StateUp)
	l.events.push(Event{Kind: EventUp, At: now, Session: l.sess.id, Retrains: l.history.retrains, Path: p})
	l.settle(now, size, h)
}

// applyHello uses the acknowledgement and the grants of a hello of this session.
func (l *Link) applyHello(now mono.Time, f *wire.Frame, h *wire.Hello) {
	if f.Session != l.sess.id || h.EchoIncarnation != l.cfg.Incarnation {
		return
	}
	l.handleAck(now, f.RxSeq)
	l.handleGrants(h.Grants)
}

// helloRTT returns the round-trip time of the hello that h answers. If h is no answer, or if an
// answer to this or a later hello has come before, helloRTT returns false. The result is also false
// if this end's loop was stalled meanwhile, or if the round trip took longer than the argument
// most.
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

// goDown takes down a link that is up, and begins a training in the same session. The argument
// "why" is the reason. If the link is not up, goDown panics.
func (l *Link) goDown(now mono.Time, why DownReason) {
	if l.state != StateUp {
		panic("ttlink: down while " + l.state.String())
	}
	var late time.Duration
	if why == DownSilence {
		late = l.sess.late + l.sess.forgiven
	}
	l.history.down(now, l.since, why)
	l.carry(now, false)
	l.train.number++
	l.train.heardPeer = false
	l.size.train()
	l.setState(now, StateTraining)
	l.restartHellos(now)
	l.events.push(Event{Kind: EventDown, At: now, Session: l.sess.id, Retrains: l.history.retrains, DownNews: DownNews{why, late}})
}

// pollHello returns the next hello that is due. If no hello is due, pollHello returns false.
func (l *Link) pollHello(now mono.Time) (Transmit, bool) {
	if l.state != StateTraining && l.state != StateUp {
		return Transmit{}, false
	}
	for _, of := range []*answers{&l.train.answers, &l.train.strangers} {
		a, ok := of.poll()
		if !ok {
			continue
		}
		// A long answer to the session's peer with WANT replaces the periodic hello on its path. An
		// end that is up sets WANT only in answers to strangers, because a stranger may be the peer
		// after a restart. An answer to an answer has no WANT, because the ends could otherwise
		// answer each other without end.
		want := !a.final && (l.state != StateUp || of == &l.train.strangers)
		if want && of == &l.train.answers && a.room >= l.payload {
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

// greetSize returns the padded payload of a periodic hello, in bytes. Except for knocks, periodic
// hellos are as long as the longest frame. If a path drops the longest frames, the link therefore
// does not come up with such frames. On a slow path, such hellos measure the round trip of long
// frames, which timeouts under traffic need.
func (l *Link) greetSize() int {
	switch {
	case l.state == StateUp:
		return l.agreed
	case l.size.knock:
		return knockSize
	}
	return l.payload
}

// hello makes a hello for the path p, and pads its payload to size bytes, where size is rounded
// down to a multiple of PadUnit. If the payload does not fit, the hello has no padding.
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
