package mgd

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ttfabric/router/topo/textproto"
)

// Levels of the instances that are no graphs. A graph has the type of its descriptor as its level.
// The instances of one graph are of one level, and so are the two ends of one connection.
const (
	meshLevel   = "MESH"
	deviceLevel = "DEVICE"
	switchLevel = "SWITCH"
)

// graphDesc is an entry of graph_descriptors. The names in the entry stand for instances only when
// an instance uses the entry. Everything else is checked even if no instance uses the entry.
type graphDesc struct {
	name, kind  string
	line        int
	instances   []*textproto.Field
	connections []graphConnection
	pattern     string // ALL_TO_ALL or RING; "": the entry has no graph_topology
	each        Link
}

// graphConnection is an entry of connections.
type graphConnection struct {
	nodes  [2]*textproto.Field
	oneWay bool // the connection is directional
	link   Link // the connection, without its ends
}

// readGraph reads an entry of graph_descriptors.
func (g *reader) readGraph(f *textproto.Field) error {
	m, err := g.asMessage(f)
	if err != nil {
		return err
	}
	m.Line = f.Line
	name, line, err := g.text(m, "a graph descriptor", "name")
	if err != nil {
		return err
	}
	if was := g.graphDescs[name]; was != nil {
		return failAt(line, "graph descriptor %q is already defined on line %d", name, was.line)
	}
	d := &graphDesc{name: name, line: f.Line}
	if d.kind, line, err = g.text(m, "graph descriptor "+name, "type"); err != nil {
		return err
	}
	if slices.Contains([]string{meshLevel, deviceLevel, switchLevel}, d.kind) {
		return failAt(line, "graph descriptor %s: a graph cannot have the type %s; take another name, such as FABRIC", name, d.kind)
	}
	for i := range m.Fields {
		switch n := &m.Fields[i]; n.Name {
		case "instances":
			d.instances = append(d.instances, n)
		case "connections":
			c, err := g.readConnection(d, n)
			if err != nil {
				return err
			}
			d.connections = append(d.connections, c)
		}
	}
	if len(d.instances) == 0 {
		return failAt(m.Line, "graph %s has no instances", name)
	}
	g.graphDescs[name] = d
	return g.readPattern(d, m)
}

// readConnection reads an entry of connections.
func (g *reader) readConnection(d *graphDesc, f *textproto.Field) (c graphConnection, err error) {
	m, err := g.asMessage(f)
	if err != nil {
		return c, err
	}
	of := "a connection of graph " + d.name
	c.link.Line = f.Line
	n := 0
	for i := range m.Fields {
		if x := &m.Fields[i]; x.Name == "nodes" {
			if n < len(c.nodes) {
				c.nodes[n] = x
			}
			n++
		}
	}
	if n != len(c.nodes) {
		return c, failAt(f.Line, "%s has %d nodes: want two; write one connection for each pair", of, n)
	}
	ch, err := g.message(m, of, "channels")
	if err != nil {
		return c, err
	}
	if c.link.Count, c.link.Relaxed, err = g.readChannels(ch, of, g.limits.count()); err != nil {
		return c, err
	}
	if c.link.Z, err = g.boolean(m, "assign_z_direction"); err != nil {
		return c, err
	}
	c.oneWay, err = g.boolean(m, "directional")
	return c, err
}

// readPattern reads graph_topology, the pattern of connections between all instances of a graph, or
// round a ring of all instances.
func (g *reader) readPattern(d *graphDesc, m *textproto.Message) error {
	f, err := g.one(m, "graph_topology")
	if err != nil || f == nil {
		return err
	}
	of, holder, kind := "graph_topology of graph "+d.name, m, f
	if f.Kind == textproto.Nested {
		holder = f.Msg
		if kind, err = g.one(f.Msg, "layout_type"); err != nil {
			return err
		}
		if kind == nil {
			return failAt(f.Line, "%s has no layout_type: want ALL_TO_ALL or RING", of)
		}
	}
	pattern, ok := kind.Enum(protoLayout...)
	if !ok {
		return failAt(kind.Line, "%s: %s, want ALL_TO_ALL or RING", of, kind.Show())
	}
	ch, err := g.message(holder, of, "channels")
	if err != nil {
		return err
	}
	d.pattern, d.each = pattern, Link{Line: f.Line}
	if d.each.Count, d.each.Relaxed, err = g.readChannels(ch, of, g.limits.count()); err != nil {
		return err
	}
	d.each.Z, err = g.boolean(holder, "assign_z_direction")
	return err
}

