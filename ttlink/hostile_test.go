package ttlink

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// upWorld returns two ends that are up and confirmed, on a perfect cable.
func upWorld(t testing.TB, seed uint64, change func(int, *Config)) *world {
	w := newWorld(t, seed, fault.Options{Delay: lan}, change)
	w.start()
	if !w.until(time.Second, w.bothUp) {
		w.fail("not up")
	}
	w.run(5 * time.Millisecond)
	return w
}

// protocolState is the part of a link's state that only valid frames and proofs may change.
type protocolState struct {
	state    State
	session  session
	rx       receiver
	base     wire.Seq
	limit    [wire.NumVCs]uint32
	training uint32
}

func stateOf(l *Link) protocolState {
	return protocolState{l.state, l.sess, l.rx, l.tx.base, l.tx.limit, l.train.number}
}

// TestReplayOfOldSession replays all datagrams of an ended session to both ends during the next
// session. The ends must not change their state.
func TestReplayOfOldSession(t *testing.T) {
	for seed := range uint64(40) {
		w := newWorld(t, seed, fault.Options{Delay: lan}, nil)
		w.keep = true
		w.load(20)
		w.start()
		w.mustQuiet(5 * time.Second)
		w.keep = false
		w.restart(int(seed % 2))
		w.until(5*time.Second, w.bothUp)
		w.run(50 * time.Millisecond)
		w.load(3)
		w.mustQuiet(5 * time.Second)
		before := [2]protocolState{stateOf(w.ends[0].link), stateOf(w.ends[1].link)}
		for from, all := range w.record {
			for _, b := range all {
				w.receive(1-from, bytes.Clone(b))
				w.check()
			}
		}
		for i, e := range w.ends {
			if got := stateOf(e.link); got != before[i] {
				t.Fatalf("seed %d: end %d changed by a replay:\n%+v\n%+v", seed, i, before[i], got)
			}
			c := e.link.Counters()
			if c.StaleSession == 0 || (i != int(seed%2) && c.StaleHellos == 0) {
				t.Errorf("seed %d: end %d did not count the replayed datagrams: %+v", seed, i, c)
			}
		}
		w.load(3)
		w.mustQuiet(5 * time.Second)
	}
}

// helloFrame returns a frame without padding that carries the hello h.
func helloFrame(h wire.Hello, session wire.SessionID, to wire.Channel) []byte {
	f := wire.Frame{Kind: wire.KindHello, Channel: to, Session: session, Payload: h.Append(nil)}
	return f.Append(nil)
}

// TestForgedHellos sends hellos in the peer's name with random incarnations and echoes. The link
// must not change its state, and must answer only a few of the hellos.
func TestForgedHellos(t *testing.T) {
	w := upWorld(t, 9, nil)
	l := w.ends[0].link
	before := stateOf(l)
	sent := l.Counters().HellosSent
	for n := range 1000 {
		h := wire.Hello{
			Up: n%2 == 0, WantAnswer: true, From: portB, Expected: portA, MaxPayload: 96,
			Incarnation: wire.Incarnation(w.rng.Uint64() | 1), EchoIncarnation: wire.Incarnation(w.rng.Uint64()),
			Training: w.rng.Uint32(), EchoTraining: l.train.number, Stamp: 1, EchoStamp: 1,
			Slots: [wire.NumVCs]uint16{1, 1, 1}, Fabric: 7, Grants: [wire.NumVCs]uint32{1 << 20, 1 << 20, 1 << 20},
		}
		w.receive(0, helloFrame(h, l.sess.id, portA.Channel))
		w.service(0)
	}
	if got := stateOf(l); got != before {
		t.Errorf("changed by forged hellos:\n%+v\n%+v", before, got)
	}
	if c := l.Counters(); c.UnprovedHellos < 1000 || c.HellosSent-sent > answerBurst+1 || c.AnswersSuppressed < 900 {
		t.Errorf("counters: %+v", c)
	}
	w.load(5)
	w.mustQuiet(5 * time.Second)
	if n := countEvents(w.ends[0], EventDown); n != 0 {
		t.Errorf("went down %d times", n)
	}
}

