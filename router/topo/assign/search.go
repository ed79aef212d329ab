package assign

import "math/bits"

// set is a set of small numbers, one bit for each.
type set []uint64

func words(n int) int { return (n + 63) / 64 }

func newSet(n int) set { return make(set, words(n)) }

func fullSet(n int) set {
	s := newSet(n)
	for i := range n {
		s.add(i)
	}
	return s
}

func (s set) add(i int)      { s[i>>6] |= 1 << (i & 63) }
func (s set) has(i int) bool { return s[i>>6]>>(i&63)&1 == 1 }

func (s set) count() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// and removes from s what is not in t, and reports whether s changed.
func (s set) and(t set) (changed bool) {
	for i, w := range s {
		if n := w & t[i]; n != w {
			s[i], changed = n, true
		}
	}
	return changed
}

func (s set) or(t set) {
	for i := range s {
		s[i] |= t[i]
	}
}

// meets reports whether s and t have a common member.
func (s set) meets(t set) bool {
	for i, w := range s {
		if w&t[i] != 0 {
			return true
		}
	}
	return false
}

// next returns the lowest member from i on, or -1.
func (s set) next(i int) int {
	for w := i >> 6; w < len(s); w++ {
		x := s[w]
		if w == i>>6 {
			x &= ^uint64(0) << (i & 63)
		}
		if x != 0 {
			return w<<6 + bits.TrailingZeros64(x)
		}
	}
	return -1
}

// few limits propagate: a variable with more values than few removes no values from its neighbours.
const few = 8

// search is a search for values of variables. Each two variables that are neighbours are under a
// constraint: row gives the values of variable v that fit value x of variable u.
type search struct {
	domains    []set   // values of each variable that are still possible
	neighbours [][]int // for each variable: the variables under a constraint with it
	row        func(u, x, v int) set
	differ     bool // no two variables have the same value
	steps      *int // number of steps so far
	most       int  // largest number of steps
	stop       func() bool
}

// askStop is the number of steps from one call of Limit.Stop to the next.
const askStop = 64

// over reports whether the search has reached its limit.
func (s *search) over() bool {
	if s.stop != nil && *s.steps%askStop == 0 && s.stop() {
		s.most = 0
	}
	return *s.steps >= s.most
}

// run finds all solutions in turn, and calls emit with the values of the variables. If emit returns
// false, run ends. The result is true if run has found all solutions, or emit ended it. The result is
// false if run reached the limit of steps. If "first" is not negative, the search branches on this
// variable first.
func (s *search) run(first int, emit func(at []int) bool) (complete bool) {
	queue := make([]int, len(s.domains))
	for i := range queue {
		queue[i] = i
	}
	if !s.propagate(s.domains, queue) {
		return true
	}
	_, complete = s.branch(s.domains, first, emit)
	return complete
}

// branch tries the values of one variable in turn. The result "more" is false if emit ended the search.
func (s *search) branch(domains []set, first int, emit func(at []int) bool) (more, complete bool) {
	u := first
	if u < 0 || domains[u].count() == 1 {
		u = s.choose(domains)
	}
	if u < 0 {
		at := make([]int, len(domains))
		for i, d := range domains {
			at[i] = d.next(0)
		}
		return emit(at), true
	}
	w := len(domains[0])
	store := make(set, w*len(domains))
	next := make([]set, len(domains))
	for i := range next {
		next[i] = store[i*w : (i+1)*w]
	}
	for x := domains[u].next(0); x >= 0; x = nextAfter(domains[u], x) {
		if s.over() {
			return false, false
		}
		*s.steps++
		for i, d := range domains {
			copy(next[i], d)
		}
		clear(next[u])
		next[u].add(x)
		if !s.propagate(next, []int{u}) {
			continue
		}
		if more, complete := s.branch(next, -1, emit); !more || !complete {
			return more, complete
		}
	}
	return true, true
}

func nextAfter(s set, x int) int {
	if x++; x>>6 >= len(s) {
		return -1
	}
	return s.next(x)
}

// choose returns the variable with the fewest values of those with more than one value. If there is
// no such variable, choose returns -1. Of variables with equally many values, choose returns the
// variable with the most neighbours that have only one value left.
func (s *search) choose(domains []set) int {
	best, least, known := -1, 0, 0
	for u, d := range domains {
		n := d.count()
		if n < 2 || best >= 0 && n > least {
			continue
		}
		k := 0
		for _, v := range s.neighbours[u] {
			if single(domains[v]) {
				k++
			}
		}
		if best < 0 || n < least || k > known {
			best, least, known = u, n, k
		}
	}
	return best
}

// single reports whether the set has exactly one member.
func single(d set) bool {
	found := false
	for _, w := range d {
		if w == 0 {
			continue
		}
		if found || w&(w-1) != 0 {
			return false
		}
		found = true
	}
	return found
}

// propagate removes values without a partner, until no more can be removed. The queue has the variables
// whose domains have changed. If a variable has no value left, propagate returns false.
func (s *search) propagate(domains []set, queue []int) bool {
	waiting := newSet(len(domains))
	for _, u := range queue {
		waiting.add(u)
	}
	union := make(set, len(domains[0]))
	changed := func(v int) bool {
		if !waiting.has(v) {
			waiting.add(v)
			queue = append(queue, v)
		}
		return domains[v].next(0) >= 0
	}
	for len(queue) > 0 {
		u := queue[0]
		queue = queue[1:]
		waiting[u>>6] &^= 1 << (u & 63)
		d := domains[u]
		n := d.count()
		if n == 0 {
			return false
		}
		if n > few {
			continue
		}
		if s.differ && n == 1 {
			x := d.next(0)
			for v := range domains {
				if v == u || !domains[v].has(x) {
					continue
				}
				domains[v][x>>6] &^= 1 << (x & 63)
				if !changed(v) {
					return false
				}
			}
		}
		for _, v := range s.neighbours[u] {
			clear(union)
			for x := d.next(0); x >= 0; x = nextAfter(d, x) {
				union.or(s.row(u, x, v))
			}
			if domains[v].and(union) && !changed(v) {
				return false
			}
		}
	}
	return true
}
