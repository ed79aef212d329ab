package api

import (
	"context"
	"fmt"
	"time"

	"ttfabric/wire"
)

// Limits of one call of the bench.
const (
	MaxBenchBatch  = 64    // packets of a batch
	MaxBenchRounds = 20000 // batches
)

// BenchBody asks a chip to write batches of packets and time each, from the
// request of its first packet to the end of its last. The next batch begins
// when the one before has ended.
type BenchBody struct {
	Dst    wire.FabricNodeID `json:"dst"`
	Plane  wire.Plane        `json:"plane"`
	Via    Hops              `json:"via,omitempty"`
	Size   int               `json:"size"`   // bytes of a packet, 0 to wire.MaxPayload
	Batch  int               `json:"batch"`  // packets at once, 1 to MaxBenchBatch
	Rounds int               `json:"rounds"` // 1 to MaxBenchRounds
	Addr   wire.NocAddr      `json:"addr"`   // where they are written; all to the same place
}

// BenchResult is what came of it.
type BenchResult struct {
	Nanos []int64 `json:"nanoseconds"` // of each batch
	Near  Load    `json:"near"`        // what the source's loop did meanwhile
}

// Load is node.Load as the API tells it, since the start or over a call.
type Load struct {
	Received  Work `json:"received"`
	Submitted Work `json:"submitted"`
	Timed     Work `json:"timed"`
	Asked     Work `json:"asked"`
}

// Work is node.Work as the API tells it.
type Work struct {
	Steps   uint64 `json:"steps"`
	Nanos   int64  `json:"nanoseconds"`
	Sending int64  `json:"sending_nanoseconds"` // of those
}

// Minus is the work since an earlier time.
func (w Work) Minus(b Work) Work {
	return Work{w.Steps - b.Steps, w.Nanos - b.Nanos, w.Sending - b.Sending}
}

// Minus is the work since an earlier time.
func (l Load) Minus(b Load) Load {
	return Load{l.Received.Minus(b.Received), l.Submitted.Minus(b.Submitted), l.Timed.Minus(b.Timed), l.Asked.Minus(b.Asked)}
}

// Mean is the time of one step before it sends, and of its sending; 0 where there was none.
func (w Work) Mean() (before, sending time.Duration) {
	if w.Steps == 0 {
		return 0, 0
	}
	n := int64(w.Steps)
	return time.Duration((w.Nanos - w.Sending) / n), time.Duration(w.Sending / n)
}

// Check refuses a body outside the limits; the error names the bad value.
func (b *BenchBody) Check() error {
	switch {
	case b.Size < 0 || b.Size > wire.MaxPayload:
		return fmt.Errorf("packets of %d bytes: want 0 to %d", b.Size, wire.MaxPayload)
	case b.Batch < 1 || b.Batch > MaxBenchBatch:
		return fmt.Errorf("batches of %d packets: want 1 to %d", b.Batch, MaxBenchBatch)
	case b.Rounds < 1 || b.Rounds > MaxBenchRounds:
		return fmt.Errorf("%d rounds: want 1 to %d", b.Rounds, MaxBenchRounds)
	}
	return nil
}

// Bench times batches of writes in the chip.
func (c *Client) Bench(ctx context.Context, b BenchBody) (r BenchResult, err error) {
	return r, c.call(ctx, "POST", "/v1/bench", b, &r)
}
