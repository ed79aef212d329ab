package api

import (
	"context"
	"fmt"
	"time"

	"ttfabric/wire"
)

// Limits of one call of POST /v1/bench.
const (
	MaxBenchBatch  = 64    // largest number of packets in one batch
	MaxBenchRounds = 20000 // largest number of batches in one call
)

// BenchBody asks a chip to send batches of write packets and to measure the time of each batch. The
// time of a batch begins with the request of its first packet and ends with the end of its last
// packet. The next batch begins when the previous batch has ended.
type BenchBody struct {
	Dst    wire.FabricNodeID `json:"dst"`            // the destination chip
	Plane  wire.Plane        `json:"plane"`          // the routing plane
	Via    Hops              `json:"via,omitempty"`  // the directions that the packets take, hop by hop; empty: the packets follow the routing tables
	Size   int               `json:"size"`           // bytes of payload in each packet, 0 to 4096; with 0, the chip sends probes
	Batch  int               `json:"batch"`          // number of packets in a batch, 1 to 64
	Rounds int               `json:"rounds"`         // number of batches, 1 to 20000
	Tile   string            `json:"tile,omitempty"` // the NoC coordinates of the tile, such as 1-1, if addr names no tile
	Addr   Addr              `json:"addr,omitzero"`  // the address to which all packets write; if addr and tile are absent, the first byte of a Tensix tile of dst that works
}

// BenchResult holds the times of the batches of a [BenchBody].
type BenchResult struct {
	Nanos []int64 `json:"nanoseconds"` // the time of each batch
	Near  Load    `json:"near"`        // the work of the source chip's process during the call
}

// Load is the work of a chip's process by cause, since the start of the chip or during one call.
// One step of the work runs the chip for one input, sends the resulting datagrams, and hands on
// results.
type Load struct {
	Received  Work `json:"received"`  // the steps for received datagrams
	Submitted Work `json:"submitted"` // the steps for requests that programs submitted
	Timed     Work `json:"timed"`     // the steps for deadlines that passed
	Asked     Work `json:"asked"`     // the steps for everything else, such as calls of the API
}

// Work is the work of a chip's process for one cause.
type Work struct {
	Steps   uint64 `json:"steps"`               // number of steps
	Nanos   int64  `json:"nanoseconds"`         // total time of the steps
	Sending int64  `json:"sending_nanoseconds"` // the part of nanoseconds that the steps took for sending datagrams and handing on results
}

// Minus returns the work since an earlier time, at which the work was b.
func (w Work) Minus(b Work) Work {
	return Work{w.Steps - b.Steps, w.Nanos - b.Nanos, w.Sending - b.Sending}
}

// Minus returns the work since an earlier time, at which the work was b.
func (l Load) Minus(b Load) Load {
	return Load{l.Received.Minus(b.Received), l.Submitted.Minus(b.Submitted), l.Timed.Minus(b.Timed), l.Asked.Minus(b.Asked)}
}

// Mean returns the two mean times of a step: the time before the step sends datagrams, and the time
// for sending. If there was no step, both times are 0.
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
	_, err := b.Target()
	return err
}

// Target returns the address to which all packets write. The error names a bad tile or address.
func (b *BenchBody) Target() (wire.NocAddr, error) { return b.Addr.in(b.Tile) }

// Bench makes the chip send batches of packets and measure the time of each batch.
func (c *Client) Bench(ctx context.Context, b BenchBody) (r BenchResult, err error) {
	return r, c.call(ctx, "POST", "/v1/bench", b, &r)
}
