package fabric

import (
	"context"
	"errors"
	"strings"
	"testing"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/traffic"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// planned returns a fabric of the given machine that has no run folder and no chips.
func planned(t *testing.T, machine string) *Fabric {
	t.Helper()
	m, err := topo.Named(machine)
	if err != nil {
		t.Fatal(err)
	}
	s, err := spec.New("lab", m, spec.Default())
	if err != nil {
		t.Fatal(err)
	}
	return &Fabric{Spec: s, Topology: m}
}

// TestPlanTraffic plans a run of every pattern. PlanTraffic must fill empty options.
func TestPlanTraffic(t *testing.T) {
	f := planned(t, "mesh:4x4")
	for _, p := range traffic.Patterns {
		got, err := f.PlanTraffic(TrafficWanted{Pattern: p.Name, Packets: 1000, Size: 64, Ways: 1, HotShare: 50})
		if err != nil || len(got.Pairs) == 0 || got.Apart != 0 || got.Spec.Pattern != p.Name || got.Spec.Draw != p.Draw || got.Spec.Planes != f.Topology.Planes() || got.Spec.Run == 0 {
			t.Errorf("%s: %+v, %v", p.Name, got.Spec, err)
		}
		if err := traffic.CheckPairs(got.Pairs); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
	w := TrafficWanted{Pattern: "all-to-all", Packets: 1000, Size: 64, Ways: 1, HotShare: 50, Load: 10, Planes: 1}
	if got, err := f.PlanTraffic(w); err != nil || got.Spec.Window != traffic.MaxWindow || got.Spec.Planes != 1 {
		t.Errorf("with a load: %+v, %v", got.Spec, err)
	}
	lines := planned(t, "mesh:2x2")
	lines.Spec.Fabric = "1d" // no packet turns between a row and a column
	got, err := lines.PlanTraffic(TrafficWanted{Pattern: "all-to-all", Packets: 1000, Size: 64, Ways: 1, HotShare: 50})
	if err != nil || got.Apart != 4 || len(got.Pairs) != 8 {
		t.Errorf("with --fabric 1d: %d pairs, %d left out, %v; want 8 and 4", len(got.Pairs), got.Apart, err)
	}
}

// TestPlanTrafficRefuses plans runs with one bad value each. The error must contain the
// name of the option.
func TestPlanTrafficRefuses(t *testing.T) {
	f := planned(t, "n300")
	for want, bad := range map[string]func(*TrafficWanted){
		"all-to-all":  func(w *TrafficWanted) { w.Pattern = "x" },
		"packets":     func(w *TrafficWanted) { w.Packets = 0 },
		"bytes":       func(w *TrafficWanted) { w.Size = 1 },
		"--planes 3":  func(w *TrafficWanted) { w.Planes = 3 },
		"--ways -1":   func(w *TrafficWanted) { w.Ways = -1 },
		"--hot-share": func(w *TrafficWanted) { w.HotShare = -1 },
		"--hot:":      func(w *TrafficWanted) { w.Pattern, w.Hot = "hotspot", "D9" },
		"M0D9":        func(w *TrafficWanted) { w.Pattern, w.Hot = "hotspot", "M0D9" },
		"window":      func(w *TrafficWanted) { w.Window = traffic.MaxWindow + 1 },
		"load":        func(w *TrafficWanted) { w.Load = -1 },
	} {
		w := TrafficWanted{Pattern: "all-to-all", Packets: 100, Size: 64, Ways: 1, HotShare: 50}
		bad(&w)
		var e *spec.Error
		if _, err := f.PlanTraffic(w); !errors.As(err, &e) || e.Kind != spec.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want a usage error with %q", err, want)
		}
	}
}

// TestLatenciesStay collects reports with latencies, and later reports without latencies. The result
// must have the later counts and the earlier latencies. This also holds for a chip that has ended since.
func TestLatenciesStay(t *testing.T) {
	m := planned(t, "n300").Topology
	pairs := []traffic.Pair{{Src: m.Chips[0].Node, Dst: m.Chips[1].Node}, {Src: m.Chips[1].Node, Dst: m.Chips[0].Node}}
	var cs []*api.Client
	for i := range m.Chips {
		cs = append(cs, api.NewClient("", "", m.Chips[i].Node, m))
	}
	sent, latency, ended := uint64(0), traffic.Histogram{}, false
	ask := func(c *api.Client, _ context.Context, _ uint64) (traffic.Report, error) {
		if ended && c.Self() == m.Chips[1].Node {
			return traffic.Report{}, errors.New("the chip has ended")
		}
		r := traffic.Report{Run: 5, Chip: c.Self()}
		for _, p := range pairs {
			if p.Src == c.Self() {
				r.Source = append(r.Source, traffic.PairReport{Pair: p, Sent: sent, Completed: sent, Latency: latency})
			}
		}
		return r, nil
	}
	last := map[wire.FabricNodeID]traffic.Report{}
	sent, latency = 3, traffic.Histogram{N: 3, Buckets: map[int]uint64{20: 3}}
	collect(t.Context(), cs, ask, 1, 5, last)
	sent, latency, ended = 9, traffic.Histogram{}, true
	silent, done := collect(t.Context(), cs, ask, 1, 5, last)
	if len(silent) != 1 || silent[0] != m.Chips[1].Node || done {
		t.Errorf("silent: %v, done: %v", silent, done)
	}
	for i, want := range []uint64{9, 3} {
		if p := last[m.Chips[i].Node].Source[0]; p.Sent != want || p.Latency.N != 3 || p.Latency.Buckets[20] != 3 {
			t.Errorf("chip %d: %+v, want %d packets and the latencies of the first reports", i, p, want)
		}
	}
	latency = traffic.Histogram{N: 9, Buckets: map[int]uint64{30: 9}}
	collect(t.Context(), cs, ask, 1, 5, last)
	if p := last[m.Chips[0].Node].Source[0]; p.Latency.N != 9 || p.Latency.Buckets[20] != 0 {
		t.Errorf("%+v, want the newest latencies", p)
	}
}
