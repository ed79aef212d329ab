package wire

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// Trunk is the axis along which a multicast's tree grows first. The tree's branches leave the trunk
// along the other axis. The trunk must be the axis along which the fabric routes requests first.
// Otherwise, some packets would go along x first, and others along y first. Such packets could wait
// for each other in a cycle, even on a 2×2 mesh.
type Trunk uint8

// The values of [Trunk]. At the trunk's place in a packet, tt-metal's header has the field
// is_mcast_active, which is 0 or 1.
const (
	TrunkNone Trunk = 0 // unicast, or a multicast to members of a mesh that the packet has not entered yet
	TrunkX    Trunk = 1 // along East and West
	TrunkY    Trunk = 2 // along North and South
)

// Along reports whether direction d lies on the axis of the trunk.
func (t Trunk) Along(d Direction) bool {
	return t == TrunkX && d <= West || t == TrunkY && (d == North || d == South)
}

// Ranges says which chips a multicast is for, like the arguments of tt-metal's mesh and linear
// APIs. The chip that has the packet now is called the start. Ranges counts the hops in each
// direction from the start. In the directions of the trunk's axis, the ranges give the length of
// the trunk. In the directions of the other axis, the ranges give the length of the branches.
// Branches leave from the source of the multicast, and from each chip of the trunk that performs
// the multicast. For example, a source sends a multicast with three hops East and one hop North.
// The chips that perform the multicast then form a rectangle together with the source. The
// rectangle has four columns and two rows.
type Ranges struct {
	Hops [NumDirections]uint8 // number of chips in each direction, including the chips that only pass the packet on
	Skip [NumDirections]uint8 // how many chips in each direction, the nearest to the start, only pass the packet on; in tt-metal's linear API: the argument start, minus 1
}

// Any reports whether at least one direction has hops.
func (r *Ranges) Any() bool { return r.Hops != [NumDirections]uint8{} }

// Members returns the number of chips that perform the multicast, on the trunk and on all branches.
// The receiver r must hold the ranges of the whole multicast, from the source.
func (r *Ranges) Members() int {
	n := [2]int{}
	for d := range r.Hops {
		n[d/2] += max(0, int(r.Hops[d])-int(r.Skip[d]))
	}
	return (n[0]+1)*(n[1]+1) - 1
}

// Copy returns the ranges of the packet's copy that leaves in direction d. If r has no hops in
// direction d, the result is empty. The parameter t is the packet's trunk. The parameter "straight"
// is true if the packet came in by the side opposite to d. In this case, the copy continues in the
// packet's direction of travel.
func (r *Ranges) Copy(t Trunk, d Direction, straight bool) Ranges {
	var c Ranges
	if r.Hops[d] == 0 {
		return c
	}
	if t.Along(d) {
		c = *r // a copy along the trunk keeps the ranges of the branches
		back := d.Opposite()
		c.Hops[back], c.Skip[back] = 0, 0
	}
	c.Hops[d], c.Skip[d] = r.Hops[d]-1, r.Skip[d]
	if straight && c.Skip[d] > 0 {
		c.Skip[d]--
	}
	return c
}

// Parts returns what a chip must do with a multicast. Bit d is set if a copy leaves in direction d.
// [PartHere] is set if the chip performs the multicast. The parameter "from" is the side by which
// the packet came in, or [NumSides] at the source. If the ranges have hops back to that side,
// Parts returns 0. Parts also returns 0 if the chip must only pass the packet on, but the ranges
// have no hops in the packet's direction of travel.
func (r *Ranges) Parts(from Direction) (parts uint8) {
	if from == Z {
		parts = PartHere
	}
	if from < NumDirections {
		ahead := from.Opposite()
		switch {
		case r.Hops[from] > 0:
			return 0
		case r.Skip[ahead] > 0 && r.Hops[ahead] > 0:
			return 1 << ahead
		case r.Skip[ahead] > 0:
			return 0
		}
		parts = PartHere
	}
	for d, n := range r.Hops {
		if n > 0 {
			parts |= 1 << d
		}
	}
	return parts
}

// PartHere is a bit in the result of [Ranges.Parts]. The bit says that the chip performs the
// multicast.
const PartHere = 1 << NumDirections

// String returns the ranges in the form of [ParseRanges], such as "E2,N1", or "E2-4" for the chips
// two to four hops East.
func (r Ranges) String() string {
	var parts []string
	for d := range Direction(NumDirections) {
		switch {
		case r.Hops[d] == 0:
		case r.Skip[d] == 0:
			parts = append(parts, fmt.Sprintf("%s%d", d, r.Hops[d]))
		default:
			parts = append(parts, fmt.Sprintf("%s%d-%d", d, int(r.Skip[d])+1, r.Hops[d]))
		}
	}
	return strings.Join(parts, ",")
}

