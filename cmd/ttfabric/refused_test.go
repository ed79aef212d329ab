package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// row returns a cluster descriptor of chips in a row, without coordinates. The text "more"
// follows the list of connections.
func row(chips int, more string) string {
	var b strings.Builder
	b.WriteString("arch:\n")
	for i := range chips {
		fmt.Fprintf(&b, "  %d: wormhole_b0\n", i)
	}
	b.WriteString("chips: {}\nethernet_connections:\n")
	for i := range chips - 1 {
		fmt.Fprintf(&b, "  - [{chip: %d, chan: 0}, {chip: %d, chan: 1}]\n", i, i+1)
	}
	return b.String() + more
}

// TestBadDescriptorsAreRefused gives commands descriptors with one error each. Each
// command must refuse the descriptor and print the reason. 'up' must start no chip.
func TestBadDescriptorsAreRefused(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	const spec = "ChipSpec: {arch: wormhole_b0, ethernet_ports: {N: 2, E: 2, S: 2, W: 2}}\nBoard: [{name: B, type: Mesh, topology: [1, 2]}]\n"
	const top = "top_level_instance { mesh { mesh_descriptor: \"M0\" mesh_id: 0 } }\n"
	mesh := func(dims, count string) string {
		return "mesh_descriptors { name: \"M0\" arch: WORMHOLE_B0 device_topology { dims: [ " + dims + " ] } channels { count: " + count + " } }\n"
	}
	var meshes strings.Builder
	for i := range 1025 {
		fmt.Fprintf(&meshes, "- {id: %d, board: B}\n", i)
	}
	for _, x := range []struct{ name, text, want string }{
		{"empty.yaml", "", "the file is empty"},
		{"empty.textproto", "", "the file has no keys"},
		{"yaml.yaml", "arch: {0: wormhole_b0\n", "not YAML"},
		{"tab.yaml", "arch:\n\t0: wormhole_b0\n", "not YAML"},
		{"devices.yaml", row(257, ""), "257 chips; a mesh has at most 256"},
		{"devices-mgd.yaml", strings.Replace(spec, "[1, 2]", "[1, 257]", 1) + "Mesh: [{id: 0, board: B}]\n", "want a number from 0 to 256"},
		{"devices.textproto", mesh("1, 257", "2") + top, "a mesh has at most 256"},
		{"meshes.yaml", spec + "Mesh:\n" + meshes.String(), "1025 meshes; a fabric has at most 1024"},
		{"mesh-id.textproto", mesh("2, 2", "2") + strings.Replace(top, "mesh_id: 0", "mesh_id: 1024", 1), "want a number from 0 to 1023"},
		{"loop.yaml", row(2, "  - [{chip: 0, chan: 4}, {chip: 0, chan: 5}]\n"), "joins two channels of one chip; remove the cable"},
		{"loop-mgd.yaml", spec + "Mesh: [{id: 0, board: B}]\nGraph: [[[0, E0], [0, W0]]]\n", "joins mesh 0 with itself"},
		{"twice.yaml", row(2, "  - [{chip: 0, chan: 0}, {chip: 1, chan: 2}]\n"), "chip 0 channel 0 carries two cables"},
		{"one-end.yaml", row(2, "  - [{chip: 0, chan: 4}]\n"), "a connection has two ends"},
		{"coordinates.yaml", strings.Replace(row(2, ""), "chips: {}", "chips: {0: [0, 0, 0], 1: [1, 0, 0]}", 1), "want the four coordinates"},
		{"count.textproto", mesh("2, 2", "17") + top, "want a number from 1 to 16"},
		{"dims.textproto", mesh("2, 2, 2", "2") + top, "meshes of three dimensions are not supported"},
		{"huge.yaml", row(2, "  - [{chip: 0, chan: 99999999999999999999}, {chip: 1, chan: 2}]\n"), "want a number from 0 to"},
		{"express.textproto", strings.Replace(mesh("8, 4", "2"), "channels", "express_links { dim_idx: 0 pattern { start: 2 step: 4 } } channels", 1) + top, "express_links"},
		{"hops.yaml", row(69, ""), "a route has 68 hops, but the largest packet header has room for 67"},
		{"hops.textproto", mesh("1, 70", "2") + top, "a route has 69 hops"},
		{"board.yaml", row(2, "") + "  - [{chip: 0, chan: 2}, {chip: 1, chan: 2}]\nharvesting: {}\nboards: [[{chips: [7]}]]\n", "chip 7 is not listed under arch"},
	} {
		file := filepath.Join(c.dir, x.name)
		if err := os.WriteFile(file, []byte(x.text), 0o600); err != nil {
			t.Fatal(err)
		}
		commands := [][]string{{"validate", file}, {"up", file, "-d"}, {"routes", "-t", file}}
		if !strings.HasPrefix(x.name, "hops") { // 'graph' and 'generate' accept a topology whose routes have too many hops
			commands = append(commands, []string{"graph", file}, []string{"generate", file, "--format", "umd"})
		}
		for _, args := range commands {
			if out, errs, code := c.run(args...); code != exitTopology || !strings.Contains(errs, x.want) || !strings.Contains(errs, filepath.Base(x.name)) || len(out) > 0 {
				t.Errorf("%s %s: exit code %d, %q; want a refusal with %q", args[0], x.name, code, errs, x.want)
			}
		}
	}
	if left, _ := filepath.Glob(filepath.Join(c.dir, "ttfabric", "*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
