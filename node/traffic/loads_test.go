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

// bound is a line of testdata/analytic_bounds.csv: what BookSim's routes make
// of a pattern if every node sends one flit per cycle, itself among the destinations.
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

// offer is a pattern's traffic where each chip sends at a rate of 1. What a
// chip sends to itself, as BookSim counts it, is what its pairs leave of that.
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

// turned is the machine's traffic seen from behind: the chip opposite the centre in the place of each.
func turned(m *topo.Topology, flows []route.Flow) (out []route.Flow) {
	opposite := func(n wire.FabricNodeID) wire.FabricNodeID {
		n.Chip = wire.ChipID(len(m.Chips)-1) - n.Chip
		return n
	}
	for _, f := range flows {
		out = append(out, route.Flow{Src: opposite(f.Src), Dst: opposite(f.Dst), Rate: f.Rate})
	}
	return out
}

// whole are the largest loads of our routes where they are above the bound. On
// a ring of even length, two chips opposite each other are as far both ways
// round, and the bound sends half of such packets each way. Ours all go one way,
// since the packets of a flow keep their order only on one path. In these
// patterns all chips of a row turn into the same column: seven flows (three on
// the small torus) come in by two cables, so that one cable has four (two).
var whole = map[string]float64{
	"torus:8x8 bitrev": 4, "torus:8x8 transpose": 4, "torus:4x4 bitrev": 2, "torus:4x4 transpose": 2,
}

// Distances are the bound's everywhere, and no load is above it that any whole
// paths could avoid. With the ties of even rings split as the bound splits them,
// which is the mean of one-way routes and of these turned round, all are equal.
func TestChannelLoadsAreTheAnalyticOnes(t *testing.T) {
	all := bounds(t)
	if len(all) != 47 {
		t.Fatalf("%d bounds", len(all))
	}
	const exact = 1e-9
	for _, b := range all {
		m := named(t, b.machine)
		flows := offer(t, m, b.pattern)
		loads := func(cfg route.Config, flows []route.Flow) route.Loads {
			plan, err := route.New(m, cfg)
			if err != nil {
				t.Fatal(err)
			}
			l, err := plan.Loads(wire.ClassRequest, 0, flows)
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(l.Channels[l.Busiest]-l.Max) > exact || math.Abs(l.Distance-b.distance) > exact {
				t.Errorf("%s %s: distance %v, want %v; %v has %v, want the largest load, %v", b.machine, b.pattern, l.Distance, b.distance, l.Busiest, l.Channels[l.Busiest], l.Max)
			}
			return l
		}
		there, back := loads(route.Config{OneWay: true}, flows), loads(route.Config{OneWay: true}, turned(m, flows))
		split := 0.0
		for _, c := range m.Chips {
			for d := range wire.Direction(wire.NumDirections) {
				behind := route.Out{At: wire.FabricNodeID{Chip: wire.ChipID(len(m.Chips)-1) - c.Node.Chip}, Dir: d.Opposite()}
				split = max(split, (there.Channels[route.Out{At: c.Node, Dir: d}]+back.Channels[behind])/2)
			}
		}
		if math.Abs(split-b.load) > exact {
			t.Errorf("%s %s: largest load with ties split %v, want %v", b.machine, b.pattern, split, b.load)
		}
		most := b.load
		if w, ok := whole[b.machine+" "+b.pattern]; ok {
			most = w
		}
		if l := loads(route.Config{}, flows); l.Max > most+exact || b.pattern == "uniform" && l.Max < most-exact {
			t.Errorf("%s %s: largest load %v, want %v", b.machine, b.pattern, l.Max, most)
		}
	}
}

// Every packet's hops are somebody's load, over meshes too, and a flow without a way is named.
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
		if _, err := plan.Loads(wire.ClassRequest, 9, flows); err == nil || !strings.Contains(err.Error(), "no way from M0D0") {
			t.Errorf("%s has no plane 9, and %v", machine, err)
		}
	}
}
