package capture

import (
	"container/heap"
	"time"
)

// Limits of a [Merger].
const (
	MergeQuiet = 2 * time.Second // the merger does not wait for a source that has been silent for this time
	MergeHold  = 5 * time.Second // the merger holds no packet back for longer than this time
	MergeBytes = 256 << 20       // largest total of packets that are held back, in bytes; beyond this limit, the merger passes on the oldest
)

// Merger puts the packets of several captures into the order of time. Each source delivers its own
// packets in order, but not all at once. Each source also reports from time to time up to which
// time it has delivered. The merger holds a packet back until all sources have delivered up to the
// packet's time, or until a limit is reached. The times of packets come from the sources' clocks.
// The parameter now is the time of the caller's clock.
type Merger struct {
	sources []mergeSource
	queue   mergeQueue
	bytes   int
	n       uint64
	newest  time.Time // latest time of all packets passed on
	Late    uint64    // number of packets passed on after a packet with a later time
}

// mergeSource holds what the merger knows about a source.
type mergeSource struct {
	open  bool
	past  time.Time // all packets of the source up to this time have come
	heard time.Time // when the source last delivered or reported
}

// merging is a packet that is held back.
type merging struct {
	Packet
	arrived time.Time
	n       uint64 // keeps the order of packets of the same instant
}

// packetCost is the memory of a packet in addition to its data, in bytes.
const packetCost = 256

// NewMerger returns a merger of sources that are numbered from 0. The merger waits for a source
// only while the source is open.
func NewMerger(sources int) *Merger { return &Merger{sources: make([]mergeSource, sources)} }

// Open begins to wait for a source.
func (m *Merger) Open(now time.Time, source int) {
	m.sources[source] = mergeSource{open: true, heard: now}
}

// Close stops waiting for a source. The source delivers nothing until it is opened again.
func (m *Merger) Close(source int) { m.sources[source].open = false }

// The caller calls Past when all packets of a source up to time t have come.
func (m *Merger) Past(now time.Time, source int, t time.Time) {
	s := &m.sources[source]
	s.heard = now
	if t.After(s.past) {
		s.past = t
	}
}

// Add takes over a packet, with its data, that came from a source at now.
func (m *Merger) Add(now time.Time, source int, p Packet) {
	m.Past(now, source, p.At)
	m.n++
	m.bytes += len(p.Data) + packetCost
	heap.Push(&m.queue, &merging{p, now, m.n})
}

// Next returns the next packet that may be passed on. If all is set, Next does not wait for any
// source.
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

// Waiting returns the number of packets that are held back.
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

// Push appends a packet. Push is for container/heap.
func (q *mergeQueue) Push(x any) { *q = append(*q, x.(*merging)) }

// Pop removes the last packet and returns it. Pop is for container/heap.
func (q *mergeQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return x
}
