package admin

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"ttfabric/node"
	"ttfabric/node/admin/api"
	"ttfabric/ttlink"
)

// chip answers with the chip's state. With the query's parameter "ready", the answer first waits
// until the chip is ready, but at most the time that the parameter states.
func (s *Server) chip(w http.ResponseWriter, r *http.Request) {
	if text := r.URL.Query().Get("ready"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 || d > api.MaxReady {
			problem(w, http.StatusBadRequest, fmt.Sprintf("ready=%s: want a duration up to %v, such as 2s", text, api.MaxReady))
			return
		}
		if !isReady(s.n) {
			if !s.reading.take(w, "event streams") {
				return
			}
			ctx, cancel := context.WithTimeout(r.Context(), d)
			s.awaitReady(ctx)
			cancel()
			s.reading.leave()
		}
	}
	answer(w, View(s.n))
}

// awaitReady waits until all links of the chip are up and the chip's tables use all cables. If an
// operator has taken a cable of the chip out of service, awaitReady waits only for the links.
// awaitReady makes this exception only for the chip's own cables. While the tables avoid a cable of
// other chips, the chip is not ready. awaitReady also returns when ctx ends.
func (s *Server) awaitReady(ctx context.Context) {
	events, stop := s.n.NewEvents()
	defer stop()
	for !isReady(s.n) {
		for changed := false; !changed; {
			select {
			case e, open := <-events:
				if !open {
					return
				}
				changed = e.Lost > 0 || e.Chip != nil && (e.Chip.Tables != nil || e.Chip.Link.Kind == ttlink.EventUp)
			case <-ctx.Done():
				return
			}
		}
	}
}

func isReady(n *node.Node) bool {
	s, _ := n.Status()
	if s.PortsUp < len(s.Ports) {
		return false
	}
	for i := range s.Ports {
		if s.Ports[i].Avoided {
			return true
		}
	}
	return len(s.Out) == 0
}
