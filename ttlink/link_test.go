package ttlink

import (
	"testing"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

const lan = 50 * time.Microsecond // delay in one direction

// TestTransfer sends packets in both directions over a cable with faults of every kind. All packets
// must be delivered, and all credits must return to the senders.
func TestTransfer(t *testing.T) {
	for _, c := range []struct {
		name    string
		seeds   int
		packets int
		o       fault.Options
	}{
		{"clean", 20, 100, fault.Options{Delay: lan}},
		{"no delay at all", 10, 50, fault.Options{}},
		{"loss 2%", 30, 60, fault.Options{Delay: lan, Loss: .02}},
		{"loss 30%", 40, 15, fault.Options{Delay: lan, Loss: .3}},
		{"corruption 2%", 30, 60, fault.Options{Delay: lan, Corrupt: .02}},
		{"corruption 30%", 40, 15, fault.Options{Delay: lan, Corrupt: .3}},
		{"duplication 10%", 20, 60, fault.Options{Delay: lan, Duplicate: .1}},
		{"reorder 25%", 20, 40, fault.Options{Delay: lan, Reorder: .25}},
		{"jitter", 20, 40, fault.Options{Delay: time.Millisecond, Jitter: time.Millisecond}},
		{"bursts", 20, 40, fault.Options{Delay: lan, Burst: fault.Burst{ToBad: .01, ToGood: .1, LossBad: .9}}},
		{"slow", 5, 20, fault.Options{Delay: lan, Rate: 20_000_000, Queue: 20_000}},
		{"750 ms", 20, 20, fault.Options{Delay: 750 * time.Millisecond}},
		{"everything", 60, 25, fault.Options{Delay: 200 * time.Microsecond, Jitter: 150 * time.Microsecond, Loss: .05, Duplicate: .1, Reorder: .1, Corrupt: .05}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(c.seeds) {
				w := newWorld(t, seed, c.o, nil)
				w.load(c.packets)
				w.start()
				w.mustQuiet(10 * time.Minute)
				for i, e := range w.ends {
					if n := countEvents(e, EventSessionStarted); n != 1 {
						w.fail("end %d: %d sessions started", i, n)
					}
					if c.o.Loss == 0 && c.o.Corrupt == 0 && c.o.Burst == (fault.Burst{}) && c.o.Rate == 0 && countEvents(e, EventDown) > 0 {
						w.fail("end %d went down on a path that loses nothing: %v", i, e.events)
					}
				}
			}
		})
	}
}

// TestColdStarts starts two ends at random times. The link must come up and stay up.
func TestColdStarts(t *testing.T) {
	for seed := range uint64(500) {
		w := newWorld(t, seed, fault.Options{Delay: 100 * time.Microsecond, Jitter: 100 * time.Microsecond}, nil)
		for i := range w.ends {
			w.at(time.Duration(w.rng.Int64N(int64(300*time.Millisecond))), func() {
				w.ends[i].link.SetPath(w.now, true)
				w.service(i)
			})
		}
		if !w.until(2*time.Second, w.bothUp) {
			w.fail("not up")
		}
		w.run(5 * time.Second)
		for i, e := range w.ends {
			if n := countEvents(e, EventDown); n != 0 || !w.bothUp() {
				w.fail("end %d: went down %d times while idle", i, n)
			}
		}
	}
}

// TestRestarts restarts ends during traffic. All packets of the last session must be delivered.
func TestRestarts(t *testing.T) {
	for seed := range uint64(60) {
		w := newWorld(t, seed, fault.Options{Delay: lan, Loss: .01, Duplicate: .05, Reorder: .05}, nil)
		w.load(1 << 30)
		w.start()
		restarts := 1 + w.rng.IntN(4)
		for range restarts {
			w.run(time.Duration(w.rng.Int64N(int64(40 * time.Millisecond))))
			i := w.rng.IntN(2)
			w.ends[i].gone = true
			if w.rng.IntN(2) == 0 {
				w.run(time.Duration(w.rng.Int64N(int64(300 * time.Millisecond))))
			}
			w.restart(i)
		}
		w.run(20 * time.Millisecond)
		w.heal()
		for _, e := range w.ends {
			e.toSend = [wire.NumVCs]int{3, 3, 3}
		}
		w.mustQuiet(30 * time.Second)
	}
}

