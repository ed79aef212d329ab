package flow

import (
	"slices"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Network is what a [Source] needs of the chip around it: routes, room for
// packets, and the program inside the chip.
type Network interface {
	// Route returns the route by which requests of a unicast flow leave the chip
	// now: along the hops of via, or by the tables in force where via is empty.
	Route(to Key, via []wire.Direction) *Route
	// Reachable reports whether the tables without faults have a route to the flow's destination.
	Reachable(to Key) bool
	// Tree returns the members of a multicast and the route of its packets; false where the ranges are none of this machine.
	Tree(plane wire.Plane, ranges wire.Ranges) (members []wire.FabricNodeID, r *Route, ok bool)
	// Room reports whether Launch may succeed for a packet on a route.
	Room(r *Route) bool
	// Launch gives a request or probe its route and sends it; false while there
	// is no room. Launch does not keep the payload.
	Launch(now mono.Time, r *Route, p wire.Packet) bool
	// Done tells the end of a request of the program inside the chip. It must not call the source.
	Done(r Result)
}

// Route is how packets get from this chip to another chip, or to the edge of
// this mesh on their way to another mesh. The chip makes routes from its
// tables. A source only asks whether a route exists and whether two are equal.
type Route struct {
	OK      bool           // a route exists
	Port    int            // index of the port by which packets leave; -1 for a multicast tree
	VC      wire.VC        // of the first hop
	Up      bool           // an up crossing between meshes remains, see wire.Packet
	Detour  bool           // the route leads round a fault
	First   wire.Direction // of the first hop
	TTL     uint16         // hops that a packet needs at least; 0: those of the tables' longest route
	Actions []byte         // of the routers behind this one, with room for those of other meshes
	Plane   wire.Plane     // of a multicast tree
}

// Same reports whether two routes are equal.
func (r *Route) Same(x *Route) bool {
	return r.OK == x.OK && r.Port == x.Port && r.VC == x.VC && r.Up == x.Up && r.Detour == x.Detour && slices.Equal(r.Actions, x.Actions)
}

// Key names a flow at one of its ends.
type Key struct {
	Node  wire.FabricNodeID // the chip at the other end; at the source of a multicast, the source itself
	Group uint16            // number of the multicast group at its source; 0: unicast
	Plane wire.Plane
	Other bool // the flow that takes the other route round rings, see [Request]
}
