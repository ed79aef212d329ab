package mapping

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// descriptor returns a mesh graph descriptor of n meshes, with a connection of "count" cables from each mesh to the next.
func descriptor(arch, dims, types, channels, hosts string, n int, count, rest string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "mesh_descriptors { name: \"M0\" arch: %s device_topology { dims: [ %s ] dim_types: [ %s ] } channels { count: %s } host_topology { dims: [ %s ] } }\n", arch, dims, types, channels, hosts)
	if b.WriteString(rest); n == 1 {
		return b.String() + "\ntop_level_instance { mesh { mesh_descriptor: \"M0\" mesh_id: 0 } }\n"
	}
	b.WriteString("graph_descriptors { name: \"G\" type: \"FABRIC\"\n")
	for i := range n {
		fmt.Fprintf(&b, " instances { mesh { mesh_descriptor: \"M0\" mesh_id: %d } }\n", i)
	}
	for i := range n - 1 {
		fmt.Fprintf(&b, " connections { nodes { mesh { mesh_descriptor: \"M0\" mesh_id: %d } } nodes { mesh { mesh_descriptor: \"M0\" mesh_id: %d } } channels { count: %s } }\n", i, i+1, count)
	}
	return b.String() + "}\ntop_level_instance { graph { graph_descriptor: \"G\" graph_id: 0 } }\n"
}

func cluster(t *testing.T, name string) Host {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	c, err := topo.LoadCluster(name, b)
	if err != nil {
		t.Fatal(err)
	}
	return Host{name, c}
}

// galaxies returns n hosts, each a Wormhole Galaxy of 4×8 chips. Four cables join each chip in the last column of a
// host with the chip in the first column of the next host.
func galaxies(t testing.TB, n int) (hosts []Host) {
	t.Helper()
	m, err := topo.Named("galaxy-umd")
	if err != nil {
		t.Fatal(err)
	}
	unique := func(host, chip int) uint64 { return uint64(host)<<40 | uint64(chip) + 1 }
	for h := range n {
		x := HostOf(m)
		x.Name = fmt.Sprintf("host%d", h)
		at := map[int]int{} // tt-umd's id of the chip at a place
		used := map[topo.ClusterPort]bool{}
		for i := range x.Cluster.Chips {
			c := &x.Cluster.Chips[i]
			at[c.Row*8+c.Col] = c.UMD
			c.UniqueID = unique(h, c.UMD)
		}
		for _, c := range x.Cluster.Cables {
			used[c[0]], used[c[1]] = true, true
		}
		free := func(chip int) (list []wire.Channel) {
			for ch := range wire.Channel(16) {
				if !used[topo.ClusterPort{Chip: chip, Channel: ch}] {
					list = append(list, ch)
				}
			}
			return list
		}
		for row := range 4 {
			east, west := at[row*8+7], at[row*8]
			for k := range 4 {
				if h < n-1 {
					x.Cluster.Far = append(x.Cluster.Far, topo.FarCable{Port: topo.ClusterPort{Chip: east, Channel: free(east)[k]}, Unique: unique(h+1, west), Channel: free(west)[k]})
				}
				if h > 0 {
					x.Cluster.Far = append(x.Cluster.Far, topo.FarCable{Port: topo.ClusterPort{Chip: west, Channel: free(west)[k]}, Unique: unique(h-1, east), Channel: free(east)[k]})
				}
			}
		}
		hosts = append(hosts, x)
	}
	return hosts
}

