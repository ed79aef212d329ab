package mapping

import (
	"fmt"
	"slices"

	"ttfabric/router/topo"
	"ttfabric/router/topo/assign"
	"ttfabric/router/topo/mgd"
	"ttfabric/wire"
)

// Options are the wishes of a user.
type Options struct {
	AnyHost bool         // the chips of one host in host_topology may be on several hosts of the machine
	Limit   assign.Limit // limit of the search
}

// Mapping is a physical chip for each logical chip. The JSON tags are those of 'ttfabric map -o json'.
type Mapping struct {
	Graph       string         `json:"graph"`       // name of the mesh graph descriptor
	Machine     string         `json:"machine"`     // summary of the machine
	Hosts       []string       `json:"hosts"`       // hosts of the machine
	Chips       []Place        `json:"chips"`       // place of each logical chip
	Connections []Connection   `json:"connections"` // connections between meshes
	Short       []Short        `json:"short"`       // neighbours in a mesh with fewer cables than wanted; only with the policy RELAXED
	Spare       int            `json:"spare_chips"` // number of physical chips that no logical chip uses
	Steps       int            `json:"steps"`       // number of steps that the searches took
	LeftOut     []topo.LeftOut `json:"left_out"`    // parts of the machine's files that the mapping does not use
	Notes       []string       `json:"notes"`       // decisions of the program, for people

	Topology *topo.Topology `json:"-"` // the logical chips with the channels and cables of their physical chips
}

// Place is the physical chip of a logical chip.
type Place struct {
	Chip     wire.FabricNodeID `json:"chip"`                    // the logical chip
	Host     string            `json:"host"`                    // host of the physical chip
	UMD      int               `json:"umd_chip_id"`             // tt-umd's id of the physical chip on its host
	Unique   uint64            `json:"unique_id"`               // unique id of the physical chip
	Tray     int               `json:"tray,omitempty"`          // tray of the physical chip; absent if the files do not say it
	Location int               `json:"asic_location,omitempty"` // location of the physical chip on its tray
	Pinned   bool              `json:"pinned"`                  // whether pinnings name the logical chip
}

// Connection is a connection between two meshes, or two groups of meshes.
type Connection struct {
	A       string `json:"a"`       // mesh or chip at one end
	B       string `json:"b"`       // mesh or chip at the other end
	Wanted  int    `json:"wanted"`  // number of cables that the descriptor asks for
	Given   int    `json:"given"`   // number of cables that the mapping has
	Relaxed bool   `json:"relaxed"` // whether fewer cables are allowed
}

// Short is a pair of neighbours with fewer cables than wanted.
type Short struct {
	A      wire.FabricNodeID `json:"a"`      // one neighbour
	B      wire.FabricNodeID `json:"b"`      // the other neighbour
	Wanted int               `json:"wanted"` // number of cables that the descriptor asks for
	Given  int               `json:"given"`  // number of cables that the mapping has
}

// Map puts the logical chips of a mesh graph descriptor on physical chips. If there is no mapping, the
// error is an [*UnfitError]. The name is that of the descriptor.
func Map(name string, g *mgd.Graph, m *Machine, o Options) (*Mapping, error) {
	if g.Arch != m.Arch.String() {
		return nil, &UnfitError{Reason: fmt.Sprintf("the descriptor is for chips of the architecture %s, and the machine has %s", g.Arch, m.Arch)}
	}
	b := &builder{g: g, m: m, o: o}
	if err := b.pin(); err != nil {
		return nil, err
	}
	p := b.problem(false)
	r := assign.Solve(p, o.Limit)
	steps := r.Steps
	if r.Verdict != assign.Found && b.thirds() {
		inZ := b.problem(true)
		z := assign.Solve(inZ, o.Limit)
		if steps += z.Steps; z.Verdict != assign.None {
			p, r, b.third = inZ, z, true
		}
	}
	switch r.Verdict {
	case assign.GaveUp:
		return nil, &UnfitError{Undecided: true, Reason: fmt.Sprintf("the search has found no mapping in %d steps, and does not know whether there is one; allow more steps, or pin some chips", steps)}
	case assign.None:
		return nil, b.explain(p)
	}
	if err := p.Verify(r.At, r.Full); err != nil {
		panic("mapping: " + err.Error())
	}
	out := &Mapping{Graph: tidy(name), Machine: m.String(), Hosts: m.Hosts, Chips: []Place{}, Connections: []Connection{}, Short: []Short{}, LeftOut: append([]topo.LeftOut{}, m.LeftOut...), Notes: append([]string{}, g.Notes...), Steps: steps}
	return out, b.build(out, r.At)
}

// builder turns a descriptor and a machine into a problem, and an assignment into a mapping.
type builder struct {
	g     *mgd.Graph
	m     *Machine
	o     Options
	may   []map[int][]int // for each mesh and each pinned chip: the physical chips at the places of the pinning
	third bool            // neighbours in a mesh may be joined by cables of a third dimension
}

