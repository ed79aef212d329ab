package mgd

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"ttfabric/router/topo/arrange"
	"ttfabric/router/topo/kinds"
	"ttfabric/router/topo/textproto"
)

// maxGraphDepth is the largest depth to which graph instances may nest.
const maxGraphDepth = 16

// reader is the state of a reader of a mesh graph descriptor 2.0. A mesh graph descriptor
// 2.0 is textual protobuf. The schema is tt-metal's file
// tt_metal/fabric/protobuf/mesh_graph_descriptor.proto. Some fields have one form in this schema
// (types, graph_topology: RING), and another form in tt-metal's own descriptors (dim_types,
// graph_topology { layout_type: RING }). The reader accepts both forms.
type reader struct {
	Graph
	limits     Limits
	meshDescs  map[string]Mesh       // mesh descriptors, by name
	graphDescs map[string]*graphDesc // graph descriptors, by name
	ids        []uint64              // mesh_id of each mesh instance, in the order of Graph.Meshes
	pins       map[[2]int]int        // line of the entry of pinnings that names a chip, by index of the mesh and number of the chip
}

func (g *reader) note(format string, a ...any) { g.Notes = append(g.Notes, fmt.Sprintf(format, a...)) }

// failAt returns an error about a line of the file. Line 0 stands for the whole file.
func failAt(line int, format string, a ...any) error {
	return &Error{Line: line, Reason: fmt.Sprintf(format, a...)}
}

