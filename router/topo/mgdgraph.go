package topo

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ttfabric/wire"
)

// maxCount is the largest number of cables that one connection can ask for: the number of channels
// of all chips of the largest mesh.
const maxCount = wire.MaxChipsPerMesh * wire.MaxChannels

// readGraph stores an entry of graph_descriptors. The reader reads the entry's content later, when
// an instance uses the entry. Only then do the names in the entry stand for instances.
func (g *mgd) readGraph(f *protoField) error {
	m, err := g.asMessage(f)
	if err != nil {
		return err
	}
	m.line = f.line
	name, line, err := g.text(m, "a graph descriptor", "name")
	if err != nil {
		return err
	}
	if was := g.graphDescs[name]; was != nil {
		return g.failAt(line, "graph descriptor %q is already defined on line %d", name, was.line)
	}
	g.graphDescs[name] = m
	return nil
}

// ref reads a reference to a mesh or a graph, such as mesh { mesh_descriptor: "M0" mesh_id: 1 }.
// The second result has the fields in the inner braces, here mesh_descriptor and mesh_id.
func (g *mgd) ref(f *protoField) (*instance, *protoMessage, error) {
	node, err := g.asMessage(f)
	if err != nil {
		return nil, nil, err
	}
	if i := slices.IndexFunc(node.fields, func(f protoField) bool { return f.name == "switch" || f.name == "switch_ref" }); i >= 0 {
		return nil, nil, g.failAt(node.fields[i].line, "%s: switches are not supported", node.fields[i].name)
	}
	x, err := g.one(node, "mesh", "graph")
	if err != nil {
		return nil, nil, err
	}
	if x == nil {
		return nil, nil, g.failAt(f.line, "%s: want mesh { … } or graph { … }", f.name)
	}
	m, err := g.asMessage(x)
	if err != nil {
		return nil, nil, err
	}
	in := &instance{mesh: x.name == "mesh", line: x.line}
	if in.desc, _, err = g.text(m, "a reference to a "+x.name, x.name+"_descriptor"); err != nil {
		return nil, nil, err
	}
	most := uint64(math.MaxInt32)
	if in.mesh {
		most = wire.MaxMeshes - 1
	}
	id, err := g.one(m, x.name+"_id")
	if err != nil {
		return nil, nil, err
	}
	if id != nil { // proto3 leaves out a field that is 0
		if in.id, err = g.whole(id, 0, most); err != nil {
			return nil, nil, err
		}
	}
	return in, m, nil
}

// expand makes the instance that field f refers to, with all instances within it. The argument
// "chain" has the names of the graphs that contain f, the outermost graph first.
func (g *mgd) expand(f *protoField, chain []string) (*instance, error) {
	in, _, err := g.ref(f)
	if err != nil {
		return nil, err
	}
	if in.mesh {
		desc, ok := g.meshDescs[in.desc]
		if !ok {
			return nil, g.failAt(in.line, "the file defines no mesh descriptor %q", in.desc)
		}
		if len(g.meshes) >= wire.MaxMeshes {
			return nil, g.failAt(in.line, "more than %d meshes", wire.MaxMeshes)
		}
		in.meshes = []int{len(g.meshes)}
		desc.line = in.line
		g.meshes, g.ids = append(g.meshes, desc), append(g.ids, in.id)
		return in, nil
	}
	m := g.graphDescs[in.desc]
	if m == nil {
		return nil, g.failAt(in.line, "the file defines no graph descriptor %q", in.desc)
	}
	if slices.Contains(chain, in.desc) {
		return nil, g.failAt(in.line, "graph %s contains itself: %s", in.desc, strings.Join(append(chain, in.desc), " → "))
	}
	if len(chain) >= maxGraphDepth {
		return nil, g.failAt(in.line, "graphs nest deeper than %d", maxGraphDepth)
	}
	if err := g.fill(in, m, append(chain, in.desc)); err != nil {
		return nil, err
	}
	return in, nil
}

// fill makes the instances and connections within a graph.
func (g *mgd) fill(in *instance, m *protoMessage, chain []string) error {
	have := map[string]int{}
	for i := range m.fields {
		f := &m.fields[i]
		if f.name != "instances" {
			continue
		}
		child, err := g.expand(f, slices.Clip(chain))
		if err != nil {
			return err
		}
		if line, dup := have[child.named()]; dup {
			return g.failAt(f.line, "graph %s already has %s on line %d", in.desc, child.named(), line)
		}
		have[child.named()] = f.line
		in.children = append(in.children, child)
		in.meshes = append(in.meshes, child.meshes...)
	}
	if len(in.children) == 0 {
		return g.failAt(m.line, "graph %s has no instances", in.desc)
	}
	directed := map[string]int{} // directional connections whose opposite connection has not been read yet
	for i := range m.fields {
		if f := &m.fields[i]; f.name == "connections" {
			if err := g.readConnection(in, f, directed); err != nil {
				return err
			}
		}
	}
	return g.readPattern(in, m)
}

