package collective

// builder makes the moves of a schedule.
type builder struct {
	s      *Schedule
	p      *Path
	planes int
	last   map[[2]int]int // number of the latest move to a rank in a lane
}

// rank returns the rank at a position of the path. Positions beyond the ends wrap.
func (b *builder) rank(pos int) int {
	n := b.s.Ranks
	return b.p.Order[(pos%n+n)%n]
}

// add appends a move and returns its number.
func (b *builder) add(m Move) int {
	b.s.Moves = append(b.s.Moves, m)
	return len(b.s.Moves) - 1
}

func (b *builder) build() {
	s, n, c := b.s, b.s.Ranks, b.s.Count
	for r := range n {
		s.Work[r] = s.OutCount(r, n)
	}
	switch s.Kind {
	case AllGather:
		b.own(c)
		b.allGather(c)
	case ReduceScatter:
		b.reduceScatter()
	case AllReduce:
		b.allReduce()
	case Reduce:
		b.reduce()
	case Broadcast:
		b.broadcast()
	case Gather, Scatter, AllToAll, SendReceive:
		b.pairs()
	case Barrier:
		b.barrier()
	}
}

// own copies the part of each rank to its place in the work.
func (b *builder) own(c int) {
	for r := range b.s.Ranks {
		b.s.Copies = append(b.s.Copies, Copy{r, 0, r * c, c})
	}
}

// parts returns a function that gives the place of rank r's part in the work of an all-gather.
func (b *builder) parts(c int) func(r int) part { return func(r int) part { return part{r * c, c} } }

// shares calls f for each lane with a function that returns the lane's share of a range. The planes share
// the range equally. With "halves", the two directions of a plane share the plane's part. Without
// "halves", each direction carries the whole of it.
func (b *builder) shares(halves bool, f func(lane, dir int, share func(part) part)) {
	for plane := range b.planes {
		for dir := range 2 {
			f(2*plane+dir, 1-2*dir, func(x part) part {
				x = x.split(plane, b.planes)
				if halves {
					x = x.split(dir, 2)
				}
				return x
			})
		}
	}
}

func (b *builder) allGather(c int) {
	switch b.s.Scheme {
	case Direct:
		b.everyPair(func(from, to int) (src, dst part, input bool) {
			return part{0, c}, part{from * c, c}, true
		})
	case Doubling:
		b.double(c)
	case Halves:
		b.shares(true, func(lane, dir int, share func(part) part) {
			b.ringGather(lane, dir, 0, b.s.Ranks-1, share, b.parts(c), nil)
		})
	default:
		b.bothWays(b.parts(c), 0, func(int) [2]int { return [2]int{-1, -1} })
	}
}

// ringGather sends the share of each part round the ring in one direction, over "hops" hops. The
// function "brought", if not nil, returns the number of the move that brings a rank its own part.
func (b *builder) ringGather(lane, dir, step, hops int, share func(part) part, parts func(r int) part, brought func(r int) int) {
	n := b.s.Ranks
	latest := make([]int, n) // by position of the owner
	for pos := range n {
		latest[pos] = -1
		if brought != nil {
			latest[pos] = brought(b.rank(pos))
		}
	}
	for h := range hops {
		for pos := range n {
			x := share(parts(b.rank(pos)))
			if x.len == 0 {
				continue
			}
			latest[pos] = b.add(Move{From: b.rank(pos + dir*h), To: b.rank(pos + dir*(h+1)), Lane: lane, Step: step + h,
				SrcOff: x.off, DstOff: x.off, Len: x.len, SendAfter: latest[pos], TakeAfter: -1})
		}
	}
}

// double lets all ranks gather the parts of all ranks. Before step i, a rank has the parts of the 2^i
// ranks whose numbers differ from its own number only in the lowest i bits. All moves use one lane,
// because small data gain nothing from several planes.
func (b *builder) double(c int) {
	n := b.s.Ranks
	got := make([]int, n) // number of the latest move to each rank
	for r := range got {
		got[r] = -1
	}
	for step, d := 0, 1; d < n && c > 0; step, d = step+1, 2*d {
		now := make([]int, n)
		for from := range n {
			to, first := from^d, from&^(d-1)
			now[to] = b.add(Move{From: from, To: to, Step: step, SrcOff: first * c, DstOff: first * c, Len: d * c, SendAfter: got[from], TakeAfter: got[to]})
		}
		got = now
	}
}

