package traffic

import (
	"time"

	"ttfabric/wire/mono"
)

// arrivals holds the packets of an offered load, from their arrival at the source until the
// source sends them. Packets arrive at the rate of the load, even if the fabric is slower. The
// latency of a packet therefore includes the time that the packet waits in the queue.
//
// Invariant: 0 ≤ head ≤ len(queue), and len(queue)-head ≤ MaxQueue.
type arrivals struct {
	started bool
	start   mono.Time
	next    float64   // time from start to the next arrival, in nanoseconds
	last    mono.Time // time of the latest arrival
	queue   []waiting
	head    int // index in queue of the oldest packet that waits; the source has sent the entries before it
}

// waiting is a packet that has arrived and waits to be sent.
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

// putBack undoes the last call of take. No packet may have arrived since the call of take.
func (a *arrivals) putBack() { a.head-- }

// add appends a packet to the queue. If MaxQueue packets already wait, add returns false.
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

// arriveUntil lets all packets arrive that are due by now, and puts them into the queue. If MaxQueue
// packets wait, arriveUntil discards the packet as overflow. The first call starts the arrivals.
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

// pause returns the time from one arrival to the next, in nanoseconds.
func (g *Generator) pause() float64 { return g.rng.ExpFloat64() / g.spec.Load * float64(time.Second) }

// Deadline returns the time of the next arrival, if no packet waits now. At this time, the caller
// must call [Generator.Next], even if no packet has ended. If a packet waits,
// if no packet will arrive, or before the first call of Next, Deadline returns false.
func (g *Generator) Deadline() (mono.Time, bool) {
	a := &g.arrive
	if !a.started || g.fresh == 0 || a.waiting() > 0 {
		return 0, false
	}
	return a.start.Add(time.Duration(a.next)), true
}

// offering returns the time from the start of the arrivals to the latest arrival.
func (g *Generator) offering() time.Duration { return g.arrive.last.Sub(g.arrive.start) }
