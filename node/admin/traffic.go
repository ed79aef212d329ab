package admin

import (
	"net/http"
	"sync"

	"ttfabric/node/admin/api"
	"ttfabric/node/chip"
	"ttfabric/node/traffic"
	"ttfabric/node/traffic/client"
	"ttfabric/wire/mono"
)

// trafficRun holds the chip's traffic client. client is nil if the chip runs no traffic.
type trafficRun struct {
	mu     sync.Mutex
	client *client.Client
}

func (s *Server) startTraffic(w http.ResponseWriter, r *http.Request) {
	var b api.TrafficStart
	if err := decode(r, &b); err != nil {
		badBody(w, err)
		return
	}
	if err := b.Spec.Validate(); err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	if err := traffic.CheckPairs(b.Pairs); err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	t := s.run.client
	if t == nil || t.Spec.Run != b.Spec.Run {
		t = client.New(b.Spec, s.n.Self(), b.Pairs)
		s.run.client = t
	}
	s.n.WithChip(func(now mono.Time, c *chip.Chip) {
		t.Sending = b.Send
		c.SetClient(t)
	})
	answer(w, api.OK{OK: true})
}

func (s *Server) trafficReport(w http.ResponseWriter, _ *http.Request) {
	s.run.mu.Lock()
	t := s.run.client
	s.run.mu.Unlock()
	if t == nil {
		problem(w, http.StatusNotFound, "this chip runs no traffic")
		return
	}
	var rep traffic.Report
	s.n.WithChip(func(now mono.Time, _ *chip.Chip) { rep = traffic.NewReport(t.Gen, t.Ver) })
	rep.Source, rep.Dest = list(rep.Source), list(rep.Dest)
	answer(w, rep)
}

func (s *Server) stopTraffic(w http.ResponseWriter, _ *http.Request) {
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	s.run.client = nil
	s.n.WithChip(func(_ mono.Time, c *chip.Chip) { c.SetClient(nil) })
	answer(w, api.OK{OK: true})
}
