package topo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"ttfabric/wire"
)

// maxCount is the largest number of cables that one connection can ask for: the number of channels
// of all chips of the largest mesh.
const maxCount = wire.MaxChipsPerMesh * wire.MaxChannels

// yamlGraph is the state of a reader of a mesh graph descriptor in YAML, the older form. The file
// has the keys ChipSpec, Board, Mesh, Graph and RelaxedGraph (tt-metal,
// tt_metal/fabric/mesh_graph_descriptors/*.yaml).
type yamlGraph struct {
	graph
	keys   map[string]pair
	ports  [wire.NumDirections]int // number of channels of a chip, by direction
	boards map[string]yamlBoard
	ids    map[wire.MeshID]int // index in meshes, by mesh id
}

// yamlBoard is a type of board: the rows and columns of its chips, and whether the axes of a mesh
// of such boards wrap.
type yamlBoard struct {
	rows, cols   int
	wrapX, wrapY bool
	line         int
}

// readYAMLGraph reads a mesh graph descriptor in YAML.
func readYAMLGraph(f file, root *yaml.Node, keys map[string]pair) (*yamlGraph, error) {
	g := &yamlGraph{graph: graph{file: f}, keys: keys, boards: map[string]yamlBoard{}, ids: map[wire.MeshID]int{}}
	for _, read := range []func() error{g.readChipSpec, g.readBoards, g.readMeshes, g.readGraph, g.readRelaxed} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	if len(g.meshes) == 0 {
		return nil, g.fail(root, "no meshes: want a key Mesh with a list of {id, board, device_topology}")
	}
	return g, nil
}

// table reads a YAML map, and returns its values by key.
func (f file) table(n *yaml.Node, what string) (map[string]*yaml.Node, error) {
	ps, err := f.pairs(n, what, "a map")
	if err != nil {
		return nil, err
	}
	m := make(map[string]*yaml.Node, len(ps))
	for _, p := range ps {
		m[p.key.Value] = p.val
	}
	return m, nil
}

func (g *yamlGraph) readChipSpec() error {
	at := g.keys["ChipSpec"]
	spec, err := g.table(at.val, "ChipSpec")
	if err != nil {
		return err
	}
	if spec["arch"] == nil || spec["ethernet_ports"] == nil {
		return g.fail(at.key, "ChipSpec: want arch and ethernet_ports")
	}
	if g.arch, err = wire.ParseArch(spec["arch"].Value); err != nil {
		return g.fail(spec["arch"], "ChipSpec: architecture %s: want %s or %s", show(spec["arch"]), wire.Wormhole, wire.Blackhole)
	}
	ports, err := g.table(spec["ethernet_ports"], "ethernet_ports")
	if err != nil {
		return err
	}
	for d := range wire.Direction(wire.NumDirections) {
		n := ports[d.String()]
		if n == nil {
			return g.fail(spec["ethernet_ports"], "ethernet_ports has no number for %s: want a number for each of N, E, S and W", d)
		}
		v, err := g.number(n, "ethernet_ports "+d.String(), wire.MaxChannels)
		if err != nil {
			return err
		}
		g.ports[d] = int(v)
	}
	return nil
}

func (g *yamlGraph) readBoards() error {
	list, err := g.items(g.keys["Board"].val, "Board", "a list of boards")
	if err != nil {
		return err
	}
	for _, n := range list {
		b, err := g.table(n, "board")
		if err != nil {
			return err
		}
		if b["name"] == nil || b["topology"] == nil {
			return g.fail(n, "a board: want name, type and topology")
		}
		name, err := g.scalar(b["name"], "name of a board")
		if err != nil {
			return err
		}
		if was, dup := g.boards[name]; dup {
			return g.fail(b["name"], "board %s is already defined on line %d", show(b["name"]), was.line)
		}
		out := yamlBoard{line: n.Line}
		if out.rows, out.cols, err = g.size(b["topology"], "topology of board "+show(b["name"])); err != nil {
			return err
		}
		if kind := b["type"]; kind != nil {
			switch strings.ToUpper(kind.Value) {
			case "MESH":
			case "TORUS_X":
				out.wrapX = true
			case "TORUS_Y":
				out.wrapY = true
			case "TORUS_2D", "TORUS_XY":
				out.wrapX, out.wrapY = true, true
			default:
				return g.fail(kind, "board type %s: want Mesh, TORUS_X, TORUS_Y or TORUS_2D", show(kind))
			}
		}
		g.boards[name] = out
	}
	return nil
}

