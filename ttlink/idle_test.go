package ttlink

import (
	"slices"
	"testing"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

var allProfiles = []Profile{ProfileLAN, ProfileCrowded, ProfilePaced}

// idleWorld returns two ends with the profile p whose link has been idle for a while.
func idleWorld(t *testing.T, seed uint64, p Profile) *world {
	w := newWorld(t, seed, fault.Options{Delay: lan}, func(_ int, c *Config) { c.Profile = p })
	w.start()
	if !w.until(10*time.Second, w.bothUp) {
		w.fail("not up")
	}
	w.run(10*p.Keepalive + time.Duration(w.rng.Int64N(int64(p.Keepalive))))
	return w
}

func (w *world) downs() int {
	return countEvents(w.ends[0], EventDown) + countEvents(w.ends[1], EventDown)
}

// TestIdleCut cuts an idle cable at instants between two keepalives. Both ends must go down within
// DeadIdle, and must first ask the silent peer several times.
func TestIdleCut(t *testing.T) {
	for _, p := range allProfiles {
		for seed := range uint64(40) {
			w := idleWorld(t, seed, p)
			before := w.ends[0].link.Counters().SolicitsSent
			w.cable[0].Cut(true)
			w.cable[1].Cut(true)
			cut := w.now
			for i := range w.ends {
				if !w.until(time.Minute, func() bool { return countEvents(w.ends[i], EventDown) > 0 }) {
					w.fail("end %d never goes down", i)
				}
				if took := w.now.Sub(cut); took > p.DeadIdle || took < p.DeadIdle-p.Keepalive-p.spare()-time.Millisecond {
					w.fail("%s: end %d went down after %v, want at most DeadIdle %v, less at most 9/8 of Keepalive %v", p.Name, i, took, p.DeadIdle, p.Keepalive)
				}
			}
			if asked := w.ends[0].link.Counters().SolicitsSent - before; asked != asksInSilence {
				w.fail("%s: the end asked its silent peer %d times, want %d", p.Name, asked, asksInSilence)
			}
		}
	}
}

// TestIdleCutOfALateOwner cuts an idle cable between two ends whose loops come late at every
// deadline. Each end may go down later than an end whose loop is in time, but only by the delay of
// its loop.
func TestIdleCutOfALateOwner(t *testing.T) {
	for _, p := range allProfiles {
		for late := StallSilence / 2; late <= StallSilence; late += time.Millisecond {
			for seed := range uint64(40) {
				w := idleWorld(t, seed, p)
				w.ends[0].tardy, w.ends[1].tardy = late, late
				w.ends[0].still = w.now.Add(p.DeadTraffic) // the end later forgets this stall
				w.run(10*p.Keepalive + 2*lateRemember + time.Duration(w.rng.Int64N(int64(p.Keepalive))))
				w.cable[0].Cut(true)
				w.cable[1].Cut(true)
				cut := w.now
				for i := range w.ends {
					if !w.until(time.Minute, func() bool { return countEvents(w.ends[i], EventDown) > 0 }) {
						w.fail("end %d never goes down", i)
					}
					if took := w.now.Sub(cut); took > p.DeadIdle+late {
						w.fail("%s: end %d, which comes %v late, went down after %v, want at most %v more than DeadIdle %v", p.Name, i, late, took, late, p.DeadIdle)
					}
				}
			}
		}
	}
}

// TestIdleLoss loses a fifth of the frames of an idle link. The link must stay up, because it asks
// for each keepalive that does not come.
func TestIdleLoss(t *testing.T) {
	for _, p := range allProfiles {
		for seed := range uint64(10) {
			w := idleWorld(t, seed, p)
			for i := range w.cable {
				if err := w.cable[i].Set(fault.Options{Delay: lan, Loss: .2}); err != nil {
					t.Fatal(err)
				}
			}
			if w.run(time.Minute); w.downs() > 0 {
				w.fail("%s: an idle link went down under a loss of 20 %%", p.Name)
			}
		}
	}
}

// TestStillPeer has one end whose loop stands still for DeadTraffic, at instants between two
// keepalives. The idle link must stay up at both ends.
func TestStillPeer(t *testing.T) {
	for _, p := range allProfiles {
		for seed := range uint64(60) {
			w := idleWorld(t, seed, p)
			w.ends[1].still = w.now.Add(p.DeadTraffic)
			if w.run(5 * time.Second); w.downs() > 0 {
				w.fail("%s: the link went down, although its peer stood still for only %v", p.Name, p.DeadTraffic)
			}
		}
	}
}

// TestStillMachine has two ends that stand still again and again, as on a machine with too few
// cores. The longest standstill is the same for both ends. Once both ends have stood still for the
// longest time, the idle link must stay up. Each end then waits for a peer that is as late as the
// end itself.
func TestStillMachine(t *testing.T) {
	for _, p := range allProfiles {
		for seed := range uint64(20) {
			w := idleWorld(t, seed, p)
			for range 40 {
				both := w.now.Add(p.DeadIdle)
				w.ends[0].still, w.ends[1].still = both, both
				w.run(p.DeadIdle + lateRemember/4)
				for i := range w.ends {
					w.ends[i].still = w.now.Add(p.DeadIdle/2 + time.Duration(w.rng.Int64N(int64(p.DeadIdle/2))))
				}
				w.run(p.DeadIdle + lateRemember/4)
			}
			if w.downs() > 0 {
				w.fail("%s: an idle link went down %d times between two ends that stood still for %v at most", p.Name, w.downs(), p.DeadIdle)
			}
		}
	}
}

// TestDeadPeerOfAStarvedOwner has an end whose loop comes late at each deadline. The end must still
// notice that its peer is dead.
func TestDeadPeerOfAStarvedOwner(t *testing.T) {
	const late = 50 * time.Millisecond
	for _, p := range allProfiles {
		w := idleWorld(t, 1, p)
		w.ends[1].gone = true
		l, start := w.ends[0].link, w.now
		for l.state == StateUp {
			at, _ := l.Deadline()
			w.now = max(w.now, at.Add(late))
			if l.Tick(w.now); w.now.Sub(start) > 3*(p.DeadIdle+lateFactor*late) {
				w.fail("%s: the link is still up %v after its peer died", p.Name, w.now.Sub(start))
			}
		}
	}
}

// TestKeepalivesShareAGrid compares the sending times of idle links that came up at different
// instants. If all links have the same Phase, all their frames must leave at instants of one grid.
func TestKeepalivesShareAGrid(t *testing.T) {
	for _, p := range allProfiles {
		for seed := range uint64(5) {
			phase := mono.Time(7 * time.Millisecond)
			w := newWorld(t, seed, fault.Options{Delay: lan * time.Duration(seed+1)}, func(_ int, c *Config) { c.Profile, c.Phase = p, phase })
			w.run(time.Duration(w.rng.Int64N(int64(time.Second))))
			w.start()
			if !w.until(10*time.Second, w.bothUp) {
				w.fail("not up")
			}
			w.run(10 * time.Second)
			sent := 0
			w.onSend = func(_ int, b []byte) bool {
				if f, err := wire.DecodeFrame(b); err != nil || f.Kind != wire.KindUpdate {
					w.fail("an idle link sends %+v, %v", f, err)
				}
				if sent++; w.now.Sub(phase)%p.Keepalive != 0 {
					w.fail("%s: a keepalive leaves at %v, which is no instant of the grid", p.Name, w.now)
				}
				return false
			}
			w.run(20 * p.Keepalive)
			if sent < 38 || sent > 42 {
				w.fail("%s: %d keepalives of two ends in 20 times Keepalive", p.Name, sent)
			}
		}
	}
}

// TestDownSaysHowLate cuts an idle cable, and stalls the loop of one end. When an end goes down by
// silence, Late of its event is an upper limit of the time that the end waited beyond DeadIdle.
// Without a stall, Late must be 0.
func TestDownSaysHowLate(t *testing.T) {
	const forward = time.Millisecond // a cut cable still delivers the frames that are under way
	for _, p := range allProfiles {
		for seed := range uint64(40) {
			w := idleWorld(t, seed, p)
			stall := time.Duration(seed%4) * p.DeadIdle / 4
			w.cable[0].Cut(true)
			w.cable[1].Cut(true)
			cut := w.now
			if stall > 0 {
				w.ends[0].still = w.now.Add(stall)
			}
			for i := range w.ends {
				if !w.until(time.Minute, func() bool { return countEvents(w.ends[i], EventDown) > 0 }) {
					w.fail("end %d never goes down", i)
				}
			}
			for i, e := range w.ends {
				down := e.events[slices.IndexFunc(e.events, func(v Event) bool { return v.Kind == EventDown })]
				late, most := down.Late, stall
				if i == 1 {
					most = 0
				}
				if took := down.At.Sub(cut); took > p.DeadIdle+late+forward || late > (1+lateFactor)*most || late < 0 {
					w.fail("%s: end %d, stalled for %v, went down after %v and says that it was %v late", p.Name, i, most, took, late)
				}
			}
		}
	}
}
