package topo

import (
	"fmt"
	"slices"
	"strings"

	"ttfabric/router/topo/umdfile"
	"ttfabric/wire"
)

// FoundCable is a cable between two ports that somebody found. The ports need not belong to
// neighbours in a grid.
type FoundCable struct {
	A, B wire.PortID // the two ends, with A.Less(B)
	Note string      // a remark for people, as a comment in the file; may be empty
}

// foundCables returns cables without notes.
func foundCables(cables []Cable) []FoundCable {
	out := make([]FoundCable, len(cables))
	for i, c := range cables {
		out[i] = FoundCable{A: c.A, B: c.B}
	}
	return out
}

// EncodeCabling renders the given cables as a cluster descriptor of tt-umd. The descriptor has the
// chips of one mesh of t. The descriptor leaves out the chips of "without" to which none of the
// cables leads. A cable between two chips of the mesh is one of the ethernet_connections. A cable
// to another mesh is one of the ethernet_connections_to_remote_devices, with the unique id of the
// other chip. EncodeCabling leaves out cables between other meshes. The lines of "about" are
// comments at the top of the file.
//
// Unlike [Topology.EncodeClusterDescriptor], EncodeCabling takes cables that form no grid, and a
// mesh whose chips do not reach each other. EncodeCabling returns an error if t has no such mesh,
// if t lacks the chip at an end of a cable, or if no chip is left.
func (t *Topology) EncodeCabling(mesh wire.MeshID, about []string, cables []FoundCable, without []wire.FabricNodeID) ([]byte, error) {
	if _, ok := t.Mesh(mesh); !ok {
		return nil, fmt.Errorf("topology %s has no mesh %d", t.Name, mesh)
	}
	ends := map[wire.FabricNodeID]bool{}
	for _, c := range cables {
		for _, p := range [2]wire.PortID{c.A, c.B} {
			if _, ok := t.Chip(p.Node); !ok {
				return nil, fmt.Errorf("cable %s to %s: topology %s has no chip %s", c.A.Short(), c.B.Short(), t.Name, p.Node)
			}
			ends[p.Node] = true
		}
	}
	keep := func(c Chip) bool { return ends[c.Node] || !slices.Contains(without, c.Node) }
	if !slices.ContainsFunc(t.Chips, func(c Chip) bool { return c.Node.Mesh == mesh && keep(c) }) {
		return nil, fmt.Errorf("no chip of mesh %d is left", mesh)
	}
	return t.encodeUMD(mesh, about, cables, keep), nil
}

// encodeUMD renders a cluster descriptor; see [Topology.EncodeCabling]. The descriptor has the
// chips of the mesh for which "keep" returns true. At least one chip must be left.
func (t *Topology) encodeUMD(mesh wire.MeshID, about []string, cables []FoundCable, keep func(Chip) bool) []byte {
	seen, told := t.HostView(mesh), t.Positions()
	ids := make([]int, len(t.Chips)) // id of each chip of the mesh
	var all []int                    // indices of the chips of the mesh, sorted by id
	for i, c := range t.Chips {
		if c.Node.Mesh == mesh {
			ids[i], all = seen[c.Node].ID, append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b int) int { return ids[a] - ids[b] })
	order := slices.DeleteFunc(slices.Clone(all), func(i int) bool { return !keep(t.Chips[i]) }) // the chips in the descriptor
	boards := t.boards(all)
	places := t.places(boards)
	f := umdfile.File{About: about, Arch: t.Arch.String(), Blackhole: t.Arch == wire.Blackhole}
	f.Locations = f.Blackhole && !strings.HasPrefix(t.boardType(boards[0]), "ubb") // the chips of a Galaxy report their places on the trays themselves
	f.Within, f.Beyond = t.connections(mesh, cables)
	f.Unique = len(f.Beyond) > 0 || slices.ContainsFunc(order, func(i int) bool { return t.Chips[i].UniqueID != 0 })
	for _, i := range order {
		c := &t.Chips[i]
		u := umdfile.Chip{ID: ids[i], X: uint8(c.Col), Y: uint8(c.Row), Unique: c.UniqueID, MMIO: seen[c.Node].MMIO, Untranslated: c.Untranslated, Harvested: c.Harvested,
			HarvestedEthernet: t.HarvestedEthernet(c.Node), PCIe: places[i].pcie, Location: places[i].location}
		if told != nil {
			p := told[c.Node]
			u.X, u.Y, u.Rack, u.Shelf = p.X, p.Y, p.Rack, p.Shelf
		}
		if len(f.Beyond) > 0 {
			u.Unique = t.uniqueID(c)
		}
		f.Chips = append(f.Chips, u)
	}
	for n, board := range t.boards(order) {
		b := umdfile.Board{ID: t.Chips[board[0]].BoardID, Type: t.boardType(board)}
		for _, i := range board {
			b.Chips = append(b.Chips, ids[i])
		}
		if b.ID == 0 {
			b.ID = uint64(n + 1)
		}
		f.Boards = append(f.Boards, b)
	}
	return f.Encode()
}

// connections returns the cables of a mesh: the cables within the mesh, and the cables to other
// meshes.
func (t *Topology) connections(mesh wire.MeshID, cables []FoundCable) (within, beyond []umdfile.Cable) {
	seen := t.HostView(mesh)
	for _, c := range cables {
		near, far := c.A, c.B
		if near.Node.Mesh != mesh {
			near, far = far, near
		}
		u := umdfile.Cable{Chip: seen[near.Node].ID, Channel: int(near.Channel), FarChannel: int(far.Channel), Note: c.Note}
		switch {
		case near.Node.Mesh != mesh:
		case far.Node.Mesh == mesh:
			u.Far = uint64(seen[far.Node].ID)
			within = append(within, u)
		default:
			u.Far = t.uniqueID(&t.Chips[t.Index(far.Node)])
			beyond = append(beyond, u)
		}
	}
	return within, beyond
}

// uniqueID returns the unique id of a chip. If a chip of the topology has no unique id, uniqueID
// makes up the ids of all chips.
func (t *Topology) uniqueID(c *Chip) uint64 {
	if !slices.ContainsFunc(t.Chips, func(c Chip) bool { return c.UniqueID == 0 }) {
		return c.UniqueID
	}
	return uint64(c.Node.Mesh)<<48 | (uint64(c.Node.Chip)+1)<<32
}