// size reads a list [rows, cols].
func (g *yamlGraph) size(n *yaml.Node, what string) (rows, cols int, err error) {
	vs, err := g.items(n, what, "[rows, columns]")
	if err != nil {
		return 0, 0, err
	}
	if len(vs) != 2 {
		return 0, 0, g.fail(n, "%s: want [rows, columns]", what)
	}
	var size [2]int
	for i, v := range vs {
		x, err := g.number(v, what, wire.MaxChipsPerMesh)
		if err != nil {
			return 0, 0, err
		}
		if x == 0 {
			return 0, 0, g.fail(v, "%s: want at least one row and column", what)
		}
		size[i] = int(x)
	}
	return size[0], size[1], nil
}

func (g *yamlGraph) readMeshes() error {
	list, err := g.items(g.keys["Mesh"].val, "Mesh", "a list of meshes")
	if err != nil {
		return err
	}
	if len(list) > wire.MaxMeshes {
		return g.fail(g.keys["Mesh"].key, "%d meshes; a fabric has at most %d", len(list), wire.MaxMeshes)
	}
	for _, n := range list {
		if err := g.readMesh(n); err != nil {
			return err
		}
	}
	return nil
}

// readMesh reads a mesh. The key device_topology gives the size in chips. Older files have the key
// topology instead, which gives the size in boards. If host_ranks shows that topology gives the
// size in chips, readMesh takes topology as chips. A mesh with neither key has the size of one
// board.
func (g *yamlGraph) readMesh(n *yaml.Node) error {
	t, err := g.table(n, "mesh")
	if err != nil {
		return err
	}
	if t["id"] == nil || t["board"] == nil {
		return g.fail(n, "a mesh: want id, board and device_topology")
	}
	id, err := g.number(t["id"], "mesh id", wire.MaxMeshes-1)
	if err != nil {
		return err
	}
	m := graphMesh{Mesh: Mesh{ID: wire.MeshID(id)}, line: n.Line}
	if was, dup := g.ids[m.ID]; dup {
		return g.fail(t["id"], "mesh %d is already defined on line %d", id, g.meshes[was].line)
	}
	b, ok := g.boards[t["board"].Value]
	if !ok {
		return g.fail(t["board"], "mesh %d: the file defines no board %s", id, show(t["board"]))
	}
	what := fmt.Sprintf("topology of mesh %d", id)
	switch {
	case t["device_topology"] != nil:
		m.Rows, m.Cols, err = g.size(t["device_topology"], "device_"+what)
	case t["topology"] != nil:
		m.Rows, m.Cols, err = g.size(t["topology"], what)
		if hosts := rankSize(t["host_ranks"]); hosts != [2]int{} && hosts[0]*b.rows == m.Rows && hosts[1]*b.cols == m.Cols && b.rows*b.cols > 1 {
			g.note("the topology of mesh %d counts chips instead of boards, because host_ranks has %d×%d boards", id, hosts[0], hosts[1])
		} else {
			m.Rows, m.Cols = m.Rows*b.rows, m.Cols*b.cols
		}
	default:
		m.Rows, m.Cols = b.rows, b.cols
	}
	if err != nil {
		return err
	}
	if !fits(m.Rows, m.Cols) {
		return g.fail(n, "mesh %d: %d×%d chips: a mesh has at most %d", id, m.Rows, m.Cols, wire.MaxChipsPerMesh)
	}
	m.WrapX, m.WrapY = b.wrapX && m.Cols >= MinWrap, b.wrapY && m.Rows >= MinWrap
	m.across, m.down = min(g.ports[wire.East], g.ports[wire.West]), min(g.ports[wire.North], g.ports[wire.South])
	if m.Cols > 1 && m.across == 0 || m.Rows > 1 && m.down == 0 {
		return g.fail(n, "mesh %d: %d×%d chips, but ethernet_ports gives a chip no channels to its neighbours", id, m.Rows, m.Cols)
	}
	g.ids[m.ID] = len(g.meshes)
	g.meshes = append(g.meshes, m)
	return nil
}

