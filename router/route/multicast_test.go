package route

import (
	"fmt"
	"strings"
	"testing"

	"ttfabric/wire"
)

// TestMulticastTrees plans multicasts for all ranges from every chip of some machines. The tree
// must reach exactly the members that function "rectangle" computes, each once, over existing
// cables. Branches may turn only from the dimension that routes use first to the other dimension.
func TestMulticastTrees(t *testing.T) {
	for _, name := range []string{"line:4", "ring:5", "mesh:3x4", "torus:3x4", "torus-x:3x3", "t3000"} {
		for _, cfg := range []Config{{}, {Order: YX}} {
			p := plan(t, name, cfg)
			m := p.Topology().Meshes[0]
			for src := range m.Rows * m.Cols {
				for n := range 4 * 4 * 4 * 4 {
					r := wire.Ranges{Hops: [4]uint8{uint8(n & 3), uint8(n >> 2 & 3), uint8(n >> 4 & 3), uint8(n >> 6)}}
					tree, err := p.Multicast(0, chip(0, src), r)
					if want := rectangle(m.Rows, m.Cols, m.WrapX, m.WrapY, src, r); (err == nil) != (want != nil) {
						t.Fatalf("%s from %d, %s: %v; want %v", name, src, r, err, want)
					} else if err == nil {
						checkTree(t, p, tree, chip(0, src), want)
					}
				}
			}
		}
	}
}

// rectangle computes the members of a multicast by arithmetic, and returns nil if the ranges are
// invalid.
func rectangle(rows, cols int, wrapX, wrapY bool, src int, r wire.Ranges) map[int]bool {
	e, w, n, s := int(r.Hops[0]), int(r.Hops[1]), int(r.Hops[2]), int(r.Hops[3])
	if e+w+n+s == 0 || e+w >= cols || n+s >= rows {
		return nil
	}
	set := map[int]bool{}
	for y := src/cols - n; y <= src/cols+s; y++ {
		for x := src%cols - w; x <= src%cols+e; x++ {
			if !wrapX && (x < 0 || x >= cols) || !wrapY && (y < 0 || y >= rows) {
				return nil
			}
			if c := (y+rows)%rows*cols + (x+cols)%cols; c != src {
				set[c] = true
			}
		}
	}
	return set
}

func checkTree(t *testing.T, p *Plan, tree []Branch, src wire.FabricNodeID, want map[int]bool) {
	t.Helper()
	at := map[wire.FabricNodeID]bool{src: true}
	second := map[wire.FabricNodeID]bool{} // chips reached along the second dimension
	for _, b := range tree {
		along := (axis(b.Dir) == 0) != (p.Config().Order == XY)
		if second[b.From] && !along {
			t.Fatalf("from %s: %s turns back to the first dimension at %s", src, p.Config().Order, b.From)
		}
		second[b.To] = along
		to, ok := p.Topology().Neighbour(b.From, b.Dir, 0)
		if !ok || to != b.To || !at[b.From] || at[b.To] || b.Member != want[int(b.To.Chip)] {
			t.Fatalf("from %s: hop %+v of %+v", src, b, tree)
		}
		at[b.To] = true
	}
	if len(tree) != len(want) {
		t.Fatalf("from %s: %d hops for %d members", src, len(tree), len(want))
	}
}

// TestMulticastsNeverDeadlock finds that multicast trees and unicast routes of one plan together
// close no cycle.
func TestMulticastsNeverDeadlock(t *testing.T) {
	for _, name := range []string{"line:5", "ring:5", "mesh:3x3", "torus:3x3", "torus:4x4", "torus-y:5x2", "spec-l1", "2xt3000"} {
		for _, cfg := range []Config{{}, {Order: YX}, {Ring: Bubble}, {Lines: true}, {Engine: "updown"}} {
			if cfg.Lines && name != "mesh:3x3" {
				continue
			}
			p := plan(t, name, cfg)
			if v := p.Check(p.Multicasts()); v.Cycle != nil {
				t.Errorf("%s %+v: %s", name, cfg, &v)
			}
		}
	}
}

func TestMulticastErrors(t *testing.T) {
	line := func(d wire.Direction, hops, skip uint8) (r wire.Ranges) {
		r.Hops[d], r.Skip[d] = hops, skip
		return r
	}
	gone := func(q wire.PortID) bool { return q.Node.Chip == 1 }
	for _, c := range []struct {
		machine string
		cfg     Config
		plane   wire.Plane
		r       wire.Ranges
		want    string
	}{
		{"mesh:3x3", Config{}, 0, wire.Ranges{}, "the ranges have no hops"},
		{"mesh:3x3", Config{}, 0, line(wire.West, 1, 0), "the ranges leave mesh 0"},
		{"mesh:3x3", Config{}, 0, line(wire.East, 3, 0), "at most 2 hops east and west together"},
		{"ring:5", Config{}, 0, wire.Ranges{Hops: [4]uint8{3, 2}}, "a chip is named twice"},
		{"mesh:3x3", Config{}, 0, line(wire.East, 2, 2), "the ranges skip all hops E"},
		{"mesh:3x3", Config{}, 7, line(wire.East, 2, 0), "no cable from M0D0 to M0D1 on plane 7"},
		{"mesh:3x3", Config{Failed: gone}, 0, line(wire.East, 2, 0), "no cable from M0D1 to M0D2"},
		{"mesh:3x3", Config{Engine: "updown"}, 0, line(wire.East, 2, 0), "updown does not support multicast"},
		{"mesh:3x3", Config{Lines: true}, 0, wire.Ranges{Hops: [4]uint8{1, 0, 0, 1}}, "no turns"},
		{"2xt3000", Config{}, 0, line(wire.East, 4, 0), "mesh 0"}, // the ranges would need a cable to the next mesh
	} {
		_, err := plan(t, c.machine, c.cfg).Multicast(c.plane, chip(0, 0), c.r)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: got %v, want %s", c.machine, c.r, err, c.want)
		}
	}
	if tree, err := plan(t, "line:5", Config{}).Multicast(0, chip(0, 0), line(wire.East, 3, 1)); err != nil || fmt.Sprint(len(tree), tree[0].Member, tree[1].Member) != "3 false true" {
		t.Errorf("start 2, range 2: %+v, %v", tree, err)
	}
}
