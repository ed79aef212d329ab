package fabric

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"ttfabric/wire"
)

// Limits of the probes between chips that are under way.
const (
	MaxPairs = 128                   // largest number of pairs of chips that are probed at the same time; less than the number of batches that a chip takes at once
	TurnTime = 10 * time.Millisecond // longest time that a probe keeps its turn
)

// Pair is the source and the destination of a probe.
type Pair struct{ Src, Dst wire.FabricNodeID }

// Turns limits the probes under way. Each probe takes a turn. The probe keeps the turn until its
// answer arrives, but at most for [TurnTime]. If answers arrive within TurnTime, few probes are
// under way, and probes do not delay each other. If answers take longer, many probes wait for their
// answers at the same time.
type Turns chan struct{}

// NewTurns returns turns for one probe for every two processors of this machine, and at least for
// one probe. On two processors, several pings at once take almost as long as pings one after
// another, and each ping takes much longer.
func NewTurns() Turns { return make(Turns, max(1, runtime.NumCPU()/2)) }

// Take waits for a turn. The caller must call leave when its probe has ended. If ctx ends first, Take
// returns the error of ctx.
func (p Turns) Take(ctx context.Context) (leave func(), err error) {
	select {
	case p <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var once sync.Once
	give := func() { once.Do(func() { <-p }) }
	timer := time.AfterFunc(TurnTime, give)
	return func() {
		timer.Stop()
		give()
	}, nil
}

// EachPair calls the function ask for all pairs, up to [MaxPairs] at the same time. The results have the
// order of the pairs. After each result, EachPair passes the number of results to the function done. If
// ctx ends, EachPair starts no further call, waits for the calls under way, and returns the results so far
// with [context.Canceled]. If there was no call for a pair, the pair's result is the zero value.
func EachPair[T any](ctx context.Context, pairs []Pair, done func(n int), ask func(context.Context, Pair) T) ([]T, error) {
	out := make([]T, len(pairs))
	order := apart(pairs)
	var mu sync.Mutex
	next, ended := 0, 0
	begin := func() (i int, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == len(order) || ctx.Err() != nil {
			return 0, false
		}
		next++
		return order[next-1], true
	}
	end := func() {
		mu.Lock()
		defer mu.Unlock()
		ended++
		done(ended)
	}
	var wg sync.WaitGroup
	for range min(MaxPairs, len(pairs)) {
		wg.Go(func() {
			for i, ok := begin(); ok; i, ok = begin() {
				out[i] = ask(ctx, pairs[i])
				end()
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return out, context.Canceled
	}
	return out, nil
}

// apart returns the indices of the pairs in an order in which successive pairs have different
// sources and different destinations, as far as possible. So pairs under way at the same time
// rarely wait for one another at a chip. First come the pairs from each chip to the next chip. The
// pairs from each chip to the chip after the next follow, and so on.
func apart(pairs []Pair) []int {
	number := map[wire.FabricNodeID]int{}
	add := func(n wire.FabricNodeID) {
		if _, ok := number[n]; !ok {
			number[n] = len(number)
		}
	}
	for _, p := range pairs {
		add(p.Src)
	}
	for _, p := range pairs { // chips that are no source
		add(p.Dst)
	}
	step := func(i int) int {
		return (number[pairs[i].Dst] - number[pairs[i].Src] + len(number)) % len(number)
	}
	order := make([]int, len(pairs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(step(a), step(b)) })
	return order
}
