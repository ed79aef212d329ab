package topo

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"ttfabric/wire"
)

// chipsOf returns the key arch of a descriptor with n chips.
func chipsOf(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("%d: wormhole_b0", i))
	}
	return "arch: {" + strings.Join(list, ", ") + "}\n"
}

// reread finds that topology t is the same when it is read back from ttfabric's own form.
func reread(t *testing.T, m *Topology) {
	t.Helper()
	again, err := Load("f", m.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(m, again) {
		t.Errorf("read back as %+v, want %+v", again, m)
	}
}

// TestBoardsWithoutCables finds that boards that no cable joins become meshes of their own, as in
// tt-umd's wormhole_2xN300_unconnected.yaml.
func TestBoardsWithoutCables(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		parts          [][]wire.MeshID
		apart          int
	}{
		{"coordinates", chipsOf(4) + "chips: {0: [1,0,0,0], 1: [1,1,0,0], 2: [0,1,0,0], 3: [0,0,0,0]}\n" + cables("0-1 0-1 2-3 2-3"), "f: 4 chips in 2 meshes 2×1, 4 cables, 2 planes", [][]wire.MeshID{{0}, {1}}, 8},
		{"cables alone", chipsOf(5) + cables("0-1 2-3 3-4"), "f: 5 chips in 2 meshes 1×2, 1×3, 3 cables, 1 plane", [][]wire.MeshID{{0}, {1}}, 12},
		{"no cables", chipsOf(3), "f: 3 chips in 3 meshes 1×1, 0 cables, 0 planes", [][]wire.MeshID{{0}, {1}, {2}}, 6},
		{"equal coordinates", chipsOf(4) + "chips: {0: [0,0,0,0], 1: [1,0,0,0], 2: [0,0,0,0], 3: [1,0,0,0]}\n" + cables("0-1 2-3"), "f: 4 chips in 2 meshes 1×2, 2 cables, 1 plane", [][]wire.MeshID{{0}, {1}}, 8},
	} {
		m, err := Load("f", []byte(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if m.String() != c.want || !reflect.DeepEqual(m.Parts(), c.parts) || m.Apart() != c.apart {
			t.Errorf("%s: %s, parts %v, %d pairs apart; want %s, %v, %d", c.name, m, m.Parts(), m.Apart(), c.want, c.parts, c.apart)
		}
		if r := m.Remarks(true); len(r) == 0 || !strings.Contains(r[len(r)-1], "No cable joins the ") {
			t.Errorf("%s: remarks %q", c.name, r)
		}
		reread(t, m)
	}
}

// TestShelvesBecomeMeshes loads a machine whose cables fit no grid. Each shelf of the machine must
// become a mesh. In tt-metal's tg_cluster_desc.yaml, for example, chips of a separate shelf lead to
// a Galaxy.
func TestShelvesBecomeMeshes(t *testing.T) {
	in := chipsOf(6) + "chips: {0: [0,0,0,0], 1: [0,1,0,0], 2: [0,0,0,1], 3: [1,0,0,1], 4: [0,1,0,1], 5: [1,1,0,1]}\n" +
		cables("2-3 2-3 2-4 2-4 3-5 3-5 4-5 4-5 0-2 0-3 1-5")
	m, err := Load("f", []byte(in))
	if err != nil {
		t.Fatal(err)
	}
	if want := "f: 6 chips in 3 meshes 1×1, 2×2, 11 cables, 2 planes"; m.String() != want {
		t.Errorf("got %s, want %s", m, want)
	}
	if e := m.Exits(2, 0); len(e) != 2 || e[0].Local.Node.Chip == e[1].Local.Node.Chip || len(m.Exits(2, 1)) != 1 || len(m.Parts()) != 1 {
		t.Errorf("exits %v and %v, parts %v", e, m.Exits(2, 1), m.Parts())
	}
	reread(t, m)
}

// TestMissingCables finds that Load reads grids in which some neighbours have no cable, with and
// without coordinates. The topology lists these neighbours.
func TestMissingCables(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, name := range []string{"mesh:4x4", "torus:4x8", "torus-x:3x5", "mesh:3x7", "torus:6x6"} {
		m := mustName(t, name)
		gone := map[[2]wire.ChipID]bool{}
		for _, c := range m.Cables {
			if pair := [2]wire.ChipID{c.A.Node.Chip, c.B.Node.Chip}; len(gone) < 2 && r.IntN(12) == 0 {
				gone[pair] = true
			}
		}
		if len(gone) == 0 {
			gone[[2]wire.ChipID{0, 1}] = true
		}
		m.Cables = slices.DeleteFunc(m.Cables, func(c Cable) bool { return gone[[2]wire.ChipID{c.A.Node.Chip, c.B.Node.Chip}] })
		placed, err := mustName(t, name).EncodeClusterDescriptor()
		if err != nil {
			t.Fatal(err)
		}
		var kept []string
		for line := range strings.Lines(string(placed)) {
			drop := false
			for pair := range gone {
				drop = drop || strings.Contains(line, fmt.Sprintf("{chip: %d,", pair[0])) && strings.Contains(line, fmt.Sprintf("{chip: %d,", pair[1]))
			}
			if !drop {
				kept = append(kept, line)
			}
		}
		for form, in := range map[string]string{"coordinates": strings.Join(kept, ""), "cables alone": string(withoutPlaces(m, r.Perm(len(m.Chips))))} {
			got, err := Load("f", []byte(in))
			if err != nil {
				t.Errorf("%s, %s: %v", name, form, err)
				continue
			}
			want := mustName(t, name)
			if got.Meshes[0] != want.Meshes[0] || len(got.Missing) != len(gone) || len(got.Cables) != len(want.Cables)-2*len(gone) {
				t.Errorf("%s, %s: read as %s without cables between %v; %d edges have no cable", name, form, got, got.Missing, len(gone))
			}
			if s := strings.Join(got.Remarks(true), " "); !strings.Contains(s, "routes lead round them") {
				t.Errorf("%s, %s: remarks %q", name, form, s)
			}
			reread(t, got)
		}
	}
}

// TestMissingIsChecked finds that a topology lists exactly the neighbours without a cable, and that
// the chips of a mesh reach each other.
func TestMissingIsChecked(t *testing.T) {
	ok := string(mustName(t, "mesh:2x2").Encode())
	none := slices.DeleteFunc(strings.SplitAfter(ok, "    - a:"), func(s string) bool { return strings.HasPrefix(s, " M0D0/") && strings.Contains(s, "b: M0D1/") })
	in := strings.Join(none, "")
	in = strings.ReplaceAll(in, "    - a:netem", "netem")
	for _, c := range []struct{ add, want string }{
		{"", "no cable joins the neighbours M0D0 and M0D1"},
		{"missing: [[M0D0, M0D1]]\n", ""},
		{"missing: [[M0D1, M0D0]]\n", "no cable joins the neighbours M0D0 and M0D1"},
		{"missing: [[M0D0, M0D1], [M0D0, M0D1]]\n", "missing twice"},
		{"missing: [[M0D0, M0D1], [M0D2, M0D3]]\n", "2 pairs of neighbours are said to lack a cable, and 1 pairs lack a cable"},
		{"missing: [M0D0]\n", "missing: want a pair such as [M0D0, M0D1]"},
		{"missing: [[M0D0, x]]\n", `chip "x": want an id such as M0D3`},
		{"missing: [[M0D0, M0D1]]\nleft_out: [{count: 0, what: a, why: b}]\n", "left_out: want count (at least 1), what and why"},
		{"missing: [[M0D0, M0D1]]\nleft_out: [{count: 1, what: a, why: b, x: 1}]\n", `unknown key "x"`},
	} {
		m, err := Load("f", []byte(in+c.add))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v %v, want %q", c.add, m, err, c.want)
		}
	}
	alone := mustName(t, "mesh:1x3")
	alone.Cables = slices.DeleteFunc(alone.Cables, func(c Cable) bool { return c.A.Node.Chip == 0 })
	alone.Missing = []Edge{{wire.FabricNodeID{}, wire.FabricNodeID{Chip: 1}}}
	if err := alone.Validate(); err == nil || !strings.Contains(err.Error(), "no cables lead from chip M0D0 to chip M0D1 within mesh 0") {
		t.Errorf("a mesh in two parts: %v", err)
	}
}

// TestLeftOut finds that the topology lists what the file has and the topology has not.
func TestLeftOut(t *testing.T) {
	m, err := Load("f", []byte(joined+"ethernet_connections_to_remote_devices:\n - [{chip: 0, chan: 9}, {remote_chip_id: 77, chan: 3}]\n - [{chip: 0, chan: 9}, {remote_chip_id: 77, chan: 3}]\n - [{chip: 1, chan: 9}, {remote_chip_id: 78, chan: 3}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []LeftOut{{2, "cables to other hosts", "a topology has only the chips of its file"}, {1, "entries that list a cable again", "the topology has each cable once"}}
	if !slices.Equal(m.LeftOut, want) {
		t.Errorf("got %v, want %v", m.LeftOut, want)
	}
	reread(t, m)
	if m, err = Load("f", []byte(m0+topMesh+pinning(0, 0)+pinning(0, 1))); err != nil || len(m.LeftOut) != 1 || m.LeftOut[0].String() != "pinnings (2), because the chips are not those of a machine; 'ttfabric map' honours pinnings" {
		t.Errorf("got %v %v", m.LeftOut, err)
	}
	reread(t, m)
}

// TestMisleadingMissingCablesEndSoon finds that the search for a grid with missing cables is fast
// even if the cables mislead the search.
func TestMisleadingMissingCablesEndSoon(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 4 {
		m := mustName(t, "torus:16x16")
		for range 30 {
			a, b := &m.Cables[r.IntN(len(m.Cables))], &m.Cables[r.IntN(len(m.Cables))]
			a.B, b.B = b.B, a.B
		}
		m.Cables = slices.DeleteFunc(m.Cables, func(c Cable) bool { return r.IntN(10) == 0 })
		begin := cpu(t)
		_, err := Load("f", withoutPlaces(m, r.Perm(256)))
		if took := cpu(t) - begin; took > 10*time.Second {
			t.Errorf("%.90v after %s", err, took)
		} else {
			t.Logf("%.90v after %s", err, took)
		}
	}
}
