package route

// graph is a channel dependency graph (Dally and Seitz, 1987). A dependency of channel a on channel
// b means that a packet in a slot of a may wait for a slot of b. If the graph has no cycle, some
// packet can always move. The graph is compact, because most channels of a large fabric wait for no
// other channel. A channel takes four bytes, and a dependency takes eight bytes.
type graph struct {
	first []int32 // for each channel: index in deps of the latest dependency; 0: no dependency
	deps  []dep   // all dependencies; element 0 is not used
}

// dep is a dependency of a channel on another channel.
type dep struct {
	on   int32 // the channel that the dependent channel waits for
	next int32 // index in deps of another dependency of the same channel; 0: no more
}

func newGraph(channels int) *graph {
	return &graph{first: make([]int32, channels), deps: make([]dep, 1)}
}

// reset removes all dependencies.
func (g *graph) reset() {
	clear(g.first)
	g.deps = g.deps[:1]
}

// grow adds a channel without dependencies.
func (g *graph) grow() { g.first = append(g.first, 0) }

// edges returns the number of dependencies.
func (g *graph) edges() int { return len(g.deps) - 1 }

// add adds the dependency of channel a on channel b. add ignores a dependency that the graph
// already has, and a dependency of a channel on itself.
func (g *graph) add(a, b int32) {
	if a == b {
		return
	}
	for e := g.first[a]; e != 0; e = g.deps[e].next {
		if g.deps[e].on == b {
			return
		}
	}
	g.deps = append(g.deps, dep{b, g.first[a]})
	g.first[a] = int32(len(g.deps) - 1)
}

// join adds all dependencies of graph h to graph g. Channel c of h becomes channel c+by of g.
func (g *graph) join(h *graph, by int32) {
	for a, e := range h.first {
		for ; e != 0; e = h.deps[e].next {
			g.add(int32(a)+by, h.deps[e].on+by)
		}
	}
}

// used returns the number of channels that wait for another channel.
func (g *graph) used() (n int) {
	for _, e := range g.first {
		if e != 0 {
			n++
		}
	}
	return n
}

// cycle returns the channels of a cycle, each once, in the order of the dependencies. If there is
// no cycle, cycle returns nil.
func (g *graph) cycle() []int32 {
	const fresh, open, done = 0, 1, 2
	mark := make([]uint8, len(g.first))
	type frame struct{ at, dep int32 }
	var stack []frame
	for root, e := range g.first {
		if mark[root] != fresh || e == 0 {
			continue
		}
		mark[root] = open
		stack = append(stack[:0], frame{int32(root), e})
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if f.dep == 0 {
				mark[f.at] = done
				stack = stack[:len(stack)-1]
				continue
			}
			to := g.deps[f.dep].on
			f.dep = g.deps[f.dep].next
			switch mark[to] {
			case fresh:
				mark[to] = open
				stack = append(stack, frame{to, g.first[to]})
			case open:
				i := len(stack) - 1
				for stack[i].at != to {
					i--
				}
				var c []int32
				for ; i < len(stack); i++ {
					c = append(c, stack[i].at)
				}
				return c
			}
		}
	}
	return nil
}
