package output

import (
	"fmt"
	"slices"
	"strings"

	"ttfabric/router/route"
	"ttfabric/wire"
)

// RoutesOf returns the routing tables of chips, for a class of packets on a plane.
func RoutesOf(p *route.Plan, class wire.Class, plane wire.Plane, chips []wire.FabricNodeID) Routes {
	t := p.Topology()
	r := Routes{Epoch: fmt.Sprintf("%08x", p.Hash()), L1: []L1Row{}}
	for _, src := range chips {
		row := L0Row{Src: src, Routes: p.L0(class, plane, src)}
		for k := range row.Routes {
			row.Dst = append(row.Dst, wire.FabricNodeID{Mesh: src.Mesh, Chip: wire.ChipID(k)})
		}
		r.L0 = append(r.L0, row)
		if len(t.Meshes) == 1 {
			continue
		}
		ways := p.L1(class, plane, src)
		e := L1Row{Src: src}
		for _, to := range t.Meshes {
			exit, port := "x", ""
			if to.ID == src.Mesh {
				exit = "-"
			} else if i := slices.IndexFunc(ways, func(w route.Crossing) bool { return w.To == to.ID && w.OK }); i >= 0 {
				exit, port = fmt.Sprint(ways[i].Exit.Local.Node.Chip), ways[i].Exit.Dir.String()+map[bool]string{true: " up", false: " down"}[ways[i].Up]
			}
			e.To, e.Exits, e.Ports = append(e.To, to.ID), append(e.Exits, exit), append(e.Ports, port)
		}
		r.L1 = append(r.L1, e)
	}
	return r
}

// L0Group is an L0 table, and the meshes that have this table.
type L0Group struct {
	Meshes []wire.MeshID
	Rows   []L0Row // rows of the first mesh
}

// Alike returns groups of meshes with equal tables. In l0, the rows of each mesh stand together. The
// groups are in the order of their first meshes.
func Alike(l0 []L0Row) (groups []L0Group) {
	same := map[string]int{} // index of a group in groups, by the text of all routes
	for len(l0) > 0 {
		n := slices.IndexFunc(l0, func(r L0Row) bool { return r.Src.Mesh != l0[0].Src.Mesh })
		if n < 0 {
			n = len(l0)
		}
		var text strings.Builder
		for _, r := range l0[:n] {
			fmt.Fprintln(&text, r.Src.Chip, r.Routes)
		}
		i, ok := same[text.String()]
		if !ok {
			i = len(groups)
			same[text.String()] = i
			groups = append(groups, L0Group{Rows: l0[:n]})
		}
		groups[i].Meshes = append(groups[i].Meshes, l0[0].Src.Mesh)
		l0 = l0[n:]
	}
	return groups
}

// OfMeshes returns the words for meshes, such as "mesh 3" or "meshes 0, 1 and 2".
func OfMeshes(ids []wire.MeshID) string {
	var names []string
	for _, id := range ids {
		names = append(names, fmt.Sprint(id))
	}
	if len(names) == 1 {
		return "mesh " + names[0]
	}
	return "meshes " + strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// Cells appends texts to the first cells of a row of a table.
func Cells(row []any, texts []string) []any {
	for _, s := range texts {
		row = append(row, s)
	}
	return row
}
