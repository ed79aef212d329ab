package admin

import (
	"fmt"
	"net/http"

	"ttfabric/node"
	"ttfabric/node/admin/api"
	"ttfabric/node/flow"
	"ttfabric/node/session"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// loadOf converts the work of a node to the type of the API.
func loadOf(l node.Load) api.Load {
	w := func(w node.Work) api.Work {
		return api.Work{Steps: w.Steps, Nanos: int64(w.Time), Sending: int64(w.Sending)}
	}
	return api.Load{Received: w(l.Received), Submitted: w(l.Submitted), Timed: w(l.Timed), Asked: w(l.Asked)}
}

// benchFailure returns a message about a packet that was refused or lost, or whose fate is unknown.
// The message states the reason.
func benchFailure(dst wire.FabricNodeID, e *flow.Result) string {
	switch e.Fate {
	case flow.FateRefused:
		return fmt.Sprintf("chip %s refused a packet: %s", dst, e.Outcome)
	case flow.FateLost:
		return "a packet was lost: " + (&session.LostError{Dst: dst, Reason: e.Drop, At: e.At}).Error()
	}
	return "the fate of a packet is unknown: " + (&session.OutcomeUnknownError{Dst: dst, Reason: e.Doubt.String()}).Error()
}

// bench submits batches of writes, each after the end of the previous batch, and measures the time
// of each batch. With size 0, bench submits probes. If a packet does not end as done, bench stops
// and answers with the reason.
func (s *Server) bench(w http.ResponseWriter, r *http.Request) {
	var b api.BenchBody
	if err := decode(r, &b); err != nil {
		badBody(w, err)
		return
	}
	if err := b.Check(); err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	at, err := b.Target()
	if b.Addr == (api.Addr{}) && b.Tile == "" {
		at, err = session.Tensix(s.n.Topology(), b.Dst)
	}
	if err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	q := flow.Request{Dst: b.Dst, Plane: b.Plane, Via: b.Via, Payload: make([]byte, b.Size),
		Command: wire.Command{Type: wire.NocUnicastWrite, Addr: at}}
	q.Probe = b.Size == 0
	rs := make([]flow.Request, b.Batch)
	for i := range rs {
		rs[i] = q
	}
	ends := make(chan flow.Result, b.Batch)
	done := func(_ int, r flow.Result) { ends <- r }
	before := loadOf(s.n.Load())
	out := api.BenchResult{Nanos: make([]int64, 0, b.Rounds)}
	for range b.Rounds {
		if _, err := s.n.Submit(r.Context(), rs, done); err != nil {
			problem(w, http.StatusUnprocessableEntity, err.Error())
			return
		}
		first, last := mono.Never, mono.Time(0)
		for range rs {
			select {
			case e := <-ends:
				if e.Fate != flow.FateDone {
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
