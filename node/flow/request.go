package flow

import (
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Request is one NoC command for a chip, or for a group of chips.
type Request struct {
	Token   uint64 // number that the caller gives the request; the Result carries the same Token
	Dst     wire.FabricNodeID
	Plane   wire.Plane
	Probe   bool             // the destination only answers; Command and Payload are not used
	Command wire.Command     // the chip sets Size from Payload, except for a read
	Payload []byte           // data of at most wire.MaxPayload bytes, which the source copies
	Into    []byte           // memory for the data of a read that a chip sends to itself without Via, if the data fit; the chip uses the memory only while it handles the request; no effect on other requests
	Trace   bool             // each chip that the packet comes to records the packet; chips do not record multicasts
	Via     []wire.Direction // hops to take instead of the routing table's, at most wire.MaxHops; the hops may lead back to the sending chip itself
	Ranges  wire.Ranges      // if the ranges have hops, the request is a multicast to the chips in the ranges; the chip does not use Dst, and refuses Via, Other, Members and reads
	Members wire.Members     // if the set is not empty, the request is a multicast to these chips of mesh Dst.Mesh; the chip refuses Via, Other, Ranges and reads
	Other   bool             // take the other route if two routes round a ring are equally long, see route.Plan.Other; requests with Other form a flow of their own, and the chip refuses Other with Via
	Flush   bool             // for a probe: the result says how many posted requests of the flow were missed, see Missed of [Result]; no effect on other requests
	Posted  bool             // the request ends as FatePosted when the chip has sent it, see the package documentation; the chip refuses Posted for reads and probes
}

// Many reports whether the request is a multicast.
func (r *Request) Many() bool { return r.Ranges.Any() || r.Members.Any() }

// Unreachable returns the result of a request that chip "at" did not send, because no route leads
// to the destination, or to the mesh of the members.
func (r *Request) Unreachable(at wire.FabricNodeID, now mono.Time) Result {
	res := Result{Token: r.Token, Dst: r.Dst, Fate: FateLost, Drop: wire.DropUnreachable, At: at, Sent: now, Done: now}
	for c := range r.Members.All() {
		res.Members = append(res.Members, MemberResult{Node: wire.FabricNodeID{Mesh: r.Dst.Mesh, Chip: c}, Fate: FateLost, Drop: res.Drop, At: at})
	}
	return res
}

// Tree names the chips that a multicast is for: the chips within ranges, or a set of chips of one
// mesh. Two multicasts of a chip belong to one group if their Trees are equal.
type Tree struct {
	Plane   wire.Plane
	Ranges  wire.Ranges
	Members wire.Members
	Mesh    wire.MeshID // mesh of Members; 0 if there are no Members
}

// Tree returns the tree of a multicast.
func (r *Request) Tree() Tree {
	t := Tree{Plane: r.Plane, Ranges: r.Ranges, Members: r.Members}
	if r.Members.Any() {
		t.Mesh = r.Dst.Mesh
	}
	return t
}

// Fate says how a request ended, as far as the source can know.
type Fate uint8

// The fates of a request.
const (
	FateDone    Fate = iota // the destination performed the request
	FateRefused             // the request arrived, but the destination did not perform the request; Outcome says why
	FateLost                // the destination certainly did not perform the request; Drop and At say why and where a router dropped the packet; Drop is 0 if the destination saw a gap
	FateUnknown             // nobody knows whether the destination performed the request, or the destination performed a read but its data is lost; Doubt says why
	FatePosted              // the chip has sent a posted request; a later flush of the flow says how many posted requests were missed
)

// knownFates is the number of fates with which a flow settles requests. FatePosted is not one of
// these fates.
const knownFates = int(FatePosted)

// String returns the name of the fate.
func (s Fate) String() string {
	return [...]string{"done", "refused", "lost", "outcome unknown", "posted"}[s]
}

// Doubt says why an outcome is unknown.
type Doubt uint8

// The reasons for doubt.
const (
	DoubtNone        Doubt = iota
	DoubtRestarted         // the destination does not know the flow, because the destination restarted or the first packets of the flow were lost
	DoubtRouteDead         // the route died while the request was under way
	DoubtTimeout           // no answer came for FlowTimeout
	DoubtUnreachable       // the last route to the destination died while the request was under way
	DoubtOlder             // the destination took the flow's epoch for a former epoch; the destination accepts the next epoch
	DoubtLate              // the request has not arrived; if the destination restarts, the request may still arrive and be performed
	DoubtData              // the destination performed the read, but the data did not come: a router dropped the data, which Drop and At describe, or the data of a later read came first
	DoubtHost              // the request is for host memory, and the host has gone or has not answered in time
	NumDoubts
)

// String returns the reason in words.
func (d Doubt) String() string {
	names := [NumDoubts]string{"", "destination restarted, or missed the first packets", "route died", "no answer", "unreachable", "taken for a former incarnation", "not seen", "data lost", "host gone"}
	if d >= NumDoubts {
		return "unknown reason"
	}
	return names[d]
}

// Result says how a request ended.
type Result struct {
	Token   uint64
	Dst     wire.FabricNodeID
	Fate    Fate
	Outcome wire.Outcome      // for FateRefused: why the destination refused the request
	Drop    wire.DropReason   // for FateLost and DoubtData: why a router dropped the packet or the read's data; 0 if no router reported a drop
	At      wire.FabricNodeID // with a Drop: the chip that dropped the packet or the data
	Doubt   Doubt             // for FateUnknown: why nobody knows the outcome, or why a read has no data
	Data    []byte            // data that a read returned
	Err     error             // for a request over a connection to the chip: why the chip did not accept the request (FateRefused), or why the connection gave no result (FateUnknown)
	Members []MemberResult    // for a multicast: members where the request did not end as FateDone, in the order of the chips; Fate is the gravest fate of these members
	Missed  uint64            // for a probe with Flush that ended as FateDone: number of earlier posted requests of the flow, since the last such probe, that did not end as FateDone
	Sent    mono.Time
	Done    mono.Time
}

// MemberResult says how a multicast ended at one of its members.
type MemberResult struct {
	Node    wire.FabricNodeID
	Fate    Fate
	Outcome wire.Outcome      // for FateRefused: why the destination refused the request
	Drop    wire.DropReason   // for FateLost: why a router dropped the copy; 0 if the member saw a gap
	At      wire.FabricNodeID // for FateLost with a Drop: the chip that dropped the copy
	Doubt   Doubt             // for FateUnknown: why nobody knows the outcome
}

// Admission says whether the chip accepted a request, or why not.
type Admission uint8

// The admissions.
const (
	Accepted    Admission = iota
	Busy                  // the chip has no room for the request now; try again after a later Pump
	NoSuchChip            // the destination is not in the fabric's tables
	NoSuchPlane           // even without faults, no route on the request's plane leads to the destination
	Unreachable           // without faults, a route on the request's plane leads to the destination, but the tables in force have no route around the faults
	TooLarge              // the payload or the read is longer than wire.MaxPayload
	BadVia                // Via is too long, uses a cable that does not exist, turns back, leaves the mesh, does not end at Dst, or is used together with Other
	BadRanges             // the chip cannot send a multicast to these ranges or members; the chip's CheckMulticast says why
	BadPosted             // reads and probes cannot be posted, because they need an answer
)

// String returns the answer in words.
func (a Admission) String() string {
	names := [...]string{"accepted", "no room now", "no such chip", "no route on this plane", "unreachable", "longer than a packet", "bad hops", "bad ranges or members", "a read or probe cannot be posted"}
	if int(a) >= len(names) {
		return "unknown answer"
	}
	return names[a]
}
