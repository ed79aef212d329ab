package admin

import (
	"net/http"
)

// ends answers with the counts of how the chip's requests have ended.
func (s *Server) ends(w http.ResponseWriter, r *http.Request) {
	m, err := s.n.Moment(r.Context())
	if err != nil {
		problem(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	answer(w, m)
}
