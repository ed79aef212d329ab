package admin

import (
	"context"
	"net/http"

	"ttfabric/node"
	"ttfabric/node/losses"
)

func (s *Server) losses(w http.ResponseWriter, _ *http.Request) {
	a := s.n.Account()
	if a.Incarnation == 0 {
		problem(w, http.StatusServiceUnavailable, node.ErrClosed.Error())
		return
	}
	answer(w, a)
}

// Losses returns what the chip has counted of packets in its present life, for [losses.Merge].
func (c *Client) Losses(ctx context.Context) (v losses.Chip, err error) {
	return v, c.call(ctx, "GET", "/v1/losses", nil, &v)
}