// rankSize returns the numbers of rows and columns of host_ranks, which has an entry for each board
// (tt-metal, mesh_graph.cpp). If there is no host_ranks, or if its rows have different lengths,
// rankSize returns zeros.
func rankSize(n *yaml.Node) (size [2]int) {
	if n == nil || n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return size
	}
	cols := len(n.Content[0].Content)
	for _, row := range n.Content {
		if row.Kind != yaml.SequenceNode || len(row.Content) != cols {
			return size
		}
	}
	return [2]int{len(n.Content), cols}
}

// yamlPort is a port in the key Graph, such as [0, "N12"]. The port [0, "N12"] is channel 12 of
// mesh 0 towards the north. Channels count from 0 along the north side of the mesh.
type yamlPort struct {
	mesh  int // index in meshes
	dir   wire.Direction
	index int
}

// chip returns the number of the chip that has port p. Ports are counted along one side of the mesh
// chip by chip, from west to east or from north to south.
func (g *yamlGraph) chip(p yamlPort) int {
	m, k := g.meshes[p.mesh], p.index/g.ports[p.dir]
	switch p.dir {
	case wire.East:
		return k*m.Cols + m.Cols - 1
	case wire.West:
		return k * m.Cols
	case wire.South:
		return (m.Rows-1)*m.Cols + k
	}
	return k
}

// readPort reads a port, such as [0, N12].
func (g *yamlGraph) readPort(n *yaml.Node) (p yamlPort, err error) {
	const want = "an end of a connection is [MESH, PORT], such as [0, N12]"
	vs, err := g.items(n, "Graph", want)
	if err != nil {
		return p, err
	}
	if len(vs) != 2 || vs[1].Kind != yaml.ScalarNode || len(vs[1].Value) < 2 {
		return p, g.fail(n, "%s", want)
	}
	if p.mesh, err = g.readMeshID(vs[0], ""); err != nil {
		return p, err
	}
	port := vs[1].Value
	if port[0] == 'Z' || port[0] == 'z' {
		return p, g.fail(vs[1], "port %s: a third dimension is not supported", show(vs[1]))
	}
	d := strings.IndexByte("EWNS", port[0])
	index, err := strconv.ParseUint(port[1:], 10, 16)
	if d < 0 || err != nil {
		return p, g.fail(vs[1], "port %s: want a direction and a number, such as N12", show(vs[1]))
	}
	p.dir, p.index = wire.Direction(d), int(index)
	m := g.meshes[p.mesh]
	chips, wraps := m.Rows, m.WrapX
	if p.dir == wire.North || p.dir == wire.South {
		chips, wraps = m.Cols, m.WrapY
	}
	if most := chips * g.ports[p.dir]; p.index >= most {
		return p, g.fail(vs[1], "port %s: mesh %d has only %s on that edge, numbered from 0", show(vs[1]), m.ID, Count(most, "channel"))
	}
	if wraps {
		return p, g.fail(vs[1], "port %s: mesh %d wraps at that edge, so no cable can leave the mesh there", show(vs[1]), m.ID)
	}
	return p, nil
}

