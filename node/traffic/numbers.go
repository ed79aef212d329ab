package traffic

import "slices"

// maxGaps is the largest number of gaps that the verifier remembers for one stream of a pair. A
// loss of many consecutive packets makes only one gap.
const maxGaps = 1 << 12

// gap is a range of numbers that have not come although later numbers have come: from lo to hi-1.
type gap struct{ lo, hi uint64 }

// numbers remembers which packet numbers of one stream have come.
//
// Invariants: each number below next has come, is in gaps, or is counted in forgotten. The gaps
// are in order, each gap has at least one number, and no two gaps touch.
type numbers struct {
	next      uint64
	gaps      []gap
	forgotten uint64 // count of the numbers in gaps that were forgotten because of maxGaps
}

// arrival says whether a number came in order, late, or a second time.
type arrival int

const (
	inOrder   arrival = iota
	late              // later numbers came before this number
	duplicate         // this number has come before
)

// add notes that the number n has come. If n lies in a forgotten gap, add returns duplicate. In
// all other cases the result is exact.
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
