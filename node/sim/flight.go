package sim

import (
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// flightSize is the number of bytes of datagrams that a flight has room for. If a datagram is
// longer, a flight holds that datagram alone. Datagrams that do not fit go into another flight.
// With small flights, the simulator uses the memory of landed flights again while the memory is in
// the processor's cache.
const flightSize = 4096

// flight is a run of datagrams that were sent one after another to one port and arrive at the same
// instant. No event was planned between these datagrams. For that reason no event happens between
// them, and the datagrams are one entry of the event heap.
type flight struct {
	at   mono.Time
	to   *machine
	ch   wire.Channel
	data []byte // the datagrams, one directly after another; the slice's memory never grows
	ends []int  // end of each datagram in data
}

// send plans the arrival of a datagram with its fate at a port.
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

// land notes that a flight has left the heap. The flight does not grow any more.
func (q *events) land(f *flight) {
	if q.last == f {
		q.last = nil
	}
}

// done notes that nobody reads a landed flight any more.
func (q *events) done(f *flight) {
	*f = flight{data: f.data[:0], ends: f.ends[:0]}
	q.landed = append(q.landed, f)
}
