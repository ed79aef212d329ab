package admin

import (
	"errors"
	"net/http"

	"ttfabric/node"
	"ttfabric/node/admin/api"
	"ttfabric/node/admin/attach"
	"ttfabric/node/admin/barrier"
	"ttfabric/node/session"
)

// Barriers returns the barriers of the chip, which local programs share with the API.
func (s *Server) Barriers() *barrier.Table { return &s.barriers }

// wait answers when a word of the chip's memory passes a test.
func (s *Server) wait(w http.ResponseWriter, r *http.Request) {
	var b api.WaitBody
	if err := decode(r, &b); err != nil {
		badBody(w, err)
		return
	}
	a, t, err := b.Wait()
	if err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	if !s.waiting.take(w, "waits") {
		return
	}
	defer s.waiting.leave()
	word, err := s.n.Await(r.Context(), a, t, b.Value)
	switch {
	case err == nil:
		answer(w, api.WaitView{Word: word})
	case errors.Is(err, node.ErrWaits):
		problem(w, http.StatusServiceUnavailable, err.Error())
	default:
		problem(w, http.StatusUnprocessableEntity, err.Error())
	}
}

// claim claims a part of the chip, as long as the caller stays connected.
func (s *Server) claim(w http.ResponseWriter, r *http.Request) {
	var b api.ClaimBody
	if err := decode(r, &b); err != nil {
		badBody(w, err)
		return
	}
	if !s.waiting.take(w, "waits") {
		return
	}
	defer s.waiting.leave()
	release, err := s.n.Claim(r.Context(), b.Name, b.Holder)
	switch {
	case errors.As(err, new(*session.HeldError)):
		problem(w, http.StatusConflict, err.Error())
		return
	case err != nil:
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	defer release()
	answer(w, api.OK{OK: true})
	_ = http.NewResponseController(w).Flush() // if the caller has gone, the context ends
	<-r.Context().Done()
}

// barrier answers when all ranks have come.
func (s *Server) barrier(w http.ResponseWriter, r *http.Request) {
	var b api.BarrierBody
	if err := decode(r, &b); err != nil {
		badBody(w, err)
		return
	}
	if err := (&attach.Barrier{Name: b.Name, Rank: b.Rank, Ranks: b.Ranks}).Check(); err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	if !s.waiting.take(w, "waits") {
		return
	}
	defer s.waiting.leave()
	ended := make(chan error, 1)
	cancel, err := s.barriers.Once(b.Name, b.Rank, b.Ranks, func(err error) { ended <- err })
	if err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	select {
	case err := <-ended:
		if err != nil {
			problem(w, http.StatusConflict, err.Error())
			return
		}
		answer(w, api.OK{OK: true})
	case <-r.Context().Done():
		cancel()
	}
}
