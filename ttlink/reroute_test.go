package ttlink

import (
	"testing"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// The function "away" reports whether both ends are up and send their frames by a fallback path.
func away(w *world) bool {
	return w.bothUp() && w.ends[0].link.paths.now != Own && w.ends[1].link.paths.now != Own
}

// The method "each" calls do for both ends, and lets both ends send.
func (w *world) each(do func(*Link)) {
	for i, e := range w.ends {
		do(e.link)
		w.service(i)
	}
}

func (w *world) reroute(i int, on bool) {
	w.ends[i].link.Reroute(w.now, on)
	w.service(i)
}

// TestReroute puts a link whose cable works into reroute mode at one end, while packets are under
// way. Both ends must leave the cable within a few round trips, and stay away until the end of the
// mode. Then both ends must return. The harness checks that every packet arrives once and in order.
func TestReroute(t *testing.T) {
	for seed := range uint64(20) {
		w := beside(t, seed)
		for range 5 {
			w.load(200)
			w.run(time.Duration(w.rng.Int64N(int64(5 * time.Millisecond))))
			one := w.rng.IntN(2)
			w.reroute(one, true)
			if !w.until(10*time.Millisecond, func() bool { return away(w) }) {
				w.fail("the frames do not leave the cable within 10 ms")
			}
			w.reroute(1-one, seed%2 == 0)
			w.run(3 * time.Second)
			if w.mustQuiet(time.Second); !away(w) {
				w.fail("the frames returned during the reroute mode")
			}
			w.each(func(l *Link) { l.Reroute(w.now, false) })
			if !w.until(2*time.Second, func() bool { return home(w) }) {
				w.fail("the frames do not return after the end of the reroute mode")
			}
		}
		for i, e := range w.ends {
			if n := countEvents(e, EventSessionStarted); n != 1 {
				w.fail("end %d: %d sessions", i, n)
			}
		}
	}
}

// TestRerouteNeedsAFallback puts a link without a working fallback path into reroute mode. The link
// must stay up by its own cable, and must move once a fallback path works. If the path goes away,
// the link must return to its own cable at once.
func TestRerouteNeedsAFallback(t *testing.T) {
	for seed := range uint64(10) {
		w := beside(t, seed)
		w.other = false
		w.each(func(l *Link) { l.Reroute(w.now, true) })
		w.load(100)
		w.run(3 * time.Second)
		for i, e := range w.ends {
			if e.link.Status().Retrains != 0 || !e.link.Carries() {
				w.fail("end %d: the link left its cable without a working fallback path", i)
			}
		}
		w.other = true
		if !w.until(2*ProfileLAN.HelloMax, func() bool { return away(w) }) {
			w.fail("the frames do not use the fallback path that works now")
		}
		w.load(20)
		w.each(func(l *Link) { l.SetAlternate(w.now, ByChannel(0), 0, false) })
		if !w.until(20*time.Millisecond, func() bool { return home(w) }) {
			w.fail("the frames do not use the own cable, although no fallback path is left")
		}
		w.mustQuiet(time.Second)
	}
}

// TestAssign names a fallback path before the own cable fails, and another one while the first
// carries the frames. The frames must use the named path each time.
func TestAssign(t *testing.T) {
	for seed := range uint64(10) {
		w := beside(t, seed)
		first, second := ByChannel(1), ByChannel(0)
		w.each(func(l *Link) { l.SetAlternate(w.now, first, 1, true) })
		w.each(func(l *Link) { l.Assign(w.now, first) })
		use := func(p Path) func() bool {
			return func() bool { return w.bothUp() && w.ends[0].link.paths.now == p && w.ends[1].link.paths.now == p }
		}
		for _, c := range w.cable {
			c.Cut(seed%2 == 0)
		}
		if seed%2 != 0 {
			w.each(func(l *Link) { l.Reroute(w.now, true) })
		}
		w.load(50)
		if !w.until(100*time.Millisecond, use(first)) {
			w.fail("the frames do not use the assigned path")
		}
		w.each(func(l *Link) { l.Reroute(w.now, true) })
		w.load(50)
		w.each(func(l *Link) { l.Assign(w.now, second) })
		if !w.until(100*time.Millisecond, use(second)) {
			w.fail("the frames do not move to the path assigned later")
		}
		w.mustQuiet(time.Second)
	}
}

// loses lets the own cable lose a share of the datagrams in both directions.
func (w *world) loses(share float64) {
	for _, c := range w.cable {
		if err := c.Set(fault.Options{Delay: lan, Loss: share}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// busy sends packets in both directions for the time d, or until done returns true.
func (w *world) busy(d time.Duration, done func() bool) bool {
	for end := w.now.Add(d); w.now.Before(end); {
		for i, e := range w.ends {
			e.toSend[wire.VCData] = max(e.toSend[wire.VCData], 4)
			w.service(i)
		}
		if w.until(5*time.Millisecond, done) {
			return true
		}
	}
	return done()
}

// TestUnreliable lets a cable lose 40 % of its datagrams. Both ends must move to the fallback path.
// As long as the loss lasts, the frames must use the own cable for a small part of the time only.
// After the loss, the frames must return, and stay. At a loss of 1 %, the frames must not move.
func TestUnreliable(t *testing.T) {
	for seed := range uint64(3) {
		w := beside(t, seed)
		w.loses(0.01)
		if w.busy(5*time.Second, func() bool { return !home(w) }) {
			w.fail("the frames left a cable with a loss of 1 %%")
		}
		w.loses(0.4)
		if !w.busy(3*UnreliableWindows*UnreliableWindow, func() bool { return away(w) }) {
			w.fail("the frames do not leave a cable with a loss of 40 %%")
		}
		on, steps := 0, 0
		for begin := w.now; w.now.Sub(begin) < 40*time.Second; steps++ {
			w.busy(100*time.Millisecond, func() bool { return false })
			if w.bothUp() && w.ends[0].link.paths.now == Own && w.ends[1].link.paths.now == Own {
				on++
			}
		}
		if on*10 > steps {
			w.fail("during the loss, the frames used the own cable in %d of %d moments", on, steps)
		}
		w.loses(0)
		if !w.busy(80*time.Second, func() bool { return home(w) }) {
			w.fail("the frames do not return after the loss")
		}
		if w.busy(10*time.Second, func() bool { return !home(w) }) {
			w.fail("the frames left the repaired cable")
		}
		for i, e := range w.ends {
			if e.link.Status().Unreliable {
				w.fail("end %d: the repaired cable counts as unreliable", i)
			}
			if n := countEvents(e, EventSessionStarted); n != 1 {
				w.fail("end %d: %d sessions", i, n)
			}
		}
		w.mustQuiet(time.Second)
	}
}

// TestKeepUnreliable lets a cable lose 15 % of its datagrams. With KeepUnreliable, both ends must
// report the unreliable cable and stay on it. If the cable fails, and on an operator's order, the
// frames must still move.
func TestKeepUnreliable(t *testing.T) {
	w := beside(t, 1, func(c *Config) { c.KeepUnreliable = true })
	w.loses(0.15)
	if w.busy(10*time.Second, func() bool { return !home(w) }) {
		w.fail("the frames left the unreliable cable")
	}
	for i, e := range w.ends {
		if n := countEvents(e, EventUnreliable); n != 1 || !e.link.Status().Unreliable {
			w.fail("end %d: %d reports of the unreliable cable", i, n)
		}
	}
	w.each(func(l *Link) { l.Reroute(w.now, true) })
	if !w.busy(time.Second, func() bool { return away(w) }) {
		w.fail("the frames do not move on an order")
	}
	w.each(func(l *Link) { l.Reroute(w.now, false) })
	if !w.busy(5*time.Second, func() bool { return home(w) }) {
		w.fail("the frames do not return to the unreliable cable after the order")
	}
	w.loses(1)
	if !w.busy(5*time.Second, func() bool { return away(w) }) {
		w.fail("the frames do not leave a cable that carries nothing")
	}
}

// TestUnreliableBeside lets a cable lose 15 % of its datagrams while the only fallback path is
// unreliable, too. The link must stay on its own cable. Once the fallback path is reliable, the link
// must move.
func TestUnreliableBeside(t *testing.T) {
	w := beside(t, 1)
	w.each(func(l *Link) { l.Trust(w.now, ByChannel(0), false) })
	w.loses(0.15)
	w.busy(10*time.Second, func() bool { return false })
	if !home(w) || !w.ends[0].link.Status().Unreliable {
		w.fail("the link left its unreliable cable for another unreliable cable, or did not notice the loss")
	}
	w.each(func(l *Link) { l.Trust(w.now, ByChannel(0), true) })
	if !w.busy(time.Second, func() bool { return away(w) }) {
		w.fail("the frames do not move to the reliable cable")
	}
	w.each(func(l *Link) { l.Trust(w.now, ByChannel(0), false) })
	if !w.busy(3*time.Second, func() bool { return home(w) }) {
		w.fail("the frames do not return from a cable that has become unreliable")
	}
}

// TestDamaged damages 5 % of the datagrams that one end receives. The checksums must show the
// damage to this end alone, and both ends must leave the cable.
func TestDamaged(t *testing.T) {
	w := beside(t, 1)
	if err := w.cable[0].Set(fault.Options{Delay: lan, Corrupt: 0.05}); err != nil {
		t.Fatal(err)
	}
	if !w.busy(10*time.Second, func() bool { return away(w) }) {
		w.fail("the frames do not leave the cable")
	}
	if s := w.ends[1].link.Status(); s.Shares.Damaged < UnreliableDamaged {
		w.fail("end 1: %+v", s.Shares)
	}
}

// TestStillPeerIsReliable sends a little traffic one way, over a cable without faults, to a peer that
// stands still again and again. The sender must not judge that the cable is unreliable, although it
// sends many frames again.
func TestStillPeerIsReliable(t *testing.T) {
	for _, p := range allProfiles {
		for seed := range uint64(5) {
			w := newWorld(t, seed, fault.Options{Delay: lan}, func(_ int, c *Config) { c.Profile = p })
			w.start()
			w.load(5)
			w.mustQuiet(5 * time.Second)
			stall := p.DeadTraffic / 6
			for end := w.now.Add(20 * time.Second); w.now.Before(end); {
				w.ends[1].still = w.now.Add(stall + time.Duration(w.rng.Int64N(int64(5*stall))))
				for range 6 {
					w.ends[0].toSend[wire.VCData] = 1
					w.service(0)
					w.run(stall)
				}
			}
			l := w.ends[0].link
			if c := l.Counters(); c.Retransmitted*100 < UnreliableResent*c.DataSent {
				w.fail("%s: only %d of %d frames were sent again", p.Name, c.Retransmitted, c.DataSent)
			}
			if s := l.Status().Shares.Resent; countEvents(w.ends[0], EventUnreliable) != 0 || s > ReliableResent {
				w.fail("%s: the cable without faults counts as unreliable: %d %% of the frames sent again", p.Name, s)
			}
		}
	}
}
