package node

import (
	"testing"

	"ttfabric/node/flow"
	"ttfabric/wire"
)

// TestWaiters checks that each token finds its waiter exactly once. Earlier tokens of the same
// place and unknown tokens must find no waiter.
func TestWaiters(t *testing.T) {
	var w waiters
	done := func(int, flow.Result) {}
	seen := map[uint64]bool{0: true}
	var open []uint64
	for i := range 1000 {
		token := w.add(done, i, wire.FabricNodeID{})
		if seen[token] {
			t.Fatalf("token %#x was given out twice", token)
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
				t.Fatalf("the unknown token %#x finds a waiter", gone)
			}
		}
	}
	if len(w.at) != 7 {
		t.Errorf("%d places for 7 open requests", len(w.at))
	}
}
