package admin

import (
	"encoding/json"
	"net/http"
	"sync"

	"ttfabric/node/chip"
	"ttfabric/node/noc"
	"ttfabric/node/traffic"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// TrafficStart begins a run in one chip. All chips of a run get the same
// Spec and Pairs; a chip whose Send is false only verifies, so that every
// destination listens before the first source speaks.
type TrafficStart struct {
	Spec  traffic.Spec   `json:"spec"`
	Pairs []traffic.Pair `json:"pairs"`
	Send  bool           `json:"send"`
}

// trafficRun is the chip's client while a run goes on.
type trafficRun struct {
	mu     sync.Mutex
	client *trafficClient
}

// trafficClient joins generator and verifier to the chip. It is used under the chip's lock only.
type trafficClient struct {
	spec    traffic.Spec
	gen     *traffic.Generator
	ver     *traffic.Verifier
	sending bool
	last    map[uint64]traffic.Packet
	token   uint64
	buf     []byte
	back    []byte
}

// tokenBits number the packets of one run: what is still under way of the run before has other tokens.
const tokenBits = 32

// Next is the generator's next packet as a request.
func (t *trafficClient) Next(now mono.Time) (chip.Request, bool) {
	if !t.sending {
		return chip.Request{}, false
	}
	p, ok := t.gen.Next(now)
	if !ok {
		return chip.Request{}, false
	}
	t.gen.Fill(p, t.buf)
	t.token++
	t.last[t.token] = p
	return chip.Request{Token: t.token, Dst: p.Dst, Plane: p.Plane, Payload: t.buf,
		Command: wire.Command{Type: wire.NocUnicastWrite, Addr: p.Addr}}, true
}

// Deadline is when a packet arrives that is to be sent.
func (t *trafficClient) Deadline() (mono.Time, bool) {
	if !t.sending {
		return 0, false
	}
	return t.gen.Deadline()
}

// Undo gives the last packet back to the generator.
func (t *trafficClient) Undo() {
	delete(t.last, t.token)
	t.token--
	t.gen.Undo()
}

// Done tells the generator what became of a packet.
func (t *trafficClient) Done(now mono.Time, r chip.Result) {
	p, ok := t.last[r.Token]
	if !ok {
		return
	}
	delete(t.last, r.Token)
	t.gen.Done(p, r.Sent, now, r.Outcome, r.Fate == chip.FateLost || r.Fate == chip.FateUnknown)
}

// Performed verifies what has been written, as it now stands in memory.
func (t *trafficClient) Performed(_ mono.Time, src wire.FabricNodeID, plane wire.Plane, cmd *wire.Command, m *noc.Memory) {
	if cmd.Type != wire.NocUnicastWrite || !t.ver.Owns(cmd.Addr) {
		return
	}
	b := t.back[:cmd.Size]
	if m.Read(cmd.Addr, b) == wire.OutcomeDone {
		t.ver.Arrived(src, plane, b)
	}
}

func (s *Server) startTraffic(w http.ResponseWriter, r *http.Request) {
	var b TrafficStart
	if err := json.NewDecoder(r.Body).Decode(&b); err != nil {
		problem(w, http.StatusBadRequest, err.Error())
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
	if t == nil || t.spec.Run != b.Spec.Run {
		t = &trafficClient{spec: b.Spec, gen: traffic.NewGenerator(b.Spec, s.n.Self(), b.Pairs), ver: traffic.NewVerifier(b.Spec, s.n.Self(), b.Pairs),
			last: map[uint64]traffic.Packet{}, token: b.Spec.Run << tokenBits, buf: make([]byte, b.Spec.Size), back: make([]byte, wire.MaxPayload)}
		s.run.client = t
	}
	s.n.WithChip(func(now mono.Time, c *chip.Chip) {
		t.sending = b.Send
		c.SetClient(t)
	})
	answer(w, map[string]bool{"ok": true})
}

func (s *Server) trafficReport(w http.ResponseWriter, _ *http.Request) {
	s.run.mu.Lock()
	t := s.run.client
	s.run.mu.Unlock()
	if t == nil {
		problem(w, http.StatusNotFound, "no traffic runs in this chip")
		return
	}
	var rep traffic.Report
	s.n.WithChip(func(now mono.Time, _ *chip.Chip) { rep = traffic.NewReport(t.gen, t.ver) })
	answer(w, rep)
}

func (s *Server) stopTraffic(w http.ResponseWriter, _ *http.Request) {
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	s.run.client = nil
	s.n.WithChip(func(_ mono.Time, c *chip.Chip) { c.SetClient(nil) })
	answer(w, map[string]bool{"ok": true})
}
