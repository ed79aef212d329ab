package admin

import (
	"context"
	"fmt"
	"net/http"

	"ttfabric/node/chip"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// ServiceBody takes cables out of service, or gives them back: see [chip.Chip.Avoid].
type ServiceBody struct {
	Channels []wire.Channel `json:"channels"`
	Out      bool           `json:"out"`
}

func (s *Server) setService(w http.ResponseWriter, r *http.Request) {
	var b ServiceBody
	if err := decode(r, &b); err != nil {
		problem(w, http.StatusBadRequest, err.Error())
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

// SetService takes cables out of service, whether they work or not, so that
// tables are planned around them; or gives them back.
func (c *Client) SetService(ctx context.Context, channels []wire.Channel, out bool) error {
	return c.call(ctx, "PUT", "/v1/service", ServiceBody{channels, out}, nil)
}
