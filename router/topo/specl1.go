package topo

import "ttfabric/wire"

// specL1 builds the machine of Spec §2.2.1.1.1 and §2.2.1.2.1: four meshes of 3×3 chips and the
// five pairs of exit nodes of the specification's figure. Each edge has two cables, also between
// exit nodes, although the figure draws one cable.
//
//	M0 D5 E ══ W D3 M1
//	D6 S, D8 S      D8 S
//	║     ║         ║
//	D0 N, D2 N      D2 N
//	M2 D8 E ══ W D6 M3
func specL1() (*Topology, error) {
	d := newDraft("spec-l1", builtIn, wire.Wormhole)
	for id := range wire.MeshID(4) {
		if err := d.addMesh(Mesh{ID: id, Rows: 3, Cols: 3}, generatedPlanes, generatedPlanes); err != nil {
			return nil, err
		}
	}
	for _, x := range []struct {
		meshA, meshB wire.MeshID
		a, b         int
		dir          wire.Direction
	}{
		{0, 1, 5, 3, wire.East},
		{0, 2, 6, 0, wire.South},
		{0, 2, 8, 2, wire.South},
		{1, 3, 8, 2, wire.South},
		{2, 3, 8, 6, wire.East},
	} {
		if err := d.cable(d.first[x.meshA]+x.a, d.first[x.meshB]+x.b, x.dir, x.dir.Opposite(), generatedPlanes); err != nil {
			return nil, err
		}
	}
	return d.finish()
}
