package ttlink

import (
	"testing"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// This list names the tests of each scenario of the QUIC interop runner, and of further scenarios.
// Package ttlink/transport/linktest runs such scenarios in real time over each transport.
//
//	handshake loss and corruption 30 %   TestHandshakes; TestTransfer "loss 30%", "corruption 30%"
//	transfer loss and corruption 2 %     TestTransferLossInBursts; TestTransfer "loss 2%", "corruption 2%", "bursts"
//	long round trip, 750 ms              TestTransfer "750 ms"
//	blackhole, 5 s on and 2 s off        TestBlackhole
//	duplication 10 %, reordering 25 %    TestTransfer "duplication 10%", "reorder 25%"
//	one-way cut                          TestOneWayCut
//	asymmetric delay                     TestAsymmetricDelay
//	restart mid-window                   TestRestarts, TestQuickRestart
//	replay of an ended session           TestReplayOfOldSession, TestLateProofOfAFormerIncarnation
//	amplification limit                  TestAnswersAreNoLonger, TestForgedHellos
//	address rebinding                    TestRebinding
//	MTU shrink                           TestPathShrinks, TestPathShrinksInSilence
//	slow receiver                        TestSlowReceiver
//	clock jump, stalled loop             TestStalledLoop, TestLateAnswer

// lossy loses the given share of the datagrams of both ends at random, but at most three datagrams
// of an end in a row. The QUIC interop runner loses datagrams in this way.
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

// TestHandshakes brings links up over a path with a delay of 15 ms. The path loses 30 % of the
// datagrams, with at most three in a row, or loses datagrams in bursts, or corrupts 30 %.
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

// TestTransferLossInBursts sends packets over a path that loses 2 % of the datagrams, at most three
// in a row.
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

// TestAsymmetricDelay sends packets over a path whose delay is 50 µs in one direction and 300 ms in
// the other.
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

// TestRebinding changes the addresses of one end or both again and again. Frames of the old path
// come late, mixed with frames of the new path. The session must continue.
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
					continue // in each round, one end or both change their address
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

// TestLateAnswer trains over a path with a round trip of 700 ms, which then becomes short. The link
// must correct its estimate of the round trip, and detect a later cut in time.
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
			w.fail("end %d still estimates a round trip of %v", i, e.link.rtt.smoothed)
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

// TestPromiseOfMore gives a link a forged frame with a sequence number that the peer has not
// reached yet. The missing frames do not exist, so the link must send NACKs more and more rarely.
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

// TestPathBecomesSlow makes the round trip longer than the retransmission timeout during traffic.
// The link must correct its estimate of the round trip, and then send each frame only once.
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
			t.Errorf("end %d estimates a round trip of 40 ms as %v", i, rtt)
		}
	}
	if n := again() - learned; n > 0 {
		t.Errorf("%d frames were sent again over a path that loses no frames", n)
	}
}
