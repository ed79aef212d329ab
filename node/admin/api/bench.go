package api

import (
	"context"
	"fmt"
	"time"

	"ttfabric/wire"
)

// Limits of one call of the bench.
const (
	MaxBenchBatch  = 64    // largest number of packets in one batch
	MaxBenchRounds = 20000 // largest number of batches in one call
)

// BenchBody asks a chip to write batches of packets and to time each batch. The
// time runs from the request of the first packet to the end of the last packet. The
// next batch begins when the batch before has ended.
type BenchBody struct {
	Dst    wire.FabricNodeID `json:"dst"`           // the destination chip
	Plane  wire.Plane        `json:"plane"`         // the routing plane
	Via    Hops              `json:"via,omitempty"` // the hops to take instead of the routing table's
	Size   int               `json:"size"`          // bytes of payload in a packet, 0 to 4096; a packet of 0 bytes is a probe
	Batch  int               `json:"batch"`         // number of packets in a batch, 1 to 64
	Rounds int               `json:"rounds"`        // number of batches, 1 to 20000
	Addr   wire.NocAddr      `json:"addr"`          // the address to which all packets write, encoded as in CommandBody
}

// BenchResult holds the times of the batches of a [BenchBody].
type BenchResult struct {
	Nanos []int64 `json:"nanoseconds"` // the time of each batch
	Near  Load    `json:"near"`        // the work of the source chip's loop during the call
}

// Load is the work of a chip's loop by cause, since the start of the chip or over
// one call.
type Load struct {
	Received  Work `json:"received"`  // the work because datagrams came
	Submitted Work `json:"submitted"` // the work because programs submitted requests
	Timed     Work `json:"timed"`     // the work because a deadline passed
	Asked     Work `json:"asked"`     // the work because a client asked the chip for its state or gave the chip an order
}

// Work is the work of a chip's loop for one cause.
type Work struct {
	Steps   uint64 `json:"steps"`               // number of times that the loop ran
	Nanos   int64  `json:"nanoseconds"`         // time that the loop took
	Sending int64  `json:"sending_nanoseconds"` // the part of the loop's time after the loop handed its first frame to the kernel
}

// Minus returns the work since an earlier time. The work up to this earlier time is b.
func (w Work) Minus(b Work) Work {
	return Work{w.Steps - b.Steps, w.Nanos - b.Nanos, w.Sending - b.Sending}
}

// Minus returns the work since an earlier time. The work up to this earlier time is b.
func (l Load) Minus(b Load) Load {
	return Load{l.Received.Minus(b.Received), l.Submitted.Minus(b.Submitted), l.Timed.Minus(b.Timed), l.Asked.Minus(b.Asked)}
}

// Mean returns the mean time of a step before the step sends, and the mean time that a
// step sends. Both times are 0 if there was no step.
func (w Work) Mean() (before, sending time.Duration) {
	if w.Steps == 0 {
		return 0, 0
	}
	n := int64(w.Steps)
	return time.Duration((w.Nanos - w.Sending) / n), time.Duration(w.Sending / n)
}

// Check returns an error for a body outside the limits. The error names the bad value.
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

// Bench makes the chip write batches of packets and measure the time of each batch.
func (c *Client) Bench(ctx context.Context, b BenchBody) (r BenchResult, err error) {
	return r, c.call(ctx, "POST", "/v1/bench", b, &r)
}