func mapOn(t *testing.T, text string, o Options, hosts ...Host) (*Mapping, *Machine, error) {
	t.Helper()
	g, err := topo.LoadGraph("g.textproto", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	m, err := Join(hosts)
	if err != nil {
		t.Fatal(err)
	}
	out, err := Map("g.textproto", g, m, o)
	return out, m, err
}

// agrees checks that a mapping is right: each cable of its topology is a cable of the machine, with the same channels.
func agrees(t *testing.T, out *Mapping, m *Machine) {
	t.Helper()
	physical := map[wire.FabricNodeID]int{}
	for _, p := range out.Chips {
		physical[p.Chip] = slices.IndexFunc(m.Chips, func(c Chip) bool { return c.UniqueID == p.Unique })
	}
	for _, c := range out.Topology.Cables {
		a, b := sorted(Port{physical[c.A.Node], c.A.Channel}, Port{physical[c.B.Node], c.B.Channel})
		if !slices.ContainsFunc(m.Cables, func(x Cable) bool { return x.A == a && x.B == b }) {
			t.Fatalf("the machine has no cable from %v to %v", c.A, c.B)
		}
	}
	again, err := topo.Load("f", out.Topology.Encode())
	if err != nil || again.Hash() != out.Topology.Hash() {
		t.Errorf("the written topology: %v", err)
	}
}

func TestMap(t *testing.T) {
	t3k, galaxy := cluster(t, "t3k_cluster_desc.yaml"), cluster(t, "6u_cluster_desc.yaml")
	pin := func(chip, tray, location int) string {
		return fmt.Sprintf("pinnings { logical_fabric_node_id { mesh_id: 0 chip_id: %d } physical_asic_position { tray_id: %d asic_location: %d } }\n", chip, tray, location)
	}
	for _, c := range []struct {
		name, text string
		hosts      []Host
		want       string // the topology, or a part of the error
	}{
		{"t3k", descriptor("WORMHOLE_B0", "2, 4", "LINE, LINE", "2", "1, 1", 1, "", ""), []Host{t3k}, "g.textproto: 8 chips 2×4, 20 cables, 2 planes"},
		{"as a ring", descriptor("WORMHOLE_B0", "1, 8", "LINE, RING", "2", "1, 1", 1, "", ""), []Host{t3k}, "g.textproto: 8 chips 1×8○, 16 cables, 2 planes"},
		{"half of it", descriptor("WORMHOLE_B0", "2, 2", "LINE, LINE", "2", "1, 1", 1, "", ""), []Host{t3k}, "g.textproto: 4 chips 2×2, 8 cables, 2 planes"},
		{"two meshes", descriptor("WORMHOLE_B0", "2, 2", "LINE, LINE", "2", "1, 1", 2, "4", ""), []Host{t3k}, "g.textproto: 8 chips in 2 meshes 2×2, 20 cables, 2 planes"},
		{"fewer channels", descriptor("WORMHOLE_B0", "4, 8", "LINE, LINE", "3", "1, 1", 1, "", ""), []Host{galaxy}, "g.textproto: 32 chips 4×8, 156 cables, 3 planes"},
		{"pinned", descriptor("WORMHOLE_B0", "8, 4", "LINE, LINE", "4", "1, 1", 1, "", pin(0, 4, 1)), []Host{galaxy}, "g.textproto: 32 chips 8×4, 208 cables, 4 planes"},
		{"relaxed", descriptor("WORMHOLE_B0", "2, 4", "LINE, LINE", "4 policy: RELAXED", "1, 1", 1, "", ""), []Host{t3k}, "g.textproto: 8 chips 2×4, 20 cables, 2 planes"},
		{"relaxed between", descriptor("WORMHOLE_B0", "2, 2", "LINE, LINE", "2", "1, 1", 2, "9 policy: RELAXED", ""), []Host{t3k}, "g.textproto: 8 chips in 2 meshes 2×2, 20 cables, 2 planes"},
		{"two hosts", descriptor("WORMHOLE_B0", "4, 16", "LINE, LINE", "4", "1, 2", 1, "", ""), galaxies(t, 2), "g.textproto: 64 chips 4×16, 432 cables, 4 planes"},
		{"a mesh for each host", descriptor("WORMHOLE_B0", "4, 8", "LINE, LINE", "4", "1, 1", 3, "16", ""), galaxies(t, 3), "g.textproto: 96 chips in 3 meshes 4×8, 656 cables, 4 planes"},

		{"strict", descriptor("WORMHOLE_B0", "2, 4", "LINE, LINE", "3", "1, 1", 1, "", ""), []Host{t3k}, "2 chips do not fit together: M0D0, M0D4 (each smaller part of this set fits). They want 3 cables between M0D0–M0D4. In the machine, cables join 10 pairs of chips, at most 2 within a mesh, and a chip has at most 3 neighbours."},
		{"strict between", descriptor("WORMHOLE_B0", "2, 2", "LINE, LINE", "2", "1, 1", 2, "5", ""), []Host{t3k}, "5 cables between M0 and M1 (line 5)"},
		{"torus", descriptor("WORMHOLE_B0", "4, 8", "RING, RING", "4", "1, 1", 1, "", ""), []Host{galaxy}, "chips do not fit together: M0D0"},
		{"too many", descriptor("WORMHOLE_B0", "4, 4", "LINE, LINE", "2", "1, 1", 1, "", ""), []Host{t3k}, "the descriptor has 16 chips, and the machine 8"},
		{"other architecture", descriptor("BLACKHOLE", "2, 4", "LINE, LINE", "2", "1, 1", 1, "", ""), []Host{t3k}, "the descriptor is for chips of the architecture blackhole, and the machine has wormhole_b0"},
		{"no such tray", descriptor("WORMHOLE_B0", "4, 8", "LINE, LINE", "4", "1, 1", 1, "", pin(3, 9, 1)), []Host{galaxy}, "chip M0D3 is pinned on line 2, but the machine has no chip at tray 9 location 1; the machine has trays 1 to 4 and locations 1 to 8"},
		{"two at one place", descriptor("WORMHOLE_B0", "4, 8", "LINE, LINE", "4", "1, 1", 1, "", pin(0, 1, 1)+pin(31, 1, 1)), []Host{galaxy}, "2 chips do not fit together: M0D0, M0D31 (each smaller part of this set fits). They want M0D0 at its pinned place, M0D31 at its pinned place."},
		{"corner in the middle", descriptor("WORMHOLE_B0", "4, 8", "LINE, LINE", "4", "1, 1", 1, "", pin(9, 4, 1)), []Host{galaxy}, "at its pinned place"},
		{"one mesh on two hosts", descriptor("WORMHOLE_B0", "4, 16", "LINE, LINE", "4", "1, 1", 1, "", ""), galaxies(t, 2), "the chips of each host of host_topology on one host of the machine. In the machine, cables join 108 pairs of chips, at most 4 within a mesh, and a chip has at most 4 neighbours; its largest host has 32 chips."},
		{"pinnings without trays", descriptor("WORMHOLE_B0", "4, 8", "LINE, LINE", "4", "1, 1", 1, "", pin(0, 1, 1)), galaxies(t, 1), "the machine's files do not say on which tray a chip is"},
	} {
		out, m, err := mapOn(t, c.text, Options{}, c.hosts...)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) || strings.HasPrefix(c.want, "g.textproto") {
				t.Errorf("%s: %v\nwant %s", c.name, err, c.want)
			}
			continue
		}
		if agrees(t, out, m); out.Topology.String() != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, out.Topology, c.want)
		}
	}
}