// TestForgedHelloBeforeTheFirstSession sends forged hellos to a link that then must come up.
func TestForgedHelloBeforeTheFirstSession(t *testing.T) {
	w := newWorld(t, 2, fault.Options{Delay: lan}, nil)
	w.ends[0].link.SetPath(w.now, true)
	w.service(0)
	h := wire.Hello{WantAnswer: true, From: portB, Expected: portA, MaxPayload: 96, Incarnation: 77, EchoIncarnation: 5,
		Slots: [wire.NumVCs]uint16{1, 1, 1}, Fabric: 7}
	for range 20 {
		w.receive(0, helloFrame(h, 0, portA.Channel))
		w.service(0)
	}
	w.start()
	if !w.until(time.Second, w.bothUp) || w.ends[0].link.sess.peer != w.ends[1].cfg.Incarnation {
		w.fail("not up with the true peer")
	}
}

// TestLateProofOfAFormerIncarnation delays a hello of an earlier incarnation of the peer until the
// link is up with the present incarnation. The late hello must not end the session.
func TestLateProofOfAFormerIncarnation(t *testing.T) {
	w := newWorld(t, 3, fault.Options{Delay: lan}, nil)
	l := w.ends[0].link
	l.SetPath(w.now, true)
	w.service(0)
	late := wire.Hello{Up: true, From: portB, Expected: portA, MaxPayload: 96, Incarnation: 77, EchoIncarnation: w.ends[0].cfg.Incarnation,
		Training: 1, EchoTraining: l.train.number, Slots: [wire.NumVCs]uint16{16, 5, 3}, Fabric: 7}
	w.start()
	if !w.until(time.Second, w.bothUp) {
		w.fail("not up")
	}
	before := stateOf(l)
	w.receive(0, helloFrame(late, 0, portA.Channel))
	w.service(0)
	if got := stateOf(l); got != before {
		t.Errorf("changed by a late proof:\n%+v\n%+v", before, got)
	}
	w.load(5)
	w.mustQuiet(5 * time.Second)
}

// TestMiswired connects ports that expect other peers or fabrics. Both ends must report the wrong
// cable once, and stay down.
func TestMiswired(t *testing.T) {
	other := wire.PortID{Node: wire.FabricNodeID{Mesh: 0, Chip: 2}, Channel: 0}
	for _, c := range []struct {
		name   string
		change func(i int, c *Config)
	}{
		{"A expects another", func(i int, c *Config) {
			if i == 0 {
				c.Peer = other
			}
		}},
		{"both expect others", func(i int, c *Config) {
			c.Peer = other
			c.Peer.Channel = wire.Channel(i)
		}},
		{"another fabric", func(i int, c *Config) { c.Fabric = uint32(i + 1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1, fault.Options{Delay: lan}, c.change)
			w.start()
			w.run(10 * time.Second)
			for i, e := range w.ends {
				if len(e.events) != 1 || e.events[0].Kind != EventMiswired {
					w.fail("end %d: events %+v, want one report of the cable", i, e.events)
				}
				if ev := e.events[0]; ev.Found != w.ends[1-i].cfg.Local || ev.FoundExpects != w.ends[1-i].cfg.Peer || ev.FoundFabric != w.ends[1-i].cfg.Fabric {
					w.fail("end %d: %+v", i, ev)
				}
				if s := e.link.Status(); s.State != StateTraining || !s.Miswired || s.Found != w.ends[1-i].cfg.Local {
					w.fail("end %d: %+v", i, s)
				}
			}
		})
	}
}

// frameTo returns a frame for l as the peer of l would send it.
func frameTo(l *Link, f wire.Frame) []byte {
	f.Channel, f.Session = l.cfg.Local.Channel, l.sess.id
	f.RxSeq = l.tx.base
	return f.Append(nil)
}

