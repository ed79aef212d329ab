package topo

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ttfabric/wire"
)

// graphOf returns an entry of graph_descriptors.
func graphOf(name, kind string, instances ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "graph_descriptors { name: %q type: %q\n", name, kind)
	for _, in := range instances {
		fmt.Fprintf(&b, " instances { %s }\n", in)
	}
	return b.String()
}

// meshOf and subOf return references to an instance of M0 and to an instance of a graph.
func meshOf(id int) string { return fmt.Sprintf("mesh { mesh_descriptor: \"M0\" mesh_id: %d }", id) }

func subOf(name string, id int, rest string) string {
	return fmt.Sprintf("graph { graph_descriptor: %q graph_id: %d %s }", name, id, rest)
}

// TestWhatTenstorrentsTestsRefuse finds that Load refuses the kinds of descriptors that tt-metal's
// unit tests require to be refused (tests/tt_metal/tt_fabric/fabric_router/
// test_mesh_graph_descriptor.cpp), each with its reason. The name of each case is the name of
// tt-metal's test.
func TestWhatTenstorrentsTestsRefuse(t *testing.T) {
	hosted := strings.Replace(m0, "channels", "host_topology { dims: [ 1, 2 ] }\n  channels", 1)
	unused := func(rest string) string { return hosted + rest + "}\n" + topMesh }
	one := graphOf("G1", "FABRIC", meshOf(0))
	pods := graphOf("A", "POD", meshOf(0), meshOf(1)) + "}\n"
	for _, c := range []struct{ name, in, want string }{
		{"InvalidProtoNoMeshDescriptors", topMesh, `f:1: the file defines no mesh descriptor "M0"`},
		{"InvalidProtoDimensionValidationFailures", strings.Replace(hosted, `name: "M0"`, "", 1) + topMesh, "f:1: a mesh descriptor has no name"},
		{"InvalidProtoArchitectureDimLimit", strings.ReplaceAll(hosted, "2 ]", "2, 3 ]") + topMesh, "device_topology has 3 dims"},
		{"InvalidProtoDeviceHostDimSizeMismatch", strings.Replace(hosted, "[ 1, 2 ]", "[ 1 ]", 1) + topMesh, `f:4: mesh descriptor "M0": host_topology has 1 dims and device_topology has 2: want equally many`},
		{"InvalidProtoMixedArchitectures", hosted + strings.NewReplacer("M0", "M1", "WORMHOLE_B0", "BLACKHOLE").Replace(hosted) + topMesh, "a fabric has only one architecture"},
		{"InvalidProtoExpressConnectionBounds", strings.Replace(hosted, "channels", "express_connections { src: 5 dst: 1 }\n channels", 1) + topMesh, "express_connections (cables between chips that are not neighbours) are not supported"},
		{"InvalidGraphTopologyChannelCount", unused(one + " graph_topology { layout_type: ALL_TO_ALL channels { count: -1 } }\n"), "f:9: count: -1, want a number from 1 to 4096"},
		{"InvalidConnectionChannelCount", unused(one + connection("mesh_id: 0", "mesh_id: 0", "channels { count: -1 }")), "f:12: count: -1, want a number from 1 to 4096"},
		{"GraphMustHaveAtLeastOneInstance", unused(graphOf("G1", "FABRIC")), "f:7: graph G1 has no instances"},
		{"GraphMustHaveTypeSpecified", unused(strings.Replace(one, `type: "FABRIC"`, "", 1)), "f:7: graph descriptor G1 has no type"},
		{"ConnectionMustHaveAtLeastTwoNodes", unused(one + " connections { nodes { " + meshOf(0) + " } channels { count: 1 } }\n"), "f:9: a connection of graph G1 has 1 nodes: want two"},
		{"GraphInstancesWithDifferentGraphTypesError", m0 + pods + strings.NewReplacer(`"A"`, `"B"`, "POD", "PODX").Replace(pods) + graphOf("G0", "CLUSTER", subOf("A", 0, ""), subOf("B", 1, "")) + "}\n" + topGraph,
			"f:16: graph G0 has instances of the types POD (graph A 0) and PODX (graph B 1): want instances of one type"},
		{"DuplicateInstanceIdsInGraphError", m0 + graphOf("G0", "POD", meshOf(0), meshOf(0)) + "}\n" + topGraph, "f:8: graph G0 already has mesh M0 0 on line 7"},
		{"DuplicateInstanceIdsInGraphError, two descriptors", m0 + strings.Replace(m0, "M0", "M1", 1) + graphOf("G0", "POD", meshOf(0), strings.Replace(meshOf(0), "M0", "M1", 1)) + "}\n" + topGraph, "f:13: graph G0 already has mesh M0 0 on line 12"},
		{"MissingDescriptorReferencesInInstancesError", m0 + strings.Replace(topGraph, "G0", "G9", 1), `f:6: the file defines no graph descriptor "G9"`},
		{"MissingDescriptorReferencesInInstancesError, mesh", m0 + graphOf("G0", "POD", strings.Replace(meshOf(0), "M0", "M9", 1)) + "}\n" + topGraph, `f:7: the file defines no mesh descriptor "M9"`},
		{"IntermeshConnectionsExplicitMultiLevelInvalid", m0 + g0 + connection("mesh_id: 0", "mesh_id: 1 device_id: 1", "channels { count: 1 }") + "}\n" + topGraph, "f:10: a connection of graph G0 joins a MESH with a DEVICE: want two ends of one type"},
		{"IntermeshConnectionsExplicitMultiLevelInvalidChild", m0 + g0 + " connections { nodes { " + subOf("G0", 0, "") + " } nodes { " + subOf("G0", 1, "") + " } channels { count: 1 } }\n}\n" + topGraph, "f:10: graph G0 has no instance graph G0 0"},
		{"DuplicateGraphDescriptorTypeInHierarchyError", m0 + pods + graphOf("G0", "POD", subOf("A", 0, "")) + "}\n" + topGraph, "f:11: graph A has the type POD, and so has graph G0, which contains it: want another type for each level"},
		{"DirectionalConnectionsAreRejected", m0 + g0 + connection("mesh_id: 0", "mesh_id: 1", "channels { count: 2 } directional: true") + "}\n" + topGraph, "f:10: graph G0 has 1 directional connection without the connection in the opposite direction, but each cable carries both directions; write directional: false"},
		{"SwitchValidationInvalidDimensions", "switch_descriptors { name: \"SW0\" }\ntop_level_instance { switch { switch_descriptor: \"SW0\" } }\n", "f:1: switch_descriptors: switches are not supported"},
		{"PinningsDuplicateError", m0 + topMesh + pinning(0, 3) + pinning(1, 3) + pinning(0, 3), "f:9: pinnings: chip 3 of mesh 0 is already pinned on line 7"},
		{"graph of type MESH", m0 + strings.Replace(g0, "FABRIC", "MESH", 1) + "}\n" + topGraph, "f:7: graph descriptor G0: a graph cannot have the type MESH; take another name, such as FABRIC"},
		{"pinning of a number", m0 + topMesh + "pinnings: 3\n", "f:7: pinnings: 3, want a message { … }"},
		{"pinning without a chip", m0 + topMesh + "pinnings { }\n", "f:7: an entry of pinnings has no logical_fabric_node_id"},
		{"two references", m0 + pods + graphOf("G0", "CLUSTER", subOf("A", 0, ""), subOf("A", 1, "")) + " connections { nodes { " + subOf("A", 0, "sub_ref { "+meshOf(0)+" } "+meshOf(1)) + " } nodes { " + subOf("A", 1, "") + " } channels { count: 1 } }\n}\n" + topGraph,
			"f:13: mesh is already given on line 13"},
		{"300 by 300", strings.Replace(m0, "[ 2, 2 ]", "[ 300, 300 ]", 1) + topMesh, `mesh descriptor "M0": 300×300 chips: a mesh has at most 256 chips`},
		{"many rows", strings.Replace(m0, "[ 2, 2 ]", "[ 2147483647, 1000 ]", 1) + topMesh, "2147483647×1000 chips: a mesh has at most 256 chips"},
	} {
		topo, err := Load("f", []byte(c.in))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n got %v %v\nwant %s", c.name, topo, err, c.want)
		}
	}
}

