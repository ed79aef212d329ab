package ttlink

import (
	"math"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// training holds the state of the exchange of hellos.
type training struct {
	number   uint32        // number of this end's training; counts up when the path is lost or the session replaced
	helloAt  mono.Time     // when the next periodic hello is due
	interval time.Duration // time between two periodic hellos
	greet    pathSet       // paths by which a hello is due
	echoed   mono.Time     // when this end sent the newest of its hellos that the peer answered
	echoedBy pathSet       // paths by which the peer answered the hellos of that instant
	asking   bool          // a hello is due because the owner asked for it
	refine   int           // hellos that the link may still send to measure a long round trip again

	answers   answer // answer to the session's peer, or to a hello that proved itself
	strangers answer // answer to unknown incarnations; has its own rate limit, so that strangers cannot crowd out the peer
	heard     echo   // last hello that did not prove the path while there is no session

	heardPeer  bool      // a hello of the expected peer has come since this training began
	heardAt    mono.Time // when the last hello came that echoes this end
	miswired   bool
	found      stranger
	mismatched Mismatch  // mismatch that the link last reported
	reported   mono.Time // when the link last reported a wrong cable or a mismatch; 0: never
}

// stranger describes the port that is at the other end of a wrong cable.
type stranger struct {
	port, expects wire.PortID
	fabric        uint32
}

// echo holds the fields of a peer's hello that this end repeats to the peer.
type echo struct {
	incarnation wire.Incarnation
	training    uint32
	stamp       uint64
}

// answer is a hello that this end owes, with the token bucket that limits how many answers this end
// sends.
type answer struct {
	due    bool
	path   Path // path of the answer: the path by which the question came
	room   int  // padded payload of the question, in bytes; the answer is no longer
	short  bool // the question was shorter than the longest frame that both ends take
	final  bool // the question was an answer: the answer asks nothing
	echo   echo
	tokens int
	last   mono.Time // when the token bucket was last filled
}

// owe notes that this end must answer a hello, if the token bucket allows. The answer is no longer
// than the question. Otherwise a forger who sends little could make this end send much to its peer.
// If several questions wait on one path, this end answers the longest question, since that answer
// proves the most.
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

// handleHello decides what a hello proves, and makes the answer to the hello due.
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

// helloOfPeer takes a hello of the session's incarnation that is not stale. If the hello proves the
// path, the argument size is the frame size that the hello allows.
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
	// This end's proof made a peer that is up with a newer number replace its session. Such a peer
	// lost nothing.
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

// identified reports whether h comes from the port to which the cable should lead, and is meant for
// this port. While the link trains, identified reports a wrong cable once per change. The other
// end also sends hellos, and also reports the wrong cable. A link that is up has the right cable: a
// wrong hello is forged. If somebody moved the cable, silence would take the link down.
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

// mayReport reports whether the link may tell a person about a hello. mayReport allows one report
// per reportEvery, since a forger can send hellos that differ each time.
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

// startSession begins a session with the incarnation that h proved. If there is an earlier session,
// startSession ends that session and reports the fate of its packets.
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
	// The training number that the hello proved is used up. A late proof of an earlier incarnation
	// that this end had not seen must not end this session.
	l.train.number++
	l.sess.id = wire.NewSessionID(l.cfg.Local, l.cfg.Incarnation, l.cfg.Peer, h.Incarnation)
	l.sess.peer, l.sess.training, l.sess.slots = h.Incarnation, h.Training, h.Slots
	l.paths.announced = 0
	l.tx.reset(wire.InitialSeq(l.cfg.Incarnation), h.Slots)
	l.rx.reset(wire.InitialSeq(h.Incarnation))
	l.events.push(Event{Kind: EventSessionStarted, At: now, Session: l.sess.id, Retrains: l.history.retrains})
}

// comeUp takes the link up on a hello that proves the path. The session continues where both ends
// stopped. Frames have at most size bytes of padded payload.
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

