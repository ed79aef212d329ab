package collective

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

// MemberSize is the length of a [Member] in memory, in bytes.
const MemberSize = 16

// Member is what a rank states when the ranks of a communicator split into groups.
type Member struct {
	Color int32  // ranks with equal colors form a group; a rank with a negative color is in no group
	Key   int32  // order of the ranks of a group; ranks with equal keys keep their order
	Free  uint32 // bit i: the rank's area i of memory is free
	Spare uint32 // number of further words on which the rank's chip can wait
}

// Append appends the member: four numbers of 32 bits, in little-endian order.
func (m *Member) Append(b []byte) []byte {
	for _, v := range [4]uint32{uint32(m.Color), uint32(m.Key), m.Free, m.Spare} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

// ParseMembers reads members that lie one behind the other.
func ParseMembers(b []byte) (all []Member, err error) {
	if len(b)%MemberSize != 0 {
		return nil, fmt.Errorf("%d bytes of members: want a multiple of %d", len(b), MemberSize)
	}
	le := binary.LittleEndian
	for ; len(b) > 0; b = b[MemberSize:] {
		all = append(all, Member{int32(le.Uint32(b)), int32(le.Uint32(b[4:])), le.Uint32(b[8:]), le.Uint32(b[12:])})
	}
	return all, nil
}

// Waits returns the largest number of words on which a rank waits at once: for each other rank and lane the
// next message and an acknowledgement, and the words for failures.
func Waits(ranks, planes int) int { return 2*(ranks-1)*planes + 2 }

// Split returns the groups of ranks with equal colors, in the order of the colors. All groups use the
// same area of memory, the first one that is free on all ranks. Each rank computes the same result. Split returns
// an error if no area is free on all ranks, or if a chip cannot wait on enough words.
func Split(all []Member, planes int) (groups [][]int, area int, err error) {
	free := ^uint32(0)
	byColor := map[int32][]int{}
	for r, m := range all {
		free &= m.Free
		if m.Color >= 0 {
			byColor[m.Color] = append(byColor[m.Color], r)
		}
	}
	if free == 0 {
		return nil, 0, fmt.Errorf("no area of memory is free on all %d ranks: close a communicator that an earlier Split made, on all of its ranks", len(all))
	}
	colors := make([]int32, 0, len(byColor))
	for c := range byColor {
		colors = append(colors, c)
	}
	slices.Sort(colors)
	for _, c := range colors {
		g := byColor[c]
		slices.SortStableFunc(g, func(a, b int) int { return cmp.Compare(all[a].Key, all[b].Key) })
		for _, r := range g {
			if w := Waits(len(g), planes); w > int(all[r].Spare) {
				return nil, 0, fmt.Errorf("a group of %d ranks over %d links waits on up to %d words, and the chip of rank %d has %d left: close other communicators, or use fewer links", len(g), planes, w, r, all[r].Spare)
			}
		}
		groups = append(groups, g)
	}
	return groups, bits.TrailingZeros32(free), nil
}
