package route

import (
	"slices"

	"ttfabric/wire"
)

// follow follows the hops of a leg from src to dst. follow counts the leg as astray if the leg
// passes a chip twice, leaves the mesh or ends elsewhere. follow counts the leg as long if the leg
// has more hops than the plan says or than a header has room for.
func (k *checker) follow(g *grid, src, dst int, leg []wire.Direction) {
	if len(k.seen) < g.chips() {
		k.seen, k.routes = make([]int32, g.chips()), 0
	}
	k.routes++
	at, ok := src, true
	k.seen[at] = k.routes
	for _, d := range leg {
		next, _, edge := g.beside(at, d)
		if ok = edge && k.seen[next] != k.routes; !ok {
			break
		}
		at = next
		k.seen[at] = k.routes
	}
	if !ok || at != dst {
		k.astray++
		k.stranger = [2]wire.FabricNodeID{g.node(src), g.node(dst)}
	} else if len(leg) > g.longest() || len(leg) > wire.MaxHops {
		k.long++
		k.stranger = [2]wire.FabricNodeID{g.node(src), g.node(dst)}
	}
}

// stray adds the numbers of astray and long routes to verdict v.
func (k *checker) stray(v *Verdict) {
	if v.Astray+v.Long == 0 {
		v.Stray = k.stranger
	}
	v.Astray += k.astray
	v.Long += k.long
}

// followMeshes follows the route from every mesh to every other mesh, and counts the routes that do
// not reach their destination. followMeshes also counts the routes with more crossings than im.most
// allows.
func (k *checker) followMeshes(im *interMesh) {
	const fresh, open, lost = -1, -2, -3 // states of a mesh; a value of 0 or more is the number of crossings that remain to dst
	left := make([]int, im.meshes)
	var path []int
	for dst := range im.meshes {
		for i := range left {
			left[i] = fresh
		}
		left[dst] = 0
		for src := range im.meshes {
			at := src
			for path = path[:0]; left[at] == fresh; at = int(im.next[at*im.meshes+dst]) {
				left[at] = open
				path = append(path, at)
				if n := im.next[at*im.meshes+dst]; n == none || !slices.Contains(im.peers[at], int32(n)) {
					left[at] = lost
					break
				}
			}
			n := left[at]
			if n == open {
				n = lost
			}
			for _, m := range slices.Backward(path) {
				if n != lost {
					n++
				}
				left[m] = n
			}
			if im.next[src*im.meshes+dst] == none {
				continue // function reach counts this pair as unreachable
			}
			stranger := [2]wire.FabricNodeID{k.p.grids[src].node(0), k.p.grids[dst].node(0)}
			if left[src] == lost {
				k.astray, k.stranger = k.astray+1, stranger
			} else if left[src] > im.most {
				k.long, k.stranger = k.long+1, stranger
			}
		}
	}
}
