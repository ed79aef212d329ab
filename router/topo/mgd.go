package topo

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"ttfabric/wire"
)

// maxGraphDepth is the largest depth to which graph instances may nest.
const maxGraphDepth = 16

// The type "mgd" is the state of a reader of a mesh graph descriptor 2.0. Such a file is textual
// protobuf. Its schema is tt-metal's file tt_metal/fabric/protobuf/mesh_graph_descriptor.proto.
// Some fields have one form in this schema (types, graph_topology: RING), and another form in
// tt-metal's own descriptors (dim_types, graph_topology { layout_type: RING }). The reader accepts
// both forms.
type mgd struct {
	graph
	meshDescs  map[string]graphMesh     // mesh descriptors, by name
	graphDescs map[string]*protoMessage // graph descriptors, by name
	ids        []uint64                 // mesh_id of each mesh instance, in the order of graph.meshes
}

// The type "instance" describes one instance of a mesh descriptor or of a graph descriptor.
type instance struct {
	mesh     bool   // the instance is a mesh; false: a graph
	desc     string // name of the descriptor
	id       uint64
	meshes   []int       // indices in graph.meshes: the mesh itself, or all meshes within the graph
	children []*instance // instances that the graph contains directly
	line     int         // line of the file
}

// The method "named" returns the kind, the name of the descriptor, and the id of the instance, such
// as "mesh M0 3".
func (i *instance) named() string {
	kind := "graph"
	if i.mesh {
		kind = "mesh"
	}
	return fmt.Sprintf("%s %s %d", kind, i.desc, i.id)
}

// loadMGD reads a mesh graph descriptor 2.0.
func loadMGD(f file, name string, data []byte) (*Topology, error) {
	root, err := f.parseProto(data)
	if err != nil {
		return nil, err
	}
	g := &mgd{graph: graph{file: f}, meshDescs: map[string]graphMesh{}, graphDescs: map[string]*protoMessage{}}
	for i := range root.fields {
		switch p := &root.fields[i]; p.name {
		case "mesh_descriptors":
			err = g.readMesh(p)
		case "graph_descriptors":
			err = g.readGraph(p)
		case "switch_descriptors":
			err = g.failAt(p.line, "switch_descriptors: switches are not supported; describe only meshes and their connections")
		}
		if err != nil {
			return nil, err
		}
	}
	top, err := g.one(root, "top_level_instance")
	if err != nil {
		return nil, err
	}
	if top == nil {
		return nil, g.failAt(0, "the file has no top_level_instance: want a top_level_instance that names a mesh or a graph")
	}
	if _, err := g.expand(top, nil); err != nil {
		return nil, err
	}
	g.number()
	return g.build(name)
}

// The method "number" gives each mesh instance its id in the topology. If all mesh instances have
// different mesh_ids, the mesh_id of an instance becomes its id. Otherwise, the method numbers the
// mesh instances from 0 on, in the order of graph.meshes.
func (g *mgd) number() {
	seen := map[uint64]bool{}
	for _, id := range g.ids {
		seen[id] = true
	}
	for i := range g.meshes {
		g.meshes[i].ID = wire.MeshID(i)
		if len(seen) == len(g.ids) {
			g.meshes[i].ID = wire.MeshID(g.ids[i])
		}
	}
	if len(seen) != len(g.ids) {
		g.note("several mesh instances have the same mesh_id, so the meshes are numbered from 0 on in the order of their instances")
	}
}

// The method "one" returns the field of m that has one of the given names. If m has no such field,
// the result is nil. If m has more than one such field, the method returns an error.
func (g *mgd) one(m *protoMessage, names ...string) (*protoField, error) {
	var found *protoField
	for i := range m.fields {
		if f := &m.fields[i]; slices.Contains(names, f.name) {
			if found != nil {
				return nil, g.failAt(f.line, "%s is already given on line %d", f.name, found.line)
			}
			found = f
		}
	}
	return found, nil
}

// The method "message" returns the message in the field of m that has one of the given names. The
// field must exist, and its value must be a message. The parameter "of" describes m in error
// messages.
func (g *mgd) message(m *protoMessage, of string, names ...string) (*protoMessage, error) {
	f, err := g.one(m, names...)
	if err != nil {
		return nil, err
	}
	if f == nil {
		return nil, g.failAt(m.line, "%s has no %s", of, names[0])
	}
	return g.asMessage(f)
}

