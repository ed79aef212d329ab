package route

import (
	"fmt"
	"slices"
	"testing"

	"ttfabric/wire"
)

// TestOtherWays compares the routes of a plan and its Other. For chips opposite each other on a
// ring, the route of Other goes the opposite direction round the ring, in both dimensions. The
// route of the plan and the route of Other have the same length. All other routes must be equal.
func TestOtherWays(t *testing.T) {
	for _, name := range []string{"ring:4", "ring:6", "ring:8", "torus:4x4", "torus:3x4", "torus:8x8", "torus-x:3x4", "torus-y:4x2"} {
		for _, cfg := range []Config{{}, {Order: YX}, {Ring: Bubble}} {
			p := plan(t, name, cfg)
			o := p.Other()
			if o == p || o.Other() != p || o.Hash() != p.Hash() || o.Longest() != p.Longest() {
				t.Fatalf("%s %+v: Other has no opposite routes, or does not belong to the plan", name, cfg)
			}
			m := p.top.Meshes[0]
			for _, a := range p.top.Chips {
				for _, b := range p.top.Chips {
					if a.Node == b.Node {
						continue
					}
					for c := range wire.Class(wire.NumClasses) {
						usual, _ := p.Leg(nil, c, 0, a.Node, b.Node)
						other, _ := o.Leg(nil, c, 0, a.Node, b.Node)
						want, ways := slices.Clone(usual), 1
						for i, d := range want {
							n, wrap, k := m.Cols, m.WrapX, int(a.Node.Chip)%m.Cols-int(b.Node.Chip)%m.Cols
							if axis(d) == 1 {
								n, wrap, k = m.Rows, m.WrapY, int(a.Node.Chip)/m.Cols-int(b.Node.Chip)/m.Cols
							}
							if wrap && 2*max(k, -k) == n && c != wire.ClassControl {
								want[i], ways = d.Opposite(), 2
							}
						}
						if !slices.Equal(other, want) {
							t.Fatalf("%s %+v class %d: the route from %s to %s is %v, Other has %v, want %v", name, cfg, c, a.Node, b.Node, usual, other, want)
						}
						if got := p.WaysBetween(a.Node, b.Node); c == wire.ClassRequest && got != ways {
							t.Fatalf("%s %+v: %d routes from %s to %s, want %d", name, cfg, got, a.Node, b.Node, ways)
						}
					}
				}
			}
		}
	}
}

// TestNoOtherWays finds that Other returns the plan itself if the plan has no opposite routes or
// must not use them.
func TestNoOtherWays(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  Config
	}{{"mesh:4x4", Config{}}, {"ring:5", Config{}}, {"torus:3x5", Config{}}, {"torus:4x4", Config{OneWay: true}}, {"torus:4x4", Config{Ring: NoRing}},
		{"torus:4x4", Config{Engine: "updown"}}, {"spec-l1", Config{}}} {
		if p := plan(t, c.name, c.cfg); p.Other() != p || p.WaysBetween(chip(0, 0), chip(0, 2)) != 1 {
			t.Errorf("%s %+v has opposite routes", c.name, c.cfg)
		}
	}
}

// TestOtherWaysAreProved finds that Check covers the routes of Other. On rings of four chips with
// NoRing, each of the two plans is free of deadlock alone, but both together are not. Check must
// also find routes of Other that lead astray.
func TestOtherWaysAreProved(t *testing.T) {
	for _, name := range []string{"ring:4", "torus:4x4"} {
		p := plan(t, name, Config{})
		p.cfg.Ring, p.other.cfg.Ring = NoRing, NoRing
		for _, alone := range []bool{false, true} {
			if alone {
				p.other = p
			}
			for _, v := range []Verdict{p.Check(Multicasts{}), p.CheckScheme(scheme(t, "own"), Multicasts{})} {
				if (v.Cycle == nil) != alone {
					t.Errorf("%s, alone: %v: %s", name, alone, &v)
				}
				checkCycle(t, p, &v)
			}
		}
	}
	p, old := plan(t, "ring:4", Config{}), plan(t, "ring:4", Config{})
	for _, q := range []*Plan{p, p.other, old, old.other} {
		q.cfg.Ring = NoRing
	}
	p.other = p
	if v := p.CheckAfter(old, Multicasts{}); v.Cycle == nil {
		t.Errorf("CheckAfter does not include the packets of Other that are under way: %s", &v)
	}
	q := plan(t, "torus:4x4", Config{})
	q.other.grids[0].legs = strays{q.other.grids[0].legs, func([]wire.Direction) []wire.Direction { return []wire.Direction{wire.East} }}
	if v, w := q.Check(Multicasts{}), q.CheckScheme(scheme(t, "own"), Multicasts{}); v.Astray == 0 || v.Sound() || w.Channels == 0 {
		t.Errorf("a route of Other goes astray: Check says %s; CheckScheme says %s", &v, &w)
	}
}

// TestOtherWaysAreCaught finds that CheckAfter covers packets of Other that are caught at a fault.
// Caught packets continue on the usual route, and close no cycle.
func TestOtherWaysAreCaught(t *testing.T) {
	for _, name := range []string{"ring:4", "ring:6", "torus:4x4", "torus:3x4"} {
		for _, ring := range []Ring{Dateline, Bubble} {
			base := plan(t, name, Config{Ring: ring})
			for _, c := range base.top.Cables {
				p := base.Around(cablesBetween(base.top, c.A.Node, c.B.Node))
				if v := p.CheckAfter(base, base.Multicasts()); !v.Sound() {
					t.Errorf("%s %s: %s", name, ring, &v)
				}
				for pl := range base.top.Planes() {
					k := newChecker(p.other, wire.Plane(pl), wire.ClassRequest, p.graph())
					if k.caught(base.other); name != "ring:4" && c.Plane == wire.Plane(pl) && k.g.edges() == 0 {
						t.Errorf("%s %s: no packet is caught at %s", name, ring, fmt.Sprint(c.A))
					}
				}
			}
		}
	}
}

// TestSplitLoads finds that a split flow puts half of its load on each of two routes.
func TestSplitLoads(t *testing.T) {
	p := plan(t, "ring:4", Config{})
	l, err := p.Loads(wire.ClassRequest, 0, []Flow{{chip(0, 0), chip(0, 2), 3, true}, {chip(0, 1), chip(0, 2), 1, true}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[Out]float64{{chip(0, 0), wire.East}: 1.5, {chip(0, 1), wire.East}: 2.5, {chip(0, 0), wire.West}: 1.5, {chip(0, 3), wire.West}: 1.5}
	if fmt.Sprint(l.Channels) != fmt.Sprint(want) || l.Max != 2.5 || l.Distance != 7.0/4 {
		t.Errorf("%+v, want %v", l, want)
	}
}
