package ttlink

import (
	"bytes"
	"testing"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Each test in this file checks one rule of the protocol, frame by frame.

// frames returns all frames that l sends at the instant now.
func frames(l *Link, now mono.Time) (all []wire.Frame) {
	for x, ok := l.PollTransmit(now); ok; x, ok = l.PollTransmit(now) {
		for b := x.Data; len(b) > 0; b = b[min(x.Seg, len(b)):] {
			f, err := wire.DecodeFrame(bytes.Clone(b[:min(x.Seg, len(b))]))
			if err != nil {
				panic(err)
			}
			all = append(all, f)
		}
	}
	return all
}

// give passes the frame f to l, and reports whether l delivers a piece.
func give(l *Link, now mono.Time, f wire.Frame) bool {
	_, ok := l.HandleDatagram(now, f.Append(nil))
	return ok
}

// idlePair returns two ends that are up and idle, with a measured round trip of 100 µs.
func idlePair(t *testing.T) *pair {
	w := upWorld(t, 4, nil)
	return &pair{w.ends[0].link, w.ends[1].link, w.now}
}

// TestGapIsNACKedAtOnce loses the first of three frames. The receiver must send a NACK at once.
func TestGapIsNACKedAtOnce(t *testing.T) {
	p := idlePair(t)
	for range 3 {
		p.a.Send(p.now, wire.VCData, []byte("packet"))
	}
	sent := frames(p.a, p.now)
	if len(sent) != 3 || give(p.b, p.now, sent[1]) || give(p.b, p.now, sent[2]) {
		t.Fatalf("the sender sent %d frames, want 3, or a frame after the gap was delivered", len(sent))
	}
	answer := frames(p.b, p.now)
	if len(answer) != 1 || answer[0].Flags&wire.FlagNACK == 0 || answer[0].RxSeq != sent[0].TxSeq {
		t.Fatalf("answer to a gap: %+v", answer)
	}
	give(p.a, p.now, answer[0])
	again := frames(p.a, p.now)
	if len(again) != 3 || again[0].TxSeq != sent[0].TxSeq {
		t.Fatalf("after the NACK: %+v", again)
	}
	// A second NACK within a round trip changes nothing.
	give(p.a, p.now, answer[0])
	if more := frames(p.a, p.now); len(more) != 0 || p.a.Counters().GoBacks != 1 {
		t.Errorf("a second NACK within the round trip: %d frames", len(more))
	}
	// While the gap stays, the receiver repeats the NACK after a round trip.
	at, _ := p.b.Deadline()
	if wait := at.Sub(p.now); wait > 2*time.Millisecond {
		t.Errorf("NACK repeated after %v", wait)
	}
	p.b.Tick(at)
	if n := frames(p.b, at); len(n) != 1 || n[0].Flags&wire.FlagNACK == 0 {
		t.Errorf("no second NACK: %+v", n)
	}
	for _, f := range again {
		if !give(p.b, at, f) {
			t.Error("a frame is not delivered when it is sent again")
		}
	}
	if f := frames(p.b, at); len(f) != 1 || f[0].Flags != 0 || f[0].RxSeq != again[2].TxSeq.Add(1) {
		t.Errorf("after the gap closed: %+v", f)
	}
}

// TestAcksWait checks that an acknowledgement is sent after ackDelay, or after ackBytes if that is
// earlier.
func TestAcksWait(t *testing.T) {
	p := idlePair(t)
	p.a.Send(p.now, wire.VCData, []byte("packet"))
	give(p.b, p.now, frames(p.a, p.now)[0])
	if f := frames(p.b, p.now); len(f) != 0 {
		t.Errorf("one packet was acknowledged at once: %+v", f)
	}
	at, _ := p.b.Deadline()
	if wait := at.Sub(p.now); wait != ackDelay {
		t.Errorf("the acknowledgement waits for %v; want %v", wait, ackDelay)
	}
	p.b.Tick(at)
	if f := frames(p.b, at); len(f) != 1 || f[0].Kind != wire.KindUpdate {
		t.Errorf("after the time: %+v", f)
	}
	sent := 0
	for p.a.Send(at, wire.VCData, make([]byte, MaxPacket)) {
		for _, f := range frames(p.a, at) {
			give(p.b, at, f)
			sent += len(f.Payload)
		}
		f := frames(p.b, at)
		if early := sent < ackBytes; early != (len(f) == 0) {
			t.Fatalf("after %d bytes: %+v", sent, f)
		}
		if len(f) > 0 {
			return
		}
	}
	t.Errorf("no acknowledgement after %d bytes", sent)
}

// TestDuplicateIsAckedAgain loses an acknowledgement. The receiver must acknowledge the repeated
// frame again.
func TestDuplicateIsAckedAgain(t *testing.T) {
	p := idlePair(t)
	p.a.Send(p.now, wire.VCData, []byte("packet"))
	sent := frames(p.a, p.now)
	give(p.b, p.now, sent[0])
	frames(p.b, p.now) // these frames are lost
	if give(p.b, p.now, sent[0]) {
		t.Fatal("delivered twice")
	}
	ack := frames(p.b, p.now)
	if len(ack) != 1 || ack[0].RxSeq != sent[0].TxSeq.Add(1) {
		t.Fatalf("answer to a duplicate: %+v", ack)
	}
}

// TestRoundTripOfFramesSentOnce checks Karn's algorithm: the link measures the round trip only of
// frames that it sent once.
func TestRoundTripOfFramesSentOnce(t *testing.T) {
	p := idlePair(t)
	before := p.a.rtt
	p.a.Send(p.now, wire.VCData, []byte("packet"))
	frames(p.a, p.now) // these frames are lost
	for p.a.Counters().Timeouts == 0 {
		p.now, _ = p.a.Deadline()
		p.a.Tick(p.now)
	}
	again := frames(p.a, p.now)
	give(p.b, p.now, again[0])
	p.now = p.now.Add(ackDelay)
	p.b.Tick(p.now)
	give(p.a, p.now, frames(p.b, p.now)[0])
	if p.a.rtt != before || p.a.tx.outstanding() {
		t.Errorf("round trip %+v, before %+v", p.a.rtt, before)
	}
	p.a.Send(p.now, wire.VCData, []byte("packet"))
	give(p.b, p.now, frames(p.a, p.now)[0])
	p.now = p.now.Add(ackDelay)
	p.b.Tick(p.now)
	give(p.a, p.now, frames(p.b, p.now)[0])
	if p.a.rtt == before {
		t.Error("the round trip of a frame that was sent once is not measured")
	}
}

// TestGrantsFollowData checks that an end sends new grants in a sequence update, although data
// frames carry the acknowledgement. The end must not send the update while the peer has more than
// half of its credits.
func TestGrantsFollowData(t *testing.T) {
	p := idlePair(t)
	p.a.Send(p.now, wire.VCData, []byte("packet"))
	give(p.b, p.now, frames(p.a, p.now)[0])
	p.b.Send(p.now, wire.VCData, []byte("packet"))
	if f := frames(p.b, p.now); len(f) != 1 || f[0].Kind != wire.KindData || f[0].RxSeq != p.b.rx.expected {
		t.Fatalf("data that carries an acknowledgement: %+v", f)
	}
	p.b.Free(wire.VCData)
	p.b.Send(p.now, wire.VCData, []byte("packet"))
	if f := frames(p.b, p.now); len(f) != 1 {
		t.Fatalf("grants although the peer has enough credits: %+v", f)
	}
	for range p.b.cfg.Slots[wire.VCData]/2 - 1 {
		p.a.Send(p.now, wire.VCData, []byte("packet"))
		give(p.b, p.now, frames(p.a, p.now)[0])
	}
	p.b.Free(wire.VCData)
	p.b.Send(p.now, wire.VCData, []byte("packet"))
	if f := frames(p.b, p.now); len(f) != 2 || f[0].Kind != wire.KindData || f[1].Kind != wire.KindUpdate {
		t.Fatalf("data and grants: %+v", f)
	}
}

// TestStarvedSenderAsks loses the grants that a waiting sender needs. The sender must ask for the
// grants with SOLICIT.
func TestStarvedSenderAsks(t *testing.T) {
	p := idlePair(t)
	for p.a.Send(p.now, wire.VCControl, []byte("packet")) {
	}
	for _, f := range frames(p.a, p.now) {
		give(p.b, p.now, f)
	}
	for _, f := range frames(p.b, p.now) {
		give(p.a, p.now, f)
	}
	p.b.Free(wire.VCControl)
	frames(p.b, p.now) // these frames are lost
	start := p.now
	for !p.a.CanSend(wire.VCControl, 1) {
		at, ok := p.a.Deadline()
		if !ok || at.Sub(start) > 20*time.Millisecond {
			t.Fatal("a sender without credit does not ask for its grants")
		}
		p.now = at
		p.a.Tick(at)
		for _, f := range frames(p.a, at) {
			if f.Kind != wire.KindData && f.Flags&wire.FlagSolicit == 0 { // a data frame is sent again, because nothing has acknowledged it
				t.Fatalf("a sender without credit sent: %+v", f)
			}
			give(p.b, at, f)
		}
		for _, f := range frames(p.b, at) {
			give(p.a, at, f)
		}
	}
}

// TestResumeSendsAgain checks that a link that comes up again sends the unacknowledged frames.
func TestResumeSendsAgain(t *testing.T) {
	w := upWorld(t, 4, nil)
	w.cable[0].Cut(true)
	w.ends[0].toSend[wire.VCData] = 3
	w.service(0)
	w.run(time.Second)
	timeouts := w.ends[0].link.Counters().Timeouts
	w.heal()
	w.mustQuiet(2 * time.Second)
	if n := w.ends[0].link.Counters().Timeouts - timeouts; n != 0 {
		w.fail("%d timeouts after the cable was repaired", n)
	}
}

// TestPeerRetrained checks that an end trains at once if its peer has lost the path.
func TestPeerRetrained(t *testing.T) {
	w := upWorld(t, 4, nil)
	w.ends[0].link.SetPath(w.now, false)
	w.ends[0].link.SetPath(w.now, true)
	w.service(0)
	if !w.until(10*time.Millisecond, func() bool { return countEvents(w.ends[1], EventDown) == 1 && w.bothUp() }) {
		w.fail("the two ends did not both train")
	}
	if s := w.ends[1].link.Status(); s.LastDown != DownPeerRetrained {
		w.fail("down for %v", s.LastDown)
	}
	w.run(10 * time.Second)
	if countEvents(w.ends[0], EventDown) != 1 || countEvents(w.ends[1], EventDown) != 1 {
		w.fail("more than one training")
	}
}

// TestQuickRestart restarts one end so quickly that the other end stays up meanwhile. While the
// other end is still in the old session, the restarted end must not count as confirmed. The restarted
// end must stay up, and the other end must go down once.
func TestQuickRestart(t *testing.T) {
	w := upWorld(t, 4, nil)
	w.restart(0)
	a, b := w.ends[0].link, w.ends[1].link
	seen := len(w.ends[0].events)
	w.until(time.Second, func() bool { return a.state == StateUp })
	if a.sess.id == b.sess.id || a.sess.confirmed {
		w.fail("confirmed is %v while the other end is in session %#x", a.sess.confirmed, b.sess.id)
	}
	if !w.until(5*time.Millisecond, w.bothUp) {
		w.fail("not up again")
	}
	w.run(5 * time.Second)
	for _, e := range w.ends[0].events[seen:] {
		if e.Kind == EventDown {
			w.fail("the new incarnation went down: %+v", e)
		}
	}
	if n := countEvents(w.ends[1], EventDown); n != 1 || b.Status().LastDown != DownPeerRestarted {
		w.fail("the old end went down %d times, for %v", n, b.Status().LastDown)
	}
}

// TestQuickRestartBesideOthers is like TestQuickRestart, but for links with fallback paths. Such
// a link comes up only on a hello that answers one of the link's own stamps. The end that is still up
// must therefore send a hello with WANT, which carries a stamp, at once.
func TestQuickRestartBesideOthers(t *testing.T) {
	alternate := ByChannel(5)
	for seed := range uint64(50) {
		w := upWorld(t, seed, nil)
		for i := range w.ends {
			w.ends[i].link.SetAlternate(w.now, alternate, 5, true)
		}
		w.run(time.Second)
		w.restart(int(seed % 2))
		w.ends[seed%2].link.SetAlternate(w.now, alternate, 5, true)
		if !w.until(50*time.Millisecond, w.bothUp) {
			w.fail("the two ends did not come up in one session")
		}
		if why := w.ends[1-seed%2].link.Status().LastDown; why != DownPeerRestarted {
			w.fail("the end that stayed went down for %v", why)
		}
	}
}

// TestPeerReplacedItsSession checks that a link stays up if the peer sends a newer training number
// with UP. Such a peer has replaced its session, and has not lost the path.
func TestPeerReplacedItsSession(t *testing.T) {
	p := idlePair(t)
	p.b.train.number++
	x := p.b.hello(p.now, Own, echo{p.a.cfg.Incarnation, p.a.train.number, 0}, false, 0)
	p.a.HandleDatagram(p.now, bytes.Clone(x.Data))
	if p.a.state != StateUp || p.a.sess.training != p.b.train.number {
		t.Errorf("%v, peer's training %d", p.a.state, p.a.sess.training)
	}
}

// TestForsake calls Forsake on a link that is down with unacknowledged packets. After the repair,
// the link must come up in a new session, and no packet of the old session may arrive.
func TestForsake(t *testing.T) {
	w := upWorld(t, 3, nil)
	a := w.ends[0]
	before := a.link.sess.id
	dead := true
	w.onSend = func(int, []byte) bool { return dead }
	a.toSend[0] = 5
	w.service(0)
	a.link.Forsake(w.now)
	if a.link.sess.id != before {
		w.fail("Forsake ended the session of a link that is up")
	}
	if !w.until(time.Second, func() bool { return a.link.state != StateUp }) {
		w.fail("the link stays up although all datagrams are lost")
	}
	a.link.Forsake(w.now)
	w.service(0)
	if a.link.tx.slab.used != 0 || countEvents(a, EventSessionEnded) != 1 {
		w.fail("%d bytes in the slab, %d sessions ended; want 0 and 1", a.link.tx.slab.used, countEvents(a, EventSessionEnded))
	}
	dead = false
	if !w.until(5*time.Second, w.bothUp) || a.link.sess.id == before {
		w.fail("the link did not come up in a new session")
	}
	w.run(100 * time.Millisecond)
	if n := w.ends[1].link.Counters().PacketsReceived; n != 0 {
		w.fail("%d packets of the ended session arrived", n)
	}
	for i, why := range []SessionEnd{EndForsaken, EndPeerRenewed} {
		for _, ev := range w.ends[i].events {
			if ev.Kind == EventSessionEnded && (ev.End != why || ev.Peer == 0) || ev.Kind == EventSessionStarted && ev.Anew {
				w.fail("end %d: %+v; want the end %q, and no new process", i, ev, why)
			}
		}
	}
	a.toSend[0] = 3
	w.service(0)
	w.run(100 * time.Millisecond)
	if n := w.ends[1].link.Counters().PacketsReceived; n != 3 {
		w.fail("%d of 3 packets arrived afterwards", n)
	}
}

// TestBackoffEnds loses a frame three times, which doubles the timeout three times. The timeout
// must stay long until a frame that was sent once is acknowledged (RFC 6298 §5.7).
func TestBackoffEnds(t *testing.T) {
	p := idlePair(t)
	before := p.a.rtt.timeout(&p.a.cfg.Profile, p.a.tx.backoff)
	p.a.Send(p.now, wire.VCData, []byte("packet"))
	frames(p.a, p.now) // these frames are lost
	for range 2 {
		p.now = p.a.tx.rtoAt
		p.a.Tick(p.now)
		frames(p.a, p.now) // these frames are lost too
	}
	p.now = p.a.tx.rtoAt
	p.a.Tick(p.now)
	exchange := func() {
		for _, f := range frames(p.a, p.now) {
			give(p.b, p.now, f)
		}
		p.now = p.now.Add(ackDelay)
		p.b.Tick(p.now)
		for _, f := range frames(p.b, p.now) {
			give(p.a, p.now, f)
		}
	}
	exchange()
	if p.a.tx.outstanding() || p.a.tx.backoff != 3 {
		t.Fatalf("after three timeouts: outstanding %v, backoff %d", p.a.tx.outstanding(), p.a.tx.backoff)
	}
	p.a.Send(p.now, wire.VCData, []byte("packet"))
	exchange()
	if after := p.a.rtt.timeout(&p.a.cfg.Profile, p.a.tx.backoff); after > 2*before {
		t.Errorf("the timeout is %v, and was %v before a loss", after, before)
	}
}

// TestAckBeyondTheGoBack delays the acknowledgement of many frames for ten timeouts. The sender
// then sends only a few of the frames again. After the late acknowledgement of all frames, the
// sender must continue behind them.
func TestAckBeyondTheGoBack(t *testing.T) {
	p := idlePair(t)
	p.a.cfg.Profile.DeadTraffic, p.a.cfg.Profile.RTOMax = time.Minute, 100*time.Millisecond
	many := 0
	for p.a.Send(p.now, wire.VCData, make([]byte, MaxPacket)) {
		many++
	}
	sent := frames(p.a, p.now)
	if len(sent) <= minFlight {
		t.Fatalf("only %d frames under way", len(sent))
	}
	for _, f := range sent {
		give(p.b, p.now, f)
	}
	late := frames(p.b, p.now)
	for range 10 {
		p.now = p.a.tx.rtoAt
		p.a.Tick(p.now)
		if n := len(frames(p.a, p.now)); n == 0 {
			t.Fatal("no frame is sent again after a timeout")
		}
	}
	if n := p.a.tx.cursor.Sub(p.a.tx.base); n != minFlight {
		t.Fatalf("%d frames were sent again after ten timeouts, want %d", n, minFlight)
	}
	for _, f := range late {
		give(p.a, p.now, f)
	}
	if err := p.a.CheckInvariants(); err != nil {
		t.Fatal(err)
	}
	if p.a.tx.cursor != p.a.tx.base || p.a.tx.slab.count != 0 {
		t.Errorf("cursor at base %+d, %d frames in the slab; want 0 and 0", p.a.tx.cursor.Sub(p.a.tx.base), p.a.tx.slab.count)
	}
	if n := p.b.Counters().PacketsReceived; int(n) != many {
		t.Errorf("%d of %d packets arrived", n, many)
	}
}
