package traffic

import (
	"encoding/csv"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// bound is a line of testdata/analytic_bounds.csv: the mean distance and the largest channel load
// of a pattern with BookSim's routes. Every node sends one flit per cycle.
type bound struct {
	machine, pattern string
	distance, load   float64
}

func bounds(t *testing.T) (out []bound) {
	t.Helper()
	f, err := os.Open("testdata/analytic_bounds.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines[1:] {
		kind := strings.TrimRight(l[0], "0123456789x")
		b := bound{machine: kind + ":" + l[0][len(kind):], pattern: l[1]}
		b.distance, _ = strconv.ParseFloat(l[2], 64)
		b.load, _ = strconv.ParseFloat(l[3], 64)
		out = append(out, b)
	}
	return out
}

// offer returns the flows of a pattern if each chip sends at a rate of 1. BookSim also counts
// packets of a chip to itself. The flow of a chip to itself gets the rate that the chip's pairs
// leave.
func offer(t *testing.T, m *topo.Topology, pattern string) (flows []route.Flow) {
	t.Helper()
	rest := map[wire.FabricNodeID]float64{}
	for _, c := range m.Chips {
		rest[c.Node] = 1
	}
	for _, p := range pairsOf(t, pattern, m, Options{}) {
		rate := 1.0
		if pattern == "uniform" {
			rate /= float64(len(m.Chips))
		}
		rest[p.Src] -= rate
		flows = append(flows, route.Flow{Src: p.Src, Dst: p.Dst, Rate: rate})
	}
	for _, c := range m.Chips {
		flows = append(flows, route.Flow{Src: c.Node, Dst: c.Node, Rate: rest[c.Node]})
	}
	return flows
}

// The mean distance must equal the bound for every machine and pattern. If packets with
// two equally short routes take both in turn, the largest load must equal the bound too.
// Without this split, the largest load exceeds the bound only for transpose and
// bit-reverse on a torus. In transpose and bit-reverse, all chips of a row turn into one
// column. The number of flows that turn is odd, and therefore one of the column's two
// directions carries more flows than the other.
func TestChannelLoadsAreTheAnalyticOnes(t *testing.T) {
	all := bounds(t)
	if len(all) != 47 {
		t.Fatalf("%d bounds", len(all))
	}
	const exact = 1e-9
	odd := map[string]bool{"torus:8x8 bitrev": true, "torus:8x8 transpose": true, "torus:4x4 bitrev": true, "torus:4x4 transpose": true}
	for _, b := range all {
		m := named(t, b.machine)
		plan, err := route.New(m, route.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, split := range []bool{true, false} {
			flows := offer(t, m, b.pattern)
			for i := range flows {
				flows[i].Split = split
			}
			l, err := plan.Loads(wire.ClassRequest, 0, flows)
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(l.Channels[l.Busiest]-l.Max) > exact || math.Abs(l.Distance-b.distance) > exact {
				t.Errorf("%s %s: distance %v, want %v; %v has %v, want the largest load, %v", b.machine, b.pattern, l.Distance, b.distance, l.Busiest, l.Channels[l.Busiest], l.Max)
			}
			switch name := b.machine + " " + b.pattern; {
			case split && math.Abs(l.Max-b.load) > exact:
				t.Errorf("%s: largest load %v, want %v", name, l.Max, b.load)
			case !split && (l.Max > b.load+exact) != odd[name]:
				t.Errorf("%s: largest load of whole paths %v, the bound is %v", name, l.Max, b.load)
			}
		}
	}
}

// The loads of all channels add up to the hops of all packets, also across meshes. The error for
// a flow without a route names the flow.
func TestChannelLoadsAddUp(t *testing.T) {
	for _, machine := range []string{"mesh:3x5", "torus:3x4", "spec-l1"} {
		m := named(t, machine)
		plan, err := route.New(m, route.Config{})
		if err != nil {
			t.Fatal(err)
		}
		var flows []route.Flow
		for i, p := range pairsOf(t, "uniform", m, Options{}) {
			flows = append(flows, route.Flow{Src: p.Src, Dst: p.Dst, Rate: float64(i%7) / 4})
		}
		l, err := plan.Loads(wire.ClassRequest, 0, flows)
		if err != nil {
			t.Fatal(err)
		}
		sum, hops, rate := 0.0, 0.0, 0.0
		for _, v := range l.Channels {
			sum += v
		}
		for _, f := range flows {
			way, _ := plan.Walk(wire.ClassRequest, 0, f.Src, f.Dst)
			hops, rate = hops+f.Rate*float64(len(way)), rate+f.Rate
		}
		if math.Abs(sum-hops) > 1e-6 || math.Abs(l.Distance-hops/rate) > 1e-9 {
			t.Errorf("%s: loads of %v for %v hops, distance %v", machine, sum, hops, l.Distance)
		}
		if _, err := plan.Loads(wire.ClassRequest, 9, flows); err == nil || !strings.Contains(err.Error(), "no route from M0D0") {
			t.Errorf("%s has no plane 9, and %v", machine, err)
		}
	}
}
