package fabric

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/traffic"
	"ttfabric/router/topo"
	"ttfabric/router/topo/pick"
	"ttfabric/wire"
)

// TestPauseWaits checks that all threads of a chip have stopped when PauseChip returns.
func TestPauseWaits(t *testing.T) {
	f := up(t, own(t), "n300", nil)
	n := f.Topology.Nodes()[1]
	c, ok := f.Where(n)
	if !ok || standsStill(c.PID) {
		t.Fatalf("%+v: runs %v", c, ok)
	}
	for range 20 {
		if err := f.PauseChip(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if !standsStill(c.PID) {
			t.Fatal("the chip still runs when PauseChip has returned")
		}
		if err := f.ResumeChip(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.PauseChip(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if len(f.Running()) != 2 {
		t.Error("a paused chip does not count as running")
	}
	if err := f.Remove(); err != nil { // Remove must also end a paused chip
		t.Error(err)
	}
	gone(t, f.Dir, []folder.Chip{c})
}

// TestCutsAndImpairments cuts cables, puts cables back, and delays the frames of a cable.
func TestCutsAndImpairments(t *testing.T) {
	f := up(t, own(t), "n300", func(s *spec.Spec) { s.Netem = []string{"M0D0-M0D1/p1,delay=2ms"} })
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	s, err := f.Chips()
	if err != nil {
		t.Fatal(err)
	}
	all, err := pick.Links(f.Topology, []string{"all"})
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	everywhere := PortsOf(f.Topology, f.Topology.Nodes())
	views, absent, err := s.Impairments(ctx, everywhere, true)
	if err != nil || len(absent) != 0 || len(views) != 2 || views[0].Options != "delay=2ms" || views[0].Chip != f.Topology.Nodes()[0] || views[0].Plane != 1 {
		t.Errorf("declared from the start: %+v, %v, %v", views, absent, err)
	}
	if cut := cutNow(ctx, s, all); len(cut) != 0 {
		t.Errorf("cut already: %v", cut)
	}
	if _, err := s.Cut(ctx, all, true, 0); err != nil {
		t.Fatal(err)
	}
	if cut := cutNow(ctx, s, all); !slices.Equal(cut, all) {
		t.Errorf("cut %v, want %v", cut, all)
	}
	short, end := context.WithTimeout(ctx, time.Second)
	if _, err := sessionOf(t, f, f.Topology.Nodes()[0]).Ping(short, f.Topology.Nodes()[1]); err == nil {
		t.Error("a ping passed although all cables are cut")
	}
	end()
	if back, _, err := s.Uncut(ctx, all); err != nil || !slices.Equal(back, all) {
		t.Fatalf("put back %v, %v", back, err)
	}
	if back, _, err := s.Uncut(ctx, all); err != nil || len(back) != 0 {
		t.Errorf("put back once more: %v, %v", back, err)
	}
	if _, err := f.WaitUp(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := sessionOf(t, f, f.Topology.Nodes()[0]).Ping(ctx, f.Topology.Nodes()[1]); err != nil {
		t.Errorf("with the cables back: %v", err)
	}
	if n, _, err := s.Flap(ctx, all[:1], 200*time.Millisecond, 50*time.Millisecond, 300*time.Millisecond); n != 2 || err != nil {
		t.Errorf("Flap cut the cable %d times, %v; want twice", n, err)
	}
	for end := time.Now().Add(soon); len(cutNow(ctx, s, all)) > 0; time.Sleep(pollInterval) {
		if time.Now().After(end) {
			t.Fatal("a cable that flapped stays cut")
		}
	}
	if _, err := s.ResetImpairments(ctx, everywhere); err != nil {
		t.Error(err)
	}
	if views, _, _ := s.Impairments(ctx, everywhere, true); len(views) != 0 {
		t.Errorf("impairments after the reset: %+v", views)
	}
	if err := f.KillChip(ctx, f.Topology.Nodes()[1]); err != nil {
		t.Fatal(err)
	}
	if s, err = f.Chips(); err != nil {
		t.Fatal(err)
	}
	if absent, err := s.Cut(ctx, all, true, 0); err != nil || !slices.Equal(absent, f.Topology.Nodes()[1:]) {
		t.Errorf("a cut at one end only: absent %v, %v", absent, err)
	}
	if cut := cutNow(ctx, s, all); !slices.Equal(cut, all) {
		t.Errorf("cables cut at one end only: %v", cut)
	}
}

// cutNow returns the links whose cables are cut at this moment, in one or both directions.
func cutNow(ctx context.Context, s *Chips, links []topo.Link) []topo.Link {
	views, _, _ := s.Impairments(ctx, PortsOf(s.Topology, s.All()), true)
	cut := map[wire.PortID]bool{}
	for _, v := range views {
		cut[wire.PortID{Node: v.Chip, Channel: v.Channel}] = v.Cut
	}
	return slices.DeleteFunc(slices.Clone(links), func(l topo.Link) bool { return !cut[l.A] && !cut[l.B] })
}

// TestTwoTrafficRuns starts several traffic runs at once. Each run must return the correct result
// of its own traffic, or the error that another command is running traffic. After the runs, another
// run succeeds.
func TestTwoTrafficRuns(t *testing.T) {
	f := up(t, own(t), "n300", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	cs := clients(t, f)
	want, err := f.PlanTraffic(TrafficWanted{Pattern: "all-to-all", Packets: 20000, Size: 64})
	if err != nil {
		t.Fatal(err)
	}
	began := make(chan struct{})
	var once sync.Once
	first := make(chan error, 1)
	go func() {
		long := want.Spec
		long.Packets = 1 << 40
		short, cancel := context.WithTimeout(ctx, soon)
		defer cancel()
		res, err := Traffic(short, cs, long, want.Pairs, func(n int) {
			if n > 0 {
				once.Do(func() { close(began) })
			}
			if n > 200000 {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) || res.Total.Failed != 0 || len(res.Silent) != 0 {
			err = fmt.Errorf("%w: %+v, silent %v", err, res.Total, res.Silent)
		} else {
			err = nil
		}
		first <- err
	}()
	<-began
	for range 3 {
		run := want.Spec
		run.Run = NewRun()
		var refused *api.StatusError
		if _, err := Traffic(ctx, cs, run, want.Pairs, nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), "another command") {
			t.Errorf("a second run: %v", err)
		}
	}
	if err := <-first; err != nil {
		t.Errorf("the first run: %v", err)
	}
	after := want.Spec
	after.Run = NewRun()
	if res, err := Traffic(ctx, cs, after, want.Pairs, nil); err != nil || !res.OK() {
		t.Errorf("a run after the first: %v, %+v, %d misdirected", err, res.Total, res.Misdirected)
	}
	if _, err := f.PlanTraffic(TrafficWanted{Pattern: "hotspot", Packets: 1, Size: 64, Hot: "M0D99"}); err == nil || !strings.Contains(err.Error(), "M0D99 is not in the topology") {
		t.Errorf("a hot chip that the fabric does not have: %v", err)
	}
}

// TestTrafficIsBalanced runs verified traffic, balances all packets, and traces packets.
func TestTrafficIsBalanced(t *testing.T) {
	f := up(t, own(t), "ring:4", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	cs := clients(t, f)
	plan, err := f.Plan()
	if err != nil {
		t.Fatal(err)
	}
	want, err := f.PlanTraffic(TrafficWanted{Pattern: "all-to-all", Packets: 480, Size: 256, Ways: traffic.MaxWays, HotShare: 1})
	if err != nil || len(want.Pairs) != 12 || want.Apart != 0 || want.Spec.Window != traffic.DefaultWindow {
		t.Fatalf("%+v, %v", want, err)
	}
	run, pairs := want.Spec, want.Pairs
	told := 0
	res, err := Traffic(ctx, cs, run, pairs, func(n int) { told = n })
	if err != nil || !res.OK() || res.Total.Delivered != 480 || told != 480 || len(res.Silent) != 0 {
		t.Errorf("%v: %+v, progress got %d packets, silent %v", err, res.Total, told, res.Silent)
	}
	b := Losses(ctx, cs, nil, soon)
	if requests := b.Classes[wire.ClassRequest]; !b.AtRest || b.Unexplained() != 0 || requests.Injected < 480 || requests.Injected != requests.Delivered || len(b.Silent)+len(b.Missing) != 0 {
		t.Errorf("at rest %v, unexplained %d, requests %+v, silent %v", b.AtRest, b.Unexplained(), requests, b.Silent)
	}
	nodes := f.Topology.Nodes()
	for _, other := range []bool{false, true} {
		r := Route{Src: nodes[0], Dst: nodes[2], Other: other}
		hops, err := r.Hops(plan)
		if err != nil || len(hops) != 2 || hops[0].To != map[bool]string{false: "M0D1", true: "M0D3"}[other] {
			t.Fatalf("the plan, other %v: %+v, %v", other, hops, err)
		}
		tr, err := f.Trace(ctx, r, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second packet must not get the records of the first
			seen, rtt, sent, err := tr.Packet(ctx, hops)
			if err != nil || sent != nil || rtt <= 0 || len(seen) != 2 {
				t.Fatalf("%+v, %v, %v, %v", seen, rtt, sent, err)
			}
			for _, h := range seen {
				if !h.Agrees || h.Verdict() != "as planned" || !strings.HasPrefix(h.Seen, h.To+" channel ") {
					t.Errorf("other %v: %+v", other, h)
				}
			}
		}
	}
	var none *NoRouteError
	if _, err := (Route{Src: nodes[0], Dst: nodes[2], Plane: 9}).Hops(plan); !errors.As(err, &none) || none.Plane != 9 {
		t.Errorf("on a plane that the topology does not have: %v", err)
	}
	ended, end := context.WithCancel(ctx)
	end()
	if _, err := Traffic(ended, cs, run, pairs, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
