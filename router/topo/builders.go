package topo

import (
	"fmt"
	"strings"

	"ttfabric/wire"
)

// Builder makes a topology by name.
type Builder struct {
	Name  string // "t3000", or "mesh:" for a generator that takes an argument
	Help  string
	Build func(arg string) (*Topology, error)
}

// Builders are the topologies that can be named.
var Builders = []Builder{
	{"n300", "one n300 board: two Wormhole chips", func(string) (*Topology, error) { return n300() }},
	{"t3000", "four n300 boards as a 2×4 mesh: eight Wormhole chips, 20 cables", func(string) (*Topology, error) { return t3000() }},
	{"mesh:", "mesh:ROWSxCOLS, a Wormhole mesh with two cables on every edge", mesh},
}

// Named builds a topology by name; the error lists the names.
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
	t := &Topology{Name: name, Arch: wire.Wormhole, Source: "built-in", Meshes: []Mesh{{0, rows, cols}}}
	for i := range rows * cols {
		t.Chips = append(t.Chips, Chip{Node: wire.FabricNodeID{Chip: wire.ChipID(i)}, Row: i / cols, Col: i % cols, UMD: -1})
	}
	return t
}

// join cables two chips by the given channels, pair by pair.
func (t *Topology) join(a, b int, ca, cb [2]wire.Channel) {
	for k := range ca {
		t.Cables = append(t.Cables, Cable{
			A: wire.PortID{Node: t.Chips[a].Node, Channel: ca[k]},
			B: wire.PortID{Node: t.Chips[b].Node, Channel: cb[k]},
		})
	}
}
