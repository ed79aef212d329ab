package topo

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ttfabric/wire"
)

// descriptors returns the names of the files in testdata that describe machines.
func descriptors(t testing.TB) (names []string) {
	for _, pattern := range []string{"testdata/*.yaml", "testdata/*.textproto"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			names = append(names, filepath.Base(f))
		}
	}
	return names
}

// Parts of mesh graph descriptors. m0 is a mesh descriptor of five lines, and g0 is the beginning
// of a graph descriptor with two meshes of m0.
const (
	m0 = "mesh_descriptors {\n  name: \"M0\" arch: WORMHOLE_B0\n  device_topology { dims: [ 2, 2 ] }\n  channels { count: 2 }\n}\n"
	g0 = "graph_descriptors {\n  name: \"G0\" type: \"FABRIC\"\n  instances { mesh { mesh_descriptor: \"M0\" mesh_id: 0 } }\n  instances { mesh { mesh_descriptor: \"M0\" mesh_id: 1 } }\n"
	// topMesh and topGraph are the last lines of a file. topMesh names a mesh of m0 as the whole
	// machine, and topGraph the graph g0.
	topMesh  = "top_level_instance { mesh { mesh_descriptor: \"M0\" mesh_id: 0 } }\n"
	topGraph = "top_level_instance { graph { graph_descriptor: \"G0\" graph_id: 0 } }\n"
)

func connection(a, b, rest string) string {
	return fmt.Sprintf("  connections {\n    nodes { mesh { mesh_descriptor: \"M0\" %s } }\n    nodes { mesh { mesh_descriptor: \"M0\" %s } }\n    %s\n  }\n", a, b, rest)
}

