package flow

import (
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Request is one NoC command for a chip, or for a group of chips.
type Request struct {
	Token   uint64 // the caller's name for the request; the Result carries the same token
	Dst     wire.FabricNodeID
	Plane   wire.Plane
	Probe   bool             // the destination does nothing but answer; Command and Payload are not used
	Command wire.Command     // the chip sets Size from Payload, except for a read
	Payload []byte           // at most wire.MaxPayload bytes; copied
	Trace   bool             // each chip on the route notes the packet; a multicast is not traced
	Via     []wire.Direction // the hops to take instead of the table's, at most wire.MaxHops; they may lead round to the chip itself
	Ranges  wire.Ranges      // with hops: a multicast to these chips. Dst is then not used; Via, Other and reads are refused
	Other   bool             // take the other route where two routes round a ring are equally long, see route.Plan.Other. That is a flow of its own; Via is refused
}

// Fate says how a request ended, and how sure that is.
type Fate uint8

// The fates of a request.
const (
	FateDone    Fate = iota // the destination performed the request
	FateRefused             // the request arrived and was not performed; Outcome says why
	FateLost                // the request is known not to have been performed: Drop and At say where a router dropped it, or the destination saw a gap
	FateUnknown             // the request may have been performed or not; Doubt says why
)

// String names the fate.
func (s Fate) String() string {
	return [...]string{"done", "refused", "lost", "outcome unknown"}[s]
}

// Doubt says why an outcome is unknown.
type Doubt uint8

// The reasons for doubt.
const (
	DoubtNone        Doubt = iota
	DoubtRestarted         // the destination does not know the flow: the destination restarted, or the first packets of the flow were lost
	DoubtRouteDead         // the route died while the request was under way
	DoubtTimeout           // no answer came for FlowTimeout
	DoubtUnreachable       // no route to the destination was left while the request was under way
	DoubtOlder             // the destination took the flow's epoch for a former one; the next epoch is accepted
	DoubtLate              // the destination has not seen the request; should the destination restart, the request may still arrive
	NumDoubts
)

// String names the doubt.
func (d Doubt) String() string {
	names := [NumDoubts]string{"", "destination restarted, or missed what came first", "route died", "no answer", "unreachable", "taken for a former life", "not seen"}
	if d >= NumDoubts {
		return "unknown reason"
	}
	return names[d]
}

// Result says what became of a request.
type Result struct {
	Token   uint64
	Dst     wire.FabricNodeID
	Fate    Fate
	Outcome wire.Outcome      // of FateRefused
	Drop    wire.DropReason   // of FateLost: why a router dropped the packet; 0 where the destination saw a gap
	At      wire.FabricNodeID // of FateLost with a Drop: the chip that dropped the packet
	Doubt   Doubt             // of FateUnknown
	Data    []byte            // of a read
	Err     error             // of a remote chip that could not be asked, or of FateRefused for a request that could not be started
	Members []MemberResult    // of a multicast: the members where the request was not done, by chip; Fate is the gravest of theirs
	Sent    mono.Time
	Done    mono.Time
}

// MemberResult says what became of a multicast at one of its members.
type MemberResult struct {
	Node    wire.FabricNodeID
	Fate    Fate
	Outcome wire.Outcome      // of FateRefused
	Drop    wire.DropReason   // of FateLost: why a router dropped the copy; 0 where the member saw a gap
	At      wire.FabricNodeID // of FateLost with a Drop: the chip that dropped the copy
	Doubt   Doubt             // of FateUnknown
}

// Admission says whether a request was taken.
type Admission uint8

// The answers to a request.
const (
	Accepted    Admission = iota
	Busy                  // there is no room now; try again after the next Pump
	NoSuchChip            // the destination is not in the fabric's tables
	NoSuchPlane           // no port of that plane leads to the destination
	Unreachable           // a port of that plane leads there, but the tables in force have no route around the faults
	TooLarge              // the payload or the read is longer than wire.MaxPayload
	BadVia                // Via is too long, uses a cable that does not exist, turns back, leaves the mesh, does not end at Dst, or comes with Other
	BadRanges             // the ranges cannot be multicast to; the chip's CheckMulticast says why
)