// asMessage returns the message in field f, or an error if the value of f is not a message.
func (g *mgd) asMessage(f *protoField) (*protoMessage, error) {
	if f.kind != 'm' {
		return nil, g.failAt(f.line, "%s: %s, want a message { … }", f.name, f.show())
	}
	return f.msg, nil
}

// The method "text" returns the string in a field of m, and the line of the field. The field must
// exist, and the string must not be empty. The parameter "of" describes m in error messages.
func (g *mgd) text(m *protoMessage, of, name string) (string, int, error) {
	f, err := g.one(m, name)
	if err != nil {
		return "", 0, err
	}
	if f == nil || f.kind == 's' && f.text == "" {
		return "", 0, g.failAt(m.line, "%s has no %s", of, name)
	}
	if f.kind != 's' {
		return "", 0, g.failAt(f.line, "%s: %s, want a string in quotes", name, f.show())
	}
	return f.text, f.line, nil
}

// The method "whole" returns the value of field f, which must be a whole number from low to high.
func (g *mgd) whole(f *protoField, low, high uint64) (uint64, error) {
	v, err := strconv.ParseUint(f.text, 0, 64)
	if f.kind != 'w' || err != nil || v < low || v > high {
		return 0, g.failAt(f.line, "%s: %s, want a number from %d to %d", f.name, f.show(), low, high)
	}
	return v, nil
}

// The method "boolean" returns the value of a field of m, which must be true or false. If the field
// is missing, the result is false.
func (g *mgd) boolean(m *protoMessage, name string) (bool, error) {
	f, err := g.one(m, name)
	if err != nil || f == nil {
		return false, err
	}
	if f.kind != 'w' || f.text != "true" && f.text != "false" {
		return false, g.failAt(f.line, "%s: %s, want true or false", name, f.show())
	}
	return f.text == "true", nil
}

// readMesh reads an entry of mesh_descriptors.
func (g *mgd) readMesh(f *protoField) error {
	m, err := g.asMessage(f)
	if err != nil {
		return err
	}
	name, line, err := g.text(m, "a mesh descriptor", "name")
	if err != nil {
		return err
	}
	if was, dup := g.meshDescs[name]; dup {
		return g.failAt(line, "mesh descriptor %q is already defined on line %d", name, was.line)
	}
	of := fmt.Sprintf("mesh descriptor %q", name)
	for _, x := range []string{"express_connections", "express_links"} {
		if i := slices.IndexFunc(m.fields, func(f protoField) bool { return f.name == x }); i >= 0 {
			return g.failAt(m.fields[i].line, "%s: %s (cables between chips that are not neighbours) are not supported; remove them", of, x)
		}
	}
	desc := graphMesh{line: f.line}
	if err := g.readArch(m, of); err != nil {
		return err
	}
	if desc.Mesh, err = g.readDims(m, of); err != nil {
		return err
	}
	if err := g.readHosts(m, desc.Mesh, of); err != nil {
		return err
	}
	ch, err := g.message(m, of, "channels")
	if err != nil {
		return err
	}
	if desc.across, _, err = g.readChannels(ch, of, wire.MaxChannels); err != nil {
		return err
	}
	desc.down = desc.across
	g.meshDescs[name] = desc
	return nil
}

// readArch reads the field arch of a mesh descriptor. All mesh descriptors must have the same
// architecture.
func (g *mgd) readArch(m *protoMessage, of string) error {
	f, err := g.one(m, "arch")
	if err != nil {
		return err
	}
	if f == nil {
		return g.failAt(m.line, "%s has no arch: want WORMHOLE_B0 or BLACKHOLE", of)
	}
	a, err := wire.ParseArch(f.text)
	if f.kind != 'w' || err != nil {
		return g.failAt(f.line, "%s: arch %s: want WORMHOLE_B0 or BLACKHOLE", of, f.show())
	}
	if g.arch != wire.ArchUnknown && a != g.arch {
		return g.failAt(f.line, "%s has the architecture %s, but an earlier mesh descriptor has %s: a fabric has only one architecture (Spec §1.2)", of, a, g.arch)
	}
	g.arch = a
	return nil
}

