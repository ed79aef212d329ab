package ttlink

import (
	"testing"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// TestFlapLevels checks which failures cause a hold, how long each hold is, and how the time
// without a failure shortens the next hold.
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
	for range 20 { // one failure every 20 s causes no hold
		flap(20*time.Second, 0)
	}
	for range FlapLimit - 2 { // the last failure of the previous loop counts too
		flap(2*time.Second, 0)
	}
	for _, want := range []time.Duration{5, 10, 20, 40, 80, 160, 300, 300, 300} {
		flap(2*time.Second, want*time.Second)
	}
	d.quality.level = 3
	flap(2*FlapDecay+time.Second, 80*time.Second) // the pause takes back two of the six doublings: HoldFirst × 2⁴ is 80 s
	if d.quality.level != 1 {
		t.Errorf("the level of unreliable holds is %d after the pause, want 1", d.quality.level)
	}
	flap(FlapDecay*(holdDoublings+1)+time.Second, 0)
	for range FlapLimit - 2 {
		flap(time.Second, 0)
	}
	flap(time.Second, HoldFirst)
	d.forgive()
	flap(time.Second, 0)
}

// TestLevelsApart lets a cable be unreliable, and later fail once. The hold of the unreliable cable
// must not make this one failure cause another hold.
func TestLevelsApart(t *testing.T) {
	w := beside(t, 1)
	w.loses(0.15)
	if !w.busy(20*time.Second, func() bool { return away(w) && w.ends[0].link.Status().Unreliable }) {
		w.fail("the frames do not leave the unreliable cable")
	}
	w.loses(0)
	if !w.busy(80*time.Second, func() bool { return home(w) }) {
		w.fail("the frames do not return to the cable")
	}
	flapOnce(w)
	if isHeld(w) || !w.until(time.Second, func() bool { return home(w) }) {
		w.fail("the link holds the cable after one failure")
	}
	if w.ends[0].link.damping.quality.level == 0 {
		w.fail("the link forgot that the cable was unreliable")
	}
}

// flapOnce cuts the cable until an end is down, and then repairs the cable.
func flapOnce(w *world) {
	for _, c := range w.cable {
		c.Cut(true)
	}
	w.load(3)
	if !w.until(5*time.Second, func() bool { return w.ends[0].link.state != StateUp || w.ends[1].link.state != StateUp }) {
		w.fail("no end went down within 5 s after the cut")
	}
	for _, c := range w.cable {
		c.Cut(false)
	}
}

// TestFlappingAlone cuts the only cable between two ends again and again, and repairs the cable as
// soon as an end is down. The ends must hold the cable. The link must come up before the tables avoid
// the cable, so at most Profile.Hold later. All packets must arrive.
func TestFlappingAlone(t *testing.T) {
	for i := range 4 * uint64(len(allProfiles)) {
		p, seed := allProfiles[i%3], i/3
		w := newWorld(t, seed, fault.Options{Delay: lan}, func(_ int, c *Config) { c.Profile = p })
		w.start()
		w.load(5)
		w.mustQuiet(5 * time.Second)
		for range 3 * FlapLimit {
			flapOnce(w)
			if !w.until(p.Hold, w.bothUp) {
				w.fail("%s: the link is still down after %v", p.Name, p.Hold)
			}
			w.mustQuiet(5 * time.Second)
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
				if ev.Kind == EventHeld && ev.Until.Sub(ev.At) > p.Hold/holdAlone {
					w.fail("%s: end %d: held for %v", p.Name, i, ev.Until.Sub(ev.At))
				}
			}
		}
		if held < 2*FlapLimit {
			w.fail("held %d times", held)
		}
	}
}

// The function "beside" returns two ends that are up by their own cable, and have a fallback path
// that works.
func beside(t *testing.T, seed uint64, change ...func(*Config)) *world {
	w := newWorld(t, seed, fault.Options{Delay: lan}, func(_ int, c *Config) {
		for _, f := range change {
			f(c)
		}
	})
	w.start()
	w.load(5)
	w.mustQuiet(5 * time.Second)
	for i, e := range w.ends {
		e.link.SetAlternate(w.now, ByChannel(0), 0, true)
		w.service(i)
	}
	w.other = true
	return w
}

// home reports whether both ends are up and send their frames by the own cable.
func home(w *world) bool {
	return w.bothUp() && w.ends[0].link.paths.now == Own && w.ends[1].link.paths.now == Own
}

