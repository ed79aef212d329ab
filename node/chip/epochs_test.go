package chip

import (
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/wire"
)

// inlineWrite is a write to chip i of a fabric.
func (w *fabric) inlineWrite(i int) flow.Request {
	return flow.Request{Dst: w.m.Chips[i].Node, Command: wire.Command{Type: wire.NocInlineWrite, Addr: wire.NewNocAddr(1, 1, 64), Value: 7}}
}

// forgetSent leaves a chip with a source as a new process has it, whose flows begin with an epoch.
func (c *Chip) forgetSent(epoch uint32) {
	c.source = flow.NewSource(flow.Config{Self: c.cfg.Node, Incarnation: c.cfg.Incarnation, Epoch: epoch}, (*network)(c.machine))
}

// forgetHeard leaves a chip that has heard of no flow, as a new process has it.
func (c *Chip) forgetHeard() { c.sink = flow.NewSink() }

// TestClockSetBack starts a chip anew with a lower epoch than before: its first
// request is refused and ends as unknown, and from then on all is well.
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
	w.chips[0].forgetSent(1000 - 160) // as if it had started anew, by a clock that was set back
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

// TestEpochsOverTime starts a chip again, hours or weeks later, with the clock
// that orders its epochs: its first request is performed.
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

// TestIdleFlow restarts a destination while a flow is idle: the next request is done as if the destination had never stopped.
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