// readMeshID reads a mesh id, which may have a prefix such as M. readMeshID returns the index of
// the mesh in meshes.
func (g *yamlGraph) readMeshID(n *yaml.Node, prefix string) (int, error) {
	id, err := strconv.ParseUint(strings.TrimPrefix(n.Value, prefix), 10, 16)
	i, ok := g.ids[wire.MeshID(id)]
	if n.Kind != yaml.ScalarNode || err != nil || !ok {
		return 0, g.fail(n, "the file defines no mesh %s", show(n))
	}
	return i, nil
}

// readGraph reads Graph: [[[mesh, port], [mesh, port]], …]. A file may list a cable once from each
// end. Entries may also name chips instead of ports: [[[M0, D1], [M1, D1], count], …].
func (g *yamlGraph) readGraph() error {
	list, err := g.items(g.keys["Graph"].val, "Graph", "a list of connections")
	if err != nil {
		return err
	}
	type end struct {
		mesh, chip int
		dir        wire.Direction
	}
	links, at, pairs := map[[2]end]int{}, map[yamlPort]yamlPort{}, map[string]bool{}
	for _, n := range list {
		vs, err := g.items(n, "Graph", "a list of connections")
		if err != nil {
			return err
		}
		if len(vs) == 3 {
			if err := g.readChips(n, vs, pairs); err != nil {
				return err
			}
			continue
		}
		if len(vs) != 2 {
			return g.fail(n, "a connection has two ends, such as [[0, E0], [1, W0]]")
		}
		var ps [2]yamlPort
		for k := range ps {
			if ps[k], err = g.readPort(vs[k]); err != nil {
				return err
			}
		}
		if ps[0].mesh == ps[1].mesh {
			return g.fail(n, "the connection joins mesh %d with itself; Graph is for connections between meshes", g.meshes[ps[0].mesh].ID)
		}
		if at[ps[0]] == ps[1] && at[ps[1]] == ps[0] {
			continue // the file has listed this cable already, from either end
		}
		for k, p := range ps {
			if was, dup := at[p]; dup && was != ps[1-k] {
				return g.fail(n, "port %s%d of mesh %d has two connections", p.dir, p.index, g.meshes[p.mesh].ID)
			}
		}
		at[ps[0]], at[ps[1]] = ps[1], ps[0]
		var ends [2]end
		for k, p := range ps {
			ends[k] = end{p.mesh, g.chip(p), p.dir}
		}
		if i, ok := links[ends]; ok {
			g.links[i].n++
			continue
		}
		links[ends], links[[2]end{ends[1], ends[0]}] = len(g.links), len(g.links)
		l := graphLink{n: 1, line: n.Line, a: graphEnd{[]int{ends[0].mesh}, ends[0].chip, ends[0].dir}, b: graphEnd{[]int{ends[1].mesh}, ends[1].chip, ends[1].dir}}
		if err := g.connect(l); err != nil {
			return err
		}
	}
	return g.turn()
}

// readChips reads an entry of Graph that names chips: [[M0, D1], [M1, D1], count]. The map "pairs"
// holds the entries with chips that were read so far.
func (g *yamlGraph) readChips(n *yaml.Node, vs []*yaml.Node, pairs map[string]bool) error {
	const want = "a connection of chips is [[M0, D1], [M1, D1], COUNT]"
	var ends [2]graphEnd
	for k := range ends {
		e, err := g.items(vs[k], "Graph", want)
		if err != nil {
			return err
		}
		if len(e) != 2 || !strings.HasPrefix(e[1].Value, "D") {
			return g.fail(vs[k], "%s", want)
		}
		mesh, err := g.readMeshID(e[0], "M")
		if err != nil {
			return err
		}
		m := g.meshes[mesh]
		chip, err := strconv.ParseUint(e[1].Value[1:], 10, 16)
		if err != nil || int(chip) >= m.Rows*m.Cols {
			return g.fail(e[1], "there is no chip %s in mesh %d, which has %s", show(e[1]), m.ID, Count(m.Rows*m.Cols, "chip"))
		}
		ends[k] = graphEnd{[]int{mesh}, int(chip), anyDir}
	}
	v, err := g.number(vs[2], "count of a connection", maxCount)
	if err != nil {
		return err
	}
	if ends[0].meshes[0] == ends[1].meshes[0] || v == 0 {
		return g.fail(n, "%s: want two different meshes and at least one cable", want)
	}
	if pairs[fmt.Sprint(ends[1], ends[0])] || pairs[fmt.Sprint(ends[0], ends[1])] {
		return nil // the file has listed a connection of these chips already, from either end
	}
	pairs[fmt.Sprint(ends[0], ends[1])] = true
	return g.connect(graphLink{n: int(v), line: n.Line, a: ends[0], b: ends[1]})
}

