package admin

import (
	"net/http"

	"ttfabric/node"
)

// losses answers with the packet counts of the chip's router and links.
func (s *Server) losses(w http.ResponseWriter, _ *http.Request) {
	a := s.n.Account()
	if a.Incarnation == 0 {
		problem(w, http.StatusServiceUnavailable, node.ErrClosed.Error())
		return
	}
	a.Ports = list(a.Ports)
	answer(w, a)
}
