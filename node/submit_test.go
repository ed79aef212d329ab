package node

import (
	"testing"

	"ttfabric/node/flow"
)

// A waiter is found by its token once, and by no other: not by a former one of its place, nor by one that was never given out.
func TestWaiters(t *testing.T) {
	var w waiters
	done := func(int, flow.Result) {}
	seen := map[uint64]bool{0: true}
	var open []uint64
	for i := range 1000 {
		token := w.add(done, i)
		if seen[token] {
			t.Fatalf("token %#x comes again", token)
		}
		seen[token] = true
		if open = append(open, token); len(open) < 7 {
			continue
		}
		token = open[i%7]
		open = append(open[:i%7], open[i%7+1:]...)
		if got, ok := w.take(token); !ok || got.token != token {
			t.Fatalf("%#x: %+v, %v", token, got, ok)
		}
		for _, gone := range []uint64{token, token + 1<<placeBits, 0, (w.n + 1) << placeBits, ^uint64(0), 5000} {
			if _, ok := w.take(gone); ok {
				t.Fatalf("%#x is found", gone)
			}
		}
	}
	if len(w.at) != 7 {
		t.Errorf("%d places for 7 at once", len(w.at))
	}
}
