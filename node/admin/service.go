package admin

import (
	"fmt"
	"net/http"

	"ttfabric/node/admin/api"
	"ttfabric/node/chip"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// setService takes cables of the chip out of service, or puts the cables back into service.
func (s *Server) setService(w http.ResponseWriter, r *http.Request) {
	var b api.ServiceBody
	if err := decode(r, &b); err != nil {
		badBody(w, err)
		return
	}
	var bad []wire.Channel
	s.n.WithChip(func(now mono.Time, c *chip.Chip) {
		for _, ch := range b.Channels {
			if !c.Avoid(now, ch, b.Out) {
				bad = append(bad, ch)
			}
		}
	})
	if len(bad) > 0 {
		problem(w, http.StatusUnprocessableEntity, fmt.Sprintf("chip %s has no channels %v", s.n.Self(), bad))
		return
	}
	s.chip(w, r)
}

// assignFallback assigns a fallback path to a link, or lets the chip choose the path itself again.
func (s *Server) assignFallback(w http.ResponseWriter, r *http.Request) {
	var b api.FallbackBody
	if err := decode(r, &b); err != nil {
		badBody(w, err)
		return
	}
	if b.By == nil {
		b.By = &b.Channel
	}
	var err error
	s.n.WithChip(func(now mono.Time, c *chip.Chip) { err = c.Assign(now, b.Channel, *b.By) })
	if err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	s.chip(w, r)
}
