package capture

import (
	"container/heap"
	"time"
)

// Limits of a [Merger].
const (
	MergeQuiet = 2 * time.Second // the merger does not wait for a source that has neither delivered nor reported for this time
	MergeHold  = 5 * time.Second // longest time for which the merger holds a packet back
	MergeBytes = 256 << 20       // largest memory of the packets that the merger holds back, in bytes; above this limit, the merger passes on the earliest packet
)

// Merger merges the packets of several captures, its sources, in the order of time. Each source
// delivers its own packets in the order of time. Now and then a source also reports a time up to
// which it has delivered all packets. The merger holds a packet back until all open sources have
// delivered up to the packet's time, or until a limit is reached. The times of packets come from
// the sources' clocks. The parameter "now" of the methods is the time of the caller's clock.
type Merger struct {
	sources []mergeSource
	queue   mergeQueue
	bytes   int
	n       uint64
	newest  time.Time // latest time of the packets passed on
	Late    uint64    // number of packets passed on after a packet with a later time
}

// mergeSource holds what the merger knows about a source.
type mergeSource struct {
	open  bool
	past  time.Time // the source has delivered all packets up to this time
	heard time.Time // when the source last delivered or reported
}

// merging is a packet that the merger holds back.
type merging struct {
	Packet
	arrived time.Time
	n       uint64 // number of the packet in the order of arrival, which decides between packets of the same time
}

// packetCost is the memory that a packet takes in addition to its data, in bytes.
const packetCost = 256

// NewMerger returns a merger for the given number of sources, which are numbered from 0. All
// sources are closed at first. The merger waits only for open sources.
func NewMerger(sources int) *Merger { return &Merger{sources: make([]mergeSource, sources)} }

// Open opens a source. The merger waits for the source from now on.
func (m *Merger) Open(now time.Time, source int) {
	m.sources[source] = mergeSource{open: true, heard: now}
}

// Close closes a source. The merger no longer waits for the source. A closed source delivers no
// packets.
func (m *Merger) Close(source int) { m.sources[source].open = false }

// Past tells the merger that a source has delivered all its packets up to time t.
func (m *Merger) Past(now time.Time, source int, t time.Time) {
	s := &m.sources[source]
	s.heard = now
	if t.After(s.past) {
		s.past = t
	}
}

// Add gives the merger a packet that a source has delivered at the time now. The merger keeps the
// packet's data without a copy.
func (m *Merger) Add(now time.Time, source int, p Packet) {
	m.Past(now, source, p.At)
	m.n++
	m.bytes += len(p.Data) + packetCost
	heap.Push(&m.queue, &merging{p, now, m.n})
}

// Next returns the earliest packet and true. If the merger must hold the packet back, or has no
// packet, Next returns false. If the parameter "all" is true, Next holds no packet back.
func (m *Merger) Next(now time.Time, all bool) (Packet, bool) {
	if len(m.queue) == 0 {
		return Packet{}, false
	}
	p := m.queue[0]
	if !all && m.bytes <= MergeBytes && now.Sub(p.arrived) < MergeHold {
		for i := range m.sources {
			if s := &m.sources[i]; s.open && s.past.Before(p.At) && now.Sub(s.heard) < MergeQuiet {
				return Packet{}, false
			}
		}
	}
	heap.Pop(&m.queue)
	m.bytes -= len(p.Data) + packetCost
	if p.At.Before(m.newest) {
		m.Late++
	} else {
		m.newest = p.At
	}
	return p.Packet, true
}

// Waiting returns the number of packets that the merger holds back.
func (m *Merger) Waiting() int { return len(m.queue) }

type mergeQueue []*merging

func (q mergeQueue) Len() int { return len(q) }
func (q mergeQueue) Less(a, b int) bool {
	if c := q[a].At.Compare(q[b].At); c != 0 {
		return c < 0
	}
	return q[a].n < q[b].n
}
func (q mergeQueue) Swap(a, b int) { q[a], q[b] = q[b], q[a] }

// Push appends a packet to the queue, as container/heap requires.
func (q *mergeQueue) Push(x any) { *q = append(*q, x.(*merging)) }

// Pop removes the last packet of the queue and returns it, as container/heap requires.
func (q *mergeQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return x
}
