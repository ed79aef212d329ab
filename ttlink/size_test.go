package ttlink

import (
	"slices"
	"testing"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// swallow makes the path silently drop datagrams of more than *mtu bytes. If the parameter "only"
// has a value, the path drops only datagrams to the end only[0].
func (w *world) swallow(mtu *int, only ...int) {
	w.onSend = func(from int, b []byte) bool {
		return len(b) > *mtu && (len(only) == 0 || only[0] != from)
	}
}

// fitting returns the longest padded frame payload that fits into a datagram, in bytes.
func fitting(datagram int) int { return (datagram - wire.FrameOverhead) / wire.PadUnit * wire.PadUnit }

// TestPathIsNarrowFromTheStart uses a path that silently drops long datagrams, in one direction or
// both. The link must come up with shorter frames, find the longest frames that pass, report this
// once, and lose no packets.
func TestPathIsNarrowFromTheStart(t *testing.T) {
	for _, mtu := range []int{1472, 1400, 1252, 1100, 600, 532, 250} {
		for seed := range uint64(6) {
			w := newWorld(t, seed, fault.Options{Delay: lan}, func(_ int, c *Config) { c.MaxPayload = 1440 })
			if seed%3 == 2 {
				w.swallow(&mtu)
			} else {
				w.swallow(&mtu, int(seed%3))
			}
			w.load(40)
			w.start()
			if !w.until(6*time.Second, w.bothUp) {
				w.fail("a path of %d bytes: not up", mtu)
			}
			w.mustQuiet(time.Minute)
			w.run(20 * time.Second)
			best := min(1440, fitting(mtu))
			for i, e := range w.ends {
				s := e.link.Status()
				if s.MaxPayload > best || s.MaxPayload < best || s.PayloadWanted != 1440 || s.Retrains != 0 || countEvents(e, EventSessionEnded) != 0 {
					w.fail("end %d: on a path of %d bytes, the longest frame payload is %d: %+v", i, mtu, best, s)
				}
				told := 1
				if best == 1440 {
					told = 0
				}
				if n := countEvents(e, EventNarrow); n != told {
					w.fail("end %d: on a path of %d bytes, %d EventNarrow: %+v", i, mtu, n, e.events)
				}
				if e.link.long != nil {
					w.fail("end %d still has a buffer of %d bytes for hellos", i, len(e.link.long))
				}
			}
		}
	}
}

// TestPathShrinksInSilence makes the path silently drop long frames during traffic. The link must
// go down, come up with shorter frames, end at most one session, and deliver all later packets.
// When the path carries long frames again, the link must use long frames again without the end of a
// session.
func TestPathShrinksInSilence(t *testing.T) {
	stuck := 0
	for seed := range uint64(21) {
		p := []Profile{ProfileLAN, ProfileCrowded, ProfilePaced}[seed/7]
		w := newWorld(t, seed, fault.Options{Delay: lan, Loss: 0.01 * float64(seed%3)}, func(_ int, c *Config) { c.Profile = p })
		mtu := 1500
		w.swallow(&mtu)
		w.load(2000)
		w.start()
		if !w.until(time.Second, w.bothUp) {
			w.fail("not up")
		}
		w.run(5 * time.Millisecond)
		mtu = 600
		w.run(stuckMin + 20*time.Second) // each lost hello can cost a second
		for i, e := range w.ends {
			if e.link.Status().LastDown == DownStuck {
				stuck++
			}
			if s := e.link.Status(); s.State != StateUp || s.MaxPayload > fitting(mtu) || s.MaxPayload < 480 {
				w.fail("end %d: on a path of %d bytes: %+v", i, mtu, s)
			}
		}
		w.mustQuiet(2 * time.Minute)
		mtu = 1500
		w.run(2 * sizeMost)
		w.load(50)
		w.mustQuiet(time.Minute)
		for i, e := range w.ends {
			if s := e.link.Status(); s.MaxPayload != 1408 {
				w.fail("end %d: after the path carries long frames again: %+v", i, s)
			}
			if a, b := countEvents(e, EventSessionEnded), countEvents(e, EventNarrow); a > 1 || b != 1 {
				w.fail("end %d: %d sessions ended, %d EventNarrow: %+v", i, a, b, e.events)
			}
			sizes := slices.DeleteFunc(slices.Clone(e.events), func(v Event) bool { return v.Kind == EventUnreliable || v.Kind == EventReliable })
			if v := sizes[len(sizes)-1]; v.Kind != EventWide || v.Size != 1408 || v.SizeWanted != 1408 {
				w.fail("end %d: last event: %+v", i, v)
			}
		}
	}
	if stuck == 0 {
		t.Error("no link went down for the reason DownStuck, which this test is about")
	}
}

// TestLossIsNotNarrow makes links train many times on paths that lose 30 % or 50 % of all
// datagrams. A link may conclude only very rarely, and only for a short time, that such a path is
// narrow. Very few of the trainings may end the session.
func TestLossIsNotNarrow(t *testing.T) {
	trainings, narrow, ended := 0, 0, 0
	var small time.Duration
	for seed := range uint64(40) {
		loss := []float64{.3, .5}[seed%2]
		w := newWorld(t, seed, fault.Options{Delay: time.Millisecond, Loss: loss}, nil)
		w.start()
		for range 25 {
			w.load(3)
			for i := range w.cable {
				w.cable[i].Set(fault.Options{Delay: time.Millisecond, Loss: 1})
			}
			w.run(3 * time.Second)
			for i := range w.cable {
				w.cable[i].Set(fault.Options{Delay: time.Millisecond, Loss: loss})
			}
			w.mustQuiet(2 * time.Minute)
			w.run(time.Second)
			for range 100 {
				if l := w.ends[0].link; l.state == StateUp && l.agreed < l.want() {
					small += 100 * time.Millisecond
				}
				w.run(100 * time.Millisecond)
			}
		}
		for _, e := range w.ends {
			trainings += e.link.history.retrains
			narrow += countEvents(e, EventNarrow)
			ended += countEvents(e, EventSessionEnded)
		}
	}
	t.Logf("%d trainings; %d came up with short frames, for %v in all; %d sessions ended", trainings, narrow, small, ended)
	if trainings < 1000 || narrow > trainings/100 || ended > trainings/1000 || small > time.Duration(trainings)*50*time.Millisecond {
		t.Errorf("%d trainings over paths with much loss; %d came up with short frames, for %v in all; %d sessions ended", trainings, narrow, small, ended)
	}
}

// TestKnock cuts a cable for so long that most hellos are knocks. The ends have a session in half
// of the runs. After the repair, the link must come up soon.
func TestKnock(t *testing.T) {
	for seed := range uint64(40) {
		w := newWorld(t, seed, fault.Options{Delay: time.Millisecond}, nil)
		set := func(loss float64) {
			for i := range w.cable {
				w.cable[i].Set(fault.Options{Delay: time.Millisecond, Loss: loss})
			}
		}
		if seed%2 == 0 {
			set(1)
		}
		w.start()
		w.run(time.Second)
		set(1)
		w.run(time.Minute)
		before := w.ends[0].link.Counters()
		w.run(time.Minute)
		if sent := w.ends[0].link.Counters().BytesSent - before.BytesSent; sent > 60*1024 {
			w.fail("%d bytes of hellos within a minute to a peer that does not answer", sent)
		}
		w.run(time.Duration(w.rng.Int64N(int64(10 * time.Second))))
		set(0)
		n := w.now
		if !w.until(time.Minute, w.bothUp) || w.now.Sub(n) > ProfileLAN.HelloMax*5/4+50*time.Millisecond {
			w.fail("the link came up %v after the repair", w.now.Sub(n))
		}
		if s := w.ends[0].link.Status(); s.MaxPayload != s.PayloadWanted || countEvents(w.ends[0], EventNarrow) > 0 {
			w.fail("the link uses short frames although the path carries long frames: %+v", s)
		}
	}
}