// TestToleratedGraphs finds that Load reads different spellings of one machine as equal topologies.
// The spellings come from two versions of the schema and from textual protobuf.
func TestToleratedGraphs(t *testing.T) {
	want := "f: 8 chips in 2 meshes 2×2, 18 cables, 2 planes"
	conn := connection("mesh_id: 0", "mesh_id: 1", "channels { count: 2 }")
	plain := m0 + g0 + conn + "}\n" + topGraph
	for name, in := range map[string]string{
		"plain":             plain,
		"colons":            strings.ReplaceAll(plain, " {", ": {"),
		"angles":            strings.NewReplacer("{", "<", "}", ">").Replace(plain),
		"separators":        strings.ReplaceAll(plain, "type: \"FABRIC\"", "; type: 'FABRIC',"),
		"comments":          strings.ReplaceAll(plain, "\n", " # \"x\" {\n"),
		"CRLF":              strings.ReplaceAll(plain, "\n", "\r\n"),
		"byte order":        "\uFEFF" + plain,
		"strings":           strings.ReplaceAll(plain, "\"G0\"", "'G' \"\\060\""),
		"hex":               strings.ReplaceAll(plain, "mesh_id: 1", "mesh_id: 0x1"),
		"repeated dims":     strings.ReplaceAll(plain, "dims: [ 2, 2 ]", "dims: 2 dims: 2"),
		"types":             strings.ReplaceAll(plain, "dims: [ 2, 2 ]", "dims: [ 2, 2 ] types: [ LINE ]"),
		"dim_types":         strings.ReplaceAll(plain, "dims: [ 2, 2 ]", "dims: [ 2, 2 ] dim_types: LINE dim_types: LINE"),
		"short rings":       strings.ReplaceAll(plain, "dims: [ 2, 2 ]", "dims: [ 2, 2 ] dim_types: [RING, RING]"),
		"hosts":             strings.ReplaceAll(plain, "channels { count: 2 }\n}\ngraph", "channels { count: 2 policy: RELAXED }\n host_topology { dims: [1, 2] }\n}\ngraph"),
		"unknown fields":    strings.ReplaceAll(plain, "arch:", "future { a: -1.5e+3 b: [ { c: x }, <> ] } [pkg.ext] { d: 1 } e: [] arch:"),
		"no zero ids":       strings.ReplaceAll(strings.ReplaceAll(plain, "mesh_id: 0", ""), "graph_id: 0", ""),
		"the older enum":    m0 + g0 + "  graph_topology: ALL_TO_ALL\n  channels { count: 2 }\n}\n" + topGraph,
		"the older ring":    m0 + g0 + "  graph_topology: RING\n  channels { count: 2 policy: STRICT }\n}\n" + topGraph,
		"the newer form":    m0 + g0 + "  graph_topology { layout_type: RING channels { count: 2 } }\n}\n" + topGraph,
		"devices":           m0 + g0 + connection("mesh_id: 0 device_id: 3", "mesh_id: 1 device_id: 0", "channels { count: 2 } directional: false") + "}\n" + topGraph,
		"both directions":   m0 + g0 + connection("mesh_id: 0", "mesh_id: 1", "channels { count: 2 } directional: true") + connection("mesh_id: 1", "mesh_id: 0", "channels { count: 2 } directional: true") + "}\n" + topGraph,
		"older YAML":        "ChipSpec: {arch: wormhole_b0, ethernet_ports: {N: 2, E: 2, S: 2, W: 2}}\nBoard: [{name: B, type: Mesh, topology: [2, 2]}]\nMesh: [{id: 0, board: B}, {id: 1, board: B, device_topology: [2, 2]}]\nGraph: [[[0, E0], [1, W0]], [[0, E1], [1, W1]], [[1, W0], [0, E0]]]\n",
		"YAML chips":        "ChipSpec: {arch: wormhole_b0, ethernet_ports: {N: 2, E: 2, S: 2, W: 2}}\nBoard: [{name: B, type: Mesh, topology: [2, 2]}]\nMesh: [{id: 0, board: B}, {id: 1, board: B}]\nGraph: [[[M0, D1], [M1, D1], 1], [[M0, D2], [M1, D2], 1], [[M1, D2], [M0, D2], 1]]\n",
		"relaxed YAML":      "ChipSpec: {arch: wormhole_b0, ethernet_ports: {N: 2, E: 2, S: 2, W: 2}}\nBoard: [{name: B, type: Mesh, topology: [1, 2]}]\nMesh: [{id: 0, board: B, topology: [2, 1]}, {id: 1, board: B, topology: [2, 1], host_ranks: [[0]]}]\nRelaxedGraph: [[M0, M1, 2], [M1, M0, 2]]\n",
		"a third dimension": strings.ReplaceAll(plain, "channels { count: 2 }\n  }", "channels { count: 2 }\n assign_z_direction: true\n  }"),
		"pinnings":          plain + "pinnings { logical_fabric_node_id { mesh_id: 0 chip_id: 0 } physical_asic_position { tray_id: 1 asic_location: 7 } }\n",
		"chips, not boards": "ChipSpec: {arch: wormhole_b0, ethernet_ports: {N: 2, E: 2, S: 2, W: 2}}\nBoard: [{name: B, type: Mesh, topology: [1, 2]}]\nMesh: [{id: 0, board: B, topology: [2, 2], host_ranks: [[0], [1]]}, {id: 1, board: B, topology: [2, 1], host_ranks: [[0], [1]]}]\nRelaxedGraph: [[M0, M1, 2]]\n",
		"wider than asked":  strings.ReplaceAll(plain, "channels { count: 2 }\n  }", "channels { count: 2 policy: RELAXED }\n  }"),
	} {
		topo, err := Load("f", []byte(in))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if topo.String() != want {
			t.Errorf("%s: got %s, want %s", name, topo, want)
		}
	}
	row, err := Load("f", []byte(strings.ReplaceAll(m0, "[ 2, 2 ]", "[ 5 ] dim_types: [ RING ]")+topMesh))
	if err != nil || row.String() != "f: 5 chips 1×5○, 10 cables, 2 planes" {
		t.Errorf("one dimension: %v %v", row, err)
	}
}

// TestMorePortsThanPlanes finds that cables beyond the number of planes of a mesh are unused.
func TestMorePortsThanPlanes(t *testing.T) {
	topo, err := Load("f", []byte("ChipSpec: {arch: wormhole_b0, ethernet_ports: {N: 4, E: 2, S: 4, W: 2}}\nBoard: [{name: B, type: Mesh, topology: [2, 2]}]\nMesh: [{id: 0, board: B}, {id: 1, board: B}]\n"+
		"Graph: [[[0, S0], [1, N0]], [[0, S1], [1, N1]], [[0, S2], [1, N2]], [[0, S3], [1, N3]]]\n"))
	if err != nil || topo.String() != "f: 8 chips in 2 meshes 2×2, 28 cables (10 unused), 2 planes" || len(topo.Exits(0, 1)) != 2 {
		t.Errorf("got %v %v", topo, err)
	}
}

