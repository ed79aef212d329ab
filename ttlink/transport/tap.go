package transport

import (
	"fmt"
	"strings"
	"time"

	"ttfabric/ttlink/fault"
)

// Tapped is a datagram that has passed a tapped port. Data is valid during the call only.
type Tapped struct {
	At   time.Time
	Sent bool // by the port; else received
	Data []byte
	Fate Fate // of what is sent, where the port is impaired
}

// Fate is what was done to a datagram on purpose. The zero Fate is nothing.
type Fate struct {
	Done     fault.Counts  // to this one datagram; of copies, to all
	Overfull bool          // it was dropped because too many waited for their time
	Delay    time.Duration // until it goes; of copies, the first of them
}

// Any reports whether anything was done.
func (f *Fate) Any() bool {
	d := f.Done
	d.Passed = 0
	return d != (fault.Counts{}) || f.Overfull || f.Delay > 0
}

// String says it in words, "" for nothing: "corrupted, delayed by 10ms".
func (f *Fate) String() string {
	var words []string
	d := &f.Done
	for _, w := range []struct {
		n    uint64
		word string
	}{{d.CutOff, "lost, the cable is cut"}, {d.Lost, "lost"}, {d.BurstLost, "lost in a burst"}, {d.Overflowed, "lost, the queue of the limited rate is full"},
		{btoi(f.Overfull), "lost, too much is delayed"}, {d.Corrupted, "corrupted"}, {d.Duplicated, "duplicated"}, {d.Reordered, "held back"}} {
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

// tap is a port that shows what passes it.
type tap struct {
	Port
	see func(Tapped)
}

// Tap wraps a port: see is called for each datagram that is handed to Send,
// whether or not it gets through, and for each one that is received. It is
// called from whatever goroutine sends or receives, and holds it up. An impaired port is
// better watched itself, see [Impaired.Watch].
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
	r.datagrams() // panics on a bad size, as Send does
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