func pinning(mesh, chip int) string {
	return fmt.Sprintf("pinnings { logical_fabric_node_id { mesh_id: %d chip_id: %d } physical_asic_position { tray_id: 1 asic_location: 7 } }\n", mesh, chip)
}

// TestSubRef checks that Load wires the nested ends of connections as tt-metal does
// (IntermeshConnectionsExplicitMultiLevel). Two cables must join chip 0 of the first pod's first
// mesh with chip 1 of the second pod's second mesh. The schema has two forms of such ends.
func TestSubRef(t *testing.T) {
	small := strings.Replace(m0, "[ 2, 2 ]", "[ 1, 2 ]", 1)
	pod := graphOf("A", "POD", meshOf(0), meshOf(1)) + connection("mesh_id: 0", "mesh_id: 1", "channels { count: 1 }") + "}\n"
	end := func(graph, mesh, chip int, form string) string {
		return "nodes { " + subOf("A", graph, fmt.Sprintf(form, fmt.Sprintf("mesh { mesh_descriptor: \"M0\" mesh_id: %d device_id: %d }", mesh, chip))) + " } "
	}
	for _, form := range []string{"%s", "sub_ref { %s }", "sub_ref: < %s >"} {
		in := small + pod + graphOf("G0", "CLUSTER", subOf("A", 0, ""), subOf("A", 1, "")) + " connections { " + end(0, 0, 0, form) + end(1, 1, 1, form) + "channels { count: 2 } }\n}\n" + topGraph
		topo, err := Load("f", []byte(in))
		if err != nil {
			t.Errorf("%s: %v", form, err)
			continue
		}
		var got []string
		for _, c := range topo.Cables {
			if c.External() {
				got = append(got, c.A.Node.String()+" "+c.B.Node.String())
			}
		}
		slices.Sort(got)
		if want := []string{"M0D0 M3D1", "M0D0 M3D1"}; !slices.Equal(slices.DeleteFunc(slices.Clone(got), func(s string) bool { return !strings.HasPrefix(s, "M0D0 M3") }), want) || len(got) != 4 {
			t.Errorf("%s: cables %v, want %v and one cable within each pod", form, got, want)
		}
	}
	// Three levels: the nested end is in a graph in a graph.
	deep := small + pod + graphOf("B", "ROW", subOf("A", 0, ""), subOf("A", 1, "")) + "}\n" + graphOf("G0", "CLUSTER", subOf("B", 0, ""), subOf("B", 1, "")) +
		" connections { nodes { " + subOf("B", 0, "sub_ref { "+subOf("A", 1, "sub_ref { "+meshOf(0)+" }")+" }") + " } nodes { " + subOf("B", 1, "sub_ref { "+subOf("A", 0, "sub_ref { "+meshOf(1)+" }")+" }") + " } channels { count: 1 } }\n}\n" + topGraph
	topo, err := Load("f", []byte(deep))
	if err != nil {
		t.Fatal(err)
	}
	if got := topo.Peers(2); !slices.Equal(got, []wire.MeshID{3, 5}) {
		t.Errorf("mesh 2 is joined with %v, want 3 (in its pod) and 5", got)
	}
}

