package sim

import (
	"encoding/csv"
	"maps"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"ttfabric/node/traffic"
	"ttfabric/router"
	"ttfabric/router/route"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// TestPatternsWithALoad runs each traffic pattern of the literature with half of the load that its
// routes can carry. All packets must arrive whole and in order.
func TestPatternsWithALoad(t *testing.T) {
	ph := phases{200, 600, 600}
	for _, machine := range []string{"mesh:4x4", "torus:4x4"} {
		for _, pattern := range []string{"uniform", "transpose", "bit-complement", "bit-reverse", "tornado", "shuffle", "neighbour", "hotspot"} {
			c := setup{machine, pattern, 1024, 3, router.SlotSpec}
			t.Run(machine+" "+pattern, func(t *testing.T) {
				t.Parallel()
				l, err := newLab(c)
				if err != nil {
					t.Fatal(err)
				}
				_, shared, err := l.bounds(c.size)
				if err != nil {
					t.Fatal(err)
				}
				p, err := try(c, min(shared, 1)/2, ph)
				if err != nil {
					t.Fatal(err)
				}
				few := 3 / math.Sqrt(p.Load*float64(ph.measure*len(l.s.machines)/2)) // three standard deviations of a count; some patterns have chips that send nothing
				if p.Unstable || p.Wrong != 0 || p.Resent != 0 || math.Abs(p.Accepted/p.Load-1) > few {
					t.Errorf("offered %.3f packets per cycle and chip: %+v", p.Load, p)
				}
			})
		}
	}
}

// carried makes every pair of a setup's pattern send packets in proportion to its weight, as fast
// as the window allows. carried returns the number of packets that each channel carried.
func (l *lab) carried(t *testing.T, c setup, each int) map[route.Out]float64 {
	t.Helper()
	weight := 0
	for _, p := range l.pairs {
		weight += int(max(p.Weight, 1))
	}
	n := len(l.s.machines)
	spec := traffic.Spec{Run: 1, Pattern: c.pattern, Packets: uint64(each * weight), Size: c.size, Planes: 1, Ways: traffic.MaxWays, Window: 32, Seed: 1}
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	l.under = make([][]mono.Time, n*n*traffic.MaxWays)
	l.from, l.to = l.s.now, mono.Never
	before := l.sent()
	for i, k := range l.s.machines {
		l.who = append(l.who, &worker{lab: l, self: i, gen: traffic.NewGenerator(spec, k.node, l.pairs), ver: traffic.NewVerifier(spec, k.node, l.pairs),
			open: map[uint64]traffic.Packet{}, buf: make([]byte, c.size), back: make([]byte, wire.MaxPayload)})
	}
	for i, k := range l.s.machines {
		k.chip.SetClient(l.who[i])
		l.s.run(k)
	}
	l.s.runUntil(l.s.now.Add(SettleTime), func() bool { return l.delivered == each*weight })
	if p, err := l.result(0, 1, phases{measure: 1}, 0); err != nil || p.Wrong != 0 || l.delivered != each*weight {
		t.Fatalf("%v: %d of %d packets delivered, %d wrong: %v", c, l.delivered, each*weight, p.Wrong, err)
	}
	after := l.sent()
	for o, v := range before {
		after[o] -= v
	}
	maps.DeleteFunc(after, func(_ route.Out, v float64) bool { return v == 0 })
	return after
}

// sent returns the number of requests that each channel has carried.
func (l *lab) sent() map[route.Out]float64 {
	out := map[route.Out]float64{}
	for _, k := range l.s.machines {
		for _, p := range k.chip.Status().Ports {
			out[route.Out{At: k.node, Dir: p.Dir}] += float64(p.Router.Classes[wire.ClassRequest].Sent)
		}
	}
	return out
}

// TestPatternsKeepTheBounds runs each traffic pattern of the literature on each machine with known
// analytic bounds. All packets must arrive as sent. No channel may carry more packets than the
// bound, and each channel must carry exactly the packets that route.Plan.Loads predicts. If both
// directions round a ring are equally long, packets take them in turn.
func TestPatternsKeepTheBounds(t *testing.T) {
	f, err := os.Open("../traffic/testdata/analytic_bounds.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != 48 {
		t.Fatalf("%d rows: %v", len(rows), err)
	}
	for _, row := range rows[1:] {
		kind := strings.TrimRight(row[0], "0123456789x")
		c := setup{kind + ":" + row[0][len(kind):], row[1], 64, 2, router.SlotSpec}
		t.Run(c.machine+" "+c.pattern, func(t *testing.T) {
			t.Parallel()
			l, err := newLab(c)
			if err != nil {
				t.Fatal(err)
			}
			each := 4 // half of the packets take each direction
			if c.pattern == "uniform" {
				each = 2
			}
			got := l.carried(t, c, each)
			var flows []route.Flow
			for _, p := range l.pairs {
				flows = append(flows, route.Flow{Src: p.Src, Dst: p.Dst, Rate: float64(each) * float64(max(p.Weight, 1)), Split: true})
			}
			want, err := l.plan.Loads(wire.ClassRequest, 0, flows)
			if err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(got, want.Channels) {
				t.Errorf("the channels carried %v, but the routes predict %v", got, want.Channels)
			}
			bound, err := strconv.ParseFloat(row[3], 64)
			if err != nil {
				t.Fatal(err)
			}
			unit := float64(each) // packets that a chip sends, including packets to itself
			if c.pattern == "uniform" {
				unit *= float64(len(l.s.machines))
			}
			most := 0.0
			for o, v := range got {
				if most = max(most, v); v > bound*unit {
					t.Errorf("%s %s carried %v packets for each packet of a chip; the bound is %v", o.At, o.Dir, v/unit, bound)
				}
			}
			if most < bound*unit {
				t.Errorf("the busiest channel carried %v packets for each packet of a chip; the bound is %v", most/unit, bound)
			}
		})
	}
}
