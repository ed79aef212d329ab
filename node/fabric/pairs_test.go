package fabric

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ttfabric/wire"
)

// pairsOf returns all ordered pairs of n chips.
func pairsOf(n int) (pairs []Pair) {
	for a := range n {
		for b := range n {
			if a != b {
				pairs = append(pairs, Pair{wire.FabricNodeID{Chip: wire.ChipID(a)}, wire.FabricNodeID{Chip: wire.ChipID(b)}})
			}
		}
	}
	return pairs
}

// TestTurns probes all pairs of chips of a fabric. One chip does not answer. While a ping that gets
// an answer is under way, only pings to the silent chip may also be under way. The rows have the
// order of the pairs.
func TestTurns(t *testing.T) {
	const chips, silent = 128, 5
	const soon, never = time.Millisecond, 5 * time.Second
	synctest.Test(t, func(t *testing.T) {
		pairs, turns := pairsOf(chips), make(Turns, 1)
		var mu sync.Mutex
		waiting, answering, most := 0, 0, 0
		count := func(n *int, by int) {
			mu.Lock()
			defer mu.Unlock()
			*n += by
			most = max(most, waiting+answering)
			if answering > 1 {
				t.Errorf("%d pings at once, want 1", answering)
			}
		}
		begin := time.Now()
		last := 0
		rows, err := EachPair(context.Background(), pairs, func(n int) {
			if last++; n != last {
				t.Errorf("result %d is reported as result %d", last, n)
			}
		}, func(ctx context.Context, p Pair) Pair {
			leave, err := turns.Take(ctx)
			if err != nil {
				t.Error(err)
			}
			n, wait := &answering, soon
			if p.Dst.Chip == silent || p.Src.Chip == silent {
				n, wait = &waiting, never
			}
			count(n, 1)
			time.Sleep(wait)
			count(n, -1)
			leave()
			return p
		})
		if err != nil || last != len(pairs) {
			t.Fatalf("%d results of %d: %v", last, len(pairs), err)
		}
		for i, p := range pairs {
			if rows[i] != p {
				t.Fatalf("row %d is of the pair %v, want %v", i, rows[i], p)
			}
		}
		if most > MaxPairs {
			t.Errorf("%d pairs at once, want at most %d", most, MaxPairs)
		}
		// The pairs of the silent chip wait at the same time, in two rounds. One after another,
		// these pairs would take 21 minutes.
		if took, want := time.Since(begin), time.Minute; took > want {
			t.Errorf("all pings took %v, want at most %v", took, want)
		}
	})
}

// TestEachPairEndsWithContext cancels while pings are under way and wait for turns.
func TestEachPairEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		turns, begun := make(Turns, 1), 0
		time.AfterFunc(time.Second+TurnTime/2, cancel)
		rows, err := EachPair(ctx, pairsOf(128), func(int) {}, func(ctx context.Context, _ Pair) Pair {
			if _, err := turns.Take(ctx); err != nil {
				return Pair{}
			}
			begun++ // no other ping begins before TurnTime has passed
			<-ctx.Done()
			return Pair{}
		})
		if len(rows) != 128*127 || !errors.Is(err, context.Canceled) { // the results so far, and zero values
			t.Errorf("%d rows, error %v; want all and %v", len(rows), err, context.Canceled)
		}
		if want := int(time.Second/TurnTime) + 1; begun != want {
			t.Errorf("%d pings began within 1 s, want %d", begun, want)
		}
	})
}

// TestPairsApart reads the order in which pairs are pinged. Any n successive pairs of n chips have
// different sources and destinations, from each round on.
func TestPairsApart(t *testing.T) {
	const n = 8
	pairs := pairsOf(n)
	order := apart(pairs)
	if sorted := slices.Sorted(slices.Values(order)); len(sorted) != len(pairs) || sorted[0] != 0 || len(slices.Compact(sorted)) != len(pairs) {
		t.Fatalf("the order %v does not hold each pair once", order)
	}
	for round := range slices.Chunk(order, n) {
		var ends [2]map[wire.FabricNodeID]bool
		for side := range ends {
			ends[side] = map[wire.FabricNodeID]bool{}
			for _, i := range round {
				ends[side][[2]wire.FabricNodeID{pairs[i].Src, pairs[i].Dst}[side]] = true
			}
			if len(ends[side]) != n {
				t.Errorf("the round %v has %d of %d chips on side %d", round, len(ends[side]), n, side)
			}
		}
	}
}
