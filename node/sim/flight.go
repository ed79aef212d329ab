package sim

import (
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// flightSize is the size of a flight's memory for datagrams, in bytes. A longer datagram gets a
// flight of its own. Flights are small because the simulator then reuses their memory while the
// memory is still in the processor's cache.
const flightSize = 4096

// flight is a sequence of datagrams that arrive at one port at the same time. The datagrams were
// sent one after another, and no other event was planned in between. One entry of the event heap
// therefore suffices for all datagrams of a flight.
type flight struct {
	at   mono.Time
	to   *machine
	ch   wire.Channel
	data []byte // the datagrams, one directly after another; never more than the slice's initial capacity
	ends []int  // index in data at which each datagram ends
}

// send plans the arrival of a datagram at a port. The fate f holds the time of arrival, and how the
// fault model changed the datagram.
func (q *events) send(f *fault.Fate, now mono.Time, to *machine, ch wire.Channel, datagram []byte) {
	at, l := max(f.At, now), q.last
	if l == nil || q.lastN != q.n || l.at != at || l.to != to || l.ch != ch || len(l.data)+len(datagram) > cap(l.data) {
		l = q.newFlight(len(datagram))
		l.at, l.to, l.ch = at, to, ch
		q.add(at, what{flight: l})
		q.last, q.lastN = l, q.n
	}
	l.data = f.Append(l.data, datagram)
	l.ends = append(l.ends, len(l.data))
}

// newFlight returns a flight with room for a datagram of size bytes.
func (q *events) newFlight(size int) *flight {
	f := &flight{}
	if n := len(q.landed); n > 0 {
		f, q.landed = q.landed[n-1], q.landed[:n-1]
	}
	if cap(f.data) < max(size, flightSize) {
		f.data = make([]byte, 0, max(size, flightSize))
	}
	return f
}

// land notes that a flight has left the heap. The flight gets no more datagrams.
func (q *events) land(f *flight) {
	if q.last == f {
		q.last = nil
	}
}

// done returns a flight whose datagrams have been read. New flights use the flight's memory.
func (q *events) done(f *flight) {
	*f = flight{data: f.data[:0], ends: f.ends[:0]}
	q.landed = append(q.landed, f)
}
