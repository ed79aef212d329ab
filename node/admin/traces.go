package admin

import (
	"fmt"
	"net/http"

	"ttfabric/node/admin/api"
	"ttfabric/node/chip"
	"ttfabric/wire/mono"
)

// traces answers with the traced packets that the chip has seen.
func (s *Server) traces(w http.ResponseWriter, _ *http.Request) {
	out := []api.SightingView{}
	s.n.WithChip(func(_ mono.Time, c *chip.Chip) {
		for _, x := range c.Sightings() {
			out = append(out, api.SightingView{Src: x.Src, Dst: x.Dst, ID: fmt.Sprintf("%016x", x.ID), Channel: x.Channel, VC: x.VC.String(), TTL: x.TTL, Plane: x.Plane})
		}
	})
	answer(w, out)
}