// TestGraphsOfGraphs reads graphs that contain graphs. The file is a short form of tt-metal's
// mgd2_syntax_check without its express connections.
func TestGraphsOfGraphs(t *testing.T) {
	pod := func(name string, n int, body string) string {
		var b strings.Builder
		fmt.Fprintf(&b, "graph_descriptors { name: %q type: \"POD\"\n", name)
		for i := range n {
			fmt.Fprintf(&b, " instances { mesh { mesh_descriptor: \"M0\" mesh_id: %d } }\n", i)
		}
		return b.String() + body + "}\n"
	}
	in := m0 + pod("A", 2, connection("mesh_id: 0 device_id: 0", "mesh_id: 1 device_id: 0", "channels { count: 2 policy: RELAXED }")) +
		pod("B", 3, "graph_topology { layout_type: ALL_TO_ALL channels { count: 2 } }\n") +
		"graph_descriptors { name: \"G0\" type: \"CLUSTER\"\n instances { graph { graph_descriptor: \"A\" graph_id: 1 } }\n instances { graph { graph_descriptor: \"B\" graph_id: 0 } }\n" +
		" graph_topology { layout_type: ALL_TO_ALL channels { count: 2 } }\n" +
		" connections { nodes { graph { graph_descriptor: \"A\" graph_id: 1 mesh { mesh_descriptor: \"M0\" mesh_id: 1 device_id: 3 } } }\n" +
		"  nodes { graph { graph_descriptor: \"B\" graph_id: 0 mesh { mesh_descriptor: \"M0\" mesh_id: 2 device_id: 0 } } } channels { count: 1 } }\n}\n" + topGraph
	topo, err := Load("f", []byte(in))
	if err != nil {
		t.Fatal(err)
	}
	var joined []string
	for _, m := range topo.Meshes {
		joined = append(joined, fmt.Sprint(m.ID, topo.Peers(m.ID)))
	}
	if want := []string{"0 [1 2]", "1 [0 4]", "2 [0 3 4]", "3 [2 4]", "4 [1 2 3]"}; !slices.Equal(joined, want) {
		t.Errorf("got %v, want %v", joined, want)
	}
	if ps := topo.Exits(1, 4); len(ps) != 1 || ps[0].Local.Node.Chip != 3 {
		t.Errorf("mesh 1 leaves to mesh 4 by %v, want one port of chip 3", ps)
	}
	if !strings.Contains(topo.Layout, "several mesh instances have the same mesh_id") {
		t.Errorf("layout %q", topo.Layout)
	}
}

