package firmware

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// machines returns all machines of the generators, and all descriptors that the repository has.
func machines(t *testing.T) (all []*topo.Topology) {
	t.Helper()
	for _, b := range topo.Builders {
		all = append(all, named(t, b.Example))
	}
	for _, name := range []string{"ring:3", "ring:7", "torus:2x2", "torus:3x3", "torus:4x4", "mesh:5x7", "torus:8x8", "ring:2"} {
		if m, err := topo.Named(name); err == nil {
			all = append(all, m)
		}
	}
	files, _ := filepath.Glob("../../router/topo/testdata/*.*")
	n := 0
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := topo.Load(filepath.Base(f), b); err == nil && len(m.Chips) > 1 {
			all, n = append(all, m), n+1
		}
	}
	if n < 10 {
		t.Fatalf("%d descriptors of several chips", n)
	}
	return all
}

// cabling numbers the directions of a machine's cables.
type cabling struct {
	m    *topo.Topology
	at   [][wire.MaxChannels]int // by chip and channel: number of the cable that leaves there, or -1
	from []wire.PortID           // by number
	to   []int                   // by number: chip at the other end
	back []int                   // by number: the other direction
}

func cablingOf(m *topo.Topology) *cabling {
	c := &cabling{m: m, at: make([][wire.MaxChannels]int, len(m.Chips))}
	for i := range m.Chips {
		for ch := range c.at[i] {
			c.at[i][ch] = -1
		}
		for _, p := range m.Ports(m.Chips[i].Node) {
			c.at[i][p.Local.Channel] = len(c.from)
			c.from, c.to = append(c.from, p.Local), append(c.to, m.Index(p.Peer.Node))
		}
	}
	c.back = make([]int, len(c.from))
	for i := range m.Chips {
		for _, p := range m.Ports(m.Chips[i].Node) {
			c.back[c.at[i][p.Local.Channel]] = c.at[m.Index(p.Peer.Node)][p.Peer.Channel]
		}
	}
	return c
}

// number returns the number of the cable that leaves at a port.
func (c *cabling) number(p wire.PortID) int { return c.at[c.m.Index(p.Node)][p.Channel] }

// dependency holds, for each cable by number, the cables for whose buffers the messages in this
// cable's buffers wait.
type dependency [][]bool

// circle reports whether there is a circle of dependencies.
func (d dependency) circle() bool {
	waits := make([]int, len(d)) // cables that wait for a cable
	for _, row := range d {
		for q, is := range row {
			if is {
				waits[q]++
			}
		}
	}
	var free []int
	for p, n := range waits {
		if n == 0 {
			free = append(free, p)
		}
	}
	left := len(d)
	for ; len(free) > 0; left-- {
		p := free[len(free)-1]
		free = free[:len(free)-1]
		for q, is := range d[p] {
			if is {
				if waits[q]--; waits[q] == 0 {
					free = append(free, q)
				}
			}
		}
	}
	return left > 0
}

// walk follows every way that a message from any chip to any chip can take, and returns the dependencies. The
// argument "out" says which cables are out of use. Each message must reach its target if any cables lead
// there, and must not go up after it has gone down.
func (c *cabling) walk(t *testing.T, out []bool) dependency {
	t.Helper()
	d := make(dependency, len(c.from))
	for i := range d {
		d[i] = make([]bool, len(c.from))
	}
	r := newRoutes(c.m, c.m.Chips[0].Node, func(p wire.PortID) bool { return out[c.number(p)] })
	part := c.parts(out)
	type state struct {
		chip, by int // by: cable of the last hop, or -1
		down     bool
	}
	var list []exit
	for to := range c.m.Chips {
		var queue []state
		for i := range c.m.Chips {
			if i != to && part[i] == part[to] {
				queue = append(queue, state{i, -1, false})
			}
		}
		seen := make([][2]bool, len(c.from))
		for len(queue) > 0 {
			s := queue[len(queue)-1]
			queue = queue[:len(queue)-1]
			if s.chip == to {
				continue
			}
			r.self = s.chip
			if list = r.exits(c.m.Chips[to].Node, s.down, list[:0]); len(list) == 0 {
				t.Fatalf("%s: no way from %s to %s", c.m.Name, c.m.Chips[s.chip].Node, c.m.Chips[to].Node)
			}
			for _, e := range list {
				p, down := c.at[s.chip][e.ch], 0
				if e.down {
					down = 1
				}
				if out[p] || out[c.back[p]] || s.down && !e.down {
					t.Fatalf("%s: a message at %s takes E%d", c.m.Name, c.m.Chips[s.chip].Node, e.ch)
				}
				if s.by >= 0 {
					d[s.by][p] = true
				}
				if !seen[p][down] {
					seen[p][down] = true
					queue = append(queue, state{c.to[p], p, e.down})
				}
			}
		}
	}
	return d
}

// parts numbers the chips by the part of the machine to which cables in use connect them.
func (c *cabling) parts(out []bool) []int {
	part := make([]int, len(c.m.Chips))
	for i := range part {
		if part[i] != 0 {
			continue
		}
		part[i] = i + 1
		for queue := []int{i}; len(queue) > 0; queue = queue[1:] {
			for _, p := range c.at[queue[0]] {
				if p >= 0 && !out[p] && !out[c.back[p]] && part[c.to[p]] == 0 {
					part[c.to[p]] = i + 1
					queue = append(queue, c.to[p])
				}
			}
		}
	}
	return part
}

// TestRoutesHaveNoCircles proves for all machines that the internal buffers of no circle of cables
// wait for each other. The test tries each machine with all cables, without each cable, and without
// each two cables. If a machine has many pairs of cables, the test chooses some pairs by a seed.
// With "-args -cuts 1000000", the test tries all pairs.
func TestRoutesHaveNoCircles(t *testing.T) {
	t.Parallel()
	for _, m := range machines(t) {
		c := cablingOf(m)
		var cables []int
		steps := 0
		for p, q := range c.back {
			if steps += len(m.Chips); p < q {
				cables = append(cables, p)
			}
		}
		cuts := [][]int{nil}
		for i, p := range cables {
			cuts = append(cuts, []int{p})
			for _, q := range cables[:i] {
				cuts = append(cuts, []int{p, q})
			}
		}
		r := rand.New(rand.NewPCG(1, uint64(len(cuts))))
		r.Shuffle(len(cuts)-1, func(i, j int) { cuts[i+1], cuts[j+1] = cuts[j+1], cuts[i+1] })
		n := min(len(cuts), 1+*cutSteps*1000/steps)
		for _, cut := range cuts[:n] {
			out := make([]bool, len(c.from))
			for _, p := range cut {
				out[p] = true
			}
			if c.walk(t, out).circle() {
				t.Fatalf("%s without cables %v: a circle of buffers", m.Name, cut)
			}
		}
		t.Logf("%s: %d chips, %d cables, %d of %d cuts", m.Name, len(m.Chips), len(cables), n, len(cuts))
	}
}

var cutSteps = flag.Int("cuts", 150, "TestRoutesHaveNoCircles: thousands of steps for each machine")

// A rule that knows no up and down closes a circle in a ring, because all messages continue in
// their direction.
func TestCirclesAreFound(t *testing.T) {
	c := cablingOf(named(t, "ring:5"))
	d := make(dependency, len(c.from))
	for p := range d {
		d[p] = make([]bool, len(c.from))
		for _, q := range c.at[c.to[p]] {
			if q >= 0 && c.to[q] != c.m.Index(c.from[p].Node) {
				d[p][q] = true
			}
		}
	}
	if !d.circle() {
		t.Error("no circle in a ring in which all messages go on")
	}
}