// TestBadFramesOfTheSession checks that bad frames are dropped and counted.
func TestBadFramesOfTheSession(t *testing.T) {
	for _, c := range []struct {
		name  string
		frame func(l *Link) []byte
		count func(c *Counters) uint64
	}{
		{"wrong slot", func(l *Link) []byte {
			return frameTo(l, wire.Frame{Kind: wire.KindData, TxSeq: l.rx.expected, Dest: wire.SlotAddress(0, 1, 0), Payload: []byte{1}})
		}, func(c *Counters) uint64 { return c.BadPieces }},
		{"wrong offset", func(l *Link) []byte {
			return frameTo(l, wire.Frame{Kind: wire.KindData, TxSeq: l.rx.expected, Dest: wire.SlotAddress(0, 0, 32), Payload: []byte{1}})
		}, func(c *Counters) uint64 { return c.BadPieces }},
		{"empty piece", func(l *Link) []byte {
			return frameTo(l, wire.Frame{Kind: wire.KindData, TxSeq: l.rx.expected})
		}, func(c *Counters) uint64 { return c.BadPieces }},
		{"data that NACKs", func(l *Link) []byte {
			return frameTo(l, wire.Frame{Kind: wire.KindData, TxSeq: l.rx.expected, Flags: wire.FlagNACK, Payload: []byte{1}})
		}, func(c *Counters) uint64 { return c.BadPieces }},
		{"far ahead", func(l *Link) []byte {
			return frameTo(l, wire.Frame{Kind: wire.KindData, TxSeq: l.rx.expected.Add(1 << 20), Payload: []byte{1}})
		}, func(c *Counters) uint64 { return c.Gaps }},
		{"other channel", func(l *Link) []byte {
			f := wire.Frame{Channel: l.cfg.Local.Channel ^ 1, Session: l.sess.id, Kind: wire.KindData, TxSeq: l.rx.expected, Payload: []byte{1}}
			return f.Append(nil)
		}, func(c *Counters) uint64 { return c.WrongChannel }},
		{"ack of the unsent", func(l *Link) []byte {
			f := wire.Frame{Channel: l.cfg.Local.Channel, Session: l.sess.id, Kind: wire.KindUpdate, RxSeq: l.tx.next.Add(1), Payload: make([]byte, wire.UpdateLen)}
			return f.Append(nil)
		}, func(c *Counters) uint64 { return c.BadAcks }},
		{"too much credit", func(l *Link) []byte {
			u := wire.Update{Grants: [wire.NumVCs]uint32{17}}
			return frameTo(l, wire.Frame{Kind: wire.KindUpdate, Payload: u.Append(nil)})
		}, func(c *Counters) uint64 { return c.CreditViolations }},
		{"short update", func(l *Link) []byte {
			return frameTo(l, wire.Frame{Kind: wire.KindUpdate, Payload: []byte{1}})
		}, func(c *Counters) uint64 { return c.MalformedUpdates }},
		{"raw", func(l *Link) []byte {
			return wire.AppendRaw(nil, l.cfg.Local.Channel, bytes.Repeat([]byte{1}, 40))
		}, func(c *Counters) uint64 { return c.Faults[wire.FaultVersion] }},
		{"no hello", func(l *Link) []byte {
			return frameTo(l, wire.Frame{Kind: wire.KindHello, Payload: []byte{1}})
		}, func(c *Counters) uint64 { return c.MalformedHellos }},
		{"noise", func(*Link) []byte { return []byte("not a frame of any kind, but long enough") }, func(c *Counters) uint64 { return c.Faults[wire.FaultMagic] }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := upWorld(t, 1, nil)
			l := w.ends[0].link
			b := c.frame(l)
			before := stateOf(l)
			before.session.life = 0
			if d, ok := l.HandleDatagram(w.now, b); ok {
				t.Fatalf("delivered %+v", d)
			}
			after := stateOf(l)
			after.session.life = 0
			if after != before {
				t.Errorf("changed:\n%+v\n%+v", before, after)
			}
			if got := l.Counters(); c.count(&got) != 1 {
				t.Errorf("the frame is not counted: %+v", got)
			}
		})
	}
}

// TestCreditViolation checks that a packet beyond the slots is dropped and counted.
func TestCreditViolation(t *testing.T) {
	w := upWorld(t, 1, nil)
	l := w.ends[0].link
	for n := range 6 {
		b := frameTo(l, wire.Frame{Kind: wire.KindData, VC: wire.VCReply, TxSeq: l.rx.expected, Flags: wire.FlagEnd,
			Dest: wire.SlotAddress(0, uint32(n%5), 0), Payload: []byte{1}})
		if _, ok := l.HandleDatagram(w.now, b); ok != (n < 5) {
			t.Fatalf("packet %d into 5 slots: delivered %v", n, ok)
		}
	}
	if c := l.Counters(); c.CreditViolations != 1 || c.PacketsReceived != 5 {
		t.Errorf("counters %+v", c)
	}
	defer func() {
		if recover() == nil {
			t.Error("Free does not panic if no slot holds a packet")
		}
	}()
	for range 6 {
		l.Free(wire.VCReply)
	}
}

// TestStalledLoop stalls the loops of both ends for ten seconds. The ends must stay up, because the
// stall is not silence of the peer.
func TestStalledLoop(t *testing.T) {
	w := upWorld(t, 1, nil)
	w.now = w.now.Add(10 * time.Second)
	w.run(5 * time.Second)
	if !w.bothUp() || countEvents(w.ends[0], EventDown)+countEvents(w.ends[1], EventDown) > 0 {
		w.fail("down after a stall of the loop")
	}
}