// bothWays sends the whole of each part in both directions: half-way round a ring, or to both ends of
// a line. On a ring of even length, each direction brings the opposite rank one half. The function
// "brought" returns the numbers of the moves that bring a rank its own part, by lane on plane 0; -1: none.
func (b *builder) bothWays(parts func(r int) part, step int, brought func(r int) [2]int) {
	n := b.s.Ranks
	b.shares(false, func(lane, dir int, share func(part) part) {
		for pos := range n {
			hops := n - 1 - pos
			if dir < 0 {
				hops = pos
			}
			if b.p.Ring {
				hops = n / 2
			}
			after := brought(b.rank(pos))[lane&1]
			whole := share(parts(b.rank(pos)))
			for h := range hops {
				x := whole
				if b.p.Ring && n%2 == 0 && h == hops-1 {
					x = x.split(lane&1, 2)
				}
				if x.len == 0 {
					continue
				}
				after = b.add(Move{From: b.rank(pos + dir*h), To: b.rank(pos + dir*(h+1)), Lane: lane, Step: step + h,
					SrcOff: x.off, DstOff: x.off, Len: x.len, SendAfter: after, TakeAfter: -1})
			}
		}
	})
	b.byStep()
}

// byStep sorts moves by their steps. The numbers in SendAfter and TakeAfter follow.
func (b *builder) byStep() { b.s.sort() }

// reduceScatter reduces part r for rank r.
func (b *builder) reduceScatter() {
	s, n, c := b.s, b.s.Ranks, b.s.Count
	if s.Scheme == Direct {
		b.folded(func(r int) part { return part{r * c, c} }, c)
		return
	}
	for r := range n {
		s.Work[r], s.Result[r] = n*c, r*c
	}
	if n == 1 {
		s.Copies = append(s.Copies, Copy{0, 0, 0, c})
		return
	}
	b.scatterSums(b.parts(c))
	b.byStep()
}

// folded lets each rank collect a part of the inputs of all ranks, and combine them in the order of
// the ranks.
func (b *builder) folded(want func(r int) part, c int) {
	s, n := b.s, b.s.Ranks
	s.Fold = true
	for r := range n {
		s.Work[r] = n * c
		s.Copies = append(s.Copies, Copy{r, want(r).off, r * c, c})
	}
	b.everyPair(func(from, to int) (src, dst part, input bool) { return want(to), part{from * c, c}, true })
}

// scatterSums sends the sums of all parts to their owners. The result has the moves that complete the
// share of a part, by owner and lane; -1: none.
func (b *builder) scatterSums(parts func(r int) part) (done [][]int) {
	n := b.s.Ranks
	done = make([][]int, n)
	for r := range done {
		done[r] = make([]int, b.s.Lanes)
		for l := range done[r] {
			done[r][l] = -1
		}
	}
	ring := b.s.Scheme == Halves
	b.shares(ring, func(lane, dir int, share func(part) part) {
		for pos := range n {
			hops := n - 1 // number of hops to the owner
			if !ring {
				if hops = pos; dir < 0 {
					hops = n - 1 - pos
				}
			}
			owner := b.rank(pos)
			x := share(parts(owner))
			if x.len == 0 {
				continue
			}
			after := -1
			for h := hops; h > 0; h-- {
				m := Move{From: b.rank(pos - dir*h), To: b.rank(pos - dir*(h-1)), Lane: lane, Step: hops - h, SrcOff: x.off, DstOff: x.off, Len: x.len,
					Input: after < 0, Take: Combine, SendAfter: after, TakeAfter: -1}
				if !ring && h == 1 && dir < 0 && done[owner][lane-1] >= 0 { // the sum from the lower ranks comes first
					m.Take, m.TakeAfter = Add, done[owner][lane-1]
				}
				after = b.add(m)
			}
			done[owner][lane] = after
		}
	})
	return done
}

func (b *builder) allReduce() {
	s, n, c := b.s, b.s.Ranks, b.s.Count
	if s.Scheme == Direct {
		b.folded(func(int) part { return part{0, c} }, c)
		return
	}
	if s.Scheme == Doubling {
		s.Fold = true
		for r := range n {
			s.Work[r] = n * c
		}
		b.own(c)
		b.double(c)
		return
	}
	if n == 1 {
		s.Copies = append(s.Copies, Copy{0, 0, 0, c})
		return
	}
	parts := func(r int) part { return part{0, c}.split(b.p.At[r], n) }
	done := b.scatterSums(parts)
	if s.Scheme == Halves {
		b.shares(true, func(lane, dir int, share func(part) part) {
			b.ringGather(lane, dir, n-1, n-1, share, parts, func(r int) int { return done[r][lane] })
		})
	} else {
		b.gatherSums(parts, done)
	}
	b.byStep()
}

// gatherSums sends the sums from their owners to both ends of a line.
func (b *builder) gatherSums(parts func(r int) part, done [][]int) {
	n := b.s.Ranks
	b.shares(false, func(lane, dir int, share func(part) part) {
		for pos := range n {
			hops := n - 1 - pos
			if dir < 0 {
				hops = pos
			}
			owner := b.rank(pos)
			x := share(parts(owner))
			after := done[owner][lane|1] // the sum from the higher ranks comes last
			if after < 0 {
				after = done[owner][lane&^1]
			}
			for h := range hops {
				if x.len == 0 {
					continue
				}
				after = b.add(Move{From: b.rank(pos + dir*h), To: b.rank(pos + dir*(h+1)), Lane: lane, Step: n - 1 + h,
					SrcOff: x.off, DstOff: x.off, Len: x.len, SendAfter: after, TakeAfter: -1})
			}
		}
	})
}

