package topo

import (
	"errors"
	"regexp"
	"strings"

	"ttfabric/router/topo/mgd"
	"ttfabric/wire"
)

// isProtoGraph reports whether the file at path with the given content is a mesh graph descriptor in
// textual protobuf.
func isProtoGraph(path string, data []byte) bool {
	return regexp.MustCompile(protoGraph).Match(data) || strings.HasSuffix(path, ".textproto")
}

// readMGD reads a mesh graph descriptor in textual protobuf.
func readMGD(f file, data []byte) (*mgd.Graph, error) {
	if line, what := unprintable(data); line > 0 {
		return nil, f.failAt(line, "not a textual protobuf: %s", what)
	}
	g, err := mgd.Read(data, mgd.Limits{Meshes: wire.MaxMeshes, Chips: wire.MaxChipsPerMesh, Channels: wire.MaxChannels, Arch: func(name string) (string, bool) {
		a, err := wire.ParseArch(name)
		return a.String(), err == nil
	}})
	if e := (*mgd.Error)(nil); errors.As(err, &e) {
		return nil, f.failAt(e.Line, "%s", e.Reason)
	}
	return g, err
}

// loadMGD makes a topology of a mesh graph descriptor in textual protobuf.
func loadMGD(f file, name string, data []byte) (*Topology, error) {
	w, err := readMGD(f, data)
	if err != nil {
		return nil, err
	}
	arch, _ := wire.ParseArch(w.Arch)
	g := &graph{file: f, arch: arch, notes: w.Notes}
	for _, m := range w.Meshes {
		g.meshes = append(g.meshes, graphMesh{Mesh: Mesh{ID: wire.MeshID(m.ID), Rows: m.Rows, Cols: m.Cols, WrapX: m.WrapX, WrapY: m.WrapY}, across: m.Across, down: m.Down, line: m.Line})
	}
	for _, l := range w.Links {
		g.links = append(g.links, graphLink{graphEnd{l.A.Meshes, l.A.Chip, anyDir}, graphEnd{l.B.Meshes, l.B.Chip, anyDir}, l.Count, l.Relaxed, l.Z, l.Line})
	}
	leave(&g.left, len(w.Pins), "pinnings", "the chips are not those of a machine; 'ttfabric map' honours pinnings")
	return g.build(name)
}

// LoadGraph reads a mesh graph descriptor of tt-metal, in YAML or in textual protobuf, and returns what
// the descriptor asks for. [Load] makes a topology of the same file, and chooses all cables. The errors
// are those of Load.
func LoadGraph(path string, data []byte) (*mgd.Graph, error) {
	f := file{path}
	if len(data) > MaxFile {
		return nil, f.fail(nil, "%d bytes; a topology has at most %d", len(data), MaxFile)
	}
	if isProtoGraph(path, data) {
		return readMGD(f, data)
	}
	root, top, keys, err := f.open(data)
	if err != nil {
		return nil, err
	}
	if _, spec := keys["ChipSpec"]; !spec {
		var names []string
		for _, p := range top {
			names = append(names, p.key.Value)
		}
		return nil, f.fail(root, "not a mesh graph descriptor: want the field mesh_descriptors or the key ChipSpec; the file has the keys %s", strings.Join(names, ", "))
	}
	g, err := readYAMLGraph(f, root, keys)
	if err != nil {
		return nil, err
	}
	w := &mgd.Graph{Arch: g.arch.String(), Notes: g.notes}
	for _, m := range g.meshes {
		w.Meshes = append(w.Meshes, mgd.Mesh{ID: int(m.ID), Rows: m.Rows, Cols: m.Cols, WrapX: m.WrapX, WrapY: m.WrapY, Across: m.across, Down: m.down, Line: m.line})
	}
	for _, l := range g.links {
		w.Links = append(w.Links, mgd.Link{A: mgd.End{Meshes: l.a.meshes, Chip: l.a.chip}, B: mgd.End{Meshes: l.b.meshes, Chip: l.b.chip}, Count: l.n, Relaxed: l.relaxed, Z: l.z, Line: l.line})
	}
	return w, nil
}
