package admin

import (
	"context"
	"net/http"
)

// DrainBody lets a chip take no new work, or take it again.
type DrainBody struct {
	On bool `json:"on"`
}

func (s *Server) drain(w http.ResponseWriter, r *http.Request) {
	var b DrainBody
	if err := decode(r, &b); err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	s.n.Drain(b.On)
	answer(w, b)
}

// Drain lets the chip take no new requests, or take them again. Those that were started go on.
func (c *Client) Drain(ctx context.Context, on bool) error {
	return c.call(ctx, "PUT", "/v1/leaving", DrainBody{on}, nil)
}
