package collective

import (
	"cmp"
	"fmt"
	"slices"
)

// sort sorts the moves by their steps. Moves of one step keep their order.
func (s *Schedule) sort() {
	order := make([]int, len(s.Moves))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.Moves[a].Step, s.Moves[b].Step) })
	at := make([]int, len(order))
	for i, old := range order {
		at[old] = i
	}
	moves := make([]Move, len(order))
	for i, old := range order {
		m := s.Moves[old]
		if m.SendAfter >= 0 {
			m.SendAfter = at[m.SendAfter]
		}
		if m.TakeAfter >= 0 {
			m.TakeAfter = at[m.TakeAfter]
		}
		moves[i] = m
	}
	s.Moves = moves
}

// Pair is a queue of moves: the moves from one rank to another rank in one lane.
type Pair struct{ From, To, Lane int }

// Queues returns the numbers of the moves of each queue, in their order.
func (s *Schedule) Queues() map[Pair][]int {
	q := map[Pair][]int{}
	for i, m := range s.Moves {
		k := Pair{m.From, m.To, m.Lane}
		q[k] = append(q[k], i)
	}
	return q
}

// Check returns an error if a move lies outside its buffers, if a move depends on a move of another
// rank or of other elements, or if steps wait in a circle. Check assumes the smallest memory: a rank
// sends a move only after the receiver has taken the previous move of the queue.
func (s *Schedule) Check() error {
	for i, m := range s.Moves {
		if m.From == m.To || min(m.From, m.To, m.SrcOff, m.DstOff, m.Len, m.Lane) < 0 || max(m.From, m.To) >= s.Ranks || m.Lane >= s.Lanes {
			return fmt.Errorf("move %d: %+v is out of range", i, m)
		}
		size := s.Work[m.From]
		if m.Input {
			size = s.InCount(m.From, s.Ranks)
		}
		if m.SrcOff+m.Len > size || m.DstOff+m.Len > s.Work[m.To] {
			return fmt.Errorf("move %d: %+v lies outside its buffers", i, m)
		}
		if m.SendAfter >= 0 {
			if !s.has(&m) {
				return fmt.Errorf("move %d sends other elements than move %d brings", i, m.SendAfter)
			}
		}
		if m.TakeAfter >= 0 && s.Moves[m.TakeAfter].To != m.To {
			return fmt.Errorf("move %d: the receiver cannot see move %d", i, m.TakeAfter)
		}
	}
	return s.circle()
}

// has reports whether the sender of a move has the move's elements when the sender may send. The
// elements come from the move in SendAfter, from moves that the sender must take before the move in
// SendAfter, or from copies of the sender's input.
func (s *Schedule) has(m *Move) bool {
	var parts []part
	for i, steps := m.SendAfter, 0; i >= 0 && i < len(s.Moves) && steps < len(s.Moves); i, steps = s.Moves[i].TakeAfter, steps+1 {
		if s.Moves[i].To != m.From {
			return false
		}
		parts = append(parts, part{s.Moves[i].DstOff, s.Moves[i].Len})
	}
	for _, c := range s.Copies {
		if c.Rank == m.From {
			parts = append(parts, part{c.DstOff, c.Len})
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return a.off - b.off })
	at := m.SrcOff
	for _, p := range parts {
		if p.off <= at {
			at = max(at, p.off+p.len)
		}
	}
	return at >= m.SrcOff+m.Len
}

// circle returns an error if moves wait in a circle.
func (s *Schedule) circle() error {
	next := make([][]int, len(s.Moves))
	waits := make([]int, len(s.Moves))
	edge := func(before, after int) {
		if before >= 0 {
			next[before] = append(next[before], after)
			waits[after]++
		}
	}
	for i, m := range s.Moves {
		edge(m.SendAfter, i)
		edge(m.TakeAfter, i)
	}
	for _, q := range s.Queues() {
		for i := 1; i < len(q); i++ {
			edge(q[i-1], q[i])
		}
	}
	var free []int
	for i, w := range waits {
		if w == 0 {
			free = append(free, i)
		}
	}
	done := 0
	for ; len(free) > 0; done++ {
		i := free[len(free)-1]
		free = free[:len(free)-1]
		for _, j := range next[i] {
			if waits[j]--; waits[j] == 0 {
				free = append(free, j)
			}
		}
	}
	if done < len(waits) {
		i := slices.IndexFunc(waits, func(w int) bool { return w > 0 })
		return fmt.Errorf("steps wait in a circle, for example move %d: %+v", i, s.Moves[i])
	}
	return nil
}

// Buffers are the memory of one rank.
type Buffers struct{ In, Work []byte }

// Begin copies the elements of the input that a rank needs in its work.
func (s *Schedule) Begin(rank int, b Buffers) {
	e := s.Type.Size()
	for _, c := range s.Copies {
		if c.Rank == rank {
			copy(b.Work[c.DstOff*e:(c.DstOff+c.Len)*e], b.In[c.SrcOff*e:])
		}
	}
}

// Source returns the elements that a move sends, from element "from" of the move to element "to".
func (s *Schedule) Source(m *Move, b Buffers, from, to int) []byte {
	e, x := s.Type.Size(), b.Work
	if m.Input {
		x = b.In
	}
	return x[(m.SrcOff+from)*e : (m.SrcOff+to)*e]
}

// Take lets the receiver take received elements, of which the first is element "from" of the move.
func (s *Schedule) Take(m *Move, b Buffers, from int, got []byte) {
	e := s.Type.Size()
	at := (m.DstOff + from) * e
	dst := b.Work[at : at+len(got)]
	switch m.Take {
	case Store:
		copy(dst, got)
	case Combine:
		Accumulate(s.Type, s.Op, dst, got, b.In[at:at+len(got)])
	case Add:
		Accumulate(s.Type, s.Op, dst, dst, got)
	}
}

// End returns the output of a rank, which lies in its work.
func (s *Schedule) End(rank int, b Buffers) []byte {
	e, n := s.Type.Size(), s.OutCount(rank, s.Ranks)
	out := b.Work[s.Result[rank]*e : (s.Result[rank]+n)*e]
	if s.Fold {
		for r := 1; r < s.Ranks && len(out) > 0; r++ {
			Accumulate(s.Type, s.Op, out, out, b.Work[r*n*e:(r+1)*n*e])
		}
	}
	return out
}

// Reference runs a schedule in one process, move after move, and returns the outputs. The bits are
// those of any run of the schedule.
func (s *Schedule) Reference(in [][]byte) (out [][]byte) {
	e := s.Type.Size()
	bs := make([]Buffers, s.Ranks)
	for r := range bs {
		bs[r] = Buffers{in[r], make([]byte, s.Work[r]*e)}
		s.Begin(r, bs[r])
	}
	done := make([]bool, len(s.Moves))
	var run func(i int)
	run = func(i int) {
		m := &s.Moves[i]
		if done[i] {
			return
		}
		done[i] = true
		for _, before := range []int{m.SendAfter, m.TakeAfter} {
			if before >= 0 {
				run(before)
			}
		}
		s.Take(m, bs[m.To], 0, s.Source(m, bs[m.From], 0, m.Len))
	}
	for i := range s.Moves {
		run(i)
	}
	for r := range bs {
		out = append(out, s.End(r, bs[r]))
	}
	return out
}
