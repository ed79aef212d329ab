package chip

import (
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/router"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// line returns a fabric of three chips in a row, and a write from chip 0 to chip 2.
func line(t *testing.T) (*fabric, flow.Request) {
	t.Helper()
	m, err := topo.Named("mesh:1x3")
	if err != nil {
		t.Fatal(err)
	}
	return newFabric(t, m), flow.Request{Dst: m.Chips[2].Node, Payload: []byte("data"),
		Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 64)}}
}

func (w *fabric) command(i int, d wire.Direction, cmd router.Command) {
	w.t.Helper()
	if err := w.chips[i].Command(w.now, w.channel(i, d), cmd); err != nil {
		w.t.Fatal(err)
	}
}

func (w *fabric) channel(i int, d wire.Direction) wire.Channel {
	for _, p := range w.chips[i].ports.list {
		if p.Dir == d {
			return p.Local.Channel
		}
	}
	w.t.Fatalf("no port to the %s", d)
	return 0
}

func (w *fabric) check() {
	w.t.Helper()
	for _, c := range w.chips {
		if err := c.CheckInvariants(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestPauseHoldsBack pauses a port on the route for longer than the grace period.
// Requests then fill all queues back to the source. The requests are done once the port
// runs again.
func TestPauseHoldsBack(t *testing.T) {
	w, write := line(t)
	w.command(1, wire.East, router.CommandPause)
	taken := 0
	for range 200 {
		if w.chips[0].HandleRequest(w.now, write) == flow.Accepted {
			taken++
		}
		w.run(time.Millisecond)
	}
	w.run(2 * time.Second)
	if _, ok := w.chips[0].PollResult(); ok || taken == 200 || taken < router.SlotSpec.Sender[wire.VCData] {
		t.Fatalf("%d requests were taken, results: %v", taken, ok)
	}
	w.check()
	w.command(1, wire.East, router.CommandRun)
	rs := w.results(0, taken)
	for _, r := range rs {
		if r.Fate != flow.FateDone {
			t.Fatalf("%+v", r)
		}
	}
	if len(rs) != taken {
		t.Errorf("%d of %d requests ended", len(rs), taken)
	}
	w.check()
}

// TestDrainTellsSources drains a port of chip 1 on the route. Each request then ends as
// lost, with the reason "drained" and the place chip 1. Completions still pass the port.
func TestDrainTellsSources(t *testing.T) {
	w, write := line(t)
	w.command(1, wire.East, router.CommandDrain)
	for range 5 {
		w.chips[0].HandleRequest(w.now, write)
	}
	rs := w.results(0, 5)
	for _, r := range rs {
		if r.Fate != flow.FateLost || r.Drop != wire.DropDrained || r.At != w.m.Chips[1].Node {
			t.Errorf("%+v", r)
		}
	}
	// Chip 2 writes to chip 0. The completion from chip 0 passes the drained port.
	back := write
	back.Dst = w.m.Chips[0].Node
	w.chips[2].HandleRequest(w.now, back)
	if rs := append(rs, w.results(2, 1)...); len(rs) != 6 || rs[5].Fate != flow.FateDone {
		t.Errorf("%+v", rs)
	}
	if d := w.chips[1].Status().Counters.Dropped[wire.DropDrained]; d != 5 {
		t.Errorf("%d counted", d)
	}
	w.command(1, wire.East, router.CommandRun)
	w.chips[0].HandleRequest(w.now, write)
	if rs := w.results(0, 1); len(rs) != 1 || rs[0].Fate != flow.FateDone {
		t.Errorf("%+v", rs)
	}
	w.check()
}

// TestFlushTellsSources flushes a paused port. The requests that wait at the port end as
// lost, and all other requests are done.
func TestFlushTellsSources(t *testing.T) {
	w, write := line(t)
	w.command(1, wire.East, router.CommandPause)
	taken := 0
	for range 30 {
		if w.chips[0].HandleRequest(w.now, write) == flow.Accepted {
			taken++
		}
		w.run(time.Millisecond)
	}
	for e, ok := w.chips[1].PollEvent(); ok; e, ok = w.chips[1].PollEvent() {
		if e.Port != nil && (e.Port.Action() != "paused" || e.Port.Was != router.StateRunning || e.Port.State != router.StatePaused) {
			t.Errorf("event %+v", e.Port)
		}
	}
	before := w.chips[1].pool.InUse()
	n, err := w.chips[1].Flush(w.now, w.channel(1, wire.East))
	if after := w.chips[1].pool.InUse(); after != before-n {
		t.Errorf("%d buffers are out after %d packets were flushed, of %d", after, n, before)
	}
	if err != nil || n != router.SlotSpec.Sender[wire.VCData] {
		t.Fatalf("%d packets were flushed, %v", n, err)
	}
	w.command(1, wire.East, router.CommandRun)
	lost, done := 0, 0
	for _, r := range w.results(0, taken) {
		switch {
		case r.Fate == flow.FateLost && r.Drop == wire.DropFlushed:
			lost++
		case r.Fate == flow.FateDone:
			done++
		default:
			t.Errorf("%+v", r)
		}
	}
	if lost != n || lost+done != taken {
		t.Errorf("%d lost, %d done of %d; %d were flushed", lost, done, taken, n)
	}
	w.check()
}

func TestRetrainCommand(t *testing.T) {
	w, write := line(t)
	for range 50 {
		w.chips[0].HandleRequest(w.now, write)
		w.command(1, wire.West, router.CommandRetrain)
		if rs := w.results(0, 1); len(rs) != 1 || rs[0].Fate != flow.FateDone {
			t.Fatalf("%+v", rs)
		}
	}
	if n := w.chips[1].ports.list[w.chips[1].ports.index(w.channel(1, wire.West))].link.Status().Retrains; n < 50 {
		t.Errorf("%d retrains", n)
	}
}

func TestCommandRefuses(t *testing.T) {
	w, _ := line(t)
	c := w.chips[0]
	if err := c.Command(w.now, 15, router.CommandPause); err == nil {
		t.Error("a channel without a cable was commanded")
	}
	if _, err := c.Flush(w.now, 200); err == nil {
		t.Error("a channel without a cable was flushed")
	}
	ch := w.channel(0, wire.East)
	for _, cmd := range []router.Command{2, 5} {
		if err := c.Command(w.now, ch, cmd); err == nil {
			t.Errorf("%s was taken", cmd)
		}
	}
	c.SetPath(w.now, ch, false)
	if err := c.Command(w.now, ch, router.CommandRetrain); err == nil {
		t.Error("a link without a path was trained")
	}
}
