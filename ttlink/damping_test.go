package ttlink

import (
	"testing"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// TestFlapLevels is the arithmetic of damping: when a failure holds, for how
// long, and what time in use takes back.
func TestFlapLevels(t *testing.T) {
	var d damping
	at := mono.Time(time.Second)
	flap := func(after, want time.Duration) {
		t.Helper()
		at = at.Add(after)
		if got := d.flap(at); got != want {
			t.Errorf("failure %d at %v: held for %v, want %v", d.flaps, at, got, want)
		}
		d.inUse = at.Add(20 * time.Millisecond)
	}
	flap(0, 0)
	for range 20 { // some in minutes are none too many
		flap(20*time.Second, 0)
	}
	for range FlapLimit - 2 { // the last of those counts here
		flap(2*time.Second, 0)
	}
	for _, want := range []time.Duration{5, 10, 20, 40, 80, 160, 300, 300, 300} {
		flap(2*time.Second, want*time.Second)
	}
	flap(2*FlapDecay+time.Second, 80*time.Second) // two doublings are taken back
	flap(FlapDecay*(holdDoublings+1)+time.Second, 0)
	for range FlapLimit - 2 {
		flap(time.Second, 0)
	}
	flap(time.Second, HoldFirst)
	d.forgive()
	flap(time.Second, 0)
}

// flapOnce cuts the cable until an end is down, and mends it.
func flapOnce(w *world) {
	for _, c := range w.cable {
		c.Cut(true)
	}
	w.load(3)
	if !w.until(5*time.Second, func() bool { return w.ends[0].link.state != StateUp || w.ends[1].link.state != StateUp }) {
		w.fail("a cut of 5 s was not noticed")
	}
	for _, c := range w.cable {
		c.Cut(false)
	}
}

// TestFlappingAlone cuts the only cable between two ends again and again: holds
// begin, and none is longer than what the profile allows a link without another way. Nothing is lost.
func TestFlappingAlone(t *testing.T) {
	for seed := range uint64(10) {
		w := newWorld(t, seed, fault.Options{Delay: lan}, nil)
		w.start()
		w.load(5)
		w.mustQuiet(5 * time.Second)
		for range 3 * FlapLimit {
			flapOnce(w)
			down := w.now
			if !w.until(3*time.Second, w.bothUp) {
				w.fail("not up again")
			}
			if took, most := w.now.Sub(down), 4*ProfileLAN.DeadTraffic; took > most {
				w.fail("%v until up again, want at most %v", took, most)
			}
		}
		w.mustQuiet(5 * time.Second)
		held := 0
		for i, e := range w.ends {
			n := countEvents(e, EventHeld)
			held += n
			if r := countEvents(e, EventReleased); r != n {
				w.fail("end %d: held %d times, released %d times", i, n, r)
			}
			for _, ev := range e.events {
				if ev.Kind == EventHeld && ev.Until.Sub(ev.At) > holdAlone*ProfileLAN.DeadTraffic {
					w.fail("end %d: held for %v", i, ev.Until.Sub(ev.At))
				}
			}
		}
		if held < 2*FlapLimit {
			w.fail("held %d times", held)
		}
	}
}

// TestHeldBesideAnother has a second way between the ends that carries nothing
// here, so that the whole length of the holds is seen: the cable works, and is
// not used, by either end, also where one end alone has noticed the failures.
func TestHeldBesideAnother(t *testing.T) {
	for seed := range uint64(6) {
		w := newWorld(t, seed, fault.Options{Delay: lan}, nil)
		w.start()
		w.load(5)
		w.mustQuiet(5 * time.Second)
		for _, e := range w.ends {
			e.link.SetAlternate(w.now, ByChannel(0), 0, true)
		}
		isHeld := func() bool { return w.ends[0].link.held() || w.ends[1].link.held() }
		for range FlapLimit - 1 {
			oneEndNotices(w, seed)
			if isHeld() {
				w.fail("held too early")
			}
			if !w.until(3*time.Second, w.bothUp) {
				w.fail("not up again")
			}
		}
		for want := HoldFirst; want <= 4*HoldFirst; want *= 2 {
			oneEndNotices(w, seed)
			if !isHeld() {
				w.fail("not held")
			}
			begin := w.now
			for w.now.Sub(begin) < want-time.Second {
				w.run(100 * time.Millisecond)
				if !isHeld() || w.ends[0].link.state == StateUp && w.ends[1].link.state == StateUp {
					w.fail("used although it is held, after %v of %v", w.now.Sub(begin), want)
				}
			}
			if !w.until(3*time.Second, w.bothUp) {
				w.fail("not up after the hold")
			}
			if s := w.ends[0].link.Status(); s.HeldUntil != 0 || s.Train != TrainOK {
				w.fail("held until %v, train status %s", s.HeldUntil, s.Train)
			}
		}
		w.mustQuiet(10 * time.Second)
	}
}

// oneEndNotices cuts the cable; by the seed both ends notice, or one alone, which then has something to send.
func oneEndNotices(w *world, seed uint64) {
	if seed%2 == 0 {
		flapOnce(w)
		return
	}
	for _, c := range w.cable {
		c.Cut(true)
	}
	w.ends[0].toSend[wire.VCData] += 3
	w.service(0)
	w.until(5*time.Second, func() bool { return w.ends[0].link.state != StateUp })
	for _, c := range w.cable {
		c.Cut(false)
	}
}

// TestHoldWithoutTheOther holds a cable beside another one that then is gone: the hold ends soon.
func TestHoldWithoutTheOther(t *testing.T) {
	w := newWorld(t, 1, fault.Options{Delay: lan}, nil)
	w.start()
	w.load(5)
	w.mustQuiet(5 * time.Second)
	for _, e := range w.ends {
		e.link.SetAlternate(w.now, ByChannel(0), 0, true)
	}
	for range FlapLimit {
		flapOnce(w)
		w.until(time.Second, w.bothUp)
	}
	if w.bothUp() || countEvents(w.ends[0], EventHeld) == 0 {
		w.fail("not held")
	}
	for i, e := range w.ends {
		e.link.SetAlternate(w.now, ByChannel(0), 0, false)
		w.service(i)
	}
	if !w.until(time.Second, w.bothUp) {
		w.fail("still held")
	}
	w.mustQuiet(5 * time.Second)
}

// TestRetrainLetsGo trains a cable anew that is held: it comes up at once.
func TestRetrainLetsGo(t *testing.T) {
	w := newWorld(t, 2, fault.Options{Delay: lan}, nil)
	w.start()
	w.load(5)
	w.mustQuiet(5 * time.Second)
	for _, e := range w.ends {
		e.link.SetAlternate(w.now, ByChannel(0), 0, true)
	}
	for range FlapLimit {
		flapOnce(w)
		w.until(time.Second, w.bothUp)
	}
	for i, e := range w.ends {
		if !e.link.Retrain(w.now) {
			w.fail("end %d has nothing to train", i)
		}
		w.service(i)
	}
	if !w.until(100*time.Millisecond, w.bothUp) {
		w.fail("not up")
	}
	w.mustQuiet(5 * time.Second)
}
