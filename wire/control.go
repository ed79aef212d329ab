package wire

import (
	"encoding/binary"
	"errors"
)

// ErrControl is the error for a malformed completion, drop report or link state message.
var ErrControl = errors.New("control message: malformed")

// MaxExceptions is the largest number of exceptions in one completion.
const MaxExceptions = 64

// Outcome says how a request ended at its destination.
type Outcome uint8

// The outcomes. A completion reports every outcome except OutcomeDone as an exception.
const (
	OutcomeDone        Outcome = iota // the destination performed the request
	OutcomeBadAddress                 // the address names no tile with memory, or a byte past the end of the tile's memory; request not performed
	OutcomeMisaligned                 // the command's address is not aligned as the command requires; request not performed
	OutcomeBadCommand                 // the chip cannot perform the command; request not performed
	OutcomeAgain                      // the destination has no room or no route for the reply of a read; request not performed, the source may try again
	OutcomeLost                       // the request did not arrive before later packets of the flow, or arrived when the destination kept too many exceptions; request not performed
	OutcomeRestarted                  // the destination has restarted; nobody knows whether the destination's earlier incarnation performed the request
	OutcomeOverflow                   // the destination keeps too many exceptions of the flow; request not performed, the source may try again
	OutcomeNoMemory                   // the destination has reached its limit of host memory; request not performed
	OutcomeUnknownFlow                // the destination has restarted since it answered in this flow epoch; request not performed, the source may try again in a new flow epoch
	NumOutcomes
)

// String returns the name of the outcome, such as "bad address".
func (o Outcome) String() string {
	names := [NumOutcomes]string{"done", "bad address", "misaligned", "bad command", "again", "lost", "destination restarted", "too many exceptions", "out of memory", "flow unknown"}
	if o >= NumOutcomes {
		return "unknown outcome"
	}
	return names[o]
}

// Exception reports consecutive requests of a flow that ended with the same outcome, which is not
// OutcomeDone.
type Exception struct {
	First   uint32 // flow seq of the first of these requests
	Count   uint16 // number of requests, at least 1
	Outcome Outcome
}

// Completion tells a source how the requests of a flow ended. The completion settles every request
// with a flow seq before Next. The destination has performed all these requests, except those in
// Exceptions. A later completion replaces all earlier completions of the flow.
type Completion struct {
	FlowEpoch  uint32
	Next       uint32
	Exceptions []Exception
}

const (
	completionHead = 12
	exceptionLen   = 8
)

// DecodeCompletion decodes a completion from b. DecodeCompletion appends the exceptions to buf, and
// uses the extended buf as the result's Exceptions. The error is [ErrControl].
func DecodeCompletion(b []byte, buf []Exception) (Completion, error) {
	le := binary.LittleEndian
	if len(b) < completionHead {
		return Completion{}, ErrControl
	}
	n := int(le.Uint32(b[8:]))
	if n > MaxExceptions || len(b) != completionHead+n*exceptionLen {
		return Completion{}, ErrControl
	}
	c := Completion{FlowEpoch: le.Uint32(b), Next: le.Uint32(b[4:]), Exceptions: buf}
	for o := completionHead; o < len(b); o += exceptionLen {
		e := Exception{le.Uint32(b[o:]), le.Uint16(b[o+4:]), Outcome(b[o+6])}
		if e.Count == 0 || e.Outcome == OutcomeDone || e.Outcome >= NumOutcomes || b[o+7] != 0 {
			return Completion{}, ErrControl
		}
		c.Exceptions = append(c.Exceptions, e)
	}
	return c, nil
}

// Append appends the encoded completion to b. Append panics if the completion has more than
// [MaxExceptions] exceptions.
func (c *Completion) Append(b []byte) []byte {
	if len(c.Exceptions) > MaxExceptions {
		panic("wire: too many exceptions in a completion")
	}
	le := binary.LittleEndian
	b = le.AppendUint32(b, c.FlowEpoch)
	b = le.AppendUint32(b, c.Next)
	b = le.AppendUint32(b, uint32(len(c.Exceptions)))
	for _, e := range c.Exceptions {
		b = le.AppendUint32(b, e.First)
		b = le.AppendUint16(b, e.Count)
		b = append(b, byte(e.Outcome), 0)
	}
	return b
}

// DropReason says why a router dropped a packet.
type DropReason uint8

// The reasons for dropping a packet.
const (
	DropNextHopDead DropReason = iota + 1 // the link to the next hop was down for longer than the grace period
	DropTTL                               // the packet's TTL was 0 (Spec §7.2)
	DropNoRoute                           // the packet's route names no port of the chip
	DropMalformed                         // the bytes are not a valid packet
	DropTimeout                           // the packet's receiver channel or sender channel made no progress for the whole timeout (Spec §7.3)
	DropUnreachable                       // the tables have no route to the packet's destination
	DropTables                            // the packet's route comes from replaced tables; the routes of the old and the new tables together could close a cycle
	DropDrained                           // the packet's route leaves by a draining port
	DropFlushed                           // the packet waited at a port when an operator flushed the port
	NumDropReasons
)