// The type "instance" describes one instance of a mesh descriptor or of a graph descriptor.
type instance struct {
	mesh     bool   // the instance is a mesh; false: a graph
	desc     string // name of the descriptor
	level    string // type of the graph descriptor, or meshLevel
	id       uint64
	meshes   []int       // indices in Graph.Meshes: the mesh itself, or all meshes within the graph
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

// Read reads the content of a mesh graph descriptor 2.0. If a number is above the limits, Read returns an
// error. An error about the content is an [*Error].
func Read(data []byte, l Limits) (*Graph, error) {
	root, err := textproto.Parse(data)
	if e := (*textproto.Error)(nil); errors.As(err, &e) {
		return nil, failAt(e.Line, "%s", e.Reason)
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range root.Fields {
		names = append(names, p.Name)
	}
	if !slices.ContainsFunc(names, func(n string) bool {
		return n == "mesh_descriptors" || n == "graph_descriptors" || n == "switch_descriptors" || n == "top_level_instance"
	}) {
		return nil, failAt(0, "%s", kinds.Strange(names))
	}
	g := &reader{limits: l, meshDescs: map[string]Mesh{}, graphDescs: map[string]*graphDesc{}, pins: map[[2]int]int{}}
	for i := range root.Fields {
		switch p := &root.Fields[i]; p.Name {
		case "mesh_descriptors":
			err = g.readMesh(p)
		case "graph_descriptors":
			err = g.readGraph(p)
		case "switch_descriptors":
			err = failAt(p.Line, "switch_descriptors: switches are not supported; describe only meshes and their connections")
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
		return nil, failAt(0, "the file has no top_level_instance: want a top_level_instance that names a mesh or a graph")
	}
	if _, err := g.expand(top, nil); err != nil {
		return nil, err
	}
	g.number()
	for i := range root.Fields {
		if p := &root.Fields[i]; p.Name == "pinnings" {
			if err := g.readPinning(p); err != nil {
				return nil, err
			}
		}
	}
	return &g.Graph, nil
}

// The method "number" gives each mesh instance its id in the topology. If all mesh instances have
// different mesh_ids, the mesh_id of an instance becomes its id. Otherwise, the method numbers the
// mesh instances from 0 on, in the order of Graph.Meshes.
func (g *reader) number() {
	seen := map[uint64]bool{}
	for _, id := range g.ids {
		seen[id] = true
	}
	for i := range g.Meshes {
		g.Meshes[i].ID = i
		if len(seen) == len(g.ids) {
			g.Meshes[i].ID = int(g.ids[i])
		}
	}
	if len(seen) != len(g.ids) {
		g.note("several mesh instances have the same mesh_id, so the meshes are numbered from 0 on in the order of their instances")
	}
}

// The method "one" returns the field of m that has one of the given names. If m has no such field,
// the result is nil. If m has more than one such field, the method returns an error.
func (g *reader) one(m *textproto.Message, names ...string) (*textproto.Field, error) {
	var found *textproto.Field
	for i := range m.Fields {
		if f := &m.Fields[i]; slices.Contains(names, f.Name) {
			if found != nil {
				return nil, failAt(f.Line, "%s is already given on line %d", f.Name, found.Line)
			}
			found = f
		}
	}
	return found, nil
}

// The method "message" returns the message in the field of m that has one of the given names. The
// field must exist, and its value must be a message. The parameter "of" describes m in error
// messages.
func (g *reader) message(m *textproto.Message, of string, names ...string) (*textproto.Message, error) {
	f, err := g.one(m, names...)
	if err != nil {
		return nil, err
	}
	if f == nil {
		return nil, failAt(m.Line, "%s has no %s", of, names[0])
	}
	return g.asMessage(f)
}

// asMessage returns the message in field f, or an error if the value of f is not a message.
func (g *reader) asMessage(f *textproto.Field) (*textproto.Message, error) {
	if f.Kind != textproto.Nested {
		return nil, failAt(f.Line, "%s: %s, want a message { … }", f.Name, f.Show())
	}
	return f.Msg, nil
}

// The method "text" returns the string in a field of m, and the line of the field. The field must
// exist, and the string must not be empty. The parameter "of" describes m in error messages.
func (g *reader) text(m *textproto.Message, of, name string) (string, int, error) {
	f, err := g.one(m, name)
	if err != nil {
		return "", 0, err
	}
	if f == nil || f.Kind == textproto.String && f.Text == "" {
		return "", 0, failAt(m.Line, "%s has no %s", of, name)
	}
	if f.Kind != textproto.String {
		return "", 0, failAt(f.Line, "%s: %s, want a string in quotes", name, f.Show())
	}
	return f.Text, f.Line, nil
}

// The method "whole" returns the value of field f, which must be a whole number from low to high.
func (g *reader) whole(f *textproto.Field, low, high uint64) (uint64, error) {
	v, ok := f.Uint()
	if !ok || v < low || v > high {
		return 0, failAt(f.Line, "%s: %s, want a number from %d to %d", f.Name, f.Show(), low, high)
	}
	return v, nil
}

// The method "boolean" returns the value of a field of m, which must be true or false. If the field
// is missing, the result is false.
func (g *reader) boolean(m *textproto.Message, name string) (bool, error) {
	f, err := g.one(m, name)
	if err != nil || f == nil {
		return false, err
	}
	v, ok := f.Bool()
	if !ok {
		return false, failAt(f.Line, "%s: %s, want true or false", name, f.Show())
	}
	return v, nil
}

// Enumerations of the schema: the name of each value, at the place of its number.
var (
	protoArch   = []string{"", "WORMHOLE_B0", "BLACKHOLE"}
	protoDim    = []string{"", "LINE", "RING"}
	protoLayout = []string{"", "ALL_TO_ALL", "RING"}
	protoPolicy = []string{"", "STRICT", "RELAXED"}
)

// readMesh reads an entry of mesh_descriptors.
func (g *reader) readMesh(f *textproto.Field) error {
	m, err := g.asMessage(f)
	if err != nil {
		return err
	}
	name, line, err := g.text(m, "a mesh descriptor", "name")
	if err != nil {
		return err
	}
	if was, dup := g.meshDescs[name]; dup {
		return failAt(line, "mesh descriptor %q is already defined on line %d", name, was.Line)
	}
	of := fmt.Sprintf("mesh descriptor %q", name)
	for _, x := range []string{"express_connections", "express_links"} {
		if i := slices.IndexFunc(m.Fields, func(f textproto.Field) bool { return f.Name == x }); i >= 0 {
			return failAt(m.Fields[i].Line, "%s: %s (cables between chips that are not neighbours) are not supported; remove them", of, x)
		}
	}
	var desc Mesh
	if err := g.readArch(m, of); err != nil {
		return err
	}
	rank := 0
	if desc, rank, err = g.readDims(m, of); err != nil {
		return err
	}
	desc.Line = f.Line
	if err := g.readHosts(m, &desc, rank, of); err != nil {
		return err
	}
	ch, err := g.message(m, of, "channels")
	if err != nil {
		return err
	}
	if desc.Across, desc.Relaxed, err = g.readChannels(ch, of, uint64(g.limits.Channels)); err != nil {
		return err
	}
	desc.Down = desc.Across
	g.meshDescs[name] = desc
	return nil
}

// readArch reads the field arch of a mesh descriptor. All mesh descriptors must have the same
// architecture.
func (g *reader) readArch(m *textproto.Message, of string) error {
	f, err := g.one(m, "arch")
	if err != nil {
		return err
	}
	if f == nil {
		return failAt(m.Line, "%s has no arch: want WORMHOLE_B0 or BLACKHOLE", of)
	}
	word, ok := f.Enum(protoArch...)
	if !ok {
		word = f.Text
	}
	a, known := g.limits.Arch(word)
	if f.Kind != textproto.Word || !known {
		return failAt(f.Line, "%s: arch %s: want WORMHOLE_B0 or BLACKHOLE", of, f.Show())
	}
	if g.Arch != "" && a != g.Arch {
		return failAt(f.Line, "%s has the architecture %s, but an earlier mesh descriptor has %s: a fabric has only one architecture (Spec §1.2)", of, a, g.Arch)
	}
	g.Arch = a
	return nil
}

// readDims reads device_topology, which gives the numbers of rows and columns of the mesh. If the
// field dims has only one number, the mesh has one row, and this number is the number of columns.
// The result "rank" is the number of values of dims.
func (g *reader) readDims(m *textproto.Message, of string) (r Mesh, rank int, err error) {
	topology, err := g.message(m, of, "device_topology")
	if err != nil {
		return r, 0, err
	}
	dims, err := g.dims(topology, of+": device_topology")
	if err != nil {
		return r, 0, err
	}
	rank = len(dims)
	var wrap []bool
	name := "" // name under which the file gives the types
	for i := range topology.Fields {
		f := &topology.Fields[i]
		if f.Name != "dim_types" && f.Name != "types" {
			continue
		}
		kind, ok := f.Enum(protoDim...)
		if !ok {
			return r, 0, failAt(f.Line, "%s: %s %s: want LINE or RING", of, f.Name, f.Show())
		}
		wrap, name = append(wrap, kind == "RING"), f.Name
	}
	if len(wrap) > len(dims) {
		return r, 0, failAt(topology.Line, "%s: %d %s for %d dims", of, len(wrap), name, len(dims))
	}
	for len(wrap) < len(dims) {
		wrap = append(wrap, false)
	}
	if len(dims) == 1 {
		dims, wrap = []int{1, dims[0]}, []bool{false, wrap[0]}
	}
	r = Mesh{Rows: dims[0], Cols: dims[1], WrapY: wrap[0], WrapX: wrap[1]}
	if !g.limits.fits(r.Rows, r.Cols) {
		return r, 0, failAt(topology.Line, "%s: %d×%d chips: a mesh has at most %d chips; describe several meshes with connections", of, r.Rows, r.Cols, g.limits.Chips)
	}
	if r.WrapX && r.Cols < arrange.MinWrap || r.WrapY && r.Rows < arrange.MinWrap {
		g.note("%s: a RING of fewer than %d chips counts as a LINE", of, arrange.MinWrap)
	}
	r.WrapX, r.WrapY = r.WrapX && r.Cols >= arrange.MinWrap, r.WrapY && r.Rows >= arrange.MinWrap
	return r, rank, nil
}

// The method "dims" returns the values of the field dims in m. There must be one or two values. The
// parameter "of" describes m in error messages.
func (g *reader) dims(m *textproto.Message, of string) (dims []int, err error) {
	for i := range m.Fields {
		if f := &m.Fields[i]; f.Name == "dims" {
			v, err := g.whole(f, 1, math.MaxInt32)
			if err != nil {
				return nil, err
			}
			dims = append(dims, int(v))
		}
	}
	if len(dims) < 1 || len(dims) > 2 {
		return nil, failAt(m.Line, "%s has %d dims: want [rows, columns], or [columns] for a single row; meshes of three dimensions are not supported", of, len(dims))
	}
	return dims, nil
}

// readHosts checks the field host_topology, which gives a number of rows and a number of columns of
// hosts. The numbers for hosts must divide the numbers of rows and columns of the mesh evenly. The
// field must have as many numbers as device_topology has. The parameter "rank" is this number.
func (g *reader) readHosts(m *textproto.Message, mesh *Mesh, rank int, of string) error {
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
	if len(dims) != rank {
		return failAt(f.Line, "%s: host_topology has %d dims and device_topology has %d: want equally many", of, len(dims), rank)
	}
	if len(dims) == 1 {
		dims = []int{1, dims[0]}
	}
	if mesh.Rows%dims[0] != 0 || mesh.Cols%dims[1] != 0 {
		return failAt(f.Line, "%s: %d×%d chips cannot be divided evenly among %d×%d hosts", of, mesh.Rows, mesh.Cols, dims[0], dims[1])
	}
	mesh.HostRows, mesh.HostCols = dims[0], dims[1]
	return nil
}

// readChannels reads the fields count and policy of the message m. The result n is the count, which
// must be at least 1. The parameter "most" is the largest allowed count. The result "relaxed" is
// true if the policy is RELAXED.
func (g *reader) readChannels(m *textproto.Message, of string, most uint64) (n int, relaxed bool, err error) {
	f, err := g.one(m, "count")
	if err != nil {
		return 0, false, err
	}
	if f == nil {
		return 0, false, failAt(m.Line, "%s: the field channels has no count", of)
	}
	v, err := g.whole(f, 1, most)
	if err != nil {
		return 0, false, err
	}
	p, err := g.one(m, "policy")
	if err != nil {
		return 0, false, err
	}
	policy := "STRICT"
	if p != nil {
		ok := false
		if policy, ok = p.Enum(protoPolicy...); !ok {
			return 0, false, failAt(p.Line, "%s: policy %s: want STRICT or RELAXED", of, p.Show())
		}
	}
	return int(v), policy == "RELAXED", nil
}