// ref reads a reference to a mesh or a graph, such as mesh { mesh_descriptor: "M0" mesh_id: 1 }.
// The second result has the fields in the inner braces, here mesh_descriptor and mesh_id.
func (g *reader) ref(f *textproto.Field) (*instance, *textproto.Message, error) {
	node, err := g.asMessage(f)
	if err != nil {
		return nil, nil, err
	}
	if i := slices.IndexFunc(node.Fields, func(f textproto.Field) bool { return f.Name == "switch" || f.Name == "switch_ref" }); i >= 0 {
		return nil, nil, failAt(node.Fields[i].Line, "%s: switches are not supported", node.Fields[i].Name)
	}
	x, err := g.one(node, "mesh", "graph")
	if err != nil {
		return nil, nil, err
	}
	if x == nil {
		return nil, nil, failAt(f.Line, "%s: want mesh { … } or graph { … }", f.Name)
	}
	m, err := g.asMessage(x)
	if err != nil {
		return nil, nil, err
	}
	in := &instance{mesh: x.Name == "mesh", level: meshLevel, line: x.Line}
	if in.desc, _, err = g.text(m, "a reference to a "+x.Name, x.Name+"_descriptor"); err != nil {
		return nil, nil, err
	}
	most := uint64(math.MaxInt32)
	if in.mesh {
		most = uint64(g.limits.Meshes - 1)
	}
	id, err := g.one(m, x.Name+"_id")
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
// "chain" has the graphs that contain f, the outermost graph first.
func (g *reader) expand(f *textproto.Field, chain []*graphDesc) (*instance, error) {
	in, _, err := g.ref(f)
	if err != nil {
		return nil, err
	}
	if in.mesh {
		desc, ok := g.meshDescs[in.desc]
		if !ok {
			return nil, failAt(in.line, "the file defines no mesh descriptor %q", in.desc)
		}
		if len(g.Meshes) >= g.limits.Meshes {
			return nil, failAt(in.line, "more than %d meshes", g.limits.Meshes)
		}
		in.meshes = []int{len(g.Meshes)}
		desc.Line = in.line
		g.Meshes, g.ids = append(g.Meshes, desc), append(g.ids, in.id)
		return in, nil
	}
	d := g.graphDescs[in.desc]
	if d == nil {
		return nil, failAt(in.line, "the file defines no graph descriptor %q", in.desc)
	}
	in.level = d.kind
	if slices.Contains(chain, d) {
		var names []string
		for _, c := range append(slices.Clip(chain), d) {
			names = append(names, c.name)
		}
		return nil, failAt(in.line, "graph %s contains itself: %s", in.desc, strings.Join(names, " → "))
	}
	if i := slices.IndexFunc(chain, func(c *graphDesc) bool { return c.kind == d.kind }); i >= 0 {
		return nil, failAt(in.line, "graph %s has the type %s, and so has graph %s, which contains it: want another type for each level", d.name, d.kind, chain[i].name)
	}
	if len(chain) >= maxGraphDepth {
		return nil, failAt(in.line, "graphs nest deeper than %d", maxGraphDepth)
	}
	return in, g.fill(in, d, append(slices.Clip(chain), d))
}

// fill makes the instances and connections within a graph.
func (g *reader) fill(in *instance, d *graphDesc, chain []*graphDesc) error {
	have := map[uint64]*instance{}
	for _, f := range d.instances {
		child, err := g.expand(f, chain)
		if err != nil {
			return err
		}
		if was := have[child.id]; was != nil {
			return failAt(f.Line, "graph %s already has %s on line %d", in.desc, was.named(), was.line)
		}
		have[child.id] = child
		in.children = append(in.children, child)
		in.meshes = append(in.meshes, child.meshes...)
		if first := in.children[0]; child.level != first.level {
			return failAt(f.Line, "graph %s has instances of the types %s (%s) and %s (%s): want instances of one type", in.desc, first.level, first.named(), child.level, child.named())
		}
	}
	directed := map[string]int{} // directional connections whose opposite connection has not been read yet
	for i := range d.connections {
		if err := g.join(in, &d.connections[i], directed); err != nil {
			return err
		}
	}
	for i := range d.connections {
		if c := &d.connections[i]; c.oneWay && len(directed) > 0 {
			return failAt(c.link.Line, "graph %s has %s without the connection in the opposite direction, but each cable carries both directions; write directional: false",
				in.desc, countOf(len(directed), "directional connection"))
		}
	}
	return g.spread(in, d)
}

// join adds a connection to the graph. Two directional connections with equal ends and numbers of
// cables but opposite directions become one connection, because a cable carries both directions.
func (g *reader) join(in *instance, c *graphConnection, directed map[string]int) error {
	l := c.link
	var levels [2]string
	for k, e := range []*End{&l.A, &l.B} {
		var err error
		if *e, levels[k], err = g.resolve(in, c.nodes[k]); err != nil {
			return err
		}
	}
	if levels[0] != levels[1] {
		return failAt(l.Line, "a connection of graph %s joins a %s with a %s: want two ends of one type", in.desc, levels[0], levels[1])
	}
	if len(l.A.Meshes) == 1 && len(l.B.Meshes) == 1 && l.A.Meshes[0] == l.B.Meshes[0] {
		return failAt(l.Line, "a connection of graph %s joins a mesh with itself; a connection must join two meshes", in.desc)
	}
	if c.oneWay {
		there, back := fmt.Sprint(l.A, l.B, l.Count), fmt.Sprint(l.B, l.A, l.Count)
		if directed[back] > 0 {
			if directed[back]--; directed[back] == 0 {
				delete(directed, back)
			}
			return nil
		}
		directed[there]++
	}
	return g.connect(l)
}

// resolve finds the meshes and the chip that a node of a connection names, and the level of the
// node. The argument "in" is the graph that contains the connection.
func (g *reader) resolve(in *instance, f *textproto.Field) (End, string, error) {
	to, m, err := g.ref(f)
	if err != nil {
		return End{}, "", err
	}
	i := slices.IndexFunc(in.children, func(c *instance) bool { return c.mesh == to.mesh && c.desc == to.desc && c.id == to.id })
	if i < 0 {
		return End{}, "", failAt(to.line, "graph %s has no instance %s", in.desc, to.named())
	}
	child := in.children[i]
	e := End{Meshes: child.meshes, Chip: AnyChip}
	if !child.mesh {
		sub, err := g.within(m)
		if err != nil || sub == nil {
			return e, child.level, err
		}
		return g.resolve(child, sub)
	}
	id, err := g.one(m, "device_id")
	if err != nil || id == nil {
		return e, child.level, err
	}
	mesh := g.Meshes[child.meshes[0]]
	v, err := g.whole(id, 0, uint64(mesh.Rows*mesh.Cols-1))
	e.Chip = int(v)
	return e, deviceLevel, err
}

// within returns the reference to an instance within the graph that message m refers to, or nil. The
// reference is in the field sub_ref, or in the older form directly in m.
func (g *reader) within(m *textproto.Message) (*textproto.Field, error) {
	sub, err := g.one(m, "mesh", "graph", "sub_ref")
	if err != nil || sub == nil || sub.Name == "sub_ref" {
		return sub, err
	}
	return &textproto.Field{Name: sub.Name, Line: sub.Line, Kind: textproto.Nested, Msg: &textproto.Message{Line: sub.Line, Fields: []textproto.Field{*sub}}}, nil
}

// connect adds a connection to the graph.
func (g *reader) connect(l Link) error {
	if len(g.Links) >= MaxConnections {
		return failAt(l.Line, "more than %d connections", MaxConnections)
	}
	g.Links = append(g.Links, l)
	return nil
}

// countOf returns a number and a noun in singular or plural.
func countOf(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// spread adds the connections of the graph's pattern.
func (g *reader) spread(in *instance, d *graphDesc) error {
	n := len(in.children)
	for i := range n {
		for j := i + 1; j < n; j++ {
			if d.pattern == "" || d.pattern == "RING" && j != i+1 && (i != 0 || j != n-1) {
				continue
			}
			l := d.each
			l.A = End{in.children[i].meshes, AnyChip}
			l.B = End{in.children[j].meshes, AnyChip}
			if err := g.connect(l); err != nil {
				return err
			}
		}
	}
	return nil
}
