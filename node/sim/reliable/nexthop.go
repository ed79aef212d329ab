package reliable

import "ttfabric/router/reliable/nexthop"

// The rule of routing is in package nexthop, which the engine for packets shares.
type (
	Mesh    = nexthop.Mesh    // size of the mesh
	Place   = nexthop.Place   // node of the mesh
	Dirs    = nexthop.Dirs    // set of directions
	Rule    = nexthop.Rule    // fault-handling computation
	Problem = nexthop.Problem // routing problem of a packet at a node
	Hop     = nexthop.Hop     // next hop
	Failure = nexthop.Failure // one faulty link or node
)

// Classes of channels (RR §4).
const (
	ClassAdaptive = nexthop.ClassAdaptive
	ClassOrdered  = nexthop.ClassOrdered
	ClassFault    = nexthop.ClassFault
)
