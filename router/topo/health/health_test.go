package health

import (
	"slices"
	"testing"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// worked has the example tables of tt-metal's README_fabric_reliability_mode.md, sections "RELAXED
// intramesh" and "RELAXED intermesh".
var worked = []struct {
	mgd, fsd, psd                                     int
	planes, downed, unused, registered, notRegistered int
	intermesh                                         bool
}{
	{2, 2, 1, 2, 1, 0, 0, 0, false},
	{2, 4, 3, 2, 0, 1, 0, 0, false},
	{4, 2, 1, 2, 1, 0, 0, 0, false},
	{2, 2, 1, 0, 1, 0, 1, 0, true},
	{2, 4, 3, 0, 0, 1, 2, 0, true},
	{4, 2, 1, 0, 1, 0, 1, 2, true},
	{8, 4, 1, 0, 3, 0, 1, 4, true},
	{4, 16, 15, 0, 0, 1, 4, 0, true},
	{16, 16, 15, 0, 1, 0, 15, 0, true},
}

func TestWorkedTables(t *testing.T) {
	for _, w := range worked {
		n := topo.PlaneCount{Declared: w.mgd, Expected: w.fsd, Live: w.psd}
		if n.Downed() != w.downed || n.UnusedDowned() != w.unused {
			t.Errorf("%+v: %d downed and %d unused, want %d and %d", n, n.Downed(), n.UnusedDowned(), w.downed, w.unused)
		}
		if !w.intermesh && n.Planes() != w.planes {
			t.Errorf("%+v: %d planes, want %d", n, n.Planes(), w.planes)
		}
		if w.intermesh && (n.Registered() != w.registered || max(0, n.Declared-n.Expected) != w.notRegistered) {
			t.Errorf("%+v: %d registered, want %d", n, n.Registered(), w.registered)
		}
	}
}

// twoChips returns a machine of two chips with n cables between them. The chips are in one mesh, or
// in two meshes if intermesh is true.
func twoChips(t *testing.T, n int, intermesh bool) *topo.Topology {
	t.Helper()
	m := &topo.Topology{Name: "two", Arch: wire.Wormhole, Meshes: []topo.Mesh{{Rows: 1, Cols: 2}}}
	a, b := wire.FabricNodeID{}, wire.FabricNodeID{Chip: 1}
	chips := []topo.Chip{{Node: a, UMD: topo.NoUMD}, {Node: b, Col: 1, UMD: topo.NoUMD}}
	if intermesh {
		b = wire.FabricNodeID{Mesh: 1}
		m.Meshes = []topo.Mesh{{Rows: 1, Cols: 1}, {ID: 1, Rows: 1, Cols: 1}}
		chips[1] = topo.Chip{Node: b, UMD: topo.NoUMD}
	}
	m.Chips = chips
	for k := range wire.Channel(n) {
		m.Cables = append(m.Cables, topo.Cable{A: wire.PortID{Node: a, Channel: k}, B: wire.PortID{Node: b, Channel: k}, Dir: wire.East, Back: wire.West, Plane: wire.Plane(k)})
	}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestWorkedTablesOnMachines compares Diagnose with the example tables, on machines of two chips.
func TestWorkedTablesOnMachines(t *testing.T) {
	for _, w := range worked {
		routed, expected := twoChips(t, w.mgd, w.intermesh), twoChips(t, w.fsd, w.intermesh)
		left := w.psd
		gone := map[wire.PortID]bool{}
		h := Diagnose(routed, expected, func(c topo.Cable) bool {
			// The cables on the lowest planes are missing, because the fabric routes these cables.
			if missing := w.fsd - left; missing > 0 && int(c.Plane) < w.fsd-w.psd {
				gone[c.A], gone[c.B] = true, true
				return false
			}
			return true
		})
		if len(h.Downed) != w.downed || len(h.Unused) != w.unused || len(h.Directions) != 2 {
			t.Fatalf("%+v: downed %v, unused %v, directions %v", w, h.Downed, h.Unused, h.Directions)
		}
		for i, d := range h.Directions {
			want := w.planes
			if w.intermesh {
				want = w.registered
			}
			if d.Usable != want || d.Down != w.downed || d.Unused != w.unused || d.External != w.intermesh || d.Direction != "EW"[i:i+1] {
				t.Errorf("%+v: %+v", w, d)
			}
			if got := h.UsablePlanes(d.Chip, wire.Direction(i)); got != want {
				t.Errorf("%+v: %d usable planes, want %d", w, got, want)
			}
		}
		for _, c := range expected.Cables {
			for _, p := range []wire.PortID{c.A, c.B} {
				if ok, err := h.Healthy(p); err != nil || ok == gone[p] {
					t.Errorf("%+v: %s healthy: %v, %v", w, p, ok, err)
				}
			}
		}
		if _, err := h.Healthy(wire.PortID{Channel: 15, Node: wire.FabricNodeID{Chip: 7}}); err == nil {
			t.Error("Healthy returns no error for a port without a cable")
		}
	}
}

// TestPlanesAreTheFewestOfTheRow finds that an edge with fewer cables lowers the number of planes
// of its row, but of no other row. A missing cable that the fabric does not route counts as unused,
// with direction NONE.
func TestPlanesAreTheFewestOfTheRow(t *testing.T) {
	build := func(thin bool) *topo.Topology {
		m, err := topo.Named("mesh:2x3")
		if err != nil {
			t.Fatal(err)
		}
		if thin { // the second edge of the first row lacks a cable
			k := slices.IndexFunc(m.Cables, func(c topo.Cable) bool { return c.A.Node.Chip == 1 && c.Dir == wire.East && c.Plane == 1 })
			m.Cables = slices.Delete(m.Cables, k, k+1)
		}
		return m
	}
	routed, expected := build(false), build(true)
	at := func(c int) wire.FabricNodeID { return wire.FabricNodeID{Chip: wire.ChipID(c)} }
	spare := topo.Cable{A: wire.PortID{Node: at(0), Channel: 14}, B: wire.PortID{Node: at(5), Channel: 14}, Dir: wire.North, Back: wire.South}
	expected.Cables = append([]topo.Cable{spare}, expected.Cables...)
	h := Diagnose(routed, expected, func(c topo.Cable) bool { return c != spare })
	for _, x := range []struct{ chip, want int }{{0, 1}, {1, 1}, {3, 2}, {4, 2}} {
		if got := h.UsablePlanes(at(x.chip), wire.East); got != x.want {
			t.Errorf("%d planes from chip %d to the east, want %d", got, x.chip, x.want)
		}
	}
	if got := h.UsablePlanes(at(1), wire.South); got != 2 {
		t.Errorf("%d planes to the south, want 2", got)
	}
	if len(h.Downed) != 0 || len(h.Unused) != 1 || h.Unused[0] != spare || h.UsablePlanes(at(0), wire.North) != 0 {
		t.Errorf("downed %v, unused %v", h.Downed, h.Unused)
	}
	none := 0
	for _, d := range h.Directions {
		if d.Direction == topo.NoDirection {
			none++
		}
	}
	if none != 2 {
		t.Errorf("%d directions are %s, want the two of the cable that is not routed", none, topo.NoDirection)
	}
}

// TestDiagnoseEveryMachine diagnoses every built-in machine. With all cables live, no cable is
// missing. With no cable live, each cable is missing once.
func TestDiagnoseEveryMachine(t *testing.T) {
	for _, b := range topo.Builders {
		m, err := topo.Named(b.Example)
		if err != nil {
			t.Fatal(err)
		}
		if h := Diagnose(m, m, func(topo.Cable) bool { return true }); len(h.Downed)+len(h.Unused) != 0 {
			t.Errorf("%s: %v, %v", m, h.Downed, h.Unused)
		}
		h := Diagnose(m, m, func(topo.Cable) bool { return false })
		if len(h.Downed)+len(h.Unused) != len(m.Cables) {
			t.Errorf("%s: %d downed and %d unused", m, len(h.Downed), len(h.Unused))
		}
		for _, c := range h.Unused {
			if !c.Unused {
				t.Errorf("%s: Health.Unused has %v, which the fabric routes", m, c)
			}
		}
		for _, d := range h.Directions {
			if mesh := d.Chip.Mesh; !d.External && d.Usable < m.MeshPlanes(mesh) {
				t.Errorf("%s: %d planes in %+v", m, m.MeshPlanes(mesh), d)
			}
		}
	}
}
