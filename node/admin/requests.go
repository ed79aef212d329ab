package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/flow"
	"ttfabric/node/session"
)

// requests makes the chip send one request, or a batch of requests, and answers with the results.
func (s *Server) requests(w http.ResponseWriter, r *http.Request) {
	text, err := body(r)
	if err != nil {
		badBody(w, err)
		return
	}
	if bytes.HasPrefix(text, []byte("[")) {
		s.requestBatch(w, r, text)
		return
	}
	var b api.RequestBody
	if err := decodeObject(text, &b); err != nil {
		badBody(w, err)
		return
	}
	q, err := b.Request()
	if err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	done := make(chan flow.Result, 1)
	if _, err = s.n.Submit(r.Context(), []flow.Request{q}, func(_ int, res flow.Result) { done <- res }); err != nil {
		write(w, notStarted(err))
		return
	}
	select {
	case res := <-done:
		answer(w, api.NewResult(&res))
	case <-r.Context().Done():
	}
}

// notStarted returns the problem for a request that the chip did not start.
func notStarted(err error) *api.Problem {
	kind := aboutBlank
	if errors.Is(err, session.ErrUnreachable) {
		kind = api.NoWayType
	}
	return newProblem(http.StatusUnprocessableEntity, kind, err.Error())
}

// requestBatch starts the requests of a batch in order. The answer has one line for each started
// request, written when the request ends. One more line says how many requests the chip started. If
// the chip starts none of the requests, the answer is a problem instead.
func (s *Server) requestBatch(w http.ResponseWriter, r *http.Request, text []byte) {
	rs, status, err := batchOf(text)
	if err != nil {
		problem(w, status, err.Error())
		return
	}
	if !s.batching.take(w, "batches of requests") {
		return
	}
	defer s.batching.leave()
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	id := r.URL.Query().Get("batch")
	if len(id) > api.MaxID {
		problem(w, http.StatusBadRequest, fmt.Sprintf("batch of %d bytes: want at most %d", len(id), api.MaxID))
		return
	}
	if id != "" {
		if _, twice := s.batches.LoadOrStore(id, stop); twice {
			problem(w, http.StatusConflict, fmt.Sprintf("there is a batch %q already", id))
			return
		}
		defer s.batches.Delete(id)
	}
	a := &batchAnswer{w: w, all: len(rs), begun: make(chan begun, 1), ends: make(chan oneEnd, len(rs))}
	go func() {
		n, err := s.n.Submit(ctx, rs, func(i int, res flow.Result) { a.ends <- oneEnd{i, res} })
		a.begun <- begun{n, err}
	}()
	a.stream(r.Context())
}

// batchOf reads the requests of a batch. The error names the first bad request. The status is the same
// as for one request: 400 for JSON that cannot be read, and 422 for a bad value.
func batchOf(text []byte) (rs []flow.Request, status int, err error) {
	var bodies []api.RequestBody
	if err := decodeText(text, &bodies); err != nil {
		return nil, http.StatusBadRequest, err
	}
	if len(bodies) == 0 || len(bodies) > api.MaxBatch {
		return nil, http.StatusBadRequest, fmt.Errorf("a batch of %d requests: want 1 to %d", len(bodies), api.MaxBatch)
	}
	rs = make([]flow.Request, len(bodies))
	for i := range bodies {
		if rs[i], err = bodies[i].Request(); err != nil {
			return nil, http.StatusUnprocessableEntity, fmt.Errorf("request %d of the batch: %w", i, err)
		}
	}
	return rs, 0, nil
}

// batchAnswer writes the answer to a batch. The channel "ends" has room for all requests. The chip
// therefore never waits for the caller to read the answer.
type batchAnswer struct {
	w     http.ResponseWriter
	all   int
	begun chan begun
	ends  chan oneEnd

	lines *json.Encoder // encoder of the lines; nil: no line has been written
	left  int           // number of requests whose ends are not written yet
}

// begun holds the number of requests of a batch that the chip started.
type begun struct {
	n   int
	err error // why the chip did not start all requests; nil: the chip started all
}

// oneEnd is the end of one request of a batch.
type oneEnd struct {
	i   int
	res flow.Result
}

// startDelay is the longest time for which the line with the number of started requests waits. If a
// request ends within this time, one segment carries both lines. A ping over one cable takes less.
const startDelay = 200 * time.Microsecond

// stream writes the answer until all started requests have ended, or the caller disconnects. If the
// chip has started none of the requests, stream answers with a problem.
func (a *batchAnswer) stream(ctx context.Context) {
	flush := http.NewResponseController(a.w).Flush
	var late <-chan time.Time // fires when the line with the number of started requests has waited for startDelay; nil: this line is not waiting
	for told := false; !told || a.left > 0; {
		var err error
		select {
		case e := <-a.ends:
			a.left--
			err = a.line(api.BatchEnd{Index: e.i, ResultBody: api.NewResult(&e.res)})
		case b := <-a.begun:
			told = true
			if b.n == 0 && b.err != nil {
				write(a.w, notStarted(b.err))
				return
			}
			a.left += b.n
			start := api.BatchStart{Started: b.n}
			if b.n < a.all {
				start.Problem = notStarted(b.err)
			}
			if err = a.line(start); err == nil && a.left > 0 {
				late = time.After(startDelay)
				continue
			}
		case <-late:
		case <-ctx.Done():
			return
		}
		late = nil
		if err == nil && len(a.ends) == 0 && (!told || a.left > 0) {
			err = flush() // the server sends the last lines when this function returns
		}
		if err != nil {
			return // the caller has disconnected; the started requests continue
		}
	}
}

// line writes one line of the answer.
func (a *batchAnswer) line(v any) error {
	if a.lines == nil {
		a.w.Header().Set("Content-Type", api.MediaLines)
		a.lines = json.NewEncoder(a.w)
	}
	return a.lines.Encode(v)
}

// stopBatch makes the chip start no more requests of the batch with the id in the query.
func (s *Server) stopBatch(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("batch")
	stop, ok := s.batches.Load(id)
	if !ok {
		problem(w, http.StatusNotFound, fmt.Sprintf("there is no batch %q", id))
		return
	}
	stop.(context.CancelFunc)()
	w.WriteHeader(http.StatusNoContent)
}
