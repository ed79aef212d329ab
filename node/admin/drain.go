package admin

import (
	"net/http"

	"ttfabric/node/admin/api"
)

// drain lets the chip take no new requests, or take them again.
func (s *Server) drain(w http.ResponseWriter, r *http.Request) {
	var b api.DrainBody
	if err := decode(r, &b); err != nil {
		badBody(w, err)
		return
	}
	s.n.Drain(b.On)
	answer(w, b)
}