// TestIncompatible checks that a link reports a peer without slots once.
func TestIncompatible(t *testing.T) {
	w := newWorld(t, 1, fault.Options{}, nil)
	l := w.ends[0].link
	l.SetPath(w.now, true)
	h := wire.Hello{WantAnswer: true, From: portB, Expected: portA, MaxPayload: 96, Incarnation: 77, Fabric: 7}
	for range 3 {
		l.HandleDatagram(w.now, helloFrame(h, 0, 8))
	}
	ev, ok := l.PollEvent()
	if _, more := l.PollEvent(); !ok || more || ev.Kind != EventIncompatible || ev.Mismatch != MismatchSlots {
		t.Errorf("event %+v, more %v", ev, more)
	}
}

// FuzzHandleDatagram passes random frames with valid checksums to a link that is up. The link must
// not panic, must keep its invariants, and may deliver only pieces that continue a packet.
func FuzzHandleDatagram(f *testing.F) {
	w := upWorld(f, 1, nil)
	l := w.ends[0].link
	// In the fuzz input, one byte with the length precedes each frame.
	run := func(frames ...[]byte) {
		var b []byte
		for _, x := range frames {
			b = append(append(b, byte(len(x))), x...)
		}
		f.Add(b)
	}
	data := frameTo(l, wire.Frame{Kind: wire.KindData, TxSeq: l.rx.expected, Payload: []byte("abc"), Padded: 32})
	last := frameTo(l, wire.Frame{Kind: wire.KindData, TxSeq: l.rx.expected.Add(1), Dest: wire.SlotAddress(0, 0, 3), Flags: wire.FlagEnd, Payload: []byte("def"), Padded: 32})
	update := frameTo(l, wire.Frame{Kind: wire.KindUpdate, Payload: make([]byte, wire.UpdateLen), Flags: wire.FlagNACK | wire.FlagSolicit})
	hello := helloFrame(wire.Hello{Up: true, WantAnswer: true, From: portB, Expected: portA, MaxPayload: 1408, Incarnation: l.sess.peer,
		EchoIncarnation: l.cfg.Incarnation, Training: 1, EchoTraining: 1, Slots: l.sess.slots, Fabric: 7}, l.sess.id, 8)
	run(data, last)
	run(last, data, last)
	run(update, hello)
	run(frameTo(l, wire.Frame{Kind: wire.KindClose}), hello, data)
	f.Fuzz(func(t *testing.T, b []byte) {
		w := upWorld(t, 1, nil)
		l := w.ends[0].link
		for range 3 {
			l.Send(w.now, wire.VCData, make([]byte, 2000))
		}
		now, expected := w.now, l.rx.expected
		for len(b) > 0 {
			n := min(len(b)-1, int(b[0]))
			frame := bytes.Clone(b[1 : 1+n])
			b = b[1+n:]
			if n >= wire.FrameOverhead {
				copy(frame, []byte{'T', 'T', wire.Version<<4 | 8})
				end := n - wire.TrailerLen
				binary.LittleEndian.PutUint32(frame[end:], wire.Checksum(frame[:end]))
			}
			want := l.rx.offset
			d, ok := l.HandleDatagram(now, frame)
			if ok && (d.Offset != want || len(d.Data) == 0 || l.rx.expected != expected.Add(1)) {
				t.Fatalf("a piece is delivered that does not continue a packet: %+v", d)
			}
			expected = l.rx.expected
			for _, ok := l.PollTransmit(now); ok; _, ok = l.PollTransmit(now) {
			}
			for _, ok := l.PollEvent(); ok; _, ok = l.PollEvent() {
			}
			now = now.Add(time.Millisecond)
			l.Tick(now)
			if err := l.CheckInvariants(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestConfigErrors checks that New refuses values that are out of range.
func TestConfigErrors(t *testing.T) {
	for name, change := range map[string]func(c *Config){
		"itself":      func(c *Config) { c.Peer = c.Local },
		"port":        func(c *Config) { c.Peer.Channel = 16 },
		"incarnation": func(c *Config) { c.Incarnation = 0 },
		"payload":     func(c *Config) { c.MaxPayload = 1400 },
		"no slots":    func(c *Config) { c.Slots = [wire.NumVCs]int{} },
		"slots":       func(c *Config) { c.Slots[0] = MaxSlots + 1 },
		"window":      func(c *Config) { c.Window = 1000 },
		"profile":     func(c *Config) { c.Profile = Profile{Name: "x"} },
	} {
		cfg := testConfig(0, newWorld(t, 1, fault.Options{}, nil).rng)
		change(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: accepted %+v", name, cfg)
		}
	}
}
