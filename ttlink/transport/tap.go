package transport

import (
	"fmt"
	"strings"
	"time"

	"ttfabric/ttlink/fault"
)

// Tapped is a datagram that has passed a tapped port. Data is valid only during the call that
// passes the Tapped.
type Tapped struct {
	At   time.Time
	Sent bool // true: the port sent the datagram; false: the port received the datagram
	Data []byte
	Fate Fate // fate of a sent datagram, if the port is impaired
}

// Fate says which faults an impaired port injected into a datagram. The zero Fate means that the
// port injected no fault.
type Fate struct {
	Done     fault.Counts  // faults of this datagram; if the datagram was duplicated, the faults of both copies
	Overfull bool          // the port dropped the datagram because too many delayed datagrams waited
	Delay    time.Duration // delay before the port sends the datagram; if the datagram was duplicated, the shorter delay of the two copies
}

// Any reports whether the port injected any fault.
func (f *Fate) Any() bool {
	d := f.Done
	d.Passed = 0
	return d != (fault.Counts{}) || f.Overfull || f.Delay > 0
}

// String describes the fate in words, such as "corrupted, delayed by 10ms". If there was no fault,
// String returns "".
func (f *Fate) String() string {
	var words []string
	d := &f.Done
	for _, w := range []struct {
		n    uint64
		word string
	}{{d.CutOff, "lost, the cable is cut"}, {d.Lost, "lost"}, {d.BurstLost, "lost in a burst"}, {d.Overflowed, "lost, the queue of the limited rate is full"},
		{btoi(f.Overfull), "lost, too many delayed datagrams wait"}, {d.Corrupted, "corrupted"}, {d.Duplicated, "duplicated"}, {d.Reordered, "held back"}} {
		if w.n > 0 {
			words = append(words, w.word)
		}
	}
	if f.Delay > 0 {
		words = append(words, fmt.Sprintf("delayed by %v", f.Delay.Round(time.Microsecond)))
	}
	return strings.Join(words, ", ")
}

func btoi(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// tap is a port that passes each datagram to the function "see".
type tap struct {
	Port
	see func(Tapped)
}

// Tap wraps a port. The wrapper calls see for each datagram that a caller sends, even if the port
// drops the datagram, and for each received datagram. Sending and receiving wait until see returns.
// For an impaired port, use [Impaired.Watch], which also shows the faults.
func Tap(p Port, see func(Tapped)) Port { return &tap{p, see} }

// Send implements [Port].
func (t *tap) Send(data []byte, seg int) (int, error) {
	t.sees(Run{Data: data, Seg: seg}, time.Now())
	return t.Port.Send(data, seg)
}

// SendBatch implements [Port].
func (t *tap) SendBatch(runs []Run) (int, error) {
	now := time.Now()
	for _, r := range runs {
		t.sees(r, now)
	}
	return t.Port.SendBatch(runs)
}

func (t *tap) sees(r Run, now time.Time) {
	r.datagrams() // panics if Seg is below 1, as Send does
	for b := r.Data; len(b) > 0; b = b[min(r.Seg, len(b)):] {
		t.see(Tapped{At: now, Sent: true, Data: b[:min(r.Seg, len(b))]})
	}
}

// Recv implements [Port].
func (t *tap) Recv(b *Batch) error {
	err := t.Port.Recv(b)
	if err == nil {
		now := time.Now()
		b.Each(func(d []byte) { t.see(Tapped{At: now, Data: d}) })
	}
	return err
}