// readDims reads device_topology, which gives the numbers of rows and columns of the mesh. If the
// field dims has only one number, the mesh has one row, and this number is the number of columns.
func (g *mgd) readDims(m *protoMessage, of string) (Mesh, error) {
	topology, err := g.message(m, of, "device_topology")
	if err != nil {
		return Mesh{}, err
	}
	dims, err := g.dims(topology, of+": device_topology")
	if err != nil {
		return Mesh{}, err
	}
	var wrap []bool
	name := "" // name under which the file gives the types
	for i := range topology.fields {
		f := &topology.fields[i]
		if f.name != "dim_types" && f.name != "types" {
			continue
		}
		if f.kind != 'w' || f.text != "LINE" && f.text != "RING" {
			return Mesh{}, g.failAt(f.line, "%s: %s %s: want LINE or RING", of, f.name, f.show())
		}
		wrap, name = append(wrap, f.text == "RING"), f.name
	}
	if len(wrap) > len(dims) {
		return Mesh{}, g.failAt(topology.line, "%s: %d %s for %d dims", of, len(wrap), name, len(dims))
	}
	for len(wrap) < len(dims) {
		wrap = append(wrap, false)
	}
	if len(dims) == 1 {
		dims, wrap = []int{1, dims[0]}, []bool{false, wrap[0]}
	}
	r := Mesh{Rows: dims[0], Cols: dims[1], WrapY: wrap[0], WrapX: wrap[1]}
	if !fits(r.Rows, r.Cols) {
		return Mesh{}, g.failAt(topology.line, "%s: %d×%d chips: a mesh has at most %d chips; describe several meshes with connections", of, r.Rows, r.Cols, wire.MaxChipsPerMesh)
	}
	if r.WrapX && r.Cols < MinWrap || r.WrapY && r.Rows < MinWrap {
		g.note("%s: a RING of fewer than %d chips counts as a LINE", of, MinWrap)
	}
	r.WrapX, r.WrapY = r.WrapX && r.Cols >= MinWrap, r.WrapY && r.Rows >= MinWrap
	return r, nil
}

// The method "dims" returns the values of the field dims in m. There must be one or two values. A
// value of more than wire.MaxChipsPerMesh becomes wire.MaxChipsPerMesh + 1. The parameter "of"
// describes m in error messages.
func (g *mgd) dims(m *protoMessage, of string) (dims []int, err error) {
	for i := range m.fields {
		if f := &m.fields[i]; f.name == "dims" {
			v, err := g.whole(f, 1, math.MaxInt32)
			if err != nil {
				return nil, err
			}
			dims = append(dims, int(min(v, wire.MaxChipsPerMesh+1)))
		}
	}
	if len(dims) < 1 || len(dims) > 2 {
		return nil, g.failAt(m.line, "%s has %d dims: want [rows, columns], or [columns] for a single row; meshes of three dimensions are not supported", of, len(dims))
	}
	return dims, nil
}

// readHosts checks the field host_topology, which gives a number of rows and a number of columns of
// hosts. These two numbers must divide the numbers of rows and columns of the mesh evenly. The
// topology does not use host_topology otherwise.
func (g *mgd) readHosts(m *protoMessage, mesh Mesh, of string) error {
	f, err := g.one(m, "host_topology")
	if err != nil || f == nil {
		return err
	}
	hosts, err := g.asMessage(f)
	if err != nil {
		return err
	}
	dims, err := g.dims(hosts, of+": host_topology")
	if err != nil {
		return err
	}
	if len(dims) == 1 {
		dims = []int{1, dims[0]}
	}
	if mesh.Rows%dims[0] != 0 || mesh.Cols%dims[1] != 0 {
		return g.failAt(f.line, "%s: %d×%d chips cannot be divided evenly among %d×%d hosts", of, mesh.Rows, mesh.Cols, dims[0], dims[1])
	}
	return nil
}

// readChannels reads the fields count and policy of the message m. The result n is the count, which
// must be at least 1. The parameter "most" is the largest allowed count. The result "relaxed" is
// true if the policy is RELAXED.
func (g *mgd) readChannels(m *protoMessage, of string, most uint64) (n int, relaxed bool, err error) {
	f, err := g.one(m, "count")
	if err != nil {
		return 0, false, err
	}
	if f == nil {
		return 0, false, g.failAt(m.line, "%s: the field channels has no count", of)
	}
	v, err := g.whole(f, 1, most)
	if err != nil {
		return 0, false, err
	}
	p, err := g.one(m, "policy")
	if err != nil {
		return 0, false, err
	}
	if p != nil && (p.kind != 'w' || p.text != "STRICT" && p.text != "RELAXED") {
		return 0, false, g.failAt(p.line, "%s: policy %s: want STRICT or RELAXED", of, p.show())
	}
	return int(v), p != nil && strings.EqualFold(p.text, "RELAXED"), nil
}
