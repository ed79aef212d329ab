package firmware

import (
	"slices"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Messages take up*/down* routes. A search from the first chip numbers the chips by their distance.
// A cable leads up if the chip at its end is nearer to the first chip, or as near and earlier in
// the topology. A route leads up first, and then down. Therefore the buffers of the cables never
// wait for each other in a circle, whatever set of cables is in use. In a mesh, these routes are
// shortest routes.

// maxTargets is the number of targets whose distances the firmware remembers, our own choice.
const maxTargets = 64

// exit is a cable by which a message can leave this chip.
type exit struct {
	ch   wire.Channel
	down bool // the cable leads down
}

// routes are the routes over the cables that are in use.
type routes struct {
	t    *topo.Topology
	self int
	next [][]edge           // by chip: cables in use
	dist map[int][2][]int32 // by target and phase: hops from each chip, or -1
}

// edge is a cable that leaves a chip.
type edge struct {
	to int
	ch wire.Channel
	up bool
}

// newRoutes returns the routes over the cables for which out returns false.
func newRoutes(t *topo.Topology, self wire.FabricNodeID, out func(wire.PortID) bool) *routes {
	r := &routes{t: t, self: t.Index(self), next: make([][]edge, len(t.Chips)), dist: map[int][2][]int32{}}
	for i := range t.Chips {
		for _, p := range t.Ports(t.Chips[i].Node) {
			if !out(p.Local) && !out(p.Peer) {
				r.next[i] = append(r.next[i], edge{to: t.Index(p.Peer.Node), ch: p.Local.Channel})
			}
		}
	}
	level := make([]int, len(t.Chips))
	for root := range level {
		if level[root] != 0 {
			continue
		}
		level[root] = 1
		for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
			for _, e := range r.next[queue[0]] {
				if level[e.to] == 0 {
					level[e.to] = level[queue[0]] + 1
					queue = append(queue, e.to)
				}
			}
		}
	}
	for i := range r.next {
		for k := range r.next[i] {
			e := &r.next[i][k]
			e.up = level[e.to] < level[i] || level[e.to] == level[i] && e.to < i
		}
	}
	return r
}

// to returns the hops from each chip to a target, first for messages that may still go up, and then
// for messages that have gone down.
func (r *routes) to(target int) [2][]int32 {
	if d, ok := r.dist[target]; ok {
		return d
	}
	var d [2][]int32
	for phase := range d {
		d[phase] = make([]int32, len(r.next))
		for i := range d[phase] {
			d[phase][i] = -1
		}
		d[phase][target] = 0
	}
	type state struct{ chip, phase int }
	for queue := []state{{target, 0}, {target, 1}}; len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		for _, e := range r.next[s.chip] { // a message comes from the other end of the cable
			switch up := !e.up; {
			case up && s.phase == 0 && d[0][e.to] < 0:
				d[0][e.to] = d[0][s.chip] + 1
				queue = append(queue, state{e.to, 0})
			case !up && s.phase == 1:
				for phase := range d {
					if d[phase][e.to] < 0 {
						d[phase][e.to] = d[1][s.chip] + 1
						queue = append(queue, state{e.to, phase})
					}
				}
			}
		}
	}
	if len(r.dist) >= maxTargets {
		clear(r.dist)
	}
	r.dist[target] = d
	return d
}

// exits lists the cables of this chip that are first on a shortest route, by channel. The argument
// down says that the message has gone down already. After a change of the cables in use, such a
// message may have no route left. exits then lists the exits of a new message.
func (r *routes) exits(target wire.FabricNodeID, down bool, list []exit) []exit {
	to := r.t.Index(target)
	if to < 0 || to == r.self {
		return nil
	}
	d, phase := r.to(to), 0
	if down && d[1][r.self] >= 0 {
		phase = 1
	}
	here := d[phase][r.self]
	for _, e := range r.next[r.self] {
		after := 1
		if e.up {
			after = 0
		}
		if here > 0 && !(e.up && phase == 1) && d[after][e.to] == here-1 {
			list = append(list, exit{e.ch, !e.up})
		}
	}
	slices.SortFunc(list, func(a, b exit) int { return int(a.ch) - int(b.ch) })
	return list
}
