package traffic

import (
	"time"

	"ttfabric/wire/mono"
)

// arrivals are the packets of an offered load, from their arrival at the source until they are
// sent. Packets arrive whether or not the fabric keeps up. So the time for which a packet waits
// behind others is part of its latency.
//
// Invariant: 0 ≤ head ≤ len(queue), and len(queue)-head ≤ MaxQueue.
type arrivals struct {
	started bool
	start   mono.Time
	next    float64   // nanoseconds from start to the next arrival
	last    mono.Time // instant of the latest arrival
	queue   []waiting
	head    int // index in queue; the entries before it have been sent
}

// waiting is a packet that has arrived.
type waiting struct {
	flow int
	came mono.Time
}

func (a *arrivals) waiting() int { return len(a.queue) - a.head }

// take removes the packet that has waited longest.
func (a *arrivals) take() (flow int, came mono.Time) {
	w := a.queue[a.head]
	a.head++
	return w.flow, w.came
}

// putBack undoes the last take. Nothing may have arrived since.
func (a *arrivals) putBack() { a.head-- }

// add appends a packet. add reports false if there is no room.
func (a *arrivals) add(flow int, came mono.Time) bool {
	if a.waiting() >= MaxQueue {
		return false
	}
	if a.head > len(a.queue)/2 {
		a.queue, a.head = a.queue[:copy(a.queue, a.queue[a.head:])], 0
	}
	a.queue = append(a.queue, waiting{flow, came})
	return true
}

// arriveUntil makes the packets arrive that are due by now.
func (g *Generator) arriveUntil(now mono.Time) {
	a := &g.arrive
	if !a.started {
		a.started, a.start, a.last = true, now, now
		a.next = g.pause()
	}
	for g.fresh > 0 {
		at := a.start.Add(time.Duration(a.next))
		if at.After(now) {
			return
		}
		i := g.pick()
		g.flows[i].Offered++
		if !a.add(i, at) {
			g.flows[i].Overflowed++
			g.left--
		}
		g.last = -1
		a.last = at
		a.next += g.pause()
	}
}

// pause is the time from one arrival to the next, in nanoseconds.
func (g *Generator) pause() float64 { return g.rng.ExpFloat64() / g.spec.Load * float64(time.Second) }

// Deadline is when a packet arrives while none waits. [Generator.Next] must then be called even if
// no packet has ended.
func (g *Generator) Deadline() (mono.Time, bool) {
	a := &g.arrive
	if !a.started || g.fresh == 0 || a.waiting() > 0 {
		return 0, false
	}
	return a.start.Add(time.Duration(a.next)), true
}

// offering is the time from the start to the latest arrival.
func (g *Generator) offering() time.Duration { return g.arrive.last.Sub(g.arrive.start) }
