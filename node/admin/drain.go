package admin

import (
	"net/http"

	"ttfabric/node/admin/api"
)

// drain makes the chip refuse new requests, or accept new requests again.
func (s *Server) drain(w http.ResponseWriter, r *http.Request) {
	var b api.DrainBody
	if err := decode(r, &b); err != nil {
		badBody(w, err)
		return
	}
	s.n.Drain(b.On)
	answer(w, b)
}
