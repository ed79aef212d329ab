package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// TestEventsInOrder plans steps and datagrams at random times. The events must come in the order of
// time, and at equal times in the order of planning.
func TestEventsInOrder(t *testing.T) {
	type planned struct {
		at   mono.Time
		wake int // number of the step; 0: the event is a datagram
		ch   wire.Channel
		data byte
	}
	rng := rand.New(rand.NewPCG(1, 1))
	var q events
	var want []planned
	var unread []*flight
	m, now, flights, rows := &machine{}, mono.Time(0), 0, 0
	for n := range 5_000 {
		switch k := rng.IntN(20); {
		case k == 0:
			p := planned{at: now + mono.Time(rng.IntN(4)), wake: n + 1}
			q.add(p.at, what{m: m, wake: p.wake})
			want = append(want, p)
		case k < 6:
			p := planned{at: now + mono.Time(rng.IntN(2)), ch: wire.Channel(rng.IntN(2)), data: byte(n)}
			rows++
			for range 1 + rng.IntN(4) {
				before := len(q.heap)
				q.send(&fault.Fate{At: p.at}, now, m, p.ch, []byte{p.data, byte(p.ch)})
				flights += len(q.heap) - before
				want = append(want, p)
			}
		case len(q.heap) > 0:
			slices.SortStableFunc(want, func(a, b planned) int { return cmp.Compare(a.at, b.at) })
			now = q.heap[0].at
			w := q.take()
			got := []planned{{at: now, wake: w.wake}}
			if f := w.flight; f != nil {
				q.land(f)
				unread, got = append(unread, f), nil
				for i, end := range f.ends {
					a := f.data[2*i : end]
					got = append(got, planned{at: now, ch: f.ch, data: a[0]})
					if len(a) != 2 || a[1] != byte(f.ch) {
						t.Fatalf("step %d: datagram % x on channel %d", n, a, f.ch)
					}
				}
			}
			if !slices.Equal(got, want[:len(got)]) {
				t.Fatalf("step %d: the event is %+v, want %+v", n, got, want[:len(got)])
			}
			want = want[len(got):]
		}
		for ; len(unread) > 0 && rng.IntN(4) == 0; unread = unread[1:] {
			q.done(unread[0])
		}
	}
	if flights == 0 || flights > rows {
		t.Errorf("%d entries of the heap for %d flights of datagrams, want one entry for each", flights, rows)
	}
}
