package chip

import (
	"strings"
	"testing"

	"ttfabric/node/flow"
	"ttfabric/wire"
)

// actions returns the rest of a packet's route as letters, one for each direction in a
// route byte.
func actions(v wire.PacketView) string {
	var b strings.Builder
	for v.Action() != 0 {
		for d := range wire.Direction(wire.NumDirections) {
			if v.Action()&wire.RouteBit(d) != 0 {
				b.WriteString(d.String())
			}
		}
		v.Advance()
	}
	return b.String()
}

// Spec §2.2: "the sending worker sets the packet source route to its local mesh's exit
// node. When the packet crosses the mesh boundary, the entry node fabric router in the next mesh
// calculates a new source route and updates the packet header". The new route leads to the
// destination if the destination is in the mesh, else to an exit node. The expected routes follow
// the tables of §2.2.1.1.1 and §2.2.1.2.1. The last action of a route that ends in the mesh leads
// straight back, which means "deliver here".
func TestEntryRoutersWriteTheNewRoute(t *testing.T) {
	w := newFabric(t, named(t, "spec-l1"))
	node := func(mesh, chip int) wire.FabricNodeID {
		return wire.FabricNodeID{Mesh: wire.MeshID(mesh), Chip: wire.ChipID(chip)}
	}
	for _, c := range []struct {
		src, dst wire.FabricNodeID
		at       []wire.FabricNodeID // the source and each entry node; want holds the route that each of these chips writes
		want     []string
	}{
		{node(0, 0), node(3, 8), []wire.FabricNodeID{node(0, 0), node(1, 3), node(3, 2)}, []string{"EESE", "EESS", "SSN"}},
		{node(0, 0), node(3, 2), []wire.FabricNodeID{node(0, 0), node(1, 3), node(3, 2)}, []string{"EESE", "EESS", "N"}},
		{node(0, 2), node(2, 3), []wire.FabricNodeID{node(0, 2), node(2, 2)}, []string{"SSS", "WWSN"}},
		{node(2, 6), node(3, 0), []wire.FabricNodeID{node(2, 6), node(3, 6)}, []string{"EEE", "NNS"}},
		{node(1, 0), node(2, 8), []wire.FabricNodeID{node(1, 0), node(0, 5), node(2, 2)}, []string{"SW", "SS", "SSN"}},
	} {
		src := w.at[c.src]
		from := src.route(flow.Key{Node: c.dst}, wire.ClassRequest)
		p := wire.Packet{Type: wire.PacketRequest, Src: c.src, Dst: c.dst, Command: wire.Command{Type: wire.NocNone}}
		address(from, &p, 100)
		v := wire.PacketView(p.Append(nil))
		if got := from.First.String() + actions(v); got != c.want[0] {
			t.Errorf("%s to %s: the source writes %s, want %s", c.src, c.dst, got, c.want[0])
		}
		at := c.src
		for i, entry := range c.at[1:] {
			var in *port
			for k := range w.at[entry].ports.list {
				if q := &w.at[entry].ports.list[k]; q.Peer.Node.Mesh == at.Mesh && q.Plane == 0 {
					in = q
				}
			}
			if in == nil || !w.at[entry].enter(in, v) {
				t.Fatalf("%s to %s: nothing enters at %s", c.src, c.dst, entry)
			}
			if got := actions(v); got != c.want[i+1] {
				t.Errorf("%s to %s: entry node %s writes %s, want %s", c.src, c.dst, entry, got, c.want[i+1])
			}
			at = entry
		}
	}
}
