package traffic

import (
	"time"

	"ttfabric/wire/mono"
)

// arrivals are the packets of an offered load, from when they arrive at their
// source until they are sent. They arrive whether or not the fabric keeps up,
// so that what one packet waits for another is part of its latency.
//
// Invariant: 0 ≤ head ≤ len(queue), and len(queue)-head ≤ MaxQueue.
type arrivals struct {
	started bool
	start   mono.Time
	next    float64   // nanoseconds from start to the next arrival
	last    mono.Time // arrival
	queue   []waiting
	head    int // of queue; what lies before it has been sent
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

// putBack takes the last take back. Nothing has arrived since.
func (a *arrivals) putBack() { a.head-- }

// add appends a packet; false where there is no room.
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

// arriveUntil lets happen what has happened until now.
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

// Deadline is when [Generator.Next] is to be asked next although nothing has
// ended: when a packet arrives and none waits before it.
func (g *Generator) Deadline() (mono.Time, bool) {
	a := &g.arrive
	if !a.started || g.fresh == 0 || a.waiting() > 0 {
		return 0, false
	}
	return a.start.Add(time.Duration(a.next)), true
}

// offering is the time from the start to the latest arrival.
func (g *Generator) offering() time.Duration { return g.arrive.last.Sub(g.arrive.start) }
