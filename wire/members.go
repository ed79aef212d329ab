package wire

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math/bits"
	"strconv"
	"strings"
)

// Members is a set of chips of one mesh. Bit c%64 of word c/64 stands for chip c. A multicast with
// Members goes to any set of chips, also of another mesh. In tt-metal, the sparse multicast of the
// linear API has a bit mask of hops instead.
type Members [MaxChipsPerMesh / 64]uint64

// MembersOf returns the set of the given chips. Chips from [MaxChipsPerMesh] on are left out.
func MembersOf(chips ...ChipID) (m Members) {
	for _, c := range chips {
		m.Add(c)
	}
	return m
}

// Add adds a chip to the set. Add does nothing if c is [MaxChipsPerMesh] or above.
func (m *Members) Add(c ChipID) {
	if c < MaxChipsPerMesh {
		m[c/64] |= 1 << (c % 64)
	}
}

// Remove removes a chip from the set.
func (m *Members) Remove(c ChipID) {
	if c < MaxChipsPerMesh {
		m[c/64] &^= 1 << (c % 64)
	}
}

// Has reports whether chip c is in the set.
func (m *Members) Has(c ChipID) bool { return c < MaxChipsPerMesh && m[c/64]>>(c%64)&1 != 0 }

// Any reports whether the set has a chip.
func (m *Members) Any() bool { return *m != Members{} }

// Len returns the number of chips in the set.
func (m *Members) Len() (n int) {
	for _, w := range m {
		n += bits.OnesCount64(w)
	}
	return n
}

// All yields the chips of the set in ascending order.
func (m *Members) All() iter.Seq[ChipID] {
	return func(yield func(ChipID) bool) {
		for i, w := range m {
			for ; w != 0; w &= w - 1 {
				if !yield(ChipID(64*i + bits.TrailingZeros64(w))) {
					return
				}
			}
		}
	}
}

// String returns the set in the form of [ParseMembers], such as "0-3,7".
func (m Members) String() string {
	var b strings.Builder
	for c := 0; c < MaxChipsPerMesh; c++ {
		if !m.Has(ChipID(c)) {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(c))
		first := c
		for m.Has(ChipID(c + 1)) {
			c++
		}
		if c > first {
			fmt.Fprintf(&b, "-%d", c)
		}
	}
	return b.String()
}

// MarshalText returns the set in the form of [Members.String].
func (m Members) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads a set in the form of [ParseMembers]. An empty text gives the empty set.
func (m *Members) UnmarshalText(b []byte) error {
	if *m = (Members{}); len(b) == 0 {
		return nil
	}
	v, err := ParseMembers(string(b))
	if err == nil {
		*m = v
	}
	return err
}

// ParseMembers reads a set of chips of one mesh, such as "0-3,7". The error names the value and the
// accepted form.
func ParseMembers(s string) (m Members, err error) {
	for part := range strings.SplitSeq(s, ",") {
		first, last, two := strings.Cut(strings.TrimSpace(part), "-")
		if !two {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 8)
		to, err2 := strconv.ParseUint(last, 10, 8)
		if err1 != nil || err2 != nil || from > to {
			return Members{}, fmt.Errorf("chips %q: want numbers of chips of one mesh, such as 0-3,7, each below %d", s, MaxChipsPerMesh)
		}
		for c := from; c <= to; c++ {
			m.Add(ChipID(c))
		}
	}
	return m, nil
}

// put writes the set into b, which has membersLen bytes: chip c is bit c%8 of byte c/8.
func (m *Members) put(b []byte) {
	for i, w := range m {
		binary.LittleEndian.PutUint64(b[8*i:], w)
	}
}

func getMembers(b []byte) (m Members) {
	for i := range m {
		m[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return m
}

// membersLen is the size of an encoded set of members, in bytes.
const membersLen = MaxChipsPerMesh / 8

// Place is the place of a chip in the grid of its mesh. The zero value stands for a chip that passes on
// no multicast to members.
type Place struct {
	Chip         ChipID
	Rows, Cols   int
	WrapX, WrapY bool // whether the rows, or the columns, are rings
}

// Spread says what a chip must do with a multicast to the chips of m. If the set copies[d] has a
// chip, a copy with these members leaves in direction d. Bit d of parts is set for each such
// direction, and [PartHere] if the chip itself is a member. The parameter t is the packet's trunk.
// The parameter "from" is the side that the packet came from. At the source and at the entry node
// of the members' mesh, "from" is [NumDirections] or a higher number.
//
// A copy first follows the axis of the trunk, in the shorter direction, as a unicast with that
// order of dimensions does. The copy turns at most once, from the trunk onto a branch, and then
// goes straight on. A copy on a branch reaches no member outside the branch. If m has such a
// member, or no chip, Spread returns 0 for parts.
func (m *Members) Spread(at *Place, t Trunk, from Direction) (copies [NumDirections]Members, parts uint8) {
	if at.Cols == 0 {
		return copies, 0
	}
	row, col := int(at.Chip)/at.Cols, int(at.Chip)%at.Cols
	for c := range m.All() {
		x := away(col, int(c)%at.Cols, at.Cols, at.WrapX, East, West)
		y := away(row, int(c)/at.Cols, at.Rows, at.WrapY, South, North)
		first, second := x, y
		if t == TrunkY {
			first, second = y, x
		}
		d := first
		if d == NumDirections {
			d = second
		}
		switch {
		case d == NumDirections:
			parts |= PartHere
			continue
		case from >= NumDirections || t.Along(from) && !t.Along(d): // the tree begins here, or a branch leaves the trunk here
		case t.Along(from) == t.Along(d):
			d = from.Opposite() // straight on: on a ring, the first chip has chosen the direction
		default:
			return copies, 0
		}
		copies[d].Add(c)
		parts |= 1 << d
	}
	return copies, parts
}

// The function "away" returns the direction from place a to place b on an axis of n places, or
// NumDirections if the places are equal. On a ring, the direction is the shorter one. If both are
// equally long, the direction is "plus" from an even place, and "minus" from an odd place.
func away(a, b, n int, wraps bool, plus, minus Direction) Direction {
	k := b - a
	switch {
	case k == 0:
		return NumDirections
	case !wraps && k > 0:
		return plus
	case !wraps:
		return minus
	}
	if k < 0 {
		k += n
	}
	if 2*k > n || 2*k == n && a%2 == 1 {
		return minus
	}
	return plus
}

// HasMembers reports whether the packet is a multicast to a set of members.
func (v PacketView) HasMembers() bool { return v[poFlags]&packetMembers != 0 }

// Members returns the members ahead of the packet. [PacketView.HasMembers] must be true.
func (v PacketView) Members() Members { return getMembers(v[v.headLen()-membersLen:]) }

// SetMembers overwrites the members ahead of the packet. [PacketView.HasMembers] must be true.
func (v PacketView) SetMembers(m Members) { m.put(v[v.headLen()-membersLen:]) }

// SetTrunk overwrites the packet's trunk. The entry node of the members' mesh gives a multicast from
// another mesh its trunk.
func (v PacketView) SetTrunk(t Trunk) { v[v.metalEnd()-1] = byte(t) }

// Posted reports whether the source wants no completion for the request.
func (v PacketView) Posted() bool { return v[poFlags]&packetPosted != 0 }
