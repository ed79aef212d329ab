package flow

import (
	"slices"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Network is what a [Source] needs from its chip: routes, room for packets, and access to
// the program inside the chip.
type Network interface {
	// Route returns the route by which requests of a unicast flow leave the chip now.
	// The route follows the hops of via. If via is empty, the route follows the tables
	// in force.
	Route(to Key, via []wire.Direction) *Route
	// Reachable reports whether the tables of the fabric without faults have a route to
	// the flow's destination.
	Reachable(to Key) bool
	// Late reports whether the flow's destination would have a route if the silent cables worked. A
	// silent cable is perhaps only late: the chip at its other end may wait for a processor. For a
	// multicast, Node is a member.
	Late(to Key) bool
	// Crosses reports whether packets on a route of a flow may wait at a silent cable, and whether
	// the route crosses a cable that is out of service.
	Crosses(to Key, r *Route) (silent, dead bool)
	// The first result of Answers says whether any cable is silent, so that answers of a flow
	// perhaps wait for a late chip. If the answers' route without faults crosses a cable that is
	// out of service, the second result is the instant at which the set of cables out of service
	// last changed. Otherwise the second result is 0.
	Answers(to Key) (silent bool, dead mono.Time)
	// Tree returns the members of a multicast and the route of the multicast's packets by the
	// tables in force. Tree returns false if the fabric without faults has no such tree.
	Tree(t Tree) (members []wire.FabricNodeID, r *Route, ok bool)
	// Room returns false if Launch has no room for a packet on a route. If Room returns
	// true, Launch may still return false.
	Room(r *Route) bool
	// Launch gives a request or probe its route and sends the packet. Launch returns
	// false while there is no room. Launch does not keep the payload.
	Launch(now mono.Time, r *Route, p wire.Packet) bool
	// Done tells an owner inside the chip how one of its requests ended. Done must not call the
	// source.
	Done(by Owner, r Result)
}

// Owner names the part that made a request, and that gets the request's result.
type Owner uint8

// The owners.
const (
	Outside Owner = iota // whoever calls [Source.PollResult]
	Program              // the program inside the chip
	Kernel               // a kernel on a tile of the chip
)

// Route is the route of packets from this chip to another chip. For packets to another mesh, Route
// leads to an exit node of this mesh and over the cable to the next mesh. Beyond names the rest of
// the route. The chip computes each Route from its tables. A source only asks whether a Route
// exists, and whether two Routes are equal.
type Route struct {
	OK      bool           // a route exists
	Port    int            // index of the port by which packets leave; -1 for a multicast tree that begins at this chip
	VC      wire.VC        // virtual channel of the first hop
	Up      bool           // the packet still has to cross towards the root of the tree of meshes, see wire.Packet
	Detour  bool           // the route leads round a fault
	First   wire.Direction // direction of the first hop
	TTL     uint16         // least TTL of a packet, in hops; 0: the hops of the tables' longest route
	Actions []byte         // one route byte for each later router, with room for the route bytes of other meshes
	Plane   wire.Plane     // plane of a multicast tree
	Beyond  []wire.PortID  // for requests to another mesh: ports by which the route, or the tree to members, leaves the chips of other meshes
}

// Same reports whether two routes are equal, also through other meshes. Same does not compare TTL
// and Plane.
func (r *Route) Same(x *Route) bool {
	return r.OK == x.OK && r.Port == x.Port && r.VC == x.VC && r.Up == x.Up && r.Detour == x.Detour && slices.Equal(r.Actions, x.Actions) && slices.Equal(r.Beyond, x.Beyond)
}

// Key identifies a flow at one of the flow's two ends.
type Key struct {
	Node  wire.FabricNodeID // chip at the other end; in a multicast flow at its source, the source itself; in an answer to a multicast, the member that answers
	Group uint16            // number of the multicast group at its source; 0: unicast
	Plane wire.Plane
	Other bool // true: the flow takes the other route round rings, see [Request]
}