// MarshalText returns the ranges in the form of [Ranges.String].
func (r Ranges) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads ranges in the form of [ParseRanges]. An empty text gives empty ranges.
func (r *Ranges) UnmarshalText(b []byte) error {
	if *r = (Ranges{}); len(b) == 0 {
		return nil
	}
	v, err := ParseRanges(string(b))
	if err == nil {
		*r = v
	}
	return err
}

// ParseRanges reads ranges such as "E2,W1,N0,S1". This text gives the number of hops in each
// direction. A direction that is left out has 0 hops, and at least one direction must have more
// than 0 hops. "E2-4" stands for the chips two to four hops East. The error quotes s and describes
// the accepted form.
func ParseRanges(s string) (Ranges, error) {
	bad := fmt.Errorf("ranges %q: want a number of hops from 0 to 255 for each direction, at least one of them above 0, such as E2,W1,N0,S1; E2-4 stands for the chips two to four hops East", s)
	var r Ranges
	seen := [NumDirections]bool{}
	for _, part := range strings.Split(strings.ToUpper(s), ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			return Ranges{}, bad
		}
		d := strings.IndexByte("EWNS", part[0])
		if d < 0 || seen[d] {
			return Ranges{}, bad
		}
		seen[d] = true
		start, last, two := strings.Cut(part[1:], "-")
		if !two {
			start, last = "1", start
		}
		from, err1 := strconv.ParseUint(start, 10, 8)
		to, err2 := strconv.ParseUint(last, 10, 8)
		if err1 != nil || err2 != nil || from == 0 || two && from > to {
			return Ranges{}, bad
		}
		r.Hops[d], r.Skip[d] = uint8(to), uint8(from-1)
	}
	if !r.Any() {
		return Ranges{}, bad
	}
	return r, nil
}

// Trunk returns the axis of the trunk of the packet's multicast tree. For unicast, and for a
// multicast to members of a mesh that the packet has not entered yet, Trunk returns [TrunkNone].
func (v PacketView) Trunk() Trunk {
	if v.control() {
		return TrunkNone
	}
	return Trunk(v[v.metalEnd()-1])
}

// Group returns the number of the packet's multicast group, or 0 for unicast.
func (v PacketView) Group() uint16 { return binary.LittleEndian.Uint16(v[poGroup:]) }

// Ranges returns the packet's ranges. The ranges describe the part of the multicast's tree that the
// packet has not reached yet.
func (v PacketView) Ranges() Ranges { return getRanges(v[v.metalEnd()-rangesEnd:]) }

// SetRanges overwrites the packet's ranges with r.
func (v PacketView) SetRanges(r Ranges) { r.put(v[v.metalEnd()-rangesEnd:]) }

// Sizes at the end of tt-metal's header, in bytes. The header ends with the field mcast_params,
// which holds the ranges, and with one byte for the trunk.
const (
	rangesLen = 2 * NumDirections // size of mcast_params
	rangesEnd = rangesLen + 1     // distance from the start of mcast_params to the end of tt-metal's header
)

// The method "put" writes the ranges into b. Each direction has two bytes: first Hops, then Skip.
func (r *Ranges) put(b []byte) {
	for d := range r.Hops {
		b[2*d], b[2*d+1] = r.Hops[d], r.Skip[d]
	}
}

// getRanges reads the ranges that the method "put" has written into b.
func getRanges(b []byte) (r Ranges) {
	for d := range r.Hops {
		r.Hops[d], r.Skip[d] = b[2*d], b[2*d+1]
	}
	return r
}

// groupOK reports whether the packet's type allows the packet's values of Group, Trunk, Members,
// Other and Posted.
func (v PacketView) groupOK() bool {
	g, t := v.Group(), v.Trunk()
	request := v.Type() == PacketRequest || v.Type() == PacketProbe
	switch {
	case v.Other() && (g != 0 || v.Type() == PacketDropReport || v.Type() == PacketLinkState),
		v.Posted() && v.Type() != PacketRequest:
		return false
	case v.HasMembers():
		m := v.Members()
		return request && g != 0 && t <= TrunkY && m.Any()
	case request:
		return t <= TrunkY && (t == TrunkNone) == (g == 0)
	}
	return t == TrunkNone && (g == 0 || v.Type() == PacketCompletion)
}