// readConnection reads an entry of connections. Two directional connections with equal ends and
// numbers of cables but opposite directions become one connection, because a cable carries both
// directions.
func (g *mgd) readConnection(in *instance, f *protoField, directed map[string]int) error {
	m, err := g.asMessage(f)
	if err != nil {
		return err
	}
	of := "a connection of graph " + in.desc
	l := graphLink{line: f.line}
	var ends []graphEnd
	for i := range m.fields {
		if n := &m.fields[i]; n.name == "nodes" {
			e, err := g.resolve(in, n)
			if err != nil {
				return err
			}
			ends = append(ends, e)
		}
	}
	if len(ends) != 2 {
		return g.failAt(f.line, "%s has %d nodes: want two; write one connection for each pair", of, len(ends))
	}
	l.a, l.b = ends[0], ends[1]
	if len(l.a.meshes) == 1 && len(l.b.meshes) == 1 && l.a.meshes[0] == l.b.meshes[0] {
		return g.failAt(f.line, "%s joins a mesh with itself; a connection must join two meshes", of)
	}
	ch, err := g.message(m, of, "channels")
	if err != nil {
		return err
	}
	if l.n, l.relaxed, err = g.readChannels(ch, of, maxCount); err != nil {
		return err
	}
	if l.z, err = g.boolean(m, "assign_z_direction"); err != nil {
		return err
	}
	oneWay, err := g.boolean(m, "directional")
	if err != nil {
		return err
	}
	if oneWay {
		if back := fmt.Sprint(l.b, l.a, l.n); directed[back] > 0 {
			directed[back]--
			return nil
		}
		directed[fmt.Sprint(l.a, l.b, l.n)]++
	}
	return g.connect(l)
}

// resolve finds the meshes and the chip that a node of a connection names. The argument "in" is the
// graph that contains the connection.
func (g *mgd) resolve(in *instance, f *protoField) (graphEnd, error) {
	to, m, err := g.ref(f)
	if err != nil {
		return graphEnd{}, err
	}
	i := slices.IndexFunc(in.children, func(c *instance) bool { return c.mesh == to.mesh && c.desc == to.desc && c.id == to.id })
	if i < 0 {
		return graphEnd{}, g.failAt(to.line, "graph %s has no instance %s", in.desc, to.named())
	}
	child := in.children[i]
	e := graphEnd{meshes: child.meshes, chip: anyChip, dir: anyDir}
	if !child.mesh {
		sub, err := g.one(m, "mesh", "graph")
		if err != nil || sub == nil {
			return e, err
		}
		return g.resolve(child, &protoField{name: sub.name, line: sub.line, kind: 'm', msg: &protoMessage{line: sub.line, fields: []protoField{*sub}}})
	}
	id, err := g.one(m, "device_id")
	if err != nil || id == nil {
		return e, err
	}
	mesh := g.meshes[child.meshes[0]]
	v, err := g.whole(id, 0, uint64(mesh.Rows*mesh.Cols-1))
	e.chip = int(v)
	return e, err
}

// readPattern reads graph_topology, and adds the connections of its pattern: between all instances,
// or round a ring of all instances.
func (g *mgd) readPattern(in *instance, m *protoMessage) error {
	f, err := g.one(m, "graph_topology")
	if err != nil || f == nil {
		return err
	}
	of, holder, kind := "graph_topology of graph "+in.desc, m, f
	if f.kind == 'm' {
		holder = f.msg
		if kind, err = g.one(f.msg, "layout_type"); err != nil {
			return err
		}
		if kind == nil {
			return g.failAt(f.line, "%s has no layout_type: want ALL_TO_ALL or RING", of)
		}
	}
	if kind.kind != 'w' || kind.text != "ALL_TO_ALL" && kind.text != "RING" {
		return g.failAt(kind.line, "%s: %s, want ALL_TO_ALL or RING", of, kind.show())
	}
	ch, err := g.message(holder, of, "channels")
	if err != nil {
		return err
	}
	l := graphLink{line: f.line}
	if l.n, l.relaxed, err = g.readChannels(ch, of, maxCount); err != nil {
		return err
	}
	n := len(in.children)
	for i := range n {
		for j := i + 1; j < n; j++ {
			if kind.text == "RING" && j != i+1 && (i != 0 || j != n-1) {
				continue
			}
			l.a = graphEnd{in.children[i].meshes, anyChip, anyDir}
			l.b = graphEnd{in.children[j].meshes, anyChip, anyDir}
			if err := g.connect(l); err != nil {
				return err
			}
		}
	}
	return nil
}
