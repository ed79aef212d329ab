package route

import (
	"fmt"
	"math"
	"slices"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Exits says by which crossings packets may go up between meshes.
type Exits uint8

// The choices that exist. With ShortestExits, a packet may go up to every neighbouring mesh, and
// takes the way with the fewest crossings. With PrintedExits, a packet goes up only to the
// neighbour with the lowest rank, which is the parent in the breadth-first walk. On the
// specification's four meshes, PrintedExits gives the table that Spec §2.2.1.2.1 prints. The two
// tables differ from Mesh 3 to Mesh 2: the printed table leads through Mesh 1, although the figure
// has a cable between Mesh 3 and Mesh 2.
const (
	ShortestExits Exits = iota
	PrintedExits
)

var exitsNames = []string{"shortest", "printed"}

// String returns "shortest" or "printed".
func (e Exits) String() string { return exitsNames[e] }

// ParseExits reads the name of a choice, as [Exits.String] returns it.
func ParseExits(s string) (Exits, error) {
	for i, n := range exitsNames {
		if s == n {
			return Exits(i), nil
		}
	}
	return 0, fmt.Errorf("exits %q: want shortest or printed", s)
}

// interMesh is the L1 routing of one plane. For each pair of meshes, an interMesh has the next mesh
// on the route from the first to the second. The package documentation has the rules.
type interMesh struct {
	meshes int
	peers  [][]int32 // indices of the neighbours of each mesh
	rank   []int32   // place of each mesh in the breadth-first walk from the root
	next   []uint16  // element from*meshes+to is the index of the next mesh; none: there is no route
	exits  map[[2]int32][]topo.Port
	parent bool // a packet goes up only to the neighbour with the lowest rank, see [PrintedExits]
	most   int  // number of crossings of the longest route
}

const none = math.MaxUint16

func newInterMesh(p *Plan, pl wire.Plane) *interMesh {
	n := len(p.grids)
	im := &interMesh{meshes: n, parent: p.cfg.Exits == PrintedExits, peers: make([][]int32, n), exits: map[[2]int32][]topo.Port{}, next: make([]uint16, n*n)}
	for i, g := range p.grids {
		for _, q := range p.top.Exits(g.mesh.ID, g.mesh.ID) { // the exits of this mesh to all other meshes
			if q.Plane != pl || p.down(q.Local) {
				continue
			}
			j := int32(p.meshIndex(q.Peer.Node.Mesh))
			k := [2]int32{int32(i), j}
			if im.exits[k] == nil {
				im.peers[i] = append(im.peers[i], j)
			}
			im.exits[k] = append(im.exits[k], q)
		}
		slices.Sort(im.peers[i])
	}
	im.walk()
	im.choose()
	return im
}

func (p *Plan) meshIndex(id wire.MeshID) int {
	i, _ := slices.BinarySearchFunc(p.grids, id, func(g *grid, id wire.MeshID) int { return int(g.mesh.ID) - int(id) })
	return i
}

// walk ranks the meshes by a breadth-first walk.
func (im *interMesh) walk() {
	im.rank = make([]int32, im.meshes)
	for i := range im.rank {
		im.rank[i] = -1
	}
	count := int32(0)
	for root := range im.meshes {
		if im.rank[root] >= 0 {
			continue
		}
		im.rank[root] = count
		count++
		for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
			for _, j := range im.peers[queue[0]] {
				if im.rank[j] < 0 {
					im.rank[j] = count
					count++
					queue = append(queue, int(j))
				}
			}
		}
	}
}

// The method "up" reports whether a crossing from mesh "from" to mesh "to" leads up.
func (im *interMesh) up(from, to int) bool { return im.rank[to] < im.rank[from] }

// choose fills in the next mesh for all pairs. choose first handles the pairs that down crossings
// alone connect. Then choose handles the other pairs, from the root outwards. This order is needed
// because a route that goes up uses the choice of the mesh above.
func (im *interMesh) choose() {
	n := im.meshes
	dist := make([]uint16, n*n) // number of crossings for each pair
	queue := make([]int32, 0, n)
	for m := range n {
		im.fall(m, dist[m*n:][:n], queue)
	}
	byRank := make([]int, n)
	for i, r := range im.rank {
		byRank[r] = i
		im.firstFalls(i, dist)
	}
	falls := make([]bool, n)
	for _, m := range byRank {
		best, via := dist[m*n:][:n], im.next[m*n:][:n]
		for d := range best {
			falls[d] = best[d] != none
		}
		for _, j := range im.peers[m] {
			if !im.mayRise(m, int(j)) {
				continue
			}
			for d, t := range dist[int(j)*n:][:n] {
				if !falls[d] && t != none && t+1 < best[d] {
					best[d], via[d] = t+1, uint16(j)
				}
			}
		}
		for _, t := range best {
			if t != none {
				im.most = max(im.most, int(t))
			}
		}
	}
}

