package topo

import (
	"fmt"
	"strings"

	"ttfabric/wire"
)

// Builder makes a topology by name.
type Builder struct {
	Name    string // "t3000", or "mesh:" for a generator with an argument
	Example string // a whole name, as an example for help and completion
	Help    string
	Build   func(arg string) (*Topology, error)
}

// Builders lists the topologies that a user can name.
var Builders = []Builder{
	{"n300", "n300", "one n300 board: two Wormhole chips", func(string) (*Topology, error) { return n300() }},
	{"t3000", "t3000", "four n300 boards as a 2×4 mesh: eight Wormhole chips, 20 cables", func(string) (*Topology, error) { return t3000() }},
	{"2xt3000", "2xt3000", "two T3000, joined by four exit nodes each", func(string) (*Topology, error) { return t3000x2() }},
	{"galaxy", "galaxy", "a Wormhole Galaxy as a 4×8 mesh: 32 chips, four cables on every edge", func(string) (*Topology, error) { return galaxy() }},
	{"spec-l1", "spec-l1", "the four meshes of 3×3 chips of the specification's L1 example (§2.2.1.2.1)", func(string) (*Topology, error) { return specL1() }},
	{"line:", "line:8", "line:CHIPS, a row of Wormhole chips with two cables on every edge", func(a string) (*Topology, error) { return line("line", a, false) }},
	{"ring:", "ring:8", "ring:CHIPS, the same, closed to a ring", func(a string) (*Topology, error) { return line("ring", a, true) }},
	{"mesh:", "mesh:4x8", "mesh:ROWSxCOLS, a Wormhole mesh with two cables on every edge", func(a string) (*Topology, error) { return mesh("mesh", a, false, false) }},
	{"torus:", "torus:4x8", "torus:ROWSxCOLS, the same, with rows and columns that wrap", func(a string) (*Topology, error) { return mesh("torus", a, true, true) }},
	{"torus-x:", "torus-x:4x8", "torus-x:ROWSxCOLS, with a wrap from the east to the west edge only", func(a string) (*Topology, error) { return mesh("torus-x", a, true, false) }},
	{"torus-y:", "torus-y:4x8", "torus-y:ROWSxCOLS, with a wrap from the south to the north edge only", func(a string) (*Topology, error) { return mesh("torus-y", a, false, true) }},
}

// builtIn is the Source of a topology that does not come from a file.
const builtIn = "built-in"

// Named builds the topology with the given name. The error lists the names.
func Named(name string) (*Topology, error) {
	for _, b := range Builders {
		if name == b.Name && !strings.HasSuffix(b.Name, ":") {
			return b.Build("")
		}
		if arg, ok := strings.CutPrefix(name, b.Name); ok && strings.HasSuffix(b.Name, ":") {
			return b.Build(arg)
		}
	}
	var have []string
	for _, b := range Builders {
		have = append(have, b.Name+" ("+b.Help+")")
	}
	return nil, fmt.Errorf("no file and no built-in topology is named %q; built in: %s", name, strings.Join(have, ", "))
}

// grid makes the chips of a mesh.
func grid(name string, rows, cols int) *Topology {
	t := &Topology{Name: name, Arch: wire.Wormhole, Source: builtIn, Meshes: []Mesh{{Rows: rows, Cols: cols}}}
	for i := range rows * cols {
		t.Chips = append(t.Chips, Chip{Node: wire.FabricNodeID{Chip: wire.ChipID(i)}, Row: i / cols, Col: i % cols, UMD: NoUMD})
	}
	return t
}

// join cables two chips by the given channels, pair by pair.
func (t *Topology) join(a, b int, ca, cb []wire.Channel) {
	for k := range ca {
		t.Cables = append(t.Cables, Cable{
			A: wire.PortID{Node: t.Chips[a].Node, Channel: ca[k]},
			B: wire.PortID{Node: t.Chips[b].Node, Channel: cb[k]},
		})
	}
}