func isHeld(w *world) bool { return w.ends[0].link.held() || w.ends[1].link.held() }

// In TestHeldBesideAnother, a link has a fallback path, and the link's own cable fails again and again.
// After FlapLimit failures, neither end may use the cable during a hold, even if only one end holds
// the cable. Packets must arrive by the fallback path.
func TestHeldBesideAnother(t *testing.T) {
	for seed := range uint64(6) {
		w := beside(t, seed)
		for range FlapLimit - 1 {
			oneEndNotices(w, seed)
			if isHeld(w) {
				w.fail("held too early")
			}
			if !w.until(3*time.Second, func() bool { return home(w) }) {
				w.fail("not home again")
			}
		}
		for want := HoldFirst; want <= 4*HoldFirst; want *= 2 {
			oneEndNotices(w, seed)
			if !isHeld(w) {
				w.fail("not held")
			}
			begin := w.now
			w.load(2)
			w.mustQuiet(time.Second)
			for w.now.Sub(begin) < want-time.Second {
				w.run(100 * time.Millisecond)
				if !isHeld(w) || w.ends[0].link.paths.now == Own || w.ends[1].link.paths.now == Own || !w.bothUp() {
					w.fail("the held cable is used after %v of a hold of %v", w.now.Sub(begin), want)
				}
			}
			if !w.until(3*time.Second, func() bool { return home(w) }) {
				w.fail("the frames do not use the own cable after the hold")
			}
			if s := w.ends[0].link.Status(); s.HeldUntil != 0 || s.Train != TrainOK {
				w.fail("held until %v, train status %s", s.HeldUntil, s.Train)
			}
		}
		w.mustQuiet(10 * time.Second)
	}
}

// oneEndNotices cuts the cable, and later repairs the cable. If the seed is odd, only end 0 has
// packets to send, so only end 0 goes down because of the cut.
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
	n := countEvents(w.ends[0], EventDown)
	w.until(5*time.Second, func() bool { return countEvents(w.ends[0], EventDown) > n })
	for _, c := range w.cable {
		c.Cut(false)
	}
}

// heldNow returns two ends with a fallback path, after so many failures of the own cable that an
// end holds the cable.
func heldNow(t *testing.T, seed uint64) *world {
	w := beside(t, seed)
	for range FlapLimit {
		flapOnce(w)
		w.until(time.Second, func() bool { return home(w) })
	}
	if home(w) || !isHeld(w) {
		w.fail("not held")
	}
	return w
}

// TestHoldWithoutTheOther takes away the fallback path during a hold. The hold must end soon,
// whether SetAlternate removes the path or the path only drops all frames.
func TestHoldWithoutTheOther(t *testing.T) {
	for seed := range uint64(4) {
		w := heldNow(t, seed)
		w.other = false
		if seed%2 == 0 {
			for i, e := range w.ends {
				e.link.SetAlternate(w.now, ByChannel(0), 0, false)
				w.service(i)
			}
		}
		w.load(2)
		if !w.until(time.Second, func() bool { return home(w) }) {
			w.fail("still held")
		}
		w.mustQuiet(5 * time.Second)
	}
}

// TestRetrainLetsGo calls Retrain at both ends during a hold. The link must use its own cable at
// once.
func TestRetrainLetsGo(t *testing.T) {
	w := heldNow(t, 2)
	for i, e := range w.ends {
		if !e.link.Retrain(w.now) {
			w.fail("end %d: Retrain returned false", i)
		}
		w.service(i)
	}
	if !w.until(200*time.Millisecond, func() bool { return home(w) }) {
		w.fail("not home")
	}
	w.mustQuiet(5 * time.Second)
}

// TestRetrainByOneEnd calls Retrain at one end during a hold by either end. The link must come up
// at once by any cable.
func TestRetrainByOneEnd(t *testing.T) {
	for seed := range uint64(20) {
		w := heldNow(t, seed)
		for range 5 {
			w.load(3)
			i := w.rng.IntN(2)
			w.ends[i].link.Retrain(w.now)
			w.service(i)
			w.run(time.Duration(w.rng.Int64N(int64(2 * time.Millisecond))))
			if !w.until(100*time.Millisecond, w.bothUp) {
				w.fail("the link did not come up by any cable")
			}
		}
		w.mustQuiet(time.Second)
	}
}