// TestRestartReportsOnce restarts an end while packets are under way to this end. The other end
// must report the packets of unknown fate once, after the restart.
func TestRestartReportsOnce(t *testing.T) {
	w := newWorld(t, 1, fault.Options{Delay: time.Millisecond}, nil)
	w.start()
	w.until(time.Second, w.bothUp)
	w.run(20 * time.Millisecond)
	old := w.ends[0].link.sess.id
	w.ends[1].hold = true
	w.ends[0].toSend[wire.VCData] = 4
	w.service(0)
	w.ends[1].gone = true
	w.run(3 * time.Second)
	if n := countEvents(w.ends[0], EventSessionEnded); n != 0 {
		t.Fatal("session ended before another incarnation proved itself")
	}
	w.restart(1)
	w.ends[1].hold = false
	w.mustQuiet(5 * time.Second)
	w.run(10 * time.Second)
	var got []Event
	for _, e := range w.ends[0].events {
		if e.Kind == EventSessionEnded {
			got = append(got, e)
		}
	}
	if len(got) != 1 || got[0].Session != old || got[0].Unknown != [wire.NumVCs]int{4, 0, 0} {
		t.Fatalf("reports of unknown fate: %+v; want one of session %#x with 4 packets", got, old)
	}
}

// TestBlackhole cuts both directions of the cable for five seconds and repairs the cable for two
// seconds, several times. The session must continue.
func TestBlackhole(t *testing.T) {
	for seed := range uint64(30) {
		w := newWorld(t, seed, fault.Options{Delay: lan}, nil)
		w.start()
		for range 4 {
			w.load(20)
			w.run(time.Duration(w.rng.Int64N(int64(3 * time.Millisecond))))
			w.cable[0].Cut(true)
			w.cable[1].Cut(true)
			w.run(5 * time.Second)
			for i, e := range w.ends {
				if e.link.state == StateUp {
					w.fail("end %d is up after 5 s of silence", i)
				}
			}
			w.heal()
			w.run(2 * time.Second)
		}
		w.mustQuiet(10 * time.Second)
		for i, e := range w.ends {
			if countEvents(e, EventSessionEnded) != 0 || len(e.ended) != 0 {
				w.fail("end %d: the session ended", i)
			}
			if s := e.link.Status(); s.Retrains != countEvents(e, EventUp)-1 || s.Downtime < 5*time.Second {
				w.fail("end %d: %d retrains, %v down", i, s.Retrains, s.Downtime)
			}
		}
	}
}

// TestOneWayCut cuts one direction of the cable. Both ends must go down, and come up again after
// the repair.
func TestOneWayCut(t *testing.T) {
	for seed := range uint64(40) {
		w := newWorld(t, seed, fault.Options{Delay: lan}, nil)
		w.start()
		w.until(time.Second, w.bothUp)
		if seed%2 == 0 {
			w.load(200)
			w.run(time.Duration(w.rng.Int64N(int64(5 * time.Millisecond))))
		}
		w.cable[seed/2%2].Cut(true)
		w.run(8 * time.Second)
		for i, e := range w.ends {
			if e.link.state == StateUp {
				w.fail("end %d stays up", i)
			}
			if n := countEvents(e, EventDown); n > 2 {
				w.fail("end %d went down %d times for one cut", i, n)
			}
		}
		w.heal()
		w.load(5)
		w.mustQuiet(10 * time.Second)
	}
}

// TestDeadTimes checks how long after a cut a link goes down, with traffic and without. An idle link
// must ask its silent peer asksInSilence times before the link goes down.
func TestDeadTimes(t *testing.T) {
	for _, p := range []Profile{ProfileLAN, ProfileCrowded, ProfilePaced} {
		for _, busy := range []bool{true, false} {
			w := newWorld(t, 3, fault.Options{Delay: lan}, func(_ int, c *Config) { c.Profile = p })
			w.start()
			w.until(time.Second, w.bothUp)
			w.run(time.Second)
			if busy {
				w.load(100000)
				w.run(20 * time.Millisecond)
			}
			w.cable[0].Cut(true)
			w.cable[1].Cut(true)
			cut := w.now
			if !w.until(time.Minute, func() bool { return countEvents(w.ends[0], EventDown) > 0 }) {
				w.fail("never down")
			}
			want, slack := p.DeadTraffic, p.RTOMin+2*time.Millisecond
			if !busy {
				want, slack = p.DeadIdle, 0
			}
			if got := w.now.Sub(cut); got > want+slack || (busy && got < want-5*time.Millisecond) {
				w.fail("%s, busy %v: down after %v, want %v", p.Name, busy, got, want)
			}
		}
	}
}

