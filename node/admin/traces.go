package admin

import (
	"fmt"
	"net/http"

	"ttfabric/node/chip"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// SightingView is a traced packet that came to a chip, as the API tells it.
type SightingView struct {
	Src     wire.FabricNodeID `json:"src"`
	Dst     wire.FabricNodeID `json:"dst"`
	ID      string            `json:"id"`
	Channel wire.Channel      `json:"channel"` // that it came in by
	VC      string            `json:"vc"`
	TTL     uint16            `json:"ttl"`
	Plane   wire.Plane        `json:"plane"`
}

func (s *Server) traces(w http.ResponseWriter, _ *http.Request) {
	out := []SightingView{}
	s.n.WithChip(func(_ mono.Time, c *chip.Chip) {
		for _, x := range c.Sightings() {
			out = append(out, SightingView{x.Src, x.Dst, fmt.Sprintf("%016x", x.ID), x.Channel, x.VC.String(), x.TTL, x.Plane})
		}
	})
	answer(w, out)
}
