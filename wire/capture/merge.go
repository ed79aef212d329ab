package capture

import (
	"container/heap"
	"time"
)

// Limits of a [Merger].
const (
	MergeQuiet = 2 * time.Second // a source of which nothing at all has come for so long is not waited for
	MergeHold  = 5 * time.Second // no packet is kept back for longer
	MergeBytes = 256 << 20       // of packets that are kept back; beyond it the oldest go on
)

// Merger puts the packets of several captures in the order of time. Each source
// yields its own in order, but not all at once, and tells from time to time how
// far it has come: a packet is kept back until all sources have come as far, or the
// limits are reached. Times are those of the sources' clocks; now is that of the caller's.
type Merger struct {
	sources []mergeSource
	queue   mergeQueue
	bytes   int
	n       uint64
	newest  time.Time // of those that went on
	Late    uint64    // packets that went on behind a later one
}

// mergeSource is what is known of a source.
type mergeSource struct {
	open  bool
	past  time.Time // up to here all its packets have come
	heard time.Time // when something came last
}

// merging is a packet that is kept back.
type merging struct {
	Packet
	arrived time.Time
	n       uint64 // keeps the order of those of one instant
}

// packetCost is what a packet takes beside its data, in bytes.
const packetCost = 256

// NewMerger returns a merger of sources that are numbered from 0. None is waited for before it is opened.
func NewMerger(sources int) *Merger { return &Merger{sources: make([]mergeSource, sources)} }

// Open begins to wait for a source.
func (m *Merger) Open(now time.Time, source int) {
	m.sources[source] = mergeSource{open: true, heard: now}
}

// Close ends to wait for a source: nothing comes of it until it is opened again.
func (m *Merger) Close(source int) { m.sources[source].open = false }

// Past says that all packets of a source up to t have come.
func (m *Merger) Past(now time.Time, source int, t time.Time) {
	s := &m.sources[source]
	s.heard = now
	if t.After(s.past) {
		s.past = t
	}
}

// Add takes a packet over, data and all, that came from a source at now.
func (m *Merger) Add(now time.Time, source int, p Packet) {
	m.Past(now, source, p.At)
	m.n++
	m.bytes += len(p.Data) + packetCost
	heap.Push(&m.queue, &merging{p, now, m.n})
}

// Next yields the next packet that may go on; with all, whatever there is.
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

// Waiting is how many packets are kept back.
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

// Push appends, for container/heap.
func (q *mergeQueue) Push(x any) { *q = append(*q, x.(*merging)) }

// Pop takes the last, for container/heap.
func (q *mergeQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return x
}
