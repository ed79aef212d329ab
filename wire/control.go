package wire

import (
	"encoding/binary"
	"errors"
)

// ErrControl is returned for a control message that is malformed.
var ErrControl = errors.New("control message: malformed")

// MaxExceptions is the number of exceptions that one completion carries.
const MaxExceptions = 64

// Outcome tells what became of a request at its destination.
type Outcome uint8

// The outcomes. All but OutcomeDone are exceptions.
const (
	OutcomeDone        Outcome = iota // the request was performed
	OutcomeBadAddress                 // there is no such tile, or the address is past the tile's memory; nothing was performed
	OutcomeMisaligned                 // the command's alignment rule is broken; nothing was performed
	OutcomeBadCommand                 // the chip has no such command; nothing was performed
	OutcomeAgain                      // the destination has no room for the request now, such as in its table of reads; not performed, try again
	OutcomeLost                       // the request did not arrive although later packets of the flow did
	OutcomeRestarted                  // the destination restarted and does not know the flow; nobody knows whether its earlier incarnation performed the request
	OutcomeOverflow                   // too many exceptions of the flow are open; not performed, try again
	OutcomeNoMemory                   // the destination has reached its limit of host memory; not performed
	OutcomeUnknownFlow                // the request arrived, but the destination has restarted since it answered in this flow epoch; not performed, try again
	NumOutcomes
)

// String names the outcome.
func (o Outcome) String() string {
	names := [NumOutcomes]string{"done", "bad address", "misaligned", "bad command", "again", "lost", "destination restarted", "too many exceptions", "out of memory", "flow unknown"}
	if o >= NumOutcomes {
		return "unknown outcome"
	}
	return names[o]
}

// Exception says that Count requests of a flow, from number First on, did not end as done.
type Exception struct {
	First   uint32
	Count   uint16 // at least 1
	Outcome Outcome
}

// Completion tells a source what became of the requests of its flow. Every request before Next is
// settled. The destination performed each of them unless an exception names it. A completion is
// cumulative: a later one replaces an earlier one.
type Completion struct {
	FlowEpoch  uint32
	Next       uint32
	Exceptions []Exception
}

const (
	completionHead = 12
	exceptionLen   = 8
)

// DecodeCompletion reads a completion, appending its exceptions to buf. The error is [ErrControl].
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

// Append appends the completion. Append panics if the caller passes more than [MaxExceptions]
// exceptions.
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

// The reasons to drop.
const (
	DropNextHopDead DropReason = iota + 1 // the link to the next hop was down for the grace period
	DropTTL                               // the time to live is used up (Spec §7.2)
	DropNoRoute                           // the route names no port of this chip
	DropMalformed                         // the bytes are not a valid packet
	DropTimeout                           // the head of the packet's channel could not move for the time of the timeout (Spec §7.3)
	DropUnreachable                       // no route to the packet's destination is left
	DropTables                            // the packet was routed by tables that were replaced; the old and the new tables together could close a cycle
	DropDrained                           // the packet was to leave by a port that drains
	DropFlushed                           // the packet waited at a port that was flushed
	NumDropReasons
)

// String names the reason.
func (r DropReason) String() string {
	names := [NumDropReasons]string{"", "next hop dead", "TTL expired", "no route", "malformed", "timeout", "unreachable", "tables replaced", "drained", "flushed"}
	if r == 0 || r >= NumDropReasons {
		return "unknown reason"
	}
	return names[r]
}

// DropReport tells a source that one of its packets was dropped on the way.
type DropReport struct {
	Dst       FabricNodeID // where the packet was going
	Plane     Plane
	Other     bool // the packet had the mark Other of [Packet]
	FlowEpoch uint32
	FlowSeq   uint32
	Reason    DropReason
	Channel   Channel // the port of the reporting chip that the packet should have left by
	ID        uint64  // id of the request
	Type      PacketType

	// Set for a multicast: the router dropped a copy. The members that lay ahead of that copy did
	// not get the packet.
	Group  uint16    // 0: unicast
	Dir    Direction // direction in which the copy should have left the reporting chip
	Trunk  Trunk
	Ranges Ranges // ranges of the copy
}

// Lengths of a drop report, in bytes: for a unicast packet, and for a copy of a multicast.
const (
	DropReportLen      = 24
	GroupDropReportLen = DropReportLen + 4 + rangesLen
)

// Bits in the type byte of a report. One bit says that the report has a group, the other bit that
// the packet had the mark Other of [Packet]. At most one of the two bits is set.
const (
	groupReport = 0x80
	otherReport = 0x40
)

// DecodeDropReport reads a drop report. The error is [ErrControl].
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

// Append appends the report: [DropReportLen] bytes, or [GroupDropReportLen] bytes if the report has
// a group.
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
