package admin

import (
	"net/http"
)

// ends answers with the numbers of the chip's requests that have ended, by destination and fate.
func (s *Server) ends(w http.ResponseWriter, r *http.Request) {
	m, err := s.n.Moment(r.Context())
	if err != nil {
		problem(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	answer(w, m)
}
