package ttlink

import (
	"bytes"
	"testing"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// settled is the part of a link's state that must not change while the link is idle.
type settled struct {
	state     State
	id        wire.SessionID
	peer      wire.Incarnation
	training  [2]uint32
	expected  wire.Seq
	recv      [wire.NumVCs]uint32
	base      wire.Seq
	credits   [wire.NumVCs]int
	rtt, long time.Duration
	delivered uint64
}

func settledOf(l *Link) settled {
	return settled{l.state, l.sess.id, l.sess.peer, [2]uint32{l.train.number, l.sess.training}, l.rx.expected, l.rx.recv, l.tx.base,
		l.Status().Credits, l.rtt.smoothed, l.rtt.timeout(&l.cfg.Profile, 0), l.Counters().PacketsReceived}
}

// TestReplayOfRunningSession replays all datagrams of the running session, hellos included, to both
// ends after some time. The ends must deliver no packets, and must not change their state or their
// estimate of the round trip.
func TestReplayOfRunningSession(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, seed, fault.Options{Delay: lan}, nil)
		w.keep = true
		w.load(20)
		w.start()
		w.mustQuiet(5 * time.Second)
		w.keep = false
		w.run(5 * time.Second)
		before := [2]settled{settledOf(w.ends[0].link), settledOf(w.ends[1].link)}
		events := [2]int{len(w.ends[0].events), len(w.ends[1].events)}
		for range 3 {
			for from, all := range w.record {
				for _, b := range all {
					w.receive(1-from, bytes.Clone(b))
					w.service(1 - from)
					w.check()
				}
			}
			w.run(100 * time.Millisecond)
		}
		for i, e := range w.ends {
			if got := settledOf(e.link); got != before[i] {
				w.fail("end %d changed by a replay:\n%+v\n%+v", i, before[i], got)
			}
			if c := e.link.Counters(); c.Duplicates == 0 || len(e.events) != events[i] {
				w.fail("end %d: the replay was not counted, or caused events: %+v", i, e.events[events[i]:])
			}
		}
		w.load(3)
		w.mustQuiet(time.Second)
	}
}

// TestForgedReports sends forged hellos with changing ports and sizes. A link that is up must count
// the hellos and cause no event. A link that trains may cause one event per second.
func TestForgedReports(t *testing.T) {
	forge := func(w *world, n int) []byte {
		h := wire.Hello{From: portB, Expected: portA, MaxPayload: 1408, Incarnation: wire.Incarnation(n + 5), Slots: [wire.NumVCs]uint16{1}, Fabric: 7}
		switch n % 3 {
		case 0:
			h.From.Node.Chip = wire.ChipID(n % 32)
		case 1:
			h.MaxPayload = 0
		case 2:
			h.Slots = [wire.NumVCs]uint16{}
		}
		return helloFrame(h, 0, portA.Channel)
	}
	w := upWorld(t, 1, nil)
	told := len(w.ends[0].events)
	for n := range 3000 {
		w.receive(0, forge(w, n))
		w.service(0)
	}
	if got := w.ends[0].events[told:]; len(got) > 0 || w.ends[0].link.Counters().MiswiredHellos < 900 {
		w.fail("events of a link that is up, or hellos not counted: %+v", got)
	}

	w = newWorld(t, 1, fault.Options{Delay: lan}, nil)
	w.ends[0].link.SetPath(w.now, true)
	for n := range 3000 {
		w.receive(0, forge(w, n))
		w.service(0)
		w.run(time.Millisecond)
	}
	if n := len(w.ends[0].events); n < 2 || n > 4 {
		w.fail("%d events in three seconds: %+v", n, w.ends[0].events)
	}
	w.start()
	if !w.until(2*time.Second, w.bothUp) {
		w.fail("not up with the true peer")
	}
}

// TestAnswersAreNoLonger checks that the answer to a hello is not longer than the hello. Otherwise
// a forger could use an end to multiply traffic.
func TestAnswersAreNoLonger(t *testing.T) {
	for _, up := range []bool{false, true} {
		for _, pad := range []int{0, 512, 1408, wire.MaxFramePayload / wire.PadUnit * wire.PadUnit} {
			w := upWorld(t, 1, nil)
			if !up {
				w = newWorld(t, 1, fault.Options{Delay: lan}, nil)
				w.ends[0].link.SetPath(w.now, true)
			}
			l := w.ends[0].link
			frames(l, w.now) // drops the link's own hellos
			h := wire.Hello{WantAnswer: true, From: portB, Expected: portA, MaxPayload: wire.MaxFramePayload, Incarnation: 77, Stamp: 9,
				Slots: [wire.NumVCs]uint16{1}, Fabric: 7}
			f := wire.Frame{Kind: wire.KindHello, Channel: portA.Channel, Payload: h.Append(nil), Padded: pad}
			question := f.Append(nil)
			l.HandleDatagram(w.now, question)
			got := frames(l, w.now)
			if len(got) != 1 || got[0].Kind != wire.KindHello {
				t.Fatalf("up %v: the answer is %+v", up, got)
			}
			if n := got[0].WireLen(); n > len(question) {
				t.Errorf("up %v: a hello of %d bytes has an answer of %d bytes", up, len(question), n)
			}
		}
	}
}
