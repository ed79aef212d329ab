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
	Trace   bool             // each chip that the packet comes to records the packet; chips do not record multicasts
	Via     []wire.Direction // hops to take instead of the routing table's, at most wire.MaxHops; the hops may lead back to the sending chip itself
	Ranges  wire.Ranges      // if the ranges have hops: the request is a multicast to the chips in the ranges; Dst is not used, and the chip refuses Via, Other and reads
	Other   bool             // take the other route if two routes round a ring are equally long, see route.Plan.Other; requests with Other form a flow of their own, and the chip refuses Other with Via
}

// Fate says how a request ended, as far as the source can know.
type Fate uint8

// The fates of a request.
const (
	FateDone    Fate = iota // the destination performed the request
	FateRefused             // the request arrived, but the destination did not perform the request; Outcome says why
	FateLost                // the destination certainly did not perform the request; Drop and At say why and where a router dropped the packet; Drop is 0 if the destination saw a gap
	FateUnknown             // nobody knows whether the destination performed the request; Doubt says why
)

// String returns the name of the fate.
func (s Fate) String() string {
	return [...]string{"done", "refused", "lost", "outcome unknown"}[s]
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
	DoubtLate              // the request has not arrived; it may still arrive if the destination restarts, and be performed then
	NumDoubts
)

// String returns the reason in words.
func (d Doubt) String() string {
	names := [NumDoubts]string{"", "destination restarted, or missed the first packets", "route died", "no answer", "unreachable", "taken for a former incarnation", "not seen"}
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
	Drop    wire.DropReason   // for FateLost: why a router dropped the packet; 0 if the destination saw a gap
	At      wire.FabricNodeID // for FateLost with a Drop: the chip that dropped the packet
	Doubt   Doubt             // for FateUnknown: why nobody knows the outcome
	Data    []byte            // data that a read returned
	Err     error             // for FateRefused: why the request could not start; for other fates: why a remote chip could not be reached
	Members []MemberResult    // for a multicast: members where the request did not end as FateDone, in the order of the chips; Fate is the gravest fate of these members
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

// The answers to a request.
const (
	Accepted    Admission = iota
	Busy                  // the chip has no room for the request now; try again after a later Pump
	NoSuchChip            // the destination is not in the fabric's tables
	NoSuchPlane           // even without faults, no route on the request's plane leads to the destination
	Unreachable           // without faults, a route on the request's plane leads to the destination, but the tables in force have no route around the faults
	TooLarge              // the payload or the read is longer than wire.MaxPayload
	BadVia                // Via is too long, uses a cable that does not exist, turns back, leaves the mesh, does not end at Dst, or is used together with Other
	BadRanges             // the chip cannot send a multicast to these ranges; the chip's CheckMulticast says why
)
