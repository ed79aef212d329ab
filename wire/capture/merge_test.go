package capture_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"ttfabric/wire/capture"
)

// TestMergeOrders merges sources that deliver with random delays and report their progress. The
// merger must return each packet once, in the order of time, and soon.
func TestMergeOrders(t *testing.T) {
	const beat, lag = 200 * time.Millisecond, 700 * time.Millisecond
	rng := rand.New(rand.NewPCG(4, 4))
	begin := time.Unix(1000, 0)
	type arrival struct {
		at     time.Time
		source int
		p      capture.Packet // a packet without data is a report of progress
	}
	var all []arrival
	packets := 0
	for s := range 5 {
		at, came, told := begin, begin, begin
		arrive := func(p capture.Packet) {
			if c := p.At.Add(time.Duration(rng.Int64N(int64(lag)))); c.After(came) {
				came = c // each source delivers in order
			}
			all = append(all, arrival{came, s, p})
		}
		for range 2000 {
			at = at.Add(time.Duration(rng.Int64N(int64(2 * time.Millisecond))))
			if rng.IntN(500) == 0 {
				at = at.Add(time.Second) // a pause
			}
			for ; at.Sub(told) > beat; told = told.Add(beat) {
				arrive(capture.Packet{At: told.Add(beat)})
			}
			arrive(capture.Packet{Interface: s, At: at, Data: []byte{1}})
			packets++
		}
		for ; told.Before(begin.Add(time.Minute)); told = told.Add(beat) {
			arrive(capture.Packet{At: told.Add(beat)})
		}
	}
	slices.SortStableFunc(all, func(a, b arrival) int { return a.at.Compare(b.at) })
	m := capture.NewMerger(5)
	for s := range 5 {
		m.Open(begin, s)
	}
	var out []capture.Packet
	for _, a := range all {
		if len(a.p.Data) == 0 {
			m.Past(a.at, a.source, a.p.At)
		} else {
			m.Add(a.at, a.source, a.p)
		}
		for p, ok := m.Next(a.at, false); ok; p, ok = m.Next(a.at, false) {
			if a.at.Sub(p.At) > 2*lag+beat {
				t.Fatalf("kept back for %v", a.at.Sub(p.At))
			}
			out = append(out, p)
		}
	}
	if len(out) != packets || m.Late != 0 || m.Waiting() != 0 || !slices.IsSortedFunc(out, func(a, b capture.Packet) int { return a.At.Compare(b.At) }) {
		t.Errorf("%d of %d came out, %d late", len(out), packets, m.Late)
	}
}

// TestMergeLimits checks how long a merger holds packets back if one source is silent, far behind,
// or closed. The test also checks that the merger counts late packets.
func TestMergeLimits(t *testing.T) {
	first := time.Unix(1000, 0)
	for name, x := range map[string]struct {
		behind time.Duration // how far the other source's clock is behind; 0: the other source is silent
		close  bool
		wait   time.Duration
	}{"silent": {0, false, capture.MergeQuiet}, "behind": {time.Hour, false, capture.MergeHold}, "gone": {0, true, 0}} {
		m := capture.NewMerger(3) // the test never opens the third source
		m.Open(first, 0)
		m.Open(first, 1)
		if x.close {
			m.Close(1)
		}
		m.Add(first, 0, capture.Packet{At: first, Interface: 7})
		now := first
		for {
			if x.behind > 0 {
				m.Add(now, 1, capture.Packet{At: now.Add(-x.behind)})
			}
			p, ok := m.Next(now, false)
			for ; ok && p.Interface != 7; p, ok = m.Next(now, false) {
			}
			if ok {
				break
			}
			now = now.Add(100 * time.Millisecond)
		}
		if now.Sub(first) != x.wait {
			t.Errorf("%s: it went on after %v, want %v", name, now.Sub(first), x.wait)
		}
		if x.behind > 0 {
			m.Add(now, 1, capture.Packet{At: now.Add(-x.behind)})
			if _, ok := m.Next(now, true); !ok || m.Late == 0 {
				t.Errorf("%d late", m.Late)
			}
		}
	}
	big := capture.NewMerger(2)
	big.Open(first, 0)
	big.Open(first, 1)
	out := 0
	for i := range 400 {
		big.Add(first, 0, capture.Packet{At: first.Add(time.Duration(i)), Data: make([]byte, 1<<20)})
		for _, ok := big.Next(first, false); ok; _, ok = big.Next(first, false) {
			out++
		}
	}
	if out < 400-capture.MergeBytes>>20-1 || out > 399 {
		t.Errorf("of 400 MiB, %d packets of 1 MiB went on", out)
	}
}