// pin finds the physical chips at the places that pinnings name.
func (b *builder) pin() error {
	b.may = make([]map[int][]int, len(b.g.Meshes))
	if len(b.g.Pins) > 0 && !b.m.located() {
		return &UnfitError{Reason: "the descriptor has pinnings, but the machine's files do not say on which tray a chip is: want the keys boards and chip_to_bus_id, or boards and asic_locations"}
	}
	for _, pin := range b.g.Pins {
		var list []int
		for _, p := range pin.Places {
			list = append(list, b.m.at(p.Trays, p.Locations)...)
		}
		slices.Sort(list)
		list = slices.Compact(list)
		if b.may[pin.Mesh] == nil {
			b.may[pin.Mesh] = map[int][]int{}
		}
		for _, c := range pin.Chips {
			if len(list) == 0 {
				return &UnfitError{Chips: []wire.FabricNodeID{b.node(pin.Mesh, c)}, Reason: fmt.Sprintf("chip %s is pinned on line %d, but the machine has no chip at tray %v location %v; %s", b.node(pin.Mesh, c), pin.Line, brief(pin.Places[0].Trays), brief(pin.Places[0].Locations), b.m.trays())}
			}
			b.may[pin.Mesh][c] = list
		}
	}
	return nil
}

// brief describes a list of numbers.
func brief(list []int) string {
	if len(list) == 1 {
		return fmt.Sprint(list[0])
	}
	return fmt.Sprintf("%d to %d", list[0], list[len(list)-1])
}

// trays says which trays and locations the machine has.
func (m *Machine) trays() string {
	tray, location := [2]int{mgd.MaxPlace, 0}, [2]int{mgd.MaxPlace, 0}
	for _, c := range m.Chips {
		if c.Tray > 0 {
			tray[0], tray[1] = min(tray[0], c.Tray), max(tray[1], c.Tray)
			location[0], location[1] = min(location[0], c.Location), max(location[1], c.Location)
		}
	}
	return fmt.Sprintf("the machine has trays %d to %d and locations %d to %d", tray[0], tray[1], location[0], location[1])
}

// node returns the address of a logical chip.
func (b *builder) node(mesh, chip int) wire.FabricNodeID {
	return wire.FabricNodeID{Mesh: wire.MeshID(b.g.Meshes[mesh].ID), Chip: wire.ChipID(chip)}
}

// thirds reports whether the machine has cables for a third dimension.
func (b *builder) thirds() bool {
	return slices.ContainsFunc(b.m.Cables, func(c Cable) bool { return c.Z })
}

// edges calls yield for each pair of neighbours in a mesh, with the number of cables that the descriptor asks
// for.
func edges(m *mgd.Mesh, yield func(a, b, count int)) {
	for r := range m.Rows {
		for c := range m.Cols {
			if c+1 < m.Cols {
				yield(r*m.Cols+c, r*m.Cols+c+1, m.Across)
			} else if m.WrapX {
				yield(r*m.Cols, r*m.Cols+c, m.Across)
			}
			if r+1 < m.Rows {
				yield(r*m.Cols+c, (r+1)*m.Cols+c, m.Down)
			} else if m.WrapY {
				yield(c, r*m.Cols+c, m.Down)
			}
		}
	}
}

// problem returns the problem of the search. If "third" is true, neighbours in a mesh may be joined by cables of
// a third dimension.
func (b *builder) problem(third bool) *assign.Problem {
	p := &assign.Problem{Machine: assign.Machine{Chips: len(b.m.Chips)}}
	at := map[[2]int]int{}
	for _, c := range b.m.Cables {
		pair := [2]int{c.A.Chip, c.B.Chip}
		i, ok := at[pair]
		if !ok {
			i = len(p.Machine.Cables)
			at[pair] = i
			p.Machine.Cables = append(p.Machine.Cables, assign.Cable{A: pair[0], B: pair[1]})
		}
		if c.Z && !third {
			p.Machine.Cables[i].Beside++
		} else {
			p.Machine.Cables[i].Count++
		}
	}
	hosted := len(b.m.Hosts) > 1 && !b.o.AnyHost
	if hosted {
		for _, c := range b.m.Chips {
			p.Machine.Host = append(p.Machine.Host, c.Host)
		}
	}
	for i := range b.g.Meshes {
		m := &b.g.Meshes[i]
		n := assign.Mesh{Chips: m.Rows * m.Cols, May: b.may[i]}
		edges(m, func(x, y, count int) {
			if count > 0 {
				n.Edges = append(n.Edges, assign.Edge{A: x, B: y, Count: count, Relaxed: m.Relaxed})
			}
		})
		if hosted && m.HostRows > 0 {
			for c := range n.Chips {
				row, col := c/m.Cols/(m.Rows/m.HostRows), c%m.Cols/(m.Cols/m.HostCols)
				n.Blocks = append(n.Blocks, row*m.HostCols+col)
			}
		}
		p.Meshes = append(p.Meshes, n)
	}
	for _, l := range b.g.Links {
		p.Connections = append(p.Connections, assign.Connection{A: endOf(l.A), B: endOf(l.B), Count: l.Count, Relaxed: l.Relaxed})
	}
	return p
}

func endOf(e mgd.End) assign.End { return assign.End{Meshes: e.Meshes, Chip: e.Chip} }