// TestToriMakeRoomForExits finds that connected tori give up the rings of their shorter axis. A
// chip of a torus has no free direction for exits. An example is tt-metal's quad Galaxy.
func TestToriMakeRoomForExits(t *testing.T) {
	for _, c := range []struct{ dims, shape, layout string }{
		{"[ 5, 4 ] dim_types: [ RING, RING ]", "5○×4", "the rows of 2 meshes, 0 to 1, are lines instead of rings, because a chip of a torus has no free direction for exits"},
		{"[ 3, 8 ] dim_types: [ RING, RING ]", "3×8○", "the columns of 2 meshes, 0 to 1, are lines instead of rings"},
		{"[ 5, 4 ] dim_types: [ RING, LINE ]", "5○×4", ""},
		{"[ 2, 4 ] dim_types: [ RING, RING ]", "2×4○", ""}, // an axis of two chips does not wrap
	} {
		topo, err := Load("f", []byte(strings.Replace(m0, "[ 2, 2 ]", c.dims, 1)+g0+connection("mesh_id: 0", "mesh_id: 1", "channels { count: 4 }")+"}\n"+topGraph))
		if err != nil {
			t.Errorf("%s: %v", c.dims, err)
			continue
		}
		if topo.Meshes[0].Shape() != c.shape || topo.Meshes[1].Shape() != c.shape || len(topo.Exits(0, 1)) != 4 || !strings.Contains(topo.Layout, c.layout) || (c.layout == "") == strings.Contains(topo.Layout, "are lines") {
			t.Errorf("%s: %s; %s", c.dims, topo, topo.Layout)
		}
	}
	for ids, shape := range map[[2]int]string{{1, 2}: "4×5○", {5, 10}: "4○×5", {1, 5}: "4○×5 and 4×5○", {0, 19}: "4×5○"} { // the connection names these chips
		topo, err := Load("f", []byte(strings.Replace(m0, "[ 2, 2 ]", "[ 4, 5 ] dim_types: [ RING, RING ]", 1)+g0+
			connection(fmt.Sprintf("mesh_id: 0 device_id: %d", ids[0]), fmt.Sprintf("mesh_id: 1 device_id: %d", ids[1]), "channels { count: 2 }")+"}\n"+topGraph))
		if err != nil {
			t.Errorf("%v: %v", ids, err)
			continue
		}
		a, b := topo.Meshes[0].Shape(), topo.Meshes[1].Shape()
		if exits := topo.Exits(0, 1); len(exits) != 2 || int(exits[0].Local.Node.Chip) != ids[0] || int(exits[0].Peer.Node.Chip) != ids[1] || !(a == b && a == shape || shape == b+" and "+a) {
			t.Errorf("%v: %s and %s, want %s; exits %v", ids, a, b, shape, exits)
		}
	}
	alone, err := Load("f", []byte(strings.Replace(m0, "[ 2, 2 ]", "[ 5, 4 ] dim_types: [ RING, RING ]", 1)+topMesh))
	if err != nil || alone.Meshes[0].Shape() != "5○×4○" {
		t.Errorf("a torus by itself: %v, %v", alone, err)
	}
}

// TestExitsOfTurnedSides finds that exits keep their order along the sides of two meshes, if they leave
// one mesh to the E and the other to the S: the chip in row i meets the chip in column i.
func TestExitsOfTurnedSides(t *testing.T) {
	mesh := strings.Replace(m0, "[ 2, 2 ]", "[ 3, 3 ]", 1)
	ring := strings.NewReplacer("[ 2, 2 ]", "[ 3, 3 ] dim_types: [ LINE, RING ]", "M0", "M1").Replace(m0) // no chip has E or W free
	topo, err := Load("f", []byte(mesh+ring+strings.ReplaceAll(g0+connection("mesh_id: 0", "mesh_id: 1", "channels { count: 6 }"), `"M0" mesh_id: 1`, `"M1" mesh_id: 1`)+"}\n"+topGraph))
	if err != nil {
		t.Fatal(err)
	}
	var got [][2]wire.ChipID
	for _, x := range topo.Exits(0, 1) {
		got = append(got, [2]wire.ChipID{x.Local.Node.Chip, x.Peer.Node.Chip})
	}
	slices.SortFunc(got, func(a, b [2]wire.ChipID) int { return int(a[0]) - int(b[0]) })
	if want := [][2]wire.ChipID{{2, 6}, {2, 6}, {5, 7}, {5, 7}, {8, 8}, {8, 8}}; !slices.Equal(got, want) {
		t.Errorf("the chips of the exits are %v, want %v", got, want)
	}
}