// TestEnumsAndBooleansOfProtobuf finds that Load reads numbers of enumerations, and all spellings of
// booleans.
func TestEnumsAndBooleansOfProtobuf(t *testing.T) {
	words := strings.Replace(m0, "[ 2, 2 ]", "[ 3, 3 ] dim_types: [ RING, LINE ]", 1) + g0 + " graph_topology { layout_type: ALL_TO_ALL channels { count: 2 policy: RELAXED } }\n" +
		connection("mesh_id: 0", "mesh_id: 1", "channels { count: 2 policy: STRICT } directional: false assign_z_direction: true") + "}\n" + topGraph
	numbers := strings.NewReplacer("WORMHOLE_B0", "1", "RING, LINE", "2, 1", "ALL_TO_ALL", "1", "RELAXED", "2", "STRICT", "1", "directional: false", "directional: 0", "direction: true", "direction: t").Replace(words)
	want, err := Load("f", []byte(words))
	if err != nil {
		t.Fatal(err)
	}
	got, err := Load("f", []byte(numbers))
	if err != nil {
		t.Fatal(err)
	}
	if got.Hash() != want.Hash() || got.Layout != want.Layout {
		t.Errorf("numbers: %s, %s; want %s, %s", got, got.Layout, want, want.Layout)
	}
	for from, wrong := range map[string]string{"WORMHOLE_B0": "7", "RING": "0", "ALL_TO_ALL": "3", "RELAXED": "0", "directional: false": "directional: FALSE"} {
		if topo, err := Load("f", []byte(strings.Replace(words, from, wrong, 1))); err == nil {
			t.Errorf("%s instead of %s is read as %s", wrong, from, topo)
		}
	}
}

// TestStrangeFilesAreNamed finds that Load names the kind of a file that is no topology.
func TestStrangeFilesAreNamed(t *testing.T) {
	for _, c := range []struct{ path, in, want string }{
		{"f", "grid:\n  x_size: 10\narc: [0-2]\nfunctional_workers: []\n", "f:1: this is a soc descriptor, which lists the tiles of one chip: want a cluster descriptor"},
		{"f", "rank_bindings: []\nmesh_graph_desc_path: x\n", "this is a file of rank bindings"},
		{"f", "rank_to_cluster_mock_cluster_desc: {}\n", "this is a mapping of ranks to cluster descriptors; load the cluster descriptors one at a time"},
		{"f", "asic_to_fabric_node_mapping: {}\n", "this is a mapping of a machine's chips to the chips of a mesh graph descriptor"},
		{"f", "allocation_policies: {}\nTests: []\n", "this is a list of tests of tt-metal"},
		{"f", "title: x\nproperties: {}\n", "this is a schema of files, not such a file"},
		{"f", "on: push\njobs: {}\na: 1\nb: 2\nc: 3\nd: 4\n", "no topology has the keys of this file (on, jobs, a, b, c, …): want a cluster descriptor"},
		{"f", "{}\n", "the file has no keys: want a cluster descriptor"},
		{"f.textproto", "graph_templates { }\nroot_instance { }\n", "f.textproto: this is a cabling descriptor"},
		{"f.textproto", "hosts { }\nboard_types { }\n", "this is a factory system descriptor"},
		{"f.textproto", "hosts { }\n", "this is a deployment descriptor"},
		{"f.textproto", "system_graph { }\nasic_descriptors { }\n", "this is a physical system descriptor"},
		{"f.textproto", "groupings { }\n", "this is a descriptor of physical groupings"},
		{"f.textproto", "# nothing\n", "the file has no keys"},
		{"f.textproto", strings.Repeat("k", 80) + ": 1\n", "no topology has the keys of this file (" + strings.Repeat("k", 40) + "…)"},
	} {
		if topo, err := Load(c.path, []byte(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q:\n got %v %v\nwant %s", c.in, topo, err, c.want)
		}
	}
}
