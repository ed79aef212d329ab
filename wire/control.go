package wire

import (
	"encoding/binary"
	"errors"
	"iter"
)

// ErrControl is the error for a control packet whose completion, drop report or link state is
// malformed.
var ErrControl = errors.New("control packet: malformed payload")

// MaxExceptions is the largest number of exceptions in one completion. A control packet has no room
// for more.
const MaxExceptions = (MaxControlData - completionHead) / exceptionLen

// Outcome says how a request ended at its destination.
type Outcome uint8

// The outcomes. A completion reports every outcome except OutcomeDone as an exception.
//
// The destination keeps a list of exceptions for each flow. While the list is almost full, the
// destination performs no request of the flow. While the list still has room for at least two more
// exceptions, the requests that arrive get OutcomeOverflow, until a request is missing. From then
// on, or if the list has room for only one more exception, all requests get OutcomeLost, even if
// they arrive. One exception must then cover all these requests.
const (
	OutcomeDone         Outcome = iota // the destination performed the request
	OutcomeBadAddress                  // the address names no tile with memory, or a byte past the end of the tile's memory; request not performed
	OutcomeMisaligned                  // the command's address is not aligned as the command requires; request not performed
	OutcomeBadCommand                  // the chip cannot perform the command; request not performed
	OutcomeAgain                       // the destination has no room or no route for the reply of a read; request not performed, the source may try again
	OutcomeLost                        // later packets of the flow arrived before the request, or the list of exceptions is almost full (see above); request not performed
	OutcomeRestarted                   // the destination has restarted; nobody knows whether the destination's earlier incarnation performed the request
	OutcomeOverflow                    // the request arrived, but the list of exceptions is almost full (see above); request not performed, the source may try again
	OutcomeNoMemory                    // the destination has reached its limit of host memory; request not performed
	OutcomeUnknownFlow                 // the destination has restarted since it answered in this flow epoch; request not performed, the source may try again in a new flow epoch
	OutcomeHarvested                   // the address is in the memory of a Tensix tile that is switched off (harvested); request not performed
	OutcomeUntranslated                // the address has translated coordinates, and the chip translates none; request not performed
	OutcomeNoHost                      // the address is in host memory, and no host lets the chip use its memory; request not performed
	OutcomeHostGone                    // the address is in host memory, and the host has gone or has not answered in time; nobody knows whether the host performed the request
	NumOutcomes
)

