package collective

// PlanAlong returns a schedule of a call. All moves of the schedule go from neighbour to neighbour on the path. The
// results are equal to those of [Plan] to the bit. If Plan sends a part to a rank that is no neighbour, the ranks
// between the two store the part and send it on. These ranks need further elements in their work.
func PlanAlong(c Call, p *Path, planes int) (*Schedule, error) {
	s, err := Plan(c, p, planes)
	if err != nil {
		return nil, err
	}
	a := along{p: p, s: s}
	for i := range s.Moves {
		if m := &s.Moves[i]; len(a.hops(m)) > 1 {
			a.all()
			break
		}
	}
	return s, nil
}

// along replaces the moves of a schedule by moves between neighbours.
type along struct {
	p *Path
	s *Schedule
}

// hops returns the ranks through which the elements of a move travel, with the receiver as the last one. On a
// ring, hops takes the shorter direction. If both directions are equally long, moves from every second position go
// backwards.
func (a *along) hops(m *Move) (ranks []int) {
	n := len(a.p.Order)
	step, far := 1, a.p.At[m.To]-a.p.At[m.From]
	if a.p.Ring {
		if far = (far + n) % n; 2*far > n || 2*far == n && a.p.At[m.From]%2 == 1 {
			far -= n
		}
	}
	if far < 0 {
		step, far = -1, -far
	}
	for h := 1; h <= far; h++ {
		ranks = append(ranks, a.p.Order[(a.p.At[m.From]+step*h+n)%n])
	}
	return ranks
}

// forward reports whether a rank is the next one of another rank on the path.
func (a *along) forward(from, to int) bool { return (a.p.At[from]+1)%len(a.p.Order) == a.p.At[to] }

// all replaces all moves. Each time step of the schedule becomes as many time steps as the path has ranks. So each move
// still comes later than the moves that it needs, and steps cannot wait in a circle.
func (a *along) all() {
	old, n := a.s.Moves, len(a.p.Order)
	a.s.Moves = nil
	last := make([]int, len(old)) // number of the last hop of each move
	after := func(i int) int {
		if i < 0 {
			return -1
		}
		return last[i]
	}
	for i := range old {
		m := &old[i]
		hop := *m
		hop.SendAfter = after(m.SendAfter)
		ranks := a.hops(m)
		for h, to := range ranks {
			hop.To, hop.Step = to, m.Step*n+h
			hop.Lane = m.Lane &^ 1
			if n > 2 && !a.forward(hop.From, to) {
				hop.Lane |= 1
			}
			hop.Take, hop.TakeAfter, hop.DstOff = Store, -1, a.s.Work[to]
			if h == len(ranks)-1 {
				hop.Take, hop.TakeAfter, hop.DstOff = m.Take, after(m.TakeAfter), m.DstOff
			} else {
				a.s.Work[to] += m.Len
			}
			a.s.Moves = append(a.s.Moves, hop)
			last[i] = len(a.s.Moves) - 1
			hop.From, hop.SrcOff, hop.Input, hop.SendAfter = to, hop.DstOff, false, last[i]
		}
	}
	a.s.sort()
}
