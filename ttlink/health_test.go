package ttlink

import (
	"testing"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// TestPhases checks the phase and the result of a training at each step.
func TestPhases(t *testing.T) {
	w := newWorld(t, 1, fault.Options{Delay: time.Millisecond}, nil)
	is := func(i int, p Phase, s TrainStatus) {
		t.Helper()
		if st := w.ends[i].link.Status(); st.Phase != p || st.Train != s {
			t.Errorf("end %d at %v: %s (%x), train status %s; want %s, %s", i, w.now, st.Phase, st.Phase.Postcode(), st.Train, p, s)
		}
	}
	is(0, PhaseInit, TrainNotConnected)
	w.ends[0].link.SetPath(w.now, true)
	w.service(0)
	is(0, PhaseStarted, TrainInProgress)
	w.run(3 * time.Second) // the peer is off
	is(0, PhaseStarted, TrainNotConnected)
	w.ends[1].link.SetPath(w.now, true)
	w.service(1)
	w.run(1500 * time.Microsecond)
	is(0, PhaseRemote, TrainInProgress)
	w.run(time.Millisecond)
	is(1, PhaseLocal, TrainOK)
	w.run(5 * time.Millisecond)
	is(0, PhaseReady, TrainOK)
	is(1, PhaseReady, TrainOK)
	w.ends[0].link.Close(w.now)
	w.service(0)
	w.run(2 * time.Millisecond)
	is(0, PhaseTerminated, TrainNotConnected)
	is(1, PhaseStarted, TrainInProgress)
	if p := PhaseReady.Postcode(); p != 0xA3B3C3D3 {
		t.Errorf("postcode %x", p)
	}
}

// TestTrainFails checks that the result of a training on a wrong cable is TrainFail.
func TestTrainFails(t *testing.T) {
	w := newWorld(t, 1, fault.Options{Delay: time.Millisecond}, func(i int, c *Config) {
		if i == 1 {
			c.Local.Channel = 5
		}
	})
	w.start()
	w.run(50 * time.Millisecond)
	if s := w.ends[0].link.Status(); s.Train != TrainFail || s.Phase != PhaseStarted {
		t.Errorf("%s, train status %s", s.Phase, s.Train)
	}
}

// TestHistory checks the counts and times of trainings in a link's Status.
func TestHistory(t *testing.T) {
	w := newWorld(t, 3, fault.Options{Delay: time.Millisecond}, nil)
	w.start()
	w.run(time.Second)
	for range 3 {
		if !w.ends[0].link.Retrain(w.now) {
			t.Fatal("Retrain returned false")
		}
		w.service(0)
		w.run(time.Second)
	}
	s := w.ends[0].link.Status()
	if s.Retrains != 3 || w.now.Sub(s.LastRetrain) > 1100*time.Millisecond || s.LastDown != DownRetrain || s.Flaps != 0 {
		t.Errorf("%d retrains, the last %v ago, %s, %d failures", s.Retrains, w.now.Sub(s.LastRetrain), s.LastDown, s.Flaps)
	}
	up, down := s.UpFor(w.now), s.DownFor(w.now)
	if down < 3*2*time.Millisecond || down > 100*time.Millisecond || up+down != w.now.Sub(s.FirstUp) {
		t.Errorf("up for %v and down for %v since %v; the time is %v", up, down, s.FirstUp, w.now)
	}
	for _, c := range w.cable {
		c.Cut(true)
	}
	w.run(5 * time.Second)
	if s := w.ends[0].link.Status(); s.State == StateUp || s.UpFor(w.now)+s.DownFor(w.now) != w.now.Sub(s.FirstUp) || s.DownFor(w.now) < 2*time.Second || s.Train != TrainNotConnected {
		t.Errorf("cut: %s, up for %v and down for %v, train status %s", s.State, s.UpFor(w.now), s.DownFor(w.now), s.Train)
	}
}

// TestRetrainOnCommand calls Retrain thousands of times at random moments, at one end or both,
// while both ends send. Some of the cables lose and reorder frames. All packets must arrive
// unchanged, in one session.
func TestRetrainOnCommand(t *testing.T) {
	total := 0
	for seed := range uint64(20) {
		o := fault.Options{Delay: lan}
		if seed%2 == 1 {
			o = fault.Options{Delay: lan, Loss: .02, Duplicate: .02, Reorder: .05}
		}
		if seed%4 < 2 { // so slow that most trainings begin while a packet is under way
			o.Rate = 200_000_000
		}
		w := newWorld(t, seed, o, nil)
		w.start()
		w.run(50 * time.Millisecond)
		for range 150 {
			w.load(2)
			for i, e := range w.ends {
				if w.rng.IntN(3) > 0 && e.link.Retrain(w.now) {
					total++
				}
				w.service(i)
			}
			w.run(time.Duration(w.rng.Int64N(int64(3 * time.Millisecond))))
		}
		w.heal()
		w.mustQuiet(20 * time.Second)
		for i, e := range w.ends {
			if n := countEvents(e, EventSessionStarted); n != 1 {
				w.fail("end %d: %d sessions", i, n)
			}
			if n := e.link.Status().Flaps; n != 0 && seed%4 == 2 {
				w.fail("end %d: %d failures counted", i, n)
			}
		}
	}
	if total < 2000 {
		t.Errorf("only %d retrains", total)
	}
}

// TestRetrainRefused checks that Retrain returns false for a link that is off or closed.
func TestRetrainRefused(t *testing.T) {
	w := newWorld(t, 4, fault.Options{Delay: lan}, nil)
	l := w.ends[0].link
	if l.Retrain(w.now) {
		t.Error("Retrain returns true while the link is off")
	}
	l.SetPath(w.now, true)
	if !l.Retrain(w.now) || l.Status().State != StateTraining {
		t.Error("Retrain returns false while the link trains")
	}
	l.Close(w.now)
	if l.Retrain(w.now) || l.Send(w.now, wire.VCData, []byte{1}) {
		t.Error("Retrain or Send returns true after Close")
	}
}
