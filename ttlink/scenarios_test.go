package ttlink

import (
	"testing"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// The scenarios that QUIC's interoperability runner asks of an implementation,
// and ours beside them, and where each is a test. In real time and over each
// transport they are in package ttlink/transport/linktest.
//
//	handshake loss and corruption 30 %   TestHandshakes; TestTransfer "loss 30%", "corruption 30%"
//	transfer loss and corruption 2 %     TestTransferLossInBursts; TestTransfer "loss 2%", "corruption 2%", "bursts"
//	long round trip, 750 ms              TestTransfer "750 ms"
//	blackhole, 5 s on and 2 s off        TestBlackhole
//	duplication 10 %, reordering 25 %    TestTransfer "duplication 10%", "reorder 25%"
//	one-way cut                          TestOneWayCut
//	asymmetric delay                     TestAsymmetricDelay
//	restart mid-window                   TestRestarts, TestQuickRestart
//	stale-session replay                 TestReplayOfOldSession, TestLateProofOfAFormerIncarnation; of the running one: TestReplayOfRunningSession
//	amplification limit                  TestAnswersAreNoLonger, TestForgedHellos
//	address rebinding                    TestRebinding
//	MTU shrink                           TestPathShrinks, TestPathShrinksInSilence
//	slow receiver                        TestSlowReceiver
//	clock jump, a loop that stood still  TestStalledLoop, TestLateAnswer

// lossy loses a share of what both ends send, at most three datagrams in a row,
// as the runner's dropper does.
func (w *world) lossy(share float64) {
	var row [2]int
	w.onSend = func(from int, _ []byte) bool {
		if row[from] == 3 || w.rng.Float64() >= share {
			row[from] = 0
			return false
		}
		row[from]++
		return true
	}
}

// TestHandshakes brings links up over a path of 15 ms that loses 30 %, in
// bursts of at most three or of any length, or damages 30 %.
func TestHandshakes(t *testing.T) {
	for seed := range uint64(150) {
		o := fault.Options{Delay: 15 * time.Millisecond}
		switch seed % 3 {
		case 1:
			o.Burst = fault.Burst{ToBad: .2, ToGood: .5, LossBad: 1}
		case 2:
			o.Corrupt = .3
		}
		w := newWorld(t, seed, o, nil)
		if seed%3 == 0 {
			w.lossy(.3)
		}
		w.start()
		if !w.until(10*time.Second, w.bothUp) {
			w.fail("not up")
		}
		w.onSend = nil
		w.heal()
		w.mustQuiet(time.Minute)
	}
}

// TestTransferLossInBursts moves packets over a path that loses 2 %, at most three in a row.
func TestTransferLossInBursts(t *testing.T) {
	for seed := range uint64(30) {
		w := newWorld(t, seed, fault.Options{Delay: 15 * time.Millisecond}, nil)
		w.lossy(.02)
		w.load(60)
		w.start()
		w.mustQuiet(10 * time.Minute)
		for i, e := range w.ends {
			if n := countEvents(e, EventSessionStarted); n != 1 {
				w.fail("end %d: %d sessions", i, n)
			}
		}
	}
}

// TestAsymmetricDelay has a path that takes thousands of times longer one way than the other.
func TestAsymmetricDelay(t *testing.T) {
	for seed := range uint64(40) {
		w := newWorld(t, seed, fault.Options{Delay: lan, Loss: .01}, nil)
		if err := w.cable[seed%2].Set(fault.Options{Delay: 300 * time.Millisecond, Jitter: 20 * time.Millisecond}); err != nil {
			t.Fatal(err)
		}
		w.load(40)
		w.start()
		w.mustQuiet(10 * time.Minute)
		for i, e := range w.ends {
			if n := countEvents(e, EventSessionStarted); n != 1 {
				w.fail("end %d: %d sessions", i, n)
			}
		}
	}
}

// TestRebinding moves one end or both to another address again and again, as
// when a container's network changes: what was under way on the old path comes
// late, among what the new one carries.
func TestRebinding(t *testing.T) {
	for seed := range uint64(40) {
		w := newWorld(t, seed, fault.Options{Delay: lan}, nil)
		w.load(400)
		w.start()
		w.until(time.Second, w.bothUp)
		for k := range 6 {
			old := time.Duration(w.rng.Int64N(int64(30 * time.Millisecond)))
			for i := range w.cable {
				w.cable[i].Set(fault.Options{Delay: lan + old, Loss: .01})
			}
			w.run(time.Duration(w.rng.Int64N(int64(20 * time.Millisecond))))
			for i := range w.cable {
				w.cable[i].Set(fault.Options{Delay: lan})
			}
			for i, e := range w.ends {
				if k%3 == i {
					continue // one end at a time, or both
				}
				e.link.SetPath(w.now, false)
				w.service(i)
				e.link.SetPath(w.now, true)
				w.service(i)
			}
			w.run(time.Duration(w.rng.Int64N(int64(40 * time.Millisecond))))
		}
		w.mustQuiet(time.Minute)
		for i, e := range w.ends {
			if n := countEvents(e, EventSessionEnded); n != 0 {
				w.fail("end %d: %d sessions ended by a change of address", i, n)
			}
		}
	}
}

// TestLateAnswer trains with a peer that stands still for 700 ms, so that the
// first round trip is far too long. A dead peer must be noticed in time all the same.
func TestLateAnswer(t *testing.T) {
	w := newWorld(t, 1, fault.Options{Delay: 350 * time.Millisecond}, nil)
	w.start()
	w.until(5*time.Second, w.bothUp)
	for i := range w.cable {
		w.cable[i].Set(fault.Options{Delay: lan})
	}
	w.run(3 * time.Second)
	for i, e := range w.ends {
		if e.link.rtt.doubtful(&e.link.cfg.Profile) {
			w.fail("end %d still believes in a round trip of %v", i, e.link.rtt.smoothed)
		}
	}
	w.load(1000)
	w.run(time.Millisecond)
	cut := w.now
	w.cable[0].Cut(true)
	w.cable[1].Cut(true)
	w.until(time.Minute, func() bool { return countEvents(w.ends[0], EventDown) > 0 })
	if d := w.now.Sub(cut); d > ProfileLAN.DeadTraffic+2*ProfileLAN.RTOMin {
		w.fail("down after %v", d)
	}
}

// TestPromiseOfMore gets one frame that is far ahead of what the peer ever
// sent. The NACKs for the gap that cannot close must become rare.
func TestPromiseOfMore(t *testing.T) {
	w := upWorld(t, 1, nil)
	a, b := w.ends[0].link, w.ends[1].link
	f := wire.Frame{Channel: portB.Channel, Session: b.sess.id, Kind: wire.KindData, VC: wire.VCData, Flags: wire.FlagEnd,
		TxSeq: b.rx.expected.Add(9), RxSeq: a.rx.expected, Payload: []byte("ahead")}
	f.Padded = wire.PadTo(len(f.Payload))
	x := make([]byte, f.WireLen())
	copy(x[wire.EnvelopeLen+wire.HeaderLen:], f.Payload)
	f.Payload = x[wire.EnvelopeLen+wire.HeaderLen:][:len(f.Payload)]
	f.Seal(x)
	w.receive(1, x)
	w.service(1)
	w.run(10 * time.Second)
	if n := b.Counters().NACKsSent; n < 5 || n > 10*64 {
		w.fail("%d NACKs in ten seconds for a gap that cannot close", n)
	}
	before := b.Counters().NACKsSent
	w.run(10 * time.Second)
	if n := b.Counters().NACKsSent - before; n > 200 {
		w.fail("still %d NACKs in ten seconds", n)
	}
	w.load(30)
	w.mustQuiet(10 * time.Second)
}

// TestPathBecomesSlow has the round trip grow beyond the timeout while data
// flows: the link learns of it, and does not send each frame twice from then on.
func TestPathBecomesSlow(t *testing.T) {
	w := newWorld(t, 3, fault.Options{Delay: time.Millisecond}, nil)
	w.start()
	if !w.until(time.Second, w.bothUp) {
		w.fail("not up")
	}
	w.load(50)
	w.mustQuiet(10 * time.Second)
	for i := range w.cable {
		if err := w.cable[i].Set(fault.Options{Delay: 20 * time.Millisecond}); err != nil {
			t.Fatal(err)
		}
	}
	again := func() (n uint64) {
		for _, e := range w.ends {
			n += e.link.Counters().Retransmitted
		}
		return n
	}
	w.load(100)
	w.mustQuiet(60 * time.Second)
	learned := again()
	w.load(300)
	w.mustQuiet(60 * time.Second)
	for i, e := range w.ends {
		if rtt := e.link.Status().RTT; rtt < 35*time.Millisecond {
			t.Errorf("end %d takes a round trip of 40 ms for one of %v", i, rtt)
		}
	}
	if n := again() - learned; n > 0 {
		t.Errorf("%d frames were sent again over a path that loses none", n)
	}
}
