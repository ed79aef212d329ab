package admin

import (
	"fmt"
	"net/http"
	"time"

	"ttfabric/node"
	"ttfabric/node/chip"
	"ttfabric/node/session"
	"ttfabric/wire"
	"ttfabric/wire/mono"
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
	Via    []wire.Direction  `json:"via,omitempty"`
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

func loadOf(l node.Load) Load {
	w := func(w node.Work) Work { return Work{w.Steps, int64(w.Time), int64(w.Sending)} }
	return Load{w(l.Received), w(l.Submitted), w(l.Timed), w(l.Asked)}
}

func (b *BenchBody) check() error {
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

// benchFailure says what became of a packet that was not performed: each fate has a reason of its own.
func benchFailure(dst wire.FabricNodeID, e *chip.Result) string {
	switch e.Fate {
	case chip.FateRefused:
		return fmt.Sprintf("chip %s refused a packet: %s", dst, e.Outcome)
	case chip.FateLost:
		return "a packet was lost: " + (&session.LostError{Dst: dst, Reason: e.Drop, At: e.At}).Error()
	}
	return "a packet is in doubt: " + (&session.OutcomeUnknownError{Dst: dst, Reason: e.Doubt.String()}).Error()
}

func (s *Server) bench(w http.ResponseWriter, r *http.Request) {
	var b BenchBody
	if err := decode(r, &b); err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	if err := b.check(); err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	q := chip.Request{Dst: b.Dst, Plane: b.Plane, Via: b.Via, Payload: make([]byte, b.Size),
		Command: wire.Command{Type: wire.NocUnicastWrite, Addr: b.Addr}}
	q.Probe = b.Size == 0
	rs := make([]chip.Request, b.Batch)
	for i := range rs {
		rs[i] = q
	}
	ends := make(chan chip.Result, b.Batch)
	done := func(_ int, r chip.Result) { ends <- r }
	before := loadOf(s.n.Load())
	out := BenchResult{Nanos: make([]int64, 0, b.Rounds)}
	for range b.Rounds {
		if _, err := s.n.Submit(r.Context(), rs, done); err != nil {
			problem(w, http.StatusUnprocessableEntity, err.Error())
			return
		}
		first, last := mono.Never, mono.Time(0)
		for range rs {
			select {
			case e := <-ends:
				if e.Fate != chip.FateDone {
					problem(w, http.StatusConflict, benchFailure(b.Dst, &e))
					return
				}
				first, last = mono.Min(first, e.Sent), max(last, e.Done)
			case <-r.Context().Done():
				return
			}
		}
		out.Nanos = append(out.Nanos, int64(last.Sub(first)))
	}
	out.Near = loadOf(s.n.Load()).Minus(before)
	answer(w, out)
}
