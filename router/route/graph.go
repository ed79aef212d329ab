package route

import "slices"

// graph is a channel dependency graph (Dally and Seitz, 1987): an edge from a
// channel to another says that a packet may hold a slot of the first while it
// waits for one of the second. Without a cycle, some packet can always move.
type graph struct {
	out   [][]int32
	edges int
}

func newGraph(channels int) *graph { return &graph{out: make([][]int32, channels)} }

// add notes a dependency, once.
func (g *graph) add(a, b int32) {
	if a == b || slices.Contains(g.out[a], b) {
		return
	}
	g.out[a] = append(g.out[a], b)
	g.edges++
}

// join notes all dependencies of a graph whose channels have numbers so much higher here.
func (g *graph) join(h *graph, by int32) {
	for n, out := range h.out {
		a := int32(n) + by
		fresh := len(g.out[a]) == 0 && len(out) > 0
		if fresh {
			g.out[a] = make([]int32, 0, len(out))
		}
		for _, b := range out {
			if fresh {
				g.out[a] = append(g.out[a], b+by)
				g.edges++
			} else {
				g.add(a, b+by)
			}
		}
	}
}

// used is the number of channels that wait for another.
func (g *graph) used() (n int) {
	for _, out := range g.out {
		if len(out) > 0 {
			n++
		}
	}
	return n
}

// cycle returns a cycle, its first channel once; nil where there is none.
func (g *graph) cycle() []int32 {
	const fresh, open, done = 0, 1, 2
	mark := make([]uint8, len(g.out))
	type frame struct {
		at   int32
		next int32
	}
	var stack []frame
	for root := range g.out {
		if mark[root] != fresh || len(g.out[root]) == 0 {
			continue
		}
		mark[root] = open
		stack = append(stack[:0], frame{at: int32(root)})
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if int(f.next) == len(g.out[f.at]) {
				mark[f.at] = done
				stack = stack[:len(stack)-1]
				continue
			}
			to := g.out[f.at][f.next]
			f.next++
			switch mark[to] {
			case fresh:
				mark[to] = open
				stack = append(stack, frame{at: to})
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
