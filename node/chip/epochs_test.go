package chip

import (
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/wire"
)

// inlineWrite returns an inline write to chip i of a fabric.
func (w *fabric) inlineWrite(i int) flow.Request {
	return flow.Request{Dst: w.m.Chips[i].Node, Command: wire.Command{Type: wire.NocInlineWrite, Addr: wire.NewNocAddr(1, 1, 64), Value: 7}}
}

// forgetSent gives a chip a new flow source, as a restart does. The flows of the new
// source begin with the given epoch.
func (c *Chip) forgetSent(epoch uint32) {
	c.source = flow.NewSource(flow.Config{Self: c.cfg.Node, Incarnation: c.cfg.Incarnation, Epoch: epoch}, (*network)(c.machine))
}

// forgetHeard gives a chip a new flow sink, as a restart does. The new sink knows no
// flow.
func (c *Chip) forgetHeard() { c.sink = flow.NewSink(c.cfg.Incarnation.Life()) }

// TestClockSetBack restarts a chip with a lower epoch than before. The destination
// refuses the first request, which ends as unknown. The destination performs the next
// request.
func TestClockSetBack(t *testing.T) {
	w := newFabric(t, named(t, "line:3"))
	send := func() flow.Result {
		w.chips[0].HandleRequest(w.now, w.inlineWrite(2))
		rs := w.results(0, 1)
		if len(rs) != 1 {
			t.Fatalf("%+v", rs)
		}
		return rs[0]
	}
	w.chips[0].forgetSent(1000)
	if r := send(); r.Fate != flow.FateDone {
		t.Fatalf("%+v", r)
	}
	w.chips[0].forgetSent(1000 - 160) // a restart after the clock was set back
	if r := send(); r.Fate != flow.FateUnknown || r.Doubt != flow.DoubtOlder {
		t.Errorf("%+v", r)
	}
	if r := send(); r.Fate != flow.FateDone {
		t.Errorf("%+v", r)
	}
	if n := w.chips[2].Status().Counters; n.Performed != 2 || n.StaleRequests != 1 {
		t.Errorf("%+v", n)
	}
}

// TestEpochsOverTime restarts a chip milliseconds to weeks later. The time of the start
// is the chip's first epoch. The destination must perform the first request.
func TestEpochsOverTime(t *testing.T) {
	for _, up := range []time.Duration{10 * time.Millisecond, time.Hour, 19 * time.Hour, 24 * time.Hour, 37 * time.Hour, 24 * 24 * time.Hour} {
		w := newFabric(t, named(t, "line:3"))
		start := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
		for _, at := range []time.Time{start, start.Add(up)} {
			w.chips[0].forgetSent(uint32(at.UnixMilli()))
			w.chips[0].HandleRequest(w.now, w.inlineWrite(2))
			if rs := w.results(0, 1); len(rs) != 1 || rs[0].Fate != flow.FateDone {
				t.Errorf("after %v: %+v", up, rs)
			}
		}
	}
}

// TestIdleFlow restarts a destination while a flow is idle. After an idle time shorter
// than flow.FlowIdle, the next request is refused. After a longer idle time, the next
// request is done.
func TestIdleFlow(t *testing.T) {
	w := newFabric(t, named(t, "line:2"))
	ask := func() flow.Result {
		w.chips[0].HandleRequest(w.now, w.inlineWrite(1))
		if rs := w.results(0, 1); len(rs) == 1 {
			return rs[0]
		}
		return flow.Result{Fate: flow.FateUnknown}
	}
	if r := ask(); r.Fate != flow.FateDone {
		t.Fatalf("%+v", r)
	}
	w.run(50 * time.Millisecond)
	w.chips[1].forgetHeard()
	if r := ask(); r.Fate != flow.FateRefused || r.Outcome != wire.OutcomeUnknownFlow {
		t.Errorf("%+v", r)
	}
	if r := ask(); r.Fate != flow.FateDone {
		t.Errorf("%+v", r)
	}
	w.run(200 * time.Millisecond)
	w.chips[1].forgetHeard()
	if r := ask(); r.Fate != flow.FateDone {
		t.Errorf("after a pause: %+v", r)
	}
}