// renew ends the session although both ends live. The slab holds frames that were cut for a wider
// path, and such frames would never get through. This end cannot cut the packets again: nobody knows
// which frames the peer has. The end takes another incarnation. Unacknowledged packets get an
// unknown fate.
func (l *Link) renew(now mono.Time) {
	l.events.push(Event{Kind: EventSessionEnded, At: now, Session: l.sess.id, Retrains: l.history.retrains, Unknown: l.tx.unacked()})
	l.books.close(l.sess.id, l.sess.peer)
	l.cfg.Incarnation = wire.Incarnation(l.rng.Uint64() | 1)
	l.tx.abandon()
	l.sess = session{ended: l.sess.ended, endedNext: l.sess.endedNext}
	l.train.number++
	l.restartHellos(now)
}

// Forsake makes a link that is down give up for good the packets that it holds for its peer. If any
// packet of the session is unacknowledged, the session ends and the fate of its packets is unknown.
// The owner calls Forsake on a link when traffic has been routed around the link. Without Forsake,
// the packets would arrive after their senders have finished without them, and perhaps restarted.
func (l *Link) Forsake(now mono.Time) {
	l.now = now
	if l.sess.id != 0 && l.state != StateUp && l.state != StateClosed && l.tx.slab.used > 0 {
		l.renew(now)
	}
}

// applyHello takes a hello's acknowledgement and grants, if the hello belongs to this session.
func (l *Link) applyHello(now mono.Time, f *wire.Frame, h *wire.Hello) {
	if f.Session != l.sess.id || h.EchoIncarnation != l.cfg.Incarnation {
		return
	}
	l.handleAck(now, f.RxSeq)
	l.handleGrants(h.Grants)
}

// helloRTT measures the round trip of a hello that this end sent and the peer answered. helloRTT
// measures nothing in four cases: a later hello was answered before; this hello was answered
// before; this end stalled meanwhile; the answer took longer than most.
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

// goDown takes the link out of the state up. The session stays. After the next training, the link
// sends the unacknowledged frames again.
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

// restartHellos sends a hello at once, and further hellos at growing intervals.
func (l *Link) restartHellos(now mono.Time) {
	l.train.greet = l.greets()
	l.train.interval = l.cfg.Profile.HelloMin
	l.train.helloAt = now.Add(l.jitter(l.train.interval))
}

// saysHello reports whether this end sends periodic hellos. This end sends periodic hellos while
// training, until the peer has shown that it is up, and while frames use a fallback path. If the
// round trip seems long, this end sends a few more. An answer may have come late because an end
// stalled. Without another measurement, this end would take too long to notice a dead peer.
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
	if l.size.proofs == 0 { // otherwise the peer answers hellos, although not every hello
		l.train.interval = min(2*l.train.interval, l.cfg.Profile.HelloMax)
	}
	every := l.train.interval
	if l.state == StateUp { // hellos that measure a slow path must not fill it
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
		// If this end owes the peer an answer that also asks, the answer replaces a periodic hello.
		// An end that is up asks a stranger too: if there are several paths, only an answered stamp
		// proves that the stranger is the peer after a restart. An answer to an answer asks
		// nothing. Otherwise, on a slow path, each answer would cause another answer for ever.
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

// greetSize returns the padded payload of a periodic hello, in bytes. The hello is as long as the
// longest frame that follows. If a path drops such frames, the hellos therefore show the fault. On
// a path that carries such frames slowly, the hellos measure the round trip of long frames. A short
// hello's round trip would be so small that the link would go down as soon as there is traffic.
func (l *Link) greetSize() int {
	switch {
	case l.state == StateUp:
		return l.agreed
	case l.size.knock:
		return knockSize
	}
	return l.payload
}

// hello makes a hello that is padded to size bytes of payload. If the hello is longer than size,
// hello does not pad it.
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
