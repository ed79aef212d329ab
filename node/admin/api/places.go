package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"ttfabric/node/flow"
	"ttfabric/wire"
)

// Limits of a client's connections to its chip. A batch of requests keeps a connection until all
// its requests have ended. If a destination does not answer, a batch takes long. With these limits,
// batches that take long leave connections free for batches to other destinations and for other
// calls.
const (
	maxBatches   = MaxBatches * 3 / 4 // batches under way in all; other clients can use the rest of the chip's MaxBatches
	maxBatchesTo = 16                 // batches under way to the same destinations; a further batch waits until one of these batches has ended
	maxIdle      = 64                 // connections that the client keeps for later calls
)

// batchPlaces limits the batches under way, in all and to the same destinations.
type batchPlaces struct {
	all chan struct{} // holds a value for each batch

	mu sync.Mutex
	to map[target]*targetPlaces // targets with batches that are under way or wait
}

// targetPlaces limits the batches to one target.
type targetPlaces struct {
	places chan struct{} // holds a value for each batch
	users  int           // batches that are under way or wait
}

// target names the destinations of the requests of a batch. All requests of most batches have the
// same destination, or are multicasts to the same destinations.
type target struct {
	dst     wire.FabricNodeID // only the mesh counts for a multicast to members; not used for a multicast by ranges
	ranges  wire.Ranges
	members wire.Members
	several string // the different destinations of the requests, sorted; the other fields are then not used
}

func newBatchPlaces() *batchPlaces {
	return &batchPlaces{all: make(chan struct{}, maxBatches), to: map[target]*targetPlaces{}}
}

// oneTarget returns the target of one request.
func oneTarget(r *flow.Request) target {
	switch {
	case !r.Many():
		return target{dst: r.Dst}
	case r.Ranges.Any():
		return target{ranges: r.Ranges}
	}
	return target{dst: wire.FabricNodeID{Mesh: r.Dst.Mesh}, members: r.Members}
}

// targetOf returns the target of a batch.
func targetOf(rs []flow.Request) target {
	first := oneTarget(&rs[0])
	if !slices.ContainsFunc(rs[1:], func(r flow.Request) bool { return oneTarget(&r) != first }) {
		return first
	}
	different := map[target]bool{}
	for i := range rs {
		different[oneTarget(&rs[i])] = true
	}
	names := make([]string, 0, len(different))
	for t := range different {
		names = append(names, fmt.Sprintf("%v%v%v", t.dst, t.ranges, t.members))
	}
	slices.Sort(names)
	return target{several: strings.Join(names, " ")}
}

// take waits for a place for a batch, first among the batches to the same target, then among all
// batches. The caller must call leave when the batch has ended. If ctx ends first, take returns the
// error of ctx.
func (p *batchPlaces) take(ctx context.Context, to target) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	t := p.to[to]
	if t == nil {
		t = &targetPlaces{places: make(chan struct{}, maxBatchesTo)}
		p.to[to] = t
	}
	t.users++
	p.mu.Unlock()
	select {
	case t.places <- struct{}{}:
	case <-ctx.Done():
		p.forget(to, t)
		return nil, ctx.Err()
	}
	select {
	case p.all <- struct{}{}:
	case <-ctx.Done():
		<-t.places
		p.forget(to, t)
		return nil, ctx.Err()
	}
	return func() {
		<-p.all
		<-t.places
		p.forget(to, t)
	}, nil
}

// forget removes a target without batches.
func (p *batchPlaces) forget(to target, t *targetPlaces) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(p.to, to)
	}
}