// reduce sends the sum of all ranks to the root.
func (b *builder) reduce() {
	s, n, c := b.s, b.s.Ranks, b.s.Count
	switch {
	case n == 1:
		s.Copies = append(s.Copies, Copy{0, 0, 0, c})
		return
	case s.Scheme == Direct:
		s.Fold = true
		s.Work[s.Root] = n * c
		s.Copies = append(s.Copies, Copy{s.Root, 0, s.Root * c, c})
		b.everyPair(func(from, to int) (src, dst part, input bool) {
			if to != s.Root {
				return part{}, part{}, true
			}
			return part{0, c}, part{from * c, c}, true
		})
		return
	}
	for r := range n {
		s.Work[r] = c // a rank on the way keeps the sums here
	}
	only := func(r int) part {
		if r == s.Root {
			return part{0, c}
		}
		return part{}
	}
	b.scatterSums(only)
	b.byStep()
}

// broadcast sends the root's data along the path: one half each way round a ring, or all of the data
// to both ends of a line.
func (b *builder) broadcast() {
	s, n, c := b.s, b.s.Ranks, b.s.Count
	s.Copies = append(s.Copies, Copy{s.Root, 0, 0, c})
	if s.Scheme == Direct {
		b.everyPair(func(from, to int) (src, dst part, input bool) {
			if from != s.Root {
				return part{}, part{}, true
			}
			return part{0, c}, part{0, c}, true
		})
		return
	}
	ring := s.Scheme == Halves
	b.shares(ring, func(lane, dir int, share func(part) part) {
		pos, after := b.p.At[s.Root], -1
		hops := n - 1
		if !ring {
			if hops = n - 1 - pos; dir < 0 {
				hops = pos
			}
		}
		x := share(part{0, c})
		for h := range hops {
			if x.len > 0 {
				after = b.add(Move{From: b.rank(pos + dir*h), To: b.rank(pos + dir*(h+1)), Lane: lane, Step: h, SrcOff: x.off, DstOff: x.off, Len: x.len,
					Input: h == 0, SendAfter: after, TakeAfter: -1})
			}
		}
	})
	b.byStep()
}

// pairs makes the moves of operations between pairs of ranks.
func (b *builder) pairs() {
	s, n, c := b.s, b.s.Ranks, b.s.Count
	s.Scheme = Direct
	for r := range n {
		switch s.Kind {
		case Gather:
			if r == s.Root {
				s.Copies = append(s.Copies, Copy{r, 0, r * c, c})
			}
		case Scatter:
			if r == s.Root {
				s.Copies = append(s.Copies, Copy{r, r * c, 0, c})
			}
		case AllToAll:
			s.Copies = append(s.Copies, Copy{r, r * c, r * c, c})
		case SendReceive:
			if n == 1 {
				s.Copies = append(s.Copies, Copy{0, 0, 0, c})
			}
		}
	}
	b.everyPair(func(from, to int) (src, dst part, input bool) {
		switch {
		case s.Kind == Gather && to == s.Root:
			return part{0, c}, part{from * c, c}, true
		case s.Kind == Scatter && from == s.Root:
			return part{to * c, c}, part{0, c}, true
		case s.Kind == AllToAll:
			return part{to * c, c}, part{from * c, c}, true
		case s.Kind == SendReceive && to == (from+1)%n:
			return part{0, c}, part{0, c}, true
		}
		return part{}, part{}, true
	})
}

// everyPair makes a move for each pair of ranks and each plane. In step k, each rank sends to the
// rank k+1 places behind it.
func (b *builder) everyPair(f func(from, to int) (src, dst part, input bool)) {
	n := b.s.Ranks
	for k := 1; k < n; k++ {
		for from := range n {
			to := (from + k) % n
			src, dst, input := f(from, to)
			for plane := range b.planes {
				x, y := src.split(plane, b.planes), dst.split(plane, b.planes)
				if x.len > 0 {
					b.add(Move{From: from, To: to, Lane: 2 * plane, Step: k - 1, SrcOff: x.off, DstOff: y.off, Len: x.len, Input: input, SendAfter: -1, TakeAfter: -1})
				}
			}
		}
	}
}

// barrier makes the moves of a dissemination barrier: in step k, each rank tells the rank 2^k places
// behind it.
func (b *builder) barrier() {
	n := b.s.Ranks
	b.s.Scheme = Direct
	got := make([]int, n)
	for r := range got {
		got[r] = -1
	}
	for k, d := 0, 1; d < n; k, d = k+1, 2*d {
		now := make([]int, n)
		for from := range n {
			to := (from + d) % n
			now[to] = b.add(Move{From: from, To: to, Step: k, SendAfter: got[from], TakeAfter: got[to]})
		}
		got = now
	}
}
