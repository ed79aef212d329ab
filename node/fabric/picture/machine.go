// Package picture is the model of a fabric that 'ttfabric dashboard' and 'ttfabric top' show.
//
// A [Picture] takes the views that the chips give of themselves, and returns a [State] with rates:
// one state for each chip and each cable. A [Machine] describes what does not change: meshes, chips
// and cables. The package has no clock and asks no chip. Package live does both.
package picture

import (
	"ttfabric/router/topo"
	"ttfabric/router/topo/draw"
	"ttfabric/wire"
)

// Machine is what does not change while a fabric runs. Chips and cables refer to each other by
// their positions in the lists.
type Machine struct {
	Fabric   string      `json:"fabric"`   // the name of the fabric
	Topology string      `json:"topology"` // the name of the topology
	Summary  string      `json:"summary"`  // the machine in one line, for people
	Planes   int         `json:"planes"`   // the number of routing planes
	Meshes   []Mesh      `json:"meshes"`
	Chips    []Chip      `json:"chips"`
	Cables   []CableInfo `json:"cables"`

	topo  *topo.Topology
	cable map[wire.PortID]int // position of the cable at each port
}

// Mesh is a grid of chips, and the mesh's place in the grid of meshes.
type Mesh struct {
	ID      wire.MeshID `json:"id"`
	Rows    int         `json:"rows"`
	Cols    int         `json:"cols"`
	WrapX   bool        `json:"wrap_x,omitempty"` // the rows are rings
	WrapY   bool        `json:"wrap_y,omitempty"` // the columns are rings
	CellRow int         `json:"cell_row"`         // the row of the mesh in the grid of meshes
	CellCol int         `json:"cell_col"`         // the column of the mesh in the grid of meshes
}

// Chip is the place of a chip.
type Chip struct {
	Name  string `json:"name"`
	Mesh  int    `json:"mesh"` // position of the chip's mesh in the list of meshes
	Row   int    `json:"row"`
	Col   int    `json:"col"`
	UMD   *int   `json:"umd,omitempty"` // the chip's id in the cluster descriptor; absent if the chip has none
	Board string `json:"board,omitempty"`
	MMIO  bool   `json:"mmio,omitempty"` // the host reaches the chip directly
	Exit  bool   `json:"exit,omitempty"` // the chip has a cable to another mesh
}

// CableInfo is the place of a cable. The ends a and b are positions of chips.
type CableInfo struct {
	Name     string       `json:"name"` // the name that commands accept, such as M0D0/8-M0D1/0
	A        int          `json:"a"`
	B        int          `json:"b"`
	AChannel wire.Channel `json:"a_channel"`
	BChannel wire.Channel `json:"b_channel"`
	Dir      string       `json:"dir"`  // the side of chip a from which the cable leaves: E, W, N or S
	Back     string       `json:"back"` // the side of chip b
	Plane    wire.Plane   `json:"plane"`
	Wrap     bool         `json:"wrap,omitempty"`     // the cable joins the two ends of a row or column
	External bool         `json:"external,omitempty"` // the cable joins two meshes
	Unused   bool         `json:"unused,omitempty"`   // the cable carries no traffic
}

// NewMachine describes a topology. The parameter "fabric" is the name of the fabric.
func NewMachine(fabric string, t *topo.Topology) *Machine {
	m := &Machine{Fabric: fabric, Topology: t.Name, Summary: t.String(), Planes: t.Planes(), topo: t, cable: map[wire.PortID]int{}}
	mesh := map[wire.MeshID]int{}
	for i, at := range draw.Cells(t) {
		x := t.Meshes[i]
		mesh[x.ID] = i
		m.Meshes = append(m.Meshes, Mesh{ID: x.ID, Rows: x.Rows, Cols: x.Cols, WrapX: x.WrapX, WrapY: x.WrapY, CellRow: at.Row, CellCol: at.Col})
	}
	for _, x := range t.Chips {
		c := Chip{Name: x.Node.String(), Mesh: mesh[x.Node.Mesh], Row: x.Row, Col: x.Col, Board: x.Board, MMIO: x.MMIO, Exit: t.ExitNode(x.Node)}
		if x.UMD != topo.NoUMD {
			c.UMD = &x.UMD
		}
		m.Chips = append(m.Chips, c)
	}
	for i, x := range t.Cables {
		a, b := t.Index(x.A.Node), t.Index(x.B.Node)
		l := topo.Link{A: x.A, B: x.B, Plane: x.Plane}
		c := CableInfo{Name: l.String(), A: a, B: b, AChannel: x.A.Channel, BChannel: x.B.Channel, Dir: x.Dir.String(), Back: x.Back.String(),
			Plane: x.Plane, External: x.External(), Unused: x.Unused}
		c.Wrap = !c.External && apart(m.Chips[a].Row, m.Chips[b].Row)+apart(m.Chips[a].Col, m.Chips[b].Col) > 1
		m.Cables = append(m.Cables, c)
		m.cable[x.A], m.cable[x.B] = i, i
	}
	return m
}

func apart(a, b int) int { return max(a-b, b-a) }

// Cable returns the position of the cable at a port. Without a cable at the port, Cable returns -1.
func (m *Machine) Cable(p wire.PortID) int {
	if i, ok := m.cable[p]; ok {
		return i
	}
	return -1
}

// Chip returns the position of a chip, or -1 if the machine has no such chip.
func (m *Machine) Chip(n wire.FabricNodeID) int { return m.topo.Index(n) }