// TestSlowReceiver has a receiver that frees no slots for five seconds. No packet may be delivered
// beyond the slots, and all packets must arrive later.
func TestSlowReceiver(t *testing.T) {
	for seed := range uint64(40) {
		w := newWorld(t, seed, fault.Options{Delay: lan, Loss: .05}, nil)
		w.ends[1].hold = true
		w.ends[0].toSend = [wire.NumVCs]int{60, 30, 20}
		w.start()
		w.run(5 * time.Second)
		log := w.log(0, w.ends[0].link.sess.id)
		for v, n := range log.outVC {
			if n != w.ends[1].cfg.Slots[v] {
				w.fail("VC %d: %d packets delivered into %d slots", v, n, w.ends[1].cfg.Slots[v])
			}
		}
		w.releaseHeld(1)
		w.mustQuiet(20 * time.Second)
	}
}

// TestCarriedSlots restarts the sender while packets occupy the receiver's slots. The new session
// must get no credit for the slots that packets of the old session occupy (C4).
func TestCarriedSlots(t *testing.T) {
	w := newWorld(t, 1, fault.Options{Delay: lan}, nil)
	w.ends[1].hold = true
	w.ends[0].toSend = [wire.NumVCs]int{10, 5, 0}
	w.start()
	w.run(time.Second)
	w.restart(0)
	w.until(5*time.Second, w.bothUp)
	w.run(time.Second)
	if got := w.ends[0].link.Status().Credits; got != [wire.NumVCs]int{6, 0, 3} {
		w.fail("credits %v in the new session, want 6, 0, 3", got)
	}
	w.ends[0].toSend = [wire.NumVCs]int{30, 30, 30}
	w.service(0)
	w.run(time.Second)
	w.releaseHeld(1)
	w.mustQuiet(5 * time.Second)
}

// TestSequenceWrap checks that packets arrive when the sequence numbers of both directions wrap.
func TestSequenceWrap(t *testing.T) {
	for seed := range uint64(60) {
		w := newWorld(t, seed, fault.Options{Delay: lan, Loss: .05, Reorder: .1, Duplicate: .1}, func(_ int, c *Config) {
			c.Incarnation = c.Incarnation&^0xFFFFFFFF | 0xFFFFFFF0
		})
		w.load(30)
		w.start()
		w.mustQuiet(time.Minute)
		if w.ends[0].link.tx.base > 1<<30 {
			w.fail("no wrap: base %d", w.ends[0].link.tx.base)
		}
	}
}

// TestClose checks that the peer of a closed end trains at once.
func TestClose(t *testing.T) {
	w := newWorld(t, 1, fault.Options{Delay: lan}, nil)
	w.start()
	w.until(time.Second, w.bothUp)
	w.ends[0].link.Close(w.now)
	w.service(0)
	w.run(time.Millisecond)
	if s := w.ends[1].link.Status(); s.State != StateTraining || s.LastDown != DownPeerClosed {
		w.fail("peer after close: %+v", s)
	}
	w.run(10 * time.Second)
	if s := w.ends[0].link.Status(); s.State != StateClosed {
		w.fail("closed end: %+v", s)
	}
	if _, ok := w.ends[0].link.Deadline(); ok {
		t.Error("a closed link still has a deadline")
	}
}

// lacksLonger reports whether end i has a frame with a padded payload of more than size bytes that
// the other end has not received.
func (w *world) lacksLonger(i, size int) bool {
	tx := &w.ends[i].link.tx
	for q := w.ends[1-i].link.rx.expected; q != tx.next; q = q.Add(1) {
		if int(tx.slab.at(q).padded) > size {
			return true
		}
	}
	return false
}