// String returns the name of the reason, such as "next hop dead".
func (r DropReason) String() string {
	names := [NumDropReasons]string{"", "next hop dead", "TTL expired", "no route", "malformed", "timeout", "unreachable", "tables replaced", "drained", "flushed"}
	if r == 0 || r >= NumDropReasons {
		return "unknown reason"
	}
	return names[r]
}

// DropReport tells a source that a router has dropped a packet of the source.
type DropReport struct {
	Dst       FabricNodeID // destination of the dropped packet
	Plane     Plane
	Other     bool // the field Other of the dropped [Packet]
	FlowEpoch uint32
	FlowSeq   uint32
	Reason    DropReason
	Channel   Channel // channel of the reporting chip's port at which the packet waited: it came in by this port, or should have left by this port
	ID        uint64  // id of the dropped request or probe
	Type      PacketType

	// The following fields are set if the router has dropped one copy of a multicast. The members
	// that this copy would have reached do not get the packet.
	Group  uint16    // number of the group; 0: unicast
	Dir    Direction // side of the reporting chip by which the copy should have left
	Trunk  Trunk
	Ranges Ranges // ranges of the copy
}

// Lengths of an encoded drop report, in bytes. DropReportLen is for a unicast packet, and
// GroupDropReportLen for a copy of a multicast.
const (
	DropReportLen      = 24
	GroupDropReportLen = DropReportLen + 4 + rangesLen
)

// Bits in the type byte of a drop report. groupReport says that the report has a group. otherReport
// is the field Other of the dropped [Packet]. At most one of the two bits is set.
const (
	groupReport = 0x80
	otherReport = 0x40
)

// DecodeDropReport decodes a drop report from b. The error is [ErrControl].
func DecodeDropReport(b []byte) (DropReport, error) {
	le := binary.LittleEndian
	if len(b) != DropReportLen && len(b) != GroupDropReportLen {
		return DropReport{}, ErrControl
	}
	r := DropReport{
		Dst:       FabricNodeID{MeshID(le.Uint16(b)), ChipID(le.Uint16(b[2:]))},
		FlowEpoch: le.Uint32(b[4:]),
		FlowSeq:   le.Uint32(b[8:]),
		Plane:     Plane(b[12]),
		Reason:    DropReason(b[13]),
		Channel:   Channel(b[14]),
		Type:      PacketType(b[15] &^ (groupReport | otherReport)),
		Other:     b[15]&otherReport != 0,
		ID:        le.Uint64(b[16:]),
	}
	if !r.Dst.Valid() || r.Reason == 0 || r.Reason >= NumDropReasons || r.Channel >= MaxChannels || r.Plane > 15 || r.Type < PacketRequest || r.Type > PacketProbe {
		return DropReport{}, ErrControl
	}
	if (len(b) == GroupDropReportLen) != (b[15]&groupReport != 0) || r.Other && len(b) == GroupDropReportLen {
		return DropReport{}, ErrControl
	}
	if len(b) == DropReportLen {
		return r, nil
	}
	r.Group, r.Dir, r.Trunk, r.Ranges = le.Uint16(b[24:]), Direction(b[26]), Trunk(b[27]), getRanges(b[28:])
	if r.Group == 0 || r.Dir >= NumDirections || r.Trunk != TrunkX && r.Trunk != TrunkY {
		return DropReport{}, ErrControl
	}
	return r, nil
}

// Append appends the encoded drop report to b. The report takes [DropReportLen] bytes, or
// [GroupDropReportLen] bytes if it has a group.
func (r *DropReport) Append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint16(b, uint16(r.Dst.Mesh))
	b = le.AppendUint16(b, uint16(r.Dst.Chip))
	b = le.AppendUint32(b, r.FlowEpoch)
	b = le.AppendUint32(b, r.FlowSeq)
	b = append(b, byte(r.Plane), byte(r.Reason), byte(r.Channel), byte(r.Type)|byte(bit(r.Other)*otherReport))
	b = le.AppendUint64(b, r.ID)
	if r.Group != 0 {
		b[len(b)-DropReportLen+15] |= groupReport
		b = le.AppendUint16(b, r.Group)
		b = append(b, byte(r.Dir), byte(r.Trunk))
		b = append(b, make([]byte, rangesLen)...)
		r.Ranges.put(b[len(b)-rangesLen:])
	}
	return b
}
