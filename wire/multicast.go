package wire

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// Trunk is the axis along which a multicast's tree grows first. Branches leave the trunk along the
// other axis. The trunk follows the order of dimensions in which requests are routed: mixing the
// two orders closes a cycle even on 2×2.
type Trunk uint8

// The trunks. In tt-metal's header this byte is is_mcast_active, 0 or 1.
const (
	TrunkNone Trunk = 0 // no multicast
	TrunkX    Trunk = 1 // along East and West
	TrunkY    Trunk = 2 // along North and South
)

// Along reports whether d is a direction of the trunk.
func (t Trunk) Along(d Direction) bool {
	return t == TrunkX && d <= West || t == TrunkY && (d == North || d == South)
}

// Ranges says which chips a multicast is for, as tt-metal's mesh and linear APIs do. Ranges gives
// the hops in each direction from the chip that has the packet. On the trunk's axis the ranges
// reach along the trunk. On the other axis they give the branches, which leave from the start and
// from each member of the trunk. For example, three hops East and one hop North are a rectangle of
// two by four chips without the corner at the start.
type Ranges struct {
	Hops [NumDirections]uint8 // number of chips in each direction, including chips that only pass the packet on
	Skip [NumDirections]uint8 // how many of these, counted from the nearest, only pass the packet on (linear API: start - 1)
}

// Any reports whether the ranges reach any chip.
func (r *Ranges) Any() bool { return r.Hops != [NumDirections]uint8{} }

// Members returns the number of chips that the ranges are for. These are the members of the trunk,
// and the members of the branches that leave from the start and from each member of the trunk.
func (r *Ranges) Members() int {
	n := [2]int{}
	for d := range r.Hops {
		n[d/2] += max(0, int(r.Hops[d])-int(r.Skip[d]))
	}
	return (n[0]+1)*(n[1]+1) - 1
}

// Copy returns the ranges of the copy that leaves in direction d. If there are no hops in this
// direction, the result is empty. The parameter straight says that the packet came from the side
// opposite to d.
func (r *Ranges) Copy(t Trunk, d Direction, straight bool) Ranges {
	var c Ranges
	if r.Hops[d] == 0 {
		return c
	}
	if t.Along(d) {
		c = *r // the copy keeps the ranges of the branches
		back := d.Opposite()
		c.Hops[back], c.Skip[back] = 0, 0
	}
	c.Hops[d], c.Skip[d] = r.Hops[d]-1, r.Skip[d]
	if straight && c.Skip[d] > 0 {
		c.Skip[d]--
	}
	return c
}

// Parts returns what a chip does with a multicast: a bit for each direction in which a copy leaves,
// and [PartHere] if the chip is a member. The parameter from is the side that the packet came from,
// or [NumDirections] if the chip itself sends the packet. If the ranges mean nothing, or lead back
// to where the packet came from, Parts returns 0.
func (r *Ranges) Parts(from Direction) (parts uint8) {
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

// PartHere is the bit of [Ranges.Parts] above the bits of the directions.
const PartHere = 1 << NumDirections

// String renders the ranges as [ParseRanges] reads them: "E2,N1", or "E2-4" for the chips that are two to four hops away.
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

// MarshalText renders the ranges as [Ranges.String] does.
func (r Ranges) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads ranges as [ParseRanges] does. An empty text means no ranges.
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

// ParseRanges reads "E2,W1,N0,S1": the number of hops in each direction. Directions left out have 0
// hops. "E2-4" stands for the chips that are two to four hops East.
func ParseRanges(s string) (Ranges, error) {
	bad := fmt.Errorf("ranges %q: want hops by direction, such as E2,W1,N0,S1, or E2-4 for the chips two to four hops East, each at most 255", s)
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

// Trunk returns the axis of the trunk of the packet's multicast tree, or [TrunkNone] for unicast.
func (v PacketView) Trunk() Trunk { return Trunk(v[v.headLen()-1]) }

// Group returns the number of the packet's multicast group at its source, or 0 for unicast.
func (v PacketView) Group() uint16 { return binary.LittleEndian.Uint16(v[poGroup:]) }

// Ranges returns the ranges of the chips that lie ahead of the packet.
func (v PacketView) Ranges() Ranges { return getRanges(v[v.headLen()-rangesEnd:]) }

// SetRanges overwrites the ranges.
func (v PacketView) SetRanges(r Ranges) { r.put(v[v.headLen()-rangesEnd:]) }

// rangesLen is the size of tt-metal's mcast_params, in bytes. rangesEnd is the distance from the
// start of the ranges to the header's end, in bytes.
const (
	rangesLen = 2 * NumDirections
	rangesEnd = rangesLen + 1
)

// put writes one 16-bit word for each direction: hops in the low byte, skip in the high byte.
func (r *Ranges) put(b []byte) {
	for d := range r.Hops {
		b[2*d], b[2*d+1] = r.Hops[d], r.Skip[d]
	}
}

func getRanges(b []byte) (r Ranges) {
	for d := range r.Hops {
		r.Hops[d], r.Skip[d] = b[2*d], b[2*d+1]
	}
	return r
}

// groupOK reports whether group, trunk and Other are allowed for the packet's type.
func (v PacketView) groupOK() bool {
	g, t := v.Group(), v.Trunk()
	if v.Other() && (g != 0 || v.Type() == PacketDropReport || v.Type() == PacketLinkState) {
		return false
	}
	switch v.Type() {
	case PacketRequest, PacketProbe:
		return t <= TrunkY && (t == TrunkNone) == (g == 0)
	case PacketCompletion:
		return t == TrunkNone
	}
	return t == TrunkNone && g == 0
}