// mayRise reports whether routes may use an up crossing from mesh m to its neighbour j.
func (im *interMesh) mayRise(m, j int) bool {
	if !im.up(m, j) {
		return false
	}
	for _, k := range im.peers[m] {
		if im.parent && im.rank[k] < im.rank[j] {
			return false
		}
	}
	return true
}

// fall sets dist to the number of crossings to each mesh that down crossings alone reach from mesh
// "from". For all other meshes, fall sets dist to none.
func (im *interMesh) fall(from int, dist []uint16, queue []int32) {
	for i := range dist {
		dist[i] = none
	}
	dist[from] = 0
	for queue = append(queue, int32(from)); len(queue) > 0; queue = queue[1:] {
		m := queue[0]
		for _, j := range im.peers[m] {
			if !im.up(int(m), int(j)) && dist[j] == none {
				dist[j] = dist[m] + 1
				queue = append(queue, j)
			}
		}
	}
}

// firstFalls fills in the next mesh from mesh m to each mesh that down crossings alone reach.
func (im *interMesh) firstFalls(m int, dist []uint16) {
	n := im.meshes
	row := im.next[m*n:][:n]
	for d := range row {
		row[d] = none
		if d == m {
			row[d] = uint16(m)
		}
	}
	for k := len(im.peers[m]) - 1; k >= 0; k-- { // the neighbour with the lowest id comes last, so that its entry stays
		j := int(im.peers[m][k])
		if im.up(m, j) {
			continue
		}
		for d := range row {
			if t := dist[j*n+d]; t != none && d != m && t+1 == dist[m*n+d] {
				row[d] = uint16(j)
			}
		}
	}
}

// Next returns the mesh after mesh "from" on the route to mesh "to" on plane pl. The machine must
// have both meshes. The result "up" is true if the crossing leads up. If there is no route, or if
// the machine has a single mesh, ok is false.
func (p *Plan) Next(pl wire.Plane, from, to wire.MeshID) (next wire.MeshID, up, ok bool) {
	if int(pl) >= len(p.inter) {
		return 0, false, false
	}
	im, i := p.inter[pl], p.meshIndex(from)
	j := im.next[i*im.meshes+p.meshIndex(to)]
	if j == none {
		return 0, false, false
	}
	return p.grids[j].mesh.ID, im.up(i, int(j)), true
}

// Exit returns the port by which packets from chip src leave their mesh on the route to mesh "to"
// (L1). The result "up" is true if the crossing leads up. If there is no route, ok is false.
func (p *Plan) Exit(c wire.Class, pl wire.Plane, src wire.FabricNodeID, to wire.MeshID) (x topo.Port, up, ok bool) {
	next, up, ok := p.Next(pl, src.Mesh, to)
	if !ok {
		return topo.Port{}, false, false
	}
	i := p.meshIndex(src.Mesh)
	g := p.grids[i]
	best := math.MaxInt
	var buf [wire.MaxHops]wire.Direction
	for _, q := range p.inter[pl].exits[[2]int32{int32(i), int32(p.meshIndex(next))}] {
		hops := 0
		if q.Local.Node != src {
			leg, _, ok := g.leg(buf[:0], c, pl, int(src.Chip), int(q.Local.Node.Chip))
			if !ok {
				continue
			}
			hops = len(leg)
		}
		if hops < best || (hops == best && before(q, x)) {
			best, x = hops, q
		}
	}
	return x, up, best < math.MaxInt
}

// The function "before" returns true if a packet prefers exit a to exit b when both are equally far
// away.
func before(a, b topo.Port) bool {
	if a.Local.Node.Chip != b.Local.Node.Chip {
		return a.Local.Node.Chip < b.Local.Node.Chip
	}
	return a.Dir < b.Dir
}
