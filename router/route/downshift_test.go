package route

import (
	"testing"

	"ttfabric/wire"
)

// TestDownshiftedRoutes plans fabrics that do not use all cables of their machines (Spec §3). A mesh on a torus, and a line on
// a ring, must have the routes of the machine without the wraps. No route may use a cable that the fabric does not use. The
// routes must be sound.
func TestDownshiftedRoutes(t *testing.T) {
	for _, x := range []struct {
		name, like    string
		apart         func(a, b int) bool // whether chips a and b have no route
		multicast, no wire.Ranges         // ranges of the chip in the middle that the fabric has, and ranges that the fabric lacks
	}{
		{"torus:4x4@mesh", "mesh:4x4", nil, wire.Ranges{Hops: [4]uint8{2, 1, 1, 2}}, wire.Ranges{Hops: [4]uint8{3}}},
		{"torus:3x5@open-y", "torus-x:3x5", nil, wire.Ranges{Hops: [4]uint8{3}}, wire.Ranges{Hops: [4]uint8{0, 0, 2}}},
		{"ring:6@line", "line:6", nil, wire.Ranges{Hops: [4]uint8{2}}, wire.Ranges{Hops: [4]uint8{5}}},
		{"mesh:3x4@x", "", func(a, b int) bool { return a/4 != b/4 }, wire.Ranges{Hops: [4]uint8{1, 1}}, wire.Ranges{Hops: [4]uint8{0, 0, 1}}},
		{"mesh:3x4@y", "", func(a, b int) bool { return a%4 != b%4 }, wire.Ranges{Hops: [4]uint8{0, 0, 1, 1}}, wire.Ranges{Hops: [4]uint8{1}}},
		{"torus:4x4@x", "", func(a, b int) bool { return a/4 != b/4 }, wire.Ranges{Hops: [4]uint8{2, 1}}, wire.Ranges{Hops: [4]uint8{1, 0, 1}}},
		{"torus:4x4@y,line", "", func(a, b int) bool { return a%4 != b%4 }, wire.Ranges{Hops: [4]uint8{0, 0, 1, 1}}, wire.Ranges{Hops: [4]uint8{0, 0, 2}}},
		{"galaxy@x,planes=1", "", func(a, b int) bool { return a/4 != b/4 }, wire.Ranges{Hops: [4]uint8{1, 1}}, wire.Ranges{Hops: [4]uint8{0, 0, 1}}},
		{"galaxy@planes=2", "mesh:8x4", nil, wire.Ranges{Hops: [4]uint8{1, 1, 1, 1}}, wire.Ranges{Hops: [4]uint8{4}}},
	} {
		for _, engine := range []string{"dor", "updown"} {
			p := plan(t, x.name, Config{Engine: engine})
			m := p.Topology()
			if v := p.Check(p.Multicasts()); !v.Sound() || v.Unreachable != 0 {
				t.Errorf("%s, %s: %s", x.name, engine, &v)
			}
			var like *Plan
			if x.like != "" {
				like = plan(t, x.like, Config{Engine: engine})
			}
			for a := range m.Chips {
				for b := range m.Chips {
					for c := range wire.Class(wire.NumClasses) {
						leg, ok := p.Leg(nil, c, 0, chip(0, a), chip(0, b))
						if want := a != b && (x.apart == nil || !x.apart(a, b)); ok != want {
							t.Fatalf("%s, %s: route from %d to %d: %t, want %t", x.name, engine, a, b, ok, want)
						}
						if like != nil {
							if want, _ := like.Leg(nil, c, 0, chip(0, a), chip(0, b)); letters(leg) != letters(want) {
								t.Fatalf("%s, %s: route from %d to %d: %s, want %s as on %s", x.name, engine, a, b, letters(leg), letters(want), x.like)
							}
						}
						at := chip(0, a)
						for _, d := range leg {
							next, there := m.Neighbour(at, d, 0)
							if at = next; !there {
								t.Fatalf("%s, %s: the route %s from %d to %d leaves the used cables", x.name, engine, letters(leg), a, b)
							}
						}
						if _, ok := p.Leg(nil, c, wire.Plane(m.Planes()), chip(0, a), chip(0, b)); ok {
							t.Fatalf("%s: a route on plane %d", x.name, m.Planes())
						}
					}
				}
			}
		}
		p := plan(t, x.name, Config{})
		mid := chip(0, p.grids[0].mesh.Cols+1)
		if p.grids[0].mesh.Rows == 1 {
			mid = chip(0, 1)
		}
		if _, err := p.Multicast(0, mid, x.multicast); err != nil {
			t.Errorf("%s: %v", x.name, err)
		}
		if tree, err := p.Multicast(0, mid, x.no); err == nil {
			t.Errorf("%s: ranges %s have the tree %v", x.name, x.no, tree)
		}
	}
}