// String returns the name of the outcome, such as "bad address".
func (o Outcome) String() string {
	names := [NumOutcomes]string{"done", "bad address", "misaligned", "bad command", "again", "lost", "destination restarted", "too many exceptions", "out of memory", "flow unknown", "harvested tile", "untranslated coordinates", "no host memory", "host gone"}
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

// Completion tells a source how the requests of a flow ended. The completion covers every request
// with a flow seq from First to Next - 1. The destination has performed all these requests, except
// the requests in Exceptions. If the source does not know yet how a request before First ended, an
// earlier completion is missing. The source then ignores the completion.
type Completion struct {
	FlowEpoch  uint32
	First      uint32
	Next       uint32
	Exceptions []Exception
}

const (
	completionHead = 16
	exceptionLen   = 8
)

// DecodeCompletion decodes a completion from b. DecodeCompletion appends the exceptions to buf, and
// uses the extended buf as the result's Exceptions. The error is [ErrControl].
func DecodeCompletion(b []byte, buf []Exception) (Completion, error) {
	le := binary.LittleEndian
	if len(b) < completionHead {
		return Completion{}, ErrControl
	}
	n := int(le.Uint32(b[12:]))
	if n > MaxExceptions || len(b) != completionHead+n*exceptionLen {
		return Completion{}, ErrControl
	}
	c := Completion{FlowEpoch: le.Uint32(b), First: le.Uint32(b[4:]), Next: le.Uint32(b[8:]), Exceptions: buf}
	if int32(c.Next-c.First) < 0 {
		return Completion{}, ErrControl
	}
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
		panic("wire: a completion has more than MaxExceptions exceptions")
	}
	le := binary.LittleEndian
	b = le.AppendUint32(b, c.FlowEpoch)
	b = le.AppendUint32(b, c.First)
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
	DropNextHopDead DropReason = iota + 1 // the port to the next hop was out of service for the whole grace period, or the link to the next hop died with the packet in it (see Open of DropReport)
	DropTTL                               // the packet's TTL was 0 (Spec §7.2)
	DropNoRoute                           // the packet's route names no port of the chip
	DropMalformed                         // the bytes are not a valid packet
	DropTimeout                           // the packet's receiver channel or sender channel made no progress for the whole timeout (Spec §7.3)
	DropUnreachable                       // the tables have no route to the packet's destination
	DropTables                            // the packet is outdated: its route comes from replaced tables, and could close a cycle with routes of the new tables; the router dropped the packet, because it had no room to park it
	DropDrained                           // the packet's route leaves by a port that an operator drains
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

// DropReport tells a chip that a router has dropped a request or probe of the chip, or the reply to
// a read of the chip.
type DropReport struct {
	Dst       FabricNodeID // destination of the dropped request or probe; for a reply, the reply's source
	Plane     Plane
	Other     bool // the field Other of the dropped [Packet]
	FlowEpoch uint32
	FlowSeq   uint32
	Reason    DropReason
	Channel   Channel // channel of the reporting chip's port at which the packet waited: the port by which the packet came in, or should have left
	ID        uint64  // id of the dropped request or probe; for a reply, id of the read
	Type      PacketType
	Open      bool // the packet was in the link of the port Channel when the link died, and nobody knows whether the packet arrived; false: the packet was dropped

	// The following fields are set if the router has dropped a copy of a multicast. The members
	// that this copy would have reached do not get the packet.
	Group   uint16    // number of the group; 0: unicast
	Dir     Direction // side of the reporting chip by which the copy should have left; 0 if Members is not empty
	Trunk   Trunk     // the copy's trunk; 0: the packet had not entered the members' mesh yet
	Ranges  Ranges    // ranges of the copy; empty if Members is not empty
	Members Members   // members that the copy would have reached, in mesh Dst.Mesh; empty: the multicast has ranges instead of members
}

// Lengths of an encoded drop report, in bytes. A report with members has room for half of the
// members that a mesh can have; see [DropReport.Parts].
const (
	DropReportLen        = 24                               // report of a unicast packet
	GroupDropReportLen   = DropReportLen + 4 + rangesLen    // report of a copy of a multicast with ranges
	MembersDropReportLen = DropReportLen + 4 + membersLen/2 // report of a copy of a multicast with members
)

// halfWords is the number of words in one half of a [Members].
const halfWords = len(Members{}) / 2

// Parts yields drop reports that together say the same as r. [DropReport.Append] can encode each of
// them. The ids of a mesh's chips have two halves: below [MaxChipsPerMesh]/2, and the others. If r
// has members in both halves, Parts yields two reports, one for each half. Otherwise, Parts yields
// r itself.
func (r *DropReport) Parts() iter.Seq[DropReport] {
	return func(yield func(DropReport) bool) {
		low, high := *r, *r
		clear(low.Members[halfWords:])
		clear(high.Members[:halfWords])
		if !low.Members.Any() || !high.Members.Any() {
			yield(*r)
		} else if yield(low) {
			yield(high)
		}
	}
}

// Bits in the type byte of a drop report.
const (
	groupReport   = 0x80 // the report has a group
	otherReport   = 0x40 // the field Other is true; a report with a group never has this bit
	membersReport = 0x20 // the report has members; a report with this bit also has the bit groupReport
	openReport    = 0x10 // the field Open is true
)

// DecodeDropReport decodes a drop report from b. The error is [ErrControl].
func DecodeDropReport(b []byte) (DropReport, error) {
	le := binary.LittleEndian
	if len(b) < DropReportLen {
		return DropReport{}, ErrControl
	}
	r := DropReport{
		Dst:       FabricNodeID{MeshID(le.Uint16(b)), ChipID(le.Uint16(b[2:]))},
		FlowEpoch: le.Uint32(b[4:]),
		FlowSeq:   le.Uint32(b[8:]),
		Plane:     Plane(b[12]),
		Reason:    DropReason(b[13]),
		Channel:   Channel(b[14]),
		Type:      PacketType(b[15] &^ (groupReport | otherReport | membersReport | openReport)),
		Open:      b[15]&openReport != 0,
		Other:     b[15]&otherReport != 0,
		ID:        le.Uint64(b[16:]),
	}
	if !r.Dst.Valid() || r.Reason == 0 || r.Reason >= NumDropReasons || r.Channel >= MaxChannels || r.Plane > 15 || r.Type < PacketRequest || r.Type > PacketProbe {
		return DropReport{}, ErrControl
	}
	if !r.decodeGroup(b[15]&(groupReport|otherReport|membersReport), b[DropReportLen:]) {
		return DropReport{}, ErrControl
	}
	return r, nil
}

// decodeGroup reads the part b of a drop report, which only reports of multicasts have. The
// parameter "kind" has the bits of the report's type byte, without openReport. If b is malformed or
// does not match these bits, decodeGroup returns false.
func (r *DropReport) decodeGroup(kind byte, b []byte) bool {
	want := 0
	switch kind {
	case 0, otherReport:
		return len(b) == 0
	case groupReport:
		want = GroupDropReportLen - DropReportLen
	case groupReport | membersReport:
		want = MembersDropReportLen - DropReportLen
	}
	if want == 0 || len(b) != want {
		return false
	}
	le := binary.LittleEndian
	r.Group, r.Trunk = le.Uint16(b), Trunk(b[3])
	if kind&membersReport != 0 {
		half := int(b[2])
		if half > 1 {
			return false
		}
		for i := range halfWords {
			r.Members[half*halfWords+i] = le.Uint64(b[4+8*i:])
		}
		return r.Group != 0 && r.Trunk <= TrunkY && r.Members.Any()
	}
	r.Dir, r.Ranges = Direction(b[2]), getRanges(b[4:])
	return r.Group != 0 && r.Dir < NumDirections && (r.Trunk == TrunkX || r.Trunk == TrunkY)
}

// Append appends the encoded drop report to b. A report of a unicast packet has [DropReportLen]
// bytes. A report with members has [MembersDropReportLen] bytes, and any other report has
// [GroupDropReportLen] bytes. If the report has members in both halves of the ids, Append panics;
// see [DropReport.Parts].
func (r *DropReport) Append(b []byte) []byte {
	le := binary.LittleEndian
	kind := byte(r.Type) | byte(bit(r.Other)*otherReport|bit(r.Group != 0)*groupReport|bit(r.Members.Any())*membersReport|bit(r.Open)*openReport)
	b = le.AppendUint16(b, uint16(r.Dst.Mesh))
	b = le.AppendUint16(b, uint16(r.Dst.Chip))
	b = le.AppendUint32(b, r.FlowEpoch)
	b = le.AppendUint32(b, r.FlowSeq)
	b = append(b, byte(r.Plane), byte(r.Reason), byte(r.Channel), kind)
	b = le.AppendUint64(b, r.ID)
	if r.Group == 0 {
		return b
	}
	b = le.AppendUint16(b, r.Group)
	if r.Members.Any() {
		low, high := r.Members[:halfWords], r.Members[halfWords:]
		half, words := 0, low
		if low[0]|low[1] == 0 {
			half, words = 1, high
		} else if high[0]|high[1] != 0 {
			panic("wire: a drop report has members in both halves of the chip ids")
		}
		b = append(b, byte(half), byte(r.Trunk))
		for _, w := range words {
			b = le.AppendUint64(b, w)
		}
		return b
	}
	b = append(b, byte(r.Dir), byte(r.Trunk))
	b = append(b, make([]byte, rangesLen)...)
	r.Ranges.put(b[len(b)-rangesLen:])
	return b
}
