package traffic

import "slices"

// maxGaps is the number of gaps that are remembered per source and plane. A loss of many packets in
// a row makes one gap, so it takes maxGaps separate losses to reach the limit.
const maxGaps = 1 << 12

// gap is a range of numbers that later numbers have overtaken: from lo up to but not including hi.
type gap struct{ lo, hi uint64 }

// numbers remembers which numbers have come.
//
// Invariants: each number below next has come, is in gaps, or is counted in forgotten. Gaps are in
// order, not empty and do not touch.
type numbers struct {
	next      uint64
	gaps      []gap
	forgotten uint64 // numbers in gaps that were dropped for lack of room
}

// arrival says what the coming of a number means.
type arrival int

const (
	inOrder   arrival = iota
	late              // later numbers have overtaken it
	duplicate         // it has come before
)

// add notes the coming of n. add is exact as long as forgotten is 0. A number of a forgotten gap
// counts as a duplicate if it comes.
func (s *numbers) add(n uint64) arrival {
	if n >= s.next {
		if n > s.next {
			if len(s.gaps) == maxGaps {
				s.forgotten += s.gaps[0].hi - s.gaps[0].lo
				s.gaps = slices.Delete(s.gaps, 0, 1)
			}
			s.gaps = append(s.gaps, gap{s.next, n})
		}
		s.next = n + 1
		return inOrder
	}
	i, _ := slices.BinarySearchFunc(s.gaps, n, func(g gap, n uint64) int {
		if g.hi <= n {
			return -1
		}
		return 1
	})
	if i == len(s.gaps) || n < s.gaps[i].lo {
		return duplicate
	}
	switch g := &s.gaps[i]; {
	case g.lo+1 == g.hi:
		s.gaps = slices.Delete(s.gaps, i, i+1)
	case n == g.lo:
		g.lo++
	case n == g.hi-1:
		g.hi--
	default:
		rest := gap{n + 1, g.hi}
		g.hi = n
		s.gaps = slices.Insert(s.gaps, i+1, rest)
		if len(s.gaps) > maxGaps {
			s.forgotten += s.gaps[0].hi - s.gaps[0].lo
			s.gaps = slices.Delete(s.gaps, 0, 1)
		}
	}
	return late
}
