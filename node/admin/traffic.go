package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

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
	owner  uint64    // see [api.TrafficStart]
	asked  time.Time // the time of the owner's last call
}

// The method "of" returns the traffic client if its run belongs to the owner, and extends the
// owner's claim. If the owner is 0, of returns the traffic client of any run, and extends no claim.
// If there is no such run, the method returns nil. The caller holds the lock.
func (t *trafficRun) of(owner uint64) *client.Client {
	switch {
	case t.client == nil || owner != 0 && owner != t.owner:
		return nil
	case owner != 0:
		t.asked = time.Now()
	}
	return t.client
}

// owner returns the owner in the query of a call, or 0 if the query names no owner. If the owner is
// not a number of 64 bits, owner answers the call with a problem, and ok is false.
func owner(w http.ResponseWriter, r *http.Request) (o uint64, ok bool) {
	text := r.URL.Query().Get("owner")
	if text == "" {
		return 0, true
	}
	o, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		problem(w, http.StatusBadRequest, fmt.Sprintf("owner=%.40s: want a number of 64 bits", text))
		return 0, false
	}
	return o, true
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
	by := cmp.Or(b.Owner, b.Spec.Run)
	t := s.run.client
	if t != nil && s.run.owner != by && time.Since(s.run.asked) < api.TrafficClaim {
		problem(w, http.StatusConflict, fmt.Sprintf("the chip takes part in the traffic run of another command; wait until that command has ended, or %v if it was killed", api.TrafficClaim))
		return
	}
	if t == nil || t.Spec.Run != b.Spec.Run {
		t = client.New(b.Spec, s.n.Self(), b.Pairs, s.n.Topology())
		s.run.client = t
	}
	s.run.owner, s.run.asked = by, time.Now()
	s.n.WithChip(func(now mono.Time, c *chip.Chip) {
		t.Sending = b.Send
		c.SetClient(t)
	})
	answer(w, api.OK{OK: true})
}

func (s *Server) trafficReport(w http.ResponseWriter, r *http.Request) {
	by, ok := owner(w, r)
	if !ok {
		return
	}
	report := traffic.NewReport
	if text := r.URL.Query().Get("counts"); text != "" {
		counts, err := strconv.ParseBool(text)
		if err != nil {
			problem(w, http.StatusBadRequest, fmt.Sprintf("counts=%.40s: want true or false", text))
			return
		}
		if counts {
			report = traffic.NewCounts
		}
	}
	s.run.mu.Lock()
	t := s.run.of(by)
	s.run.mu.Unlock()
	if t == nil {
		problem(w, http.StatusNotFound, "this chip runs no traffic of this owner")
		return
	}
	var rep traffic.Report
	s.n.WithChip(func(now mono.Time, _ *chip.Chip) { rep = report(t.Gen, t.Ver) })
	rep.Source, rep.Dest = list(rep.Source), list(rep.Dest)
	answer(w, rep)
}

func (s *Server) stopTraffic(w http.ResponseWriter, r *http.Request) {
	by, ok := owner(w, r)
	if !ok {
		return
	}
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	if s.run.of(by) != nil {
		s.run.client = nil
		s.n.WithChip(func(_ mono.Time, c *chip.Chip) { c.SetClient(nil) })
	}
	answer(w, api.OK{OK: true})
}
