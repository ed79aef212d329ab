package topo

import "ttfabric/wire"

// t3000x2 builds two T3000 with cables between them. The cables join chips D1, D2, D5 and D6 of one
// T3000 with the same chips of the other T3000. In a single T3000, the joined chips have free cages
// for cables. At both ends, the cables leave D1 and D2 to the north, and D5 and D6 to the south.
//
// The joined chips are the same as in tt-metal's dual_t3k_strict_connection_mgd.textproto.
func t3000x2() (*Topology, error) {
	t, err := t3000()
	if err != nil {
		return nil, err
	}
	t.Name = "2xt3000"
	t.Meshes = append(t.Meshes, Mesh{ID: 1, Rows: 2, Cols: 4})
	for _, c := range t.Chips[:8:8] {
		c.Node.Mesh = 1
		t.Chips = append(t.Chips, c)
	}
	for _, c := range t.Cables[:20:20] {
		c.A.Node.Mesh, c.B.Node.Mesh = 1, 1
		t.Cables = append(t.Cables, c)
	}
	for _, x := range []struct {
		chip int
		dir  wire.Direction
		ch   []wire.Channel
	}{
		{1, wire.North, []wire.Channel{0, 1}},
		{2, wire.North, []wire.Channel{0, 1}},
		{5, wire.South, []wire.Channel{6, 7}},
		{6, wire.South, []wire.Channel{6, 7}},
	} {
		first := len(t.Cables)
		t.join(x.chip, 8+x.chip, x.ch, x.ch)
		for i := first; i < len(t.Cables); i++ {
			t.Cables[i].Dir, t.Cables[i].Back = x.dir, x.dir
		}
	}
	return t, t.finish()
}
