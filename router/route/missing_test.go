package route

import (
	"math/rand/v2"
	"slices"
	"testing"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// lackingSome returns a machine of which n pairs of neighbours have no cable. The chips still reach
// each other.
func lackingSome(t *testing.T, name string, n int, r *rand.Rand) *topo.Topology {
	t.Helper()
	m, err := topo.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	for len(m.Missing) < n {
		c := m.Cables[r.IntN(len(m.Cables))]
		e := topo.Edge{A: c.A.Node, B: c.B.Node}
		if c.Dir == wire.West || c.Dir == wire.North {
			e.A, e.B = e.B, e.A
		}
		was, missing := slices.Clone(m.Cables), slices.Clone(m.Missing)
		m.Cables = slices.DeleteFunc(m.Cables, func(d topo.Cable) bool { return d.A.Node == c.A.Node && d.B.Node == c.B.Node })
		m.Missing = append(m.Missing, e)
		slices.SortFunc(m.Missing, func(a, b topo.Edge) int {
			if k := a.A.Compare(b.A); k != 0 {
				return k
			}
			return a.B.Compare(b.B)
		})
		if m.Validate() != nil { // the chips no longer reach each other
			m.Cables, m.Missing = was, missing
		}
	}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestRoutesRoundMissingCables checks a machine with missing cables, with every engine. All chips
// must reach each other, no route may use a missing cable, and nothing may deadlock. Further cables
// then fail, and the same holds for the chips that still reach each other.
func TestRoutesRoundMissingCables(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, name := range []string{"mesh:4x4", "torus:4x8", "torus-x:3x4", "mesh:2x5", "2xt3000", "galaxy"} {
		for _, cfg := range []Config{{}, {Order: YX}, {Ring: Bubble}, {Engine: "updown"}} {
			m := lackingSome(t, name, 1+r.IntN(4), r)
			p, err := New(m, cfg)
			if err != nil {
				t.Fatal(err)
			}
			v := p.Check(p.Multicasts())
			if !v.OK() {
				t.Errorf("%s without %v, %+v: %s", name, m.Missing, cfg, &v)
			}
			reachAll(t, p, nil)
			if cfg.Engine != "" {
				continue
			}
			old := p
			for range 4 {
				out := []wire.PortID{m.Cables[r.IntN(len(m.Cables))].A, m.Cables[r.IntN(len(m.Cables))].B}
				q := p.Around(out)
				if v := q.Check(q.Multicasts()); !v.Sound() {
					t.Errorf("%s without %v, then %v: %s", name, m.Missing, out, &v)
				}
				if q.Replaces(old) == Unsound {
					t.Errorf("%s without %v, then %v: refused", name, m.Missing, out)
				}
				reachAll(t, q, out)
				old = q
			}
			if again := p.Around(nil); again.Hash() != p.Hash() {
				t.Errorf("%s without %v: the plan without faults has another hash", name, m.Missing)
			}
		}
	}
}

// reachAll checks that a route leads between any two chips of a mesh that cables in service
// connect. Each hop of the route must be over a cable in service. The cables "out" are out of
// service.
func reachAll(t *testing.T, p *Plan, out []wire.PortID) {
	t.Helper()
	for _, a := range p.top.Chips {
		there := connected(p, a.Node)
		for _, b := range p.top.Chips {
			if a.Node == b.Node || !there[b.Node] {
				continue
			}
			for c := range wire.Class(wire.NumClasses) {
				walk, ok := p.Walk(c, 0, a.Node, b.Node)
				if !ok {
					t.Fatalf("%s without %v and %v: no route from %s to %s", p.top.Name, p.top.Missing, out, a.Node, b.Node)
				}
				for _, h := range walk {
					if q, ok := p.Port(h.At, h.Dir, 0); !ok || p.down(q) {
						t.Fatalf("%s without %v and %v: the route from %s to %s leaves %s to %s, where no cable is", p.top.Name, p.top.Missing, out, a.Node, b.Node, h.At, h.Dir)
					}
				}
			}
		}
	}
}

// TestPartsAreNoFault checks which pairs of chips without a route a check counts. The check must
// not count pairs in two parts that no cable joins. The check must count a pair within one part.
func TestPartsAreNoFault(t *testing.T) {
	m, err := topo.Named("2xt3000")
	if err != nil {
		t.Fatal(err)
	}
	m.Cables = slices.DeleteFunc(m.Cables, topo.Cable.External)
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	p, err := New(m, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if v := p.Check(p.Multicasts()); !v.OK() || m.Apart() != 128 {
		t.Errorf("%s; %d pairs apart, want 128", &v, m.Apart())
	}
	whole, err := topo.Named("2xt3000")
	if err != nil {
		t.Fatal(err)
	}
	p, err = New(whole, Config{Failed: func(q wire.PortID) bool {
		i := slices.IndexFunc(whole.Cables, func(c topo.Cable) bool { return c.A == q || c.B == q })
		return whole.Cables[i].External()
	}})
	if err != nil {
		t.Fatal(err)
	}
	if v := p.Check(p.Multicasts()); v.OK() {
		t.Errorf("all cables between the meshes have failed: %s", &v)
	}
}
