package transport

import "time"

// Tapped is a datagram that has passed a tapped port. Data is valid during the call only.
type Tapped struct {
	At   time.Time
	Sent bool // by the port; else received
	Data []byte
}

// tap is a port that shows what passes it.
type tap struct {
	Port
	see func(Tapped)
}

// Tap wraps a port: see is called for each datagram that is handed to Send,
// whether or not it gets through, and for each one that is received. It is
// called from whatever goroutine sends or receives, and holds it up.
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
		t.see(Tapped{now, true, b[:min(r.Seg, len(b))]})
	}
}

// Recv implements [Port].
func (t *tap) Recv(b *Batch) error {
	err := t.Port.Recv(b)
	if err == nil {
		now := time.Now()
		b.Each(func(d []byte) { t.see(Tapped{now, false, d}) })
	}
	return err
}