// TestRelaxedConnectionsShareTheRoom finds that RELAXED connections share the room if there is not
// enough room for all. STRICT connections get all cables that they ask for, or Load returns an
// error.
func TestRelaxedConnectionsShareTheRoom(t *testing.T) {
	ring := func(policy [3]string) (*Topology, error) {
		var b strings.Builder
		b.WriteString(strings.Replace(m0, "[ 2, 2 ]", "[ 4, 2 ] dim_types: [ RING, LINE ]", 1) + "graph_descriptors { name: \"G0\" type: \"POD\"\n")
		for i := range 3 {
			fmt.Fprintf(&b, " instances { mesh { mesh_descriptor: \"M0\" mesh_id: %d } }\n", i)
		}
		for i, p := range policy {
			b.WriteString(connection(fmt.Sprintf("mesh_id: %d", i), fmt.Sprintf("mesh_id: %d", (i+1)%3), "channels { count: 16 policy: "+p+" }"))
		}
		return Load("f", []byte(b.String()+"}\n"+topGraph))
	}
	topo, err := ring([3]string{"RELAXED", "RELAXED", "RELAXED"}) // each mesh has room for 16 cables, at the ends of its rows
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]wire.MeshID{{0, 1}, {1, 2}, {2, 0}} {
		if n := len(topo.Exits(pair[0], pair[1])); n != 8 {
			t.Errorf("%d exits between meshes %v, want 8", n, pair)
		}
	}
	if !strings.Contains(topo.Layout, "24 cables of RELAXED connections left out") {
		t.Errorf("layout %q", topo.Layout)
	}
	if topo, err := ring([3]string{"RELAXED", "STRICT", "RELAXED"}); err == nil || !strings.Contains(err.Error(), "connection of mesh 0 with mesh 1: there is no room for 16 of its 16 channels") {
		t.Errorf("meshes 1 and 2 have no room left: %v, %v", topo, err)
	}
}