// TestPathOff checks that an end whose path is off sends no frames, and later continues the
// session. The path then takes frames of 512 bytes. So the session ends if the other end lacks a longer
// frame.
func TestPathOff(t *testing.T) {
	continued := 0
	for seed := range uint64(20) {
		w := newWorld(t, seed, fault.Options{Delay: lan}, nil)
		w.load(50)
		w.start()
		w.run(2 * time.Millisecond)
		w.ends[0].link.SetPath(w.now, false)
		w.service(0)
		sent := w.ends[0].link.Counters().FramesSent
		w.run(5 * time.Second)
		if got := w.ends[0].link.Counters().FramesSent; got != sent {
			w.fail("%d frames sent with the path off", got-sent)
		}
		long := w.lacksLonger(0, 512) || w.lacksLonger(1, 512)
		if err := w.ends[0].link.SetMaxPayload(w.now, 512); err != nil {
			t.Fatal(err)
		}
		w.ends[0].link.SetPath(w.now, true)
		w.service(0)
		w.load(5)
		w.mustQuiet(10 * time.Second)
		ended := len(w.ends[0].ended) + len(w.ends[1].ended)
		for i, e := range w.ends {
			if s := e.link.Status(); s.MaxPayload != 512 || long != (ended > 0) || !long && s.Retrains != 1 {
				w.fail("end %d, a long frame was under way: %v: %+v", i, long, s)
			}
		}
		if !long {
			continued++
		}
	}
	if continued == 0 {
		t.Error("no session continued")
	}
}

// TestRetransmissionIsBounded checks on bad paths that a sender sends few frames for each frame
// that the receiver accepts.
func TestRetransmissionIsBounded(t *testing.T) {
	for _, c := range []struct {
		name string
		o    fault.Options
		most float64 // largest number of sent data frames for each accepted frame
	}{
		{"loss of 1 %", fault.Options{Delay: time.Millisecond, Loss: 0.01}, 6},
		{"loss of 5 %", fault.Options{Delay: time.Millisecond, Loss: 0.05}, 7},
		{"jitter of 10 µs between frames that are sent at once", fault.Options{Delay: 2 * time.Millisecond, Jitter: 10 * time.Microsecond}, 16},
		{"reordering of 25 %", fault.Options{Delay: time.Millisecond, Reorder: 0.25, ReorderSpan: time.Millisecond}, 9},
	} {
		w := newWorld(t, 5, c.o, func(_ int, cfg *Config) {
			cfg.MaxPayload, cfg.Window = MinPayload, DefaultWindow
			cfg.Slots = [wire.NumVCs]int{256, 256, 16}
		})
		w.sparse = true
		w.start()
		w.until(5*time.Second, w.bothUp)
		w.load(300)
		w.mustQuiet(5 * time.Minute)
		for i, e := range w.ends {
			sent, taken := e.link.counters.DataSent, w.ends[1-i].link.counters.DataReceived
			if r := float64(sent) / float64(taken); r > c.most {
				t.Errorf("%s: end %d sent %d data frames for %d accepted frames: ratio %.1f, want at most %.1f", c.name, i, sent, taken, r, c.most)
			} else {
				t.Logf("%s: %.2f sent frames for each accepted frame, in %v", c.name, r, w.now)
			}
		}
	}
}

// TestPathShrinks makes the path drop long frames during traffic, and tells the links the new
// limit. The link must come up again with shorter frames, and deliver all later packets.
func TestPathShrinks(t *testing.T) {
	for seed := range uint64(40) {
		w := newWorld(t, seed, fault.Options{Delay: lan, Loss: 0.01 * float64(seed%3)}, nil)
		mtu := 1500
		w.onSend = func(_ int, b []byte) bool { return len(b) > mtu }
		w.load(40)
		w.start()
		w.run(time.Duration(1+seed%7) * 3 * time.Millisecond)
		mtu = 600
		w.run(20 * time.Millisecond) // time until the owners learn the new limit
		for _, e := range w.ends {
			if err := e.link.SetMaxPayload(w.now, 512); err != nil {
				t.Fatal(err)
			}
		}
		w.service(0)
		w.service(1)
		w.mustQuiet(time.Minute)
		for i, e := range w.ends {
			if n := countEvents(e, EventSessionEnded); n > 1 {
				w.fail("end %d: %d sessions ended", i, n)
			}
			if s := e.link.Status(); s.MaxPayload > 512 {
				w.fail("end %d: frames of %d bytes on a path of %d", i, s.MaxPayload, mtu)
			}
		}
		w.load(10)
		w.mustQuiet(time.Minute)
	}
}
