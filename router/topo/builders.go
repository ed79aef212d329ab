package topo

import (
	"fmt"
	"strings"

	"ttfabric/wire"
)

// Builder builds one named topology, or generates topologies whose names have an argument, such as
// mesh:4x8.
type Builder struct {
	Name    string // such as "t3000"; a name that ends in a colon, such as "mesh:", needs an argument
	Example string // an example of a whole name, for help texts and command completion
	Help    string
	Build   func(arg string) (*Topology, error)
}

// Builders lists the topologies that a user can name.
var Builders = []Builder{
	{"n300", "n300", "one n300 board: two Wormhole chips", func(string) (*Topology, error) { return n300() }},
	{"t3000", "t3000", "four n300 boards as a 2×4 mesh: eight Wormhole chips, 20 cables", func(string) (*Topology, error) { return t3000() }},
	{"2xt3000", "2xt3000", "two T3000, joined by four exit nodes each", func(string) (*Topology, error) { return t3000x2() }},
	{"galaxy", "galaxy", "a Wormhole Galaxy as the specification's 8×4 mesh: 32 chips, four cables between neighbours", func(string) (*Topology, error) { return galaxy() }},
	{"galaxy-umd", "galaxy-umd", "the same Galaxy as a 4×8 mesh, as tt-umd's cluster descriptor is laid out", func(string) (*Topology, error) { return galaxyWide() }},
	{"spec-l1", "spec-l1", "the four meshes of 3×3 chips of the specification's L1 example (§2.2.1.2.1)", func(string) (*Topology, error) { return specL1() }},
	{"line:", "line:8", "line:CHIPS, a row of Wormhole chips with two cables between neighbours", func(a string) (*Topology, error) { return line("line", a, false) }},
	{"ring:", "ring:8", "ring:CHIPS, a ring of Wormhole chips with two cables between neighbours", func(a string) (*Topology, error) { return line("ring", a, true) }},
	{"mesh:", "mesh:4x8", "mesh:ROWSxCOLS, a Wormhole mesh with two cables between neighbours", func(a string) (*Topology, error) { return mesh("mesh", a, false, false) }},
	{"torus:", "torus:4x8", "torus:ROWSxCOLS, a Wormhole mesh whose rows and columns wrap, with two cables between neighbours", func(a string) (*Topology, error) { return mesh("torus", a, true, true) }},
	{"torus-x:", "torus-x:4x8", "torus-x:ROWSxCOLS, a Wormhole mesh whose rows wrap and whose columns do not, with two cables between neighbours", func(a string) (*Topology, error) { return mesh("torus-x", a, true, false) }},
	{"torus-y:", "torus-y:4x8", "torus-y:ROWSxCOLS, a Wormhole mesh whose columns wrap and whose rows do not, with two cables between neighbours", func(a string) (*Topology, error) { return mesh("torus-y", a, false, true) }},
}

// builtIn is the Source of a topology that does not come from a file.
const builtIn = "built-in"

// Named builds the topology with the given name. If no topology has the name, the error lists the
// names of the fixed topologies, and an example of each kind of generated topology. A name such as
// torus:4x4@mesh stands for a machine whose fabric does not use all cables, see [Topology.Downshift].
func Named(name string) (*Topology, error) {
	if machine, words, shifted := SplitShift(name); shifted {
		t, err := Named(machine)
		if err != nil {
			return nil, err
		}
		return t.Downshift(words)
	}
	var fixed, generated []string
	for _, b := range Builders {
		if !strings.HasSuffix(b.Name, ":") {
			if name == b.Name {
				return b.Build("")
			}
			fixed = append(fixed, b.Name)
			continue
		}
		if arg, ok := strings.CutPrefix(name, b.Name); ok {
			return b.Build(arg)
		}
		generated = append(generated, b.Example)
	}
	return nil, fmt.Errorf("no file and no built-in topology has the name %q; want a file, a built-in name (%s), or a generated one (such as %s)", name, strings.Join(fixed, ", "), strings.Join(generated, ", "))
}

// grid returns a topology of one mesh with chips and without cables.
func grid(name string, rows, cols int) *Topology {
	t := &Topology{Name: name, Arch: wire.Wormhole, Source: builtIn, Meshes: []Mesh{{Rows: rows, Cols: cols}}}
	for i := range rows * cols {
		t.Chips = append(t.Chips, Chip{Node: wire.FabricNodeID{Chip: wire.ChipID(i)}, Row: i / cols, Col: i % cols, UMD: NoUMD})
	}
	return t
}

// join adds cables between chips a and b. Cable k joins channel ca[k] of chip a with channel cb[k]
// of chip b.
func (t *Topology) join(a, b int, ca, cb []wire.Channel) {
	for k := range ca {
		t.Cables = append(t.Cables, Cable{
			A: wire.PortID{Node: t.Chips[a].Node, Channel: ca[k]},
			B: wire.PortID{Node: t.Chips[b].Node, Channel: cb[k]},
		})
	}
}
