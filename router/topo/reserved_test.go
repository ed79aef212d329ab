package topo_test

import (
	"testing"

	"ttfabric/router/topo"
)

// TestReserved counts the cables that the dispatcher reserves: one of two on each n300 board, and none
// elsewhere.
func TestReserved(t *testing.T) {
	for name, want := range map[string]int{"n300": 1, "t3000": 4, "mesh:2x4": 0, "galaxy": 0} {
		m, err := topo.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, c := range m.Cables {
			a, b := m.Reserved(c.A), m.Reserved(c.B)
			if a != b {
				t.Errorf("%s: the ends of %v differ", name, c)
			}
			if a {
				n++
			}
		}
		if n != want {
			t.Errorf("%s: %d cables are reserved, want %d", name, n, want)
		}
	}
}
