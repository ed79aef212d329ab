package topo

import (
	"cmp"
	"slices"

	"ttfabric/wire"
)

// index finds cables by their upper end, which is the end B. An index also keeps values that are
// computed from all cables. Lower ends need no index, because the list Cables is sorted by lower
// ends.
type index struct {
	upper  []int32 // indices of the cables, sorted by the end B
	planes []int   // number of planes of each mesh, in the order of Meshes
	most   int     // number of planes of the machine
}

// lookup returns the index. If the topology was not validated, lookup makes a new index each time.
func (t *Topology) lookup() *index {
	if t.ix != nil && len(t.ix.upper) == len(t.Cables) && len(t.ix.planes) == len(t.Meshes) {
		return t.ix
	}
	return t.makeIndex()
}

func (t *Topology) makeIndex() *index {
	ix := &index{upper: make([]int32, len(t.Cables)), planes: make([]int, len(t.Meshes))}
	between := 0
	for i := range t.Cables {
		c := &t.Cables[i]
		ix.upper[i] = int32(i)
		if c.Unused {
			continue
		}
		if c.External() {
			between = max(between, int(c.Plane)+1)
		} else if m, ok := t.meshAt(c.A.Node.Mesh); ok {
			ix.planes[m] = max(ix.planes[m], int(c.Plane)+1)
		}
	}
	slices.SortFunc(ix.upper, func(a, b int32) int { return comparePorts(t.Cables[a].B, t.Cables[b].B) })
	for _, n := range ix.planes {
		ix.most = max(ix.most, n)
	}
	if ix.most == 0 {
		ix.most = between
	}
	return ix
}

// lower returns the position in Cables of the first cable whose lower end is q or higher.
func (t *Topology) lower(q wire.PortID) int {
	i, _ := slices.BinarySearchFunc(t.Cables, q, func(c Cable, q wire.PortID) int { return comparePorts(c.A, q) })
	return i
}

