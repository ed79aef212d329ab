package traffic

import "slices"

// maxGaps is the number of gaps that the verifier remembers per source and plane. A loss of many
// packets in a row makes one gap. Only maxGaps separate losses therefore reach the limit.
const maxGaps = 1 << 12

// gap is a range of numbers that later numbers have overtaken: from lo up to but not including hi.
type gap struct{ lo, hi uint64 }

// numbers remembers which packet numbers have come.
//
// Invariants: each number below next has come, is in gaps, or is counted in forgotten. The gaps are
// in order and not empty, and no two gaps touch.
type numbers struct {
	next      uint64
	gaps      []gap
	forgotten uint64 // numbers of gaps that the verifier dropped for lack of room
}

// arrival says whether a number came in order, late or again.
type arrival int

const (
	inOrder   arrival = iota
	late              // later numbers came before this number
	duplicate         // this number has come before
)

// add notes that the number n has come. While forgotten is 0, the result of add is exact. If a
// number of a forgotten gap comes, the number counts as a duplicate.
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