func TestBadGraphs(t *testing.T) {
	yaml := "ChipSpec: {arch: wormhole_b0, ethernet_ports: {N: 2, E: 2, S: 2, W: 2}}\nBoard: [{name: B, type: Mesh, topology: [2, 2]}]\nMesh:\n - {id: 0, board: B}\n - {id: 1, board: B}\n"
	conn := connection("mesh_id: 0", "mesh_id: 1", "channels { count: 2 }")
	nest := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "graph_descriptors { name: \"G%d\" type: \"T%d\" instances { graph { graph_descriptor: \"G%d\" } } }\n", i, i, i+1)
		}
		return b.String()
	}
	for _, c := range []struct{ name, in, want string }{
		{"no top", m0, "f: the file has no top_level_instance: want a top_level_instance that names a mesh or a graph"},
		{"two tops", m0 + topMesh + topMesh, "f:7: top_level_instance is already given on line 6"},
		{"open", "mesh_descriptors {\n  name: \"M0\"\n", `f:3: not a textual protobuf: the end of the file, want the name of a field`},
		{"sign", m0 + topMesh + "}", `f:7: not a textual protobuf: "}", want the name of a field`},
		{"string", "mesh_descriptors {\n  name: \"M0\n}", "f:2: not a textual protobuf: the string that begins here has no end on this line"},
		{"escape", "mesh_descriptors {\n  name: \"\\q\"\n}", `f:2: not a textual protobuf: a string has an unknown escape after \`},
		{"character", "mesh_descriptors {\n  name: §\n}", `f:2: not a textual protobuf: unexpected '§'`},
		{"not UTF-8", "mesh_descriptors {\n  name: \"\xff\"\n}", "f:2: not a textual protobuf: byte 0xFF is not UTF-8 text"},
		{"no colon", "mesh_descriptors {\n  name \"M0\"\n}", "f:2: not a textual protobuf: want a : between name and its value"},
		{"no value", "mesh_descriptors {\n  name:\n}", `f:3: not a textual protobuf: "}", want a value of name`},
		{"list", "mesh_descriptors {\n  dims: [1, 2\n}", `f:3: not a textual protobuf: "}", want "," or "]"`},
		{"lists", "mesh_descriptors {\n  dims: [[1]]\n}", `f:2: not a textual protobuf: "[", want a value, because lists do not nest`},
		{"deep", "mesh_descriptors " + strings.Repeat("{a ", 40), "f:1: messages nest deeper than 32"},
		{"name", strings.Replace(m0, `name: "M0"`, "", 1) + topMesh, "f:1: a mesh descriptor has no name"},
		{"name word", strings.Replace(m0, `"M0"`, "M0", 1) + topMesh, "f:2: name: M0, want a string in quotes"},
		{"twice", m0 + m0 + topMesh, `f:7: mesh descriptor "M0" is already defined on line 1`},
		{"arch", strings.Replace(m0, "WORMHOLE_B0", "GRAYSKULL", 1) + topMesh, `f:2: mesh descriptor "M0": arch GRAYSKULL: want WORMHOLE_B0 or BLACKHOLE`},
		{"mixed", m0 + strings.NewReplacer("WORMHOLE_B0", "BLACKHOLE", "M0", "M1").Replace(m0) + topMesh, `f:7: mesh descriptor "M1" has the architecture blackhole, but an earlier mesh descriptor has wormhole_b0: a fabric has only one architecture (Spec §1.2)`},
		{"negative", strings.Replace(m0, "[ 2, 2 ]", "[ 2, -2 ]", 1) + topMesh, "f:3: dims: -2, want a number from 1 to 2147483647"},
		{"no rows", strings.Replace(m0, "[ 2, 2 ]", "[ 0, 2 ]", 1) + topMesh, "f:3: dims: 0, want a number from 1 to 2147483647"},
		{"257", strings.Replace(m0, "[ 2, 2 ]", "[ 1, 257 ]", 1) + topMesh, `f:3: mesh descriptor "M0": 1×257 chips: a mesh has at most 256 chips; describe several meshes with connections`},
		{"three dimensions", strings.Replace(m0, "[ 2, 2 ]", "[ 2, 2, 2 ]", 1) + topMesh, `f:3: mesh descriptor "M0": device_topology has 3 dims: want [rows, columns], or [columns] for a single row; meshes of three dimensions are not supported`},
		{"type", strings.Replace(m0, "[ 2, 2 ]", "[ 2, 2 ] dim_types: [ TREE ]", 1) + topMesh, `f:3: mesh descriptor "M0": dim_types TREE: want LINE or RING`},
		{"types", strings.Replace(m0, "[ 2, 2 ]", "[ 2, 2 ] dim_types: [ LINE, LINE, LINE ]", 1) + topMesh, `f:3: mesh descriptor "M0": 3 dim_types for 2 dims`},
		{"count", strings.Replace(m0, "count: 2", "count: 17", 1) + topMesh, "f:4: count: 17, want a number from 1 to 16"},
		{"channels", strings.NewReplacer("[ 2, 2 ]", "[ 3, 3 ]", "count: 2", "count: 5").Replace(m0) + topMesh, "f:6: mesh 0: chip M0D4 needs more than the 16 ethernet channels of a wormhole_b0 chip; ask for fewer cables"},
		{"policy", strings.Replace(m0, "count: 2", "count: 2 policy: LAX", 1) + topMesh, `f:4: mesh descriptor "M0": policy LAX: want STRICT or RELAXED`},
		{"hosts", strings.Replace(m0, "channels", "host_topology { dims: [ 1, 3 ] }\n channels", 1) + topMesh, `f:4: mesh descriptor "M0": 2×2 chips cannot be divided evenly among 1×3 hosts`},
		{"express", strings.Replace(m0, "channels", "express_connections { src: 0 dst: 3 }\n channels", 1) + topMesh, `f:4: mesh descriptor "M0": express_connections (cables between chips that are not neighbours) are not supported; remove them`},
		{"express links", strings.Replace(m0, "channels", "express_links { dim_idx: 0 }\n channels", 1) + topMesh, `f:4: mesh descriptor "M0": express_links (cables between chips that are not neighbours) are not supported; remove them`},
		{"switches", m0 + "switch_descriptors { name: \"S\" }\n" + topMesh, "f:6: switch_descriptors: switches are not supported; describe only meshes and their connections"},
		{"stranger", m0 + strings.Replace(topMesh, "M0", "M7", 1), `f:6: the file defines no mesh descriptor "M7"`},
		{"no graph", m0 + topGraph, `f:6: the file defines no graph descriptor "G0"`},
		{"empty graph", m0 + "graph_descriptors { name: \"G0\" type: \"POD\" }\n" + topGraph, "f:6: graph G0 has no instances"},
		{"itself", "graph_descriptors { name: \"G0\" type: \"A\" instances { graph { graph_descriptor: \"G1\" } } }\ngraph_descriptors { name: \"G1\" type: \"B\" instances { graph { graph_descriptor: \"G0\" } } }\n" + topGraph, "f:2: graph G0 contains itself: G0 → G1 → G0"},
		{"nested", nest(40) + topGraph, "f:16: graphs nest deeper than 16"},
		{"1025 meshes", m0 + "graph_descriptors { name: \"G0\" type: \"POD\"\n" + manyInstances() + "}\n" + topGraph, "f:1031: more than 1024 meshes"},
		{"doubling", doubling(12) + m0 + topGraph, "f:13: more than 1024 meshes"},
		{"mesh id", m0 + strings.Replace(topMesh, "mesh_id: 0", "mesh_id: 1024", 1), "f:6: mesh_id: 1024, want a number from 0 to 1023"},
		{"instance twice", m0 + strings.Replace(g0, "mesh_id: 1", "mesh_id: 0", 1) + "}\n" + topGraph, "f:9: graph G0 already has mesh M0 0 on line 8"},
		{"node", m0 + g0 + strings.Replace(conn, "mesh_id: 1", "mesh_id: 5", 1) + "}\n" + topGraph, "f:12: graph G0 has no instance mesh M0 5"},
		{"device", m0 + g0 + strings.Replace(conn, "mesh_id: 1", "mesh_id: 1 device_id: 4", 1) + "}\n" + topGraph, "f:12: device_id: 4, want a number from 0 to 3"},
		{"self-loop", m0 + g0 + strings.Replace(conn, "mesh_id: 1", "mesh_id: 0", 1) + "}\n" + topGraph, "f:10: a connection of graph G0 joins a mesh with itself; a connection must join two meshes"},
		{"one node", m0 + g0 + "connections { nodes { mesh { mesh_descriptor: \"M0\" } } channels { count: 1 } }}\n" + topGraph, "f:10: a connection of graph G0 has 1 nodes: want two; write one connection for each pair"},
		{"too many cables", m0 + g0 + strings.Replace(conn, "count: 2", "count: 30", 1) + "}\n" + topGraph,
			"f:10: the connection of mesh 0 with mesh 1: there is no room for 14 of its 30 channels, because at one end or at both ends, no chip has a free direction and enough free channels (a direction of a chip is free if no cable leaves the chip in this direction); ask for fewer channels, or name other chips"},
		{"no exit", strings.Replace(m0, "[ 2, 2 ]", "[ 3, 3 ] dim_types: [RING, RING]", 1) + g0 + strings.NewReplacer("count: 2", "count: 2 policy: RELAXED", "mesh_id: 0", "mesh_id: 0 device_id: 4", "mesh_id: 1", "mesh_id: 1 device_id: 4").Replace(conn) + "}\n" + topGraph,
			"f:10: the connection of M0D4 with M1D4: there is no room for 2 of its 2 channels, because at one end or at both ends, no chip has a free direction and enough free channels (a direction of a chip is free if no cable leaves the chip in this direction); ask for fewer channels, or name other chips"},
		{"z", m0 + g0 + strings.Replace(conn, "channels", "assign_z_direction: up channels", 1) + "}\n" + topGraph, "f:13: assign_z_direction: up, want true or false"},
		{"directional", m0 + g0 + strings.Replace(conn, "channels", "directional: 2 channels", 1) + "}\n" + topGraph, "f:13: directional: 2, want true or false"},
		{"pattern", m0 + g0 + "graph_topology: TREE }\n" + topGraph, "f:10: graph_topology of graph G0: TREE, want ALL_TO_ALL or RING"},
		{"pattern without channels", m0 + g0 + "graph_topology: RING }\n" + topGraph, "f:6: graph_topology of graph G0 has no channels"},

		{"YAML", "ChipSpec: {arch: [}\n", "f:1: not YAML: did not find expected node content"},
		{"ChipSpec", "ChipSpec: {arch: wormhole_b0}\n", "f:1: ChipSpec: want arch and ethernet_ports"},
		{"ports", "ChipSpec: {arch: wormhole_b0, ethernet_ports: {N: 2}}\n", "f:1: ethernet_ports has no number for E: want a number for each of N, E, S and W"},
		{"no meshes", "ChipSpec: {arch: wormhole_b0, ethernet_ports: {N: 2, E: 2, S: 2, W: 2}}\n", "f:1: no meshes: want a key Mesh with a list of {id, board, device_topology}"},
		{"board", yaml + " - {id: 2, board: C}\n", `f:6: mesh 2: the file defines no board "C"`},
		{"board type", strings.Replace(yaml, "type: Mesh", "type: TORUS_1D", 1), `f:2: board type "TORUS_1D": want Mesh, TORUS_X, TORUS_Y or TORUS_2D`},
		{"mesh twice", yaml + " - {id: 1, board: B}\n", "f:6: mesh 1 is already defined on line 5"},
		{"mesh 1024", yaml + " - {id: 1024, board: B}\n", `f:6: mesh id "1024": want a number from 0 to 1023`},
		{"size", yaml + " - {id: 2, board: B, device_topology: [2, -1]}\n", `f:6: device_topology of mesh 2 "-1": want a number from 0 to 256`},
		{"zero", yaml + " - {id: 2, board: B, device_topology: [2, 0]}\n", `f:6: device_topology of mesh 2: want at least one row and column`},
		{"large", yaml + " - {id: 2, board: B, topology: [9, 9]}\n", "f:6: mesh 2: 18×18 chips: a mesh has at most 256"},
		{"port", yaml + "Graph:\n - [[0, E0], [1, Q0]]\n", `f:7: port "Q0": want a direction and a number, such as N12`},
		{"Z port", yaml + "Graph:\n - [[0, E0], [1, Z0]]\n", `f:7: port "Z0": a third dimension is not supported`},
		{"far port", yaml + "Graph:\n - [[0, E0], [1, W4]]\n", `f:7: port "W4": mesh 1 has only 4 channels on that edge, numbered from 0`},
		{"no such mesh", yaml + "Graph:\n - [[0, E0], [2, W0]]\n", `f:7: the file defines no mesh "2"`},
		{"loop", yaml + "Graph:\n - [[0, E0], [0, W0]]\n", "f:7: the connection joins mesh 0 with itself; Graph is for connections between meshes"},
		{"port twice", yaml + "Graph:\n - [[0, E0], [1, W0]]\n - [[0, E0], [1, W1]]\n", "f:8: port E0 of mesh 0 has two connections"},
		{"chip", yaml + "Graph:\n - [[M0, D1], [M1, D4], 1]\n", `f:7: there is no chip "D4" in mesh 1, which has 4 chips`},
		{"chips", yaml + "Graph:\n - [[M0, D1], [M1, W0], 1]\n", "f:7: a connection of chips is [[M0, D1], [M1, D1], COUNT]"},
		{"wrapped", strings.NewReplacer("type: Mesh, topology: [2, 2]", "type: TORUS_2D, topology: [3, 3]").Replace(yaml) + "Graph:\n - [[0, E0], [1, W0]]\n", `f:7: port "E0": mesh 0 wraps at that edge, so no cable can leave the mesh there`},
		{"relaxed", yaml + "RelaxedGraph:\n - [M0, M0, 2]\n", "f:7: a connection of RelaxedGraph is [M0, M1, COUNT]: want two different meshes and at least one cable"},
		{"relaxed count", yaml + "RelaxedGraph:\n - [M0, M1, 5000]\n", `f:7: count of a connection "5000": want a number from 0 to 4096`},
	} {
		begin := cpu(t)
		topo, err := Load("f", []byte(c.in))
		if err == nil || err.Error() != c.want {
			t.Errorf("%s:\n got %v %v\nwant %s", c.name, topo, err, c.want)
		}
		if took := cpu(t) - begin; took > 5*time.Second {
			t.Errorf("%s took %s", c.name, took)
		}
	}
}

// manyInstances returns 1025 lines, each with an instance of a mesh.
func manyInstances() string {
	var b strings.Builder
	for i := range 1025 {
		fmt.Fprintf(&b, "instances { mesh { mesh_descriptor: \"M0\" mesh_id: %d } }\n", i%1024)
	}
	return b.String()
}

// doubling returns n+1 graph descriptors that stand for 2^n meshes. Each graph contains the next
// graph twice.
func doubling(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "graph_descriptors { name: \"G%d\" type: \"T%d\" instances { graph { graph_descriptor: \"G%d\" graph_id: 0 } } instances { graph { graph_descriptor: \"G%d\" graph_id: 1 } } }\n", i, i, i+1, i+1)
	}
	fmt.Fprintf(&b, "graph_descriptors { name: \"G%d\" type: \"LAST\" instances { mesh { mesh_descriptor: \"M0\" mesh_id: 0 } } }\n", n)
	return b.String()
}