// firstUpper returns the position in ix.upper of the first cable whose upper end is q or higher.
func (t *Topology) firstUpper(ix *index, q wire.PortID) int {
	low, high := 0, len(ix.upper)
	for low < high {
		if mid := int(uint(low+high) >> 1); comparePorts(t.Cables[ix.upper[mid]].B, q) < 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

func (c *Cable) fromA() Port {
	return Port{Local: c.A, Peer: c.B, Dir: c.Dir, Plane: c.Plane}
}

func (c *Cable) fromB() Port {
	return Port{Local: c.B, Peer: c.A, Dir: c.Back, Plane: c.Plane}
}

// chipAt returns the position in Chips of the chip with address n, and true. If the topology has no
// such chip, chipAt returns false.
func (t *Topology) chipAt(n wire.FabricNodeID) (int, bool) {
	return slices.BinarySearchFunc(t.Chips, n, func(c Chip, n wire.FabricNodeID) int { return c.Node.Compare(n) })
}

// Chip returns the chip with address n, and true. If the topology has no such chip, Chip returns
// false.
func (t *Topology) Chip(n wire.FabricNodeID) (Chip, bool) {
	i, ok := t.chipAt(n)
	if !ok {
		return Chip{}, false
	}
	return t.Chips[i], true
}

// meshAt returns the position in Meshes of the mesh with the given id, and true. If the topology
// has no such mesh, meshAt returns false.
func (t *Topology) meshAt(id wire.MeshID) (int, bool) {
	return slices.BinarySearchFunc(t.Meshes, id, func(m Mesh, id wire.MeshID) int { return cmp.Compare(m.ID, id) })
}

// Nodes returns the addresses of all chips, in the order of Chips.
func (t *Topology) Nodes() []wire.FabricNodeID {
	out := make([]wire.FabricNodeID, len(t.Chips))
	for i := range t.Chips {
		out[i] = t.Chips[i].Node
	}
	return out
}

// Index returns the position in Chips of the chip with address n, or -1 if the topology has no such
// chip.
func (t *Topology) Index(n wire.FabricNodeID) int {
	if i, ok := t.chipAt(n); ok {
		return i
	}
	return -1
}

// ExitNode reports whether chip n has a used cable to another mesh (Spec §2.2.1).
func (t *Topology) ExitNode(n wire.FabricNodeID) bool {
	for _, p := range t.Ports(n) {
		if p.Peer.Node.Mesh != n.Mesh {
			return true
		}
	}
	return false
}

// Routed returns the number of cables that the fabric routes: all but the unused cables.
func (t *Topology) Routed() (n int) {
	for i := range t.Cables {
		if !t.Cables[i].Unused {
			n++
		}
	}
	return n
}

// Mesh returns the mesh with the given id, and true. If the topology has no such mesh, Mesh returns
// false.
func (t *Topology) Mesh(id wire.MeshID) (Mesh, bool) {
	i, ok := t.meshAt(id)
	if !ok {
		return Mesh{}, false
	}
	return t.Meshes[i], true
}

// Ports lists the ports of chip n that have used cables, within the mesh or to other meshes, sorted
// by channel.
func (t *Topology) Ports(n wire.FabricNodeID) []Port {
	var ps []Port
	for i := t.lower(wire.PortID{Node: n}); i < len(t.Cables) && t.Cables[i].A.Node == n; i++ {
		if c := &t.Cables[i]; !c.Unused {
			ps = append(ps, c.fromA())
		}
	}
	ix := t.lookup()
	for i := t.firstUpper(ix, wire.PortID{Node: n}); i < len(ix.upper) && t.Cables[ix.upper[i]].B.Node == n; i++ {
		if c := &t.Cables[ix.upper[i]]; !c.Unused {
			ps = append(ps, c.fromB())
		}
	}
	slices.SortFunc(ps, func(p, q Port) int { return int(p.Local.Channel) - int(q.Local.Channel) })
	return ps
}

// Neighbour returns the chip at the other end of the used cable that leaves chip n in direction d
// on plane p. If the cable wraps, the neighbour is at the other end of the row or column. If n is
// an exit node, the neighbour may be a chip of another mesh. If there is no such cable, Neighbour
// reports false. Neighbour takes logarithmic time. On a validated topology, Neighbour does not
// allocate.
func (t *Topology) Neighbour(n wire.FabricNodeID, d wire.Direction, p wire.Plane) (wire.FabricNodeID, bool) {
	for i := t.lower(wire.PortID{Node: n}); i < len(t.Cables) && t.Cables[i].A.Node == n; i++ {
		if c := &t.Cables[i]; c.Dir == d && c.Plane == p && !c.Unused {
			return c.B.Node, true
		}
	}
	ix := t.lookup()
	for i := t.firstUpper(ix, wire.PortID{Node: n}); i < len(ix.upper) && t.Cables[ix.upper[i]].B.Node == n; i++ {
		if c := &t.Cables[ix.upper[i]]; c.Back == d && c.Plane == p && !c.Unused {
			return c.A.Node, true
		}
	}
	return wire.FabricNodeID{}, false
}

// Planes returns the number of routing planes: the largest [Topology.MeshPlanes] of any mesh. If
// every mesh is a single chip, Planes returns the largest number of used cables from one chip to
// another in one direction. If the topology has no cables, Planes returns 0.
func (t *Topology) Planes() int { return t.lookup().most }

// MeshPlanes returns the number of routing planes of a mesh: the smallest number of cables on an
// edge of its grid (Spec §2.2.2). For a mesh of one chip, and for a mesh that does not exist,
// MeshPlanes returns 0.
func (t *Topology) MeshPlanes(id wire.MeshID) int {
	i, ok := t.meshAt(id)
	if !ok {
		return 0
	}
	return t.lookup().planes[i]
}

// Exits lists the ports of mesh "from" from which used cables lead to mesh "to". If "to" equals
// "from", Exits lists the ports from which used cables lead to any other mesh. The ports are sorted
// by peer mesh, plane, chip and direction.
func (t *Topology) Exits(from, to wire.MeshID) []Port {
	var ps []Port
	add := func(p Port) {
		if to == from || p.Peer.Node.Mesh == to {
			ps = append(ps, p)
		}
	}
	first := wire.PortID{Node: wire.FabricNodeID{Mesh: from}}
	for i := t.lower(first); i < len(t.Cables) && t.Cables[i].A.Node.Mesh == from; i++ {
		if c := &t.Cables[i]; c.External() && !c.Unused {
			add(c.fromA())
		}
	}
	ix := t.lookup()
	for i := t.firstUpper(ix, first); i < len(ix.upper) && t.Cables[ix.upper[i]].B.Node.Mesh == from; i++ {
		if c := &t.Cables[ix.upper[i]]; c.External() && !c.Unused {
			add(c.fromB())
		}
	}
	slices.SortFunc(ps, func(p, q Port) int {
		return cmp.Or(cmp.Compare(p.Peer.Node.Mesh, q.Peer.Node.Mesh), cmp.Compare(p.Plane, q.Plane),
			cmp.Compare(p.Local.Node.Chip, q.Local.Node.Chip), cmp.Compare(p.Dir, q.Dir))
	})
	return ps
}

// Peers lists the ids of the meshes to which used cables lead from the mesh with the given id,
// sorted.
func (t *Topology) Peers(id wire.MeshID) []wire.MeshID {
	var ids []wire.MeshID
	for _, p := range t.Exits(id, id) {
		if n := len(ids); n == 0 || ids[n-1] != p.Peer.Node.Mesh {
			ids = append(ids, p.Peer.Node.Mesh)
		}
	}
	return ids
}

// Link is a cable that a name in a command stands for. A is the end that the name gives first. If
// the name gives no end first, A is the lower end.
type Link struct {
	A, B  wire.PortID
	Plane wire.Plane
}

// String returns the name of the cable in the form that commands accept, such as "M0D0/8-M0D1/0".
func (l Link) String() string { return l.A.Short() + "-" + l.B.Short() }

// PlaneCount counts the cables from one chip to a neighbour in one direction.
type PlaneCount struct {
	Declared int `json:"declared"` // cables that the fabric routes (MGD)
	Expected int `json:"expected"` // cables that should exist (FSD)
	Live     int `json:"live"`     // expected cables that are live (PSD)
}

// Planes returns the number of routing planes: the number of routed cables, but at most the number
// of cables that should exist. A cable that is down does not lower the number of planes.
func (n PlaneCount) Planes() int { return min(n.Declared, n.Expected) }

// Downed returns the number of missing cables that the fabric needs.
func (n PlaneCount) Downed() int { return max(0, n.Planes()-n.Live) }

// UnusedDowned returns the number of missing cables that the fabric does not need.
func (n PlaneCount) UnusedDowned() int { return max(0, n.Expected-n.Live) - n.Downed() }

// Registered returns the number of live cables that the fabric routes. Health uses this number for
// cables between meshes, where tt-metal counts no planes.
func (n PlaneCount) Registered() int { return min(n.Declared, n.Live) }

// DirectionHealth describes the cables from one chip in one direction in which cables should exist.
type DirectionHealth struct {
	Chip      wire.FabricNodeID `json:"chip"`       // chip from which the cables lead
	Direction string            `json:"direction"`  // direction as a letter; NoDirection: the fabric routes none of these cables
	Peer      wire.FabricNodeID `json:"peer"`       // chip to which the cables lead
	External  bool              `json:"inter_mesh"` // whether the cables lead to another mesh
	PlaneCount
	Usable int `json:"planes"`        // within a mesh: smallest number of routing planes on any edge of this row or column; between meshes: see PlaneCount.Registered
	Down   int `json:"downed"`        // number of missing cables that the fabric needs, see PlaneCount.Downed
	Unused int `json:"unused_downed"` // number of missing cables that the fabric does not need, see PlaneCount.UnusedDowned
}

// NoDirection stands for the direction of cables that the fabric does not route.
const NoDirection = "NONE"
