package admin

import (
	"net/http"

	"ttfabric/node/admin/api"
)

// snapshot answers with the state of the chip at a cut.
func (s *Server) snapshot(w http.ResponseWriter, r *http.Request) {
	var b api.SnapshotBody
	if err := decode(r, &b); err != nil {
		badBody(w, err)
		return
	}
	if b.Cut == 0 {
		problem(w, http.StatusUnprocessableEntity, "cut: 0: want another number")
		return
	}
	if !s.reading.take(w, "event streams") {
		return
	}
	defer s.reading.leave()
	begun := false
	p, err := s.n.Snapshot(r.Context(), uint32(b.Cut), func() {
		begun = true
		w.Header().Set("Content-Type", api.MediaJSON)
		w.WriteHeader(http.StatusOK)
		http.NewResponseController(w).Flush() // the caller learns that the chip has begun the cut
	})
	switch {
	case err == nil:
		answer(w, p)
	case !begun:
		problem(w, http.StatusConflict, err.Error())
	}
}