// TestPinned checks that pinned chips are at their places, and that any of several chips may be at any of several places.
func TestPinned(t *testing.T) {
	galaxy := cluster(t, "6u_cluster_desc.yaml")
	out, _, err := mapOn(t, descriptor("WORMHOLE_B0", "8, 4", "LINE, LINE", "4", "1, 1", 1, "", `pinnings {
	logical_fabric_node_id { mesh_id_regex: "0-3" chip_id: 0 } logical_fabric_node_id { mesh_id: 0 chip_id_regex: "3,28,31" }
	physical_asic_position { tray_id_regex: "[1-4]" asic_location: 1 } }
`), Options{}, galaxy)
	if err != nil {
		t.Fatal(err)
	}
	trays := map[int]bool{}
	for _, p := range out.Chips {
		corner := slices.Contains([]wire.ChipID{0, 3, 28, 31}, p.Chip.Chip)
		if p.Pinned != corner || corner && p.Location != 1 {
			t.Errorf("%+v", p)
		}
		if corner {
			trays[p.Tray] = true
		}
	}
	if len(trays) != 4 {
		t.Errorf("the corners are on the trays %v", trays)
	}
}

// TestRelaxed checks that a mapping names the demands that have fewer cables than wanted.
func TestRelaxed(t *testing.T) {
	out, _, err := mapOn(t, descriptor("WORMHOLE_B0", "2, 2", "LINE, LINE", "4 policy: RELAXED", "1, 1", 2, "9 policy: RELAXED", ""), Options{}, cluster(t, "t3k_cluster_desc.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if want := []Connection{{"M0", "M1", 9, 4, true}}; !reflect.DeepEqual(out.Connections, want) || len(out.Short) != 8 || out.Short[0].Given != 2 || out.Short[0].Wanted != 4 {
		t.Errorf("connections %+v, short %+v", out.Connections, out.Short)
	}
}

func TestAnyHost(t *testing.T) {
	text := descriptor("WORMHOLE_B0", "4, 16", "LINE, LINE", "4", "1, 1", 1, "", "")
	if out, m, err := mapOn(t, text, Options{AnyHost: true}, galaxies(t, 2)...); err != nil {
		t.Error(err)
	} else {
		agrees(t, out, m)
	}
}

func TestJoin(t *testing.T) {
	two := galaxies(t, 2)
	m, err := Join([]Host{two[0], two[0], two[1]}) // two ranks share a host
	if err != nil || m.String() != "64 chips of 2 hosts, 432 cables" {
		t.Fatal(m, err)
	}
	one := two[1]
	c := *one.Cluster
	c.Far, one.Cluster = c.Far[1:], &c
	if m, err = Join([]Host{two[0], one}); err != nil || len(m.Cables) != 431 || !slices.Equal(m.LeftOut, []topo.LeftOut{{Count: 1, What: "cables between hosts", Why: "only one of the two hosts' files has them"}}) {
		t.Error(m, m.LeftOut, err)
	}
	if m, err = Join(two[:1]); err != nil || !slices.Equal(m.LeftOut, []topo.LeftOut{{Count: 16, What: "cables to chips of other hosts", Why: "no file has these chips"}}) {
		t.Error(m.LeftOut, err)
	}
	t3k := cluster(t, "t3k_cluster_desc.yaml")
	fewer := *t3k.Cluster
	fewer.Chips = fewer.Chips[:7]
	other := *t3k.Cluster
	other.Arch = wire.Blackhole
	for want, hosts := range map[string][]Host{
		"no chips": nil, "have the same unique id, but the hosts have different chips": {{"a", &fewer}, {"b", t3k.Cluster}},
		"a fabric has only one architecture": {t3k, {"b", &other}},
	} {
		if _, err := Join(hosts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

func TestReadRanks(t *testing.T) {
	for in, want := range map[string]string{
		"rank_to_cluster_mock_cluster_desc:\n  1: \"b/x.yaml\"\n  0: a.yaml\n":                               "[a.yaml b/x.yaml]",
		"rank_to_cluster_mock_cluster_desc:\n  - {rank: 1, filename: b}\n  - rank: 0\n    filename: \"a\"\n": "[a b]",
		"rank_to_cluster_mock_cluster_desc: {}\n":                                                            "names no cluster descriptor",
		"rank_to_cluster_mock_cluster_desc: 3\n":                                                             "names no cluster descriptor",
		"rank_to_cluster_mock_cluster_desc: [{rank: 0}]\n":                                                   "line 1: want rank and filename",
		"rank_to_cluster_mock_cluster_desc: {x: y}\n":                                                        "line 1: want a rank",
		"rank_to_cluster_mock_cluster_desc: {0: y, 00: z}\n":                                                 "want each rank once",
		"other: 1\n": "no key",
		"a: [\n":     "not YAML",
	} {
		got, err := ReadRanks([]byte(in))
		if text := fmt.Sprint(got); err != nil && !strings.Contains(err.Error(), want) || err == nil && text != want {
			t.Errorf("%q: %v %v, want %s", in, got, err, want)
		}
	}
	if got := Candidates("/x/y/m.yaml", "a/b.yaml"); !slices.Equal(got, []string{"a/b.yaml", "/x/y/a/b.yaml", "/x/a/b.yaml", "/a/b.yaml", "/x/y/b.yaml", "/x/b.yaml", "/b.yaml"}) {
		t.Errorf("%q", got)
	}
}

// BenchmarkSixteenGalaxies maps four meshes of 4×32 chips, each on four hosts, on a machine of 16 Galaxies.
func BenchmarkSixteenGalaxies(b *testing.B) {
	g, err := topo.LoadGraph("g.textproto", []byte(descriptor("WORMHOLE_B0", "4, 32", "LINE, LINE", "4", "1, 4", 4, "16", "")))
	if err != nil {
		b.Fatal(err)
	}
	m, err := Join(galaxies(b, 16))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Map("g", g, m, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