// turn gives different directions to exits that leave one chip in one direction but lead to
// different chips. On each plane, a direction of a chip can lead to only one chip. No exit moves to
// another chip. If a chip has no free direction left, turn returns an error.
func (g *yamlGraph) turn() error {
	type side struct {
		mesh, chip int
		dir        wire.Direction
	}
	taken := map[side]bool{}
	var again []*graphEnd
	var lines []int
	for i := range g.links {
		for _, e := range [2]*graphEnd{&g.links[i].a, &g.links[i].b} {
			if e.dir == anyDir {
				continue
			}
			if s := (side{e.meshes[0], e.chip, e.dir}); taken[s] {
				again, lines = append(again, e), append(lines, g.links[i].line)
			} else {
				taken[s] = true
			}
		}
	}
	for k, e := range again {
		m, was := g.meshes[e.meshes[0]], e.dir
		i := slices.IndexFunc(exitOrder[:], func(d wire.Direction) bool {
			_, _, neighbour := m.step(e.chip/m.Cols, e.chip%m.Cols, d)
			return !neighbour && mayLeave(g.arch, d) && !taken[side{e.meshes[0], e.chip, d}]
		})
		node := wire.FabricNodeID{Mesh: m.ID, Chip: wire.ChipID(e.chip)}
		if i < 0 {
			return g.failAt(lines[k], "chip %s has two connections in direction %s to different chips, and no other direction of the chip is free for the second connection", node, was)
		}
		e.dir = exitOrder[i]
		taken[side{e.meshes[0], e.chip, e.dir}] = true
		g.note("the second connection in direction %s of %s leads to another chip than the first connection, and now has direction %s", was, node, e.dir)
	}
	return nil
}

// readRelaxed reads RelaxedGraph: [[M0, M1, count], …]. Connections in RelaxedGraph have the policy
// RELAXED.
func (g *yamlGraph) readRelaxed() error {
	const want = "a connection of RelaxedGraph is [M0, M1, COUNT]"
	list, err := g.items(g.keys["RelaxedGraph"].val, "RelaxedGraph", "a list of connections")
	if err != nil {
		return err
	}
	seen := map[[2]int]bool{}
	for _, n := range list {
		vs, err := g.items(n, "RelaxedGraph", want)
		if err != nil {
			return err
		}
		if len(vs) != 3 {
			return g.fail(n, "%s", want)
		}
		a, err := g.readMeshID(vs[0], "M")
		if err != nil {
			return err
		}
		b, err := g.readMeshID(vs[1], "M")
		if err != nil {
			return err
		}
		v, err := g.number(vs[2], "count of a connection", maxCount)
		if err != nil {
			return err
		}
		if a == b || v == 0 {
			return g.fail(n, "%s: want two different meshes and at least one cable", want)
		}
		if pair := [2]int{min(a, b), max(a, b)}; seen[pair] {
			continue // the file has listed a connection of these meshes already, from either end
		} else {
			seen[pair] = true
		}
		if err := g.connect(graphLink{n: int(v), relaxed: true, line: n.Line, a: graphEnd{[]int{a}, anyChip, anyDir}, b: graphEnd{[]int{b}, anyChip, anyDir}}); err != nil {
			return err
		}
	}
	return nil
}
