package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ttfabric/node/output"
	"ttfabric/router/topo"
)

const testdata = "../../router/topo/testdata/"

func TestValidateGraphGenerate(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	bad := filepath.Join(c.dir, "bad.textproto")
	os.WriteFile(bad, []byte("mesh_descriptors {\n  name: \"M0\"\n}\n"), 0o600)
	thin := filepath.Join(c.dir, "thin.yaml")
	base, _ := topo.Named("mesh:1x3")
	os.WriteFile(thin, bytes.Replace(base.Encode(), []byte("    - a: M0D1/1\n      b: M0D2/5\n"), nil, 1), 0o600)
	for _, x := range []struct {
		args []string
		code int
		want string // text in stdout if the exit code is 0, or in stderr if not
	}{
		{[]string{"validate", "spec-l1"}, exitOK, "36 chips in 4 meshes 3×3"},
		{[]string{"validate", testdata + "tg_mesh_graph_descriptor.yaml"}, exitOK, "Layout: the second connection in direction S of M0D0"},
		{[]string{"validate", testdata + "6u_cluster_desc.yaml"}, exitOK, "chip 0 in the north-west corner"},
		{[]string{"validate", thin}, exitOK, "mesh 0 has 1 plane, because its edge M0D1–M0D2 has no more cables"},
		{[]string{"validate", bad}, exitTopology, bad + ":1: "},
		{[]string{"validate", "nothing.yaml"}, exitTopology, "no such file"},
		{[]string{"validate", "/"}, exitTopology, "is a folder"},
		{[]string{"validate"}, exitUsage, "--help"},
		{[]string{"graph", "ring:4", "--format", "dot"}, exitOK, "M0D0 -- M0D3"},
		{[]string{"graph", "spec-l1", "--format", "mermaid"}, exitOK, "M0D5 ===|2| M1D3"},
		{[]string{"graph", "t3000"}, exitOK, "UMD 4"},
		{[]string{"graph", "t3000", "--format", "gif"}, exitUsage, "want dot, mermaid, svg"},
		{[]string{"graph", "t3000", "-f", filepath.Join(c.dir, "x.bmp")}, exitUsage, "one of .dot, .gv, .mmd, .mermaid, .svg, or choose a format with --format"},
		{[]string{"graph", "t3000", "-f", filepath.Join(c.dir, "x.GV"), "-o", "json"}, exitOK, `"format": "dot"`},
		{[]string{"graph", bad, "--format", "svg"}, exitTopology, bad + ":1: "},
		{[]string{"generate", "torus:3x3"}, exitOK, "wrap_x: true"},
		{[]string{"generate", "galaxy", "--format", "umd"}, exitOK, "ethernet_connections:"},
		{[]string{"generate", "spec-l1", "--format", "umd"}, exitUsage, "a cluster descriptor describes only one mesh"},
		{[]string{"generate", "galaxy", "--format", "json"}, exitUsage, "want ttfabric or umd"},
		{[]string{"up", "ring:4", "--ring", "none"}, exitTopology, "can deadlock: on plane 0, M0D0 E data waits for M0D1 E data waits for M0D2 E data waits for M0D3 E data, which waits for the first; --allow-deadlock accepts such routes"},
		{[]string{"up", "ring:4", "--ring", "zigzag"}, exitUsage, "want dateline, bubble or none"},
		{[]string{"up", "n300", "--stuck", "maybe"}, exitUsage, "want none, or a list of notify, drop and drain"},
		{[]string{"validate", "torus:4x4", "--ring", "none"}, exitTopology, "can deadlock"},
		{[]string{"validate", "torus:4x4", "--ring", "bubble"}, exitOK, "free of deadlock: "},
		{[]string{"validate", "mesh:2x2", "--order", "none"}, exitTopology, "M0D0 E data waits for M0D1 S data waits for M0D3 W data waits for M0D2 N data, which waits for the first"},
		{[]string{"validate", "torus:5x5", "--vcs", "kept", "--unicast"}, exitTopology, "torus:5x5: can deadlock: on plane 0, "},
		{[]string{"validate", "ring:5", "--vcs", "entry", "--unicast"}, exitOK, "channels entry: longest route 4 hops; free of deadlock"},
		{[]string{"validate", "ring:5", "--vcs", "entry"}, exitTopology, "can deadlock"},
		{[]string{"validate", "spec-l1", "--vcs", "many"}, exitUsage, "want one of [own one entry kept apart crossings]"},
		{[]string{"routes", "M0D4", "-t", "mesh:3x3"}, exitOK, "WS"},
		{[]string{"routes", "-t", "2xt3000", "--mesh", "1"}, exitOK, "L1, exit nodes of mesh 1"},
		{[]string{"routes", "M0D9", "-t", "mesh:3x3"}, exitUsage, "chip M0D9 is not in topology mesh:3x3"},
		{[]string{"trace", "M0D0", "M1D7", "-t", "2xt3000"}, exitOK, "M1D7"},
		{[]string{"trace", "M0D0", "M0D4", "-t", "mesh:3x3", "--fabric", "1d"}, exitAssert, "there is no route from M0D0 to M0D4"},
		{[]string{"trace", "M0D0", "M0D2", "-t", "ring:4"}, exitOK, "M0D0 │ E"},
		{[]string{"trace", "M0D0", "M0D2", "-t", "ring:4", "--other-way"}, exitOK, "M0D0 │ W"},
		{[]string{"routes", "M0D0", "-t", "ring:4", "--other-way"}, exitOK, "│ WW │"},
		{[]string{"validate", "ring:4", "--vcs", "one", "--unicast"}, exitTopology, "can deadlock"},
		{[]string{"validate", "ring:4", "--ring", "none", "--unicast"}, exitOK, "free of deadlock"},
		{[]string{"__complete", "validate", "tor"}, exitOK, "torus-x:4x8\ttorus-x:ROWSxCOLS"},
	} {
		out, errs, code := c.run(x.args...)
		said := out
		if x.code != exitOK {
			said = errs
		}
		if code != x.code || !strings.Contains(said, x.want) {
			t.Errorf("%v: exit code %d, want %d; said %q, want %q", x.args, code, x.code, said, x.want)
		}
	}
	var v output.Topology
	if err := json.Unmarshal([]byte(c.must("validate", "2xt3000", "-o", "json")), &v); err != nil || v.Chips != 16 || v.Routes.Cycle == nil || len(v.Routes.Cycle) != 0 || len(v.Meshes) != 2 || v.Meshes[0].Peers[0] != (output.Peer{Mesh: 1, Ports: 8}) {
		t.Errorf("%v: %+v", err, v)
	}
	file := filepath.Join(c.dir, "g.yaml")
	c.must("generate", "galaxy", "--format", "umd", "-f", file)
	if a, b := c.must("validate", "galaxy", "-o", "json"), c.must("validate", file, "-o", "json"); hashIn(a) == "" || hashIn(a) != hashIn(b) {
		t.Errorf("the galaxy written and read back is another: %s %s", hashIn(a), hashIn(b))
	}
}

func hashIn(text string) string {
	var v output.Topology
	json.Unmarshal([]byte(text), &v)
	return v.Hash
}
