// Package admin is a chip's control API: HTTP and JSON, events as
// server-sent events, and the client that the command line uses.
//
//	GET  /livez                the process runs
//	GET  /readyz               every declared link is up; 503 and what is missing otherwise
//	GET  /metrics              counters and gauges for Prometheus, as text or OpenMetrics
//	GET  /v1/fabric            how the fabric was started, as its starter describes it
//	GET  /v1/chip              state, links, counters (ChipView)
//	GET  /v1/losses           packets counted by class, port and session (losses.Chip)
//	GET  /v1/ends             how the chip's requests have ended, by destination (chip.Moment)
//	GET  /v1/members           the gossip pool's view (MemberView)
//	GET  /v1/events            server-sent events, history first (EventView)
//	POST /v1/requests          one NoC command; answers when it has ended (RequestBody → ResultBody)
//	POST /v1/bench             batches of writes, timed in the chip (BenchBody → BenchResult)
//	GET  /v1/traces            the traced packets that came by (SightingView)
//	GET  /v1/netem             what is done on purpose to what each port sends (ImpairmentView)
//	PUT  /v1/netem             changes it (NetemBody)
//	DELETE /v1/netem           takes it away; ?channel=8&channel=9 for some ports; a cut stays
//	DELETE /v1/recording       ends the recording of the chip's calls (RecordingView)
//	GET  /v1/capture           what passes its ports, as pcapng, for as long as it is read (CaptureBody)
//	DELETE /v1/capture         ends the one with ?id=
//	GET  /v1/router            what the router of each port does (RouterView)
//	POST /v1/router            tells some: resume, pause, drain, retrain, flush (RouterBody → RouterView)
//	GET  /v1/gossip            what is done on purpose to the chip's gossip, and how its pools fare (GossipView)
//	PUT  /v1/gossip            impairs it, or cuts it off (GossipBody)
//	DELETE /v1/gossip          takes that back; ?cuts=only leaves the impairment
//	GET  /v1/gossip/keys       which keys it is encrypted with (KeyView)
//	PUT  /v1/gossip/keys       changes them (KeyBody → KeyView)
//	PUT  /v1/leaving           takes no new work, or takes it again (DrainBody)
//	POST /v1/faults            tells of a fault of a chip that cannot tell itself (FaultBody)
//	POST /v1/traffic           begins a traffic run in this chip (TrafficStart)
//	GET  /v1/traffic           its report so far (traffic.Report)
//	DELETE /v1/traffic         ends it
//
// Every call but the two health checks needs the fabric's token as a bearer token.
package admin

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"ttfabric/node"
	"ttfabric/node/admin/api"
)

// Limits of the API.
const (
	headerTimeout  = 5 * time.Second  // to read a request's header
	eventKeepalive = 15 * time.Second // an idle event stream says something this often
)

// Server is a chip's API.
type Server struct {
	n     *node.Node
	token string
	http  *http.Server
	run   trafficRun
	about any // of the fabric; nil: nobody said

	captures sync.Map // *node.Capture by the id that its reader gave it
	batches  openBatches
}

// NewServer returns the API of n. Requests must carry token, unless it is empty.
func NewServer(n *node.Node, token string) *Server {
	s := &Server{n: n, token: token}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /metrics", s.auth(metrics(n).ServeHTTP))
	mux.HandleFunc("GET /v1/fabric", s.auth(s.fabric))
	mux.HandleFunc("GET /v1/chip", s.auth(s.chip))
	mux.HandleFunc("GET /v1/losses", s.auth(s.losses))
	mux.HandleFunc("GET /v1/ends", s.auth(s.ends))
	mux.HandleFunc("GET /v1/members", s.auth(s.members))
	mux.HandleFunc("GET /v1/events", s.auth(s.events))
	mux.HandleFunc("GET /v1/profile/{kind}", s.auth(s.profile))
	mux.HandleFunc("POST /v1/requests", s.auth(s.requests))
	mux.HandleFunc("DELETE /v1/requests", s.auth(s.stopBatch))
	mux.HandleFunc("GET /v1/traces", s.auth(s.traces))
	mux.HandleFunc("POST /v1/bench", s.auth(s.bench))
	mux.HandleFunc("GET /v1/netem", s.auth(s.netem))
	mux.HandleFunc("PUT /v1/netem", s.auth(s.setNetem))
	mux.HandleFunc("DELETE /v1/netem", s.auth(s.resetNetem))
	mux.HandleFunc("PUT /v1/service", s.auth(s.setService))
	mux.HandleFunc("GET /v1/router", s.auth(s.routers))
	mux.HandleFunc("POST /v1/router", s.auth(s.commandRouter))
	mux.HandleFunc("GET /v1/gossip", s.auth(s.gossip))
	mux.HandleFunc("PUT /v1/gossip", s.auth(s.setGossip))
	mux.HandleFunc("DELETE /v1/gossip", s.auth(s.healGossip))
	mux.HandleFunc("GET /v1/gossip/keys", s.auth(s.gossipKeys))
	mux.HandleFunc("PUT /v1/gossip/keys", s.auth(s.setGossipKeys))
	mux.HandleFunc("PUT /v1/leaving", s.auth(s.drain))
	mux.HandleFunc("POST /v1/faults", s.auth(s.tellFault))
	mux.HandleFunc("GET /v1/capture", s.auth(s.capture))
	mux.HandleFunc("DELETE /v1/capture", s.auth(s.endCapture))
	mux.HandleFunc("DELETE /v1/recording", s.auth(s.endRecording))
	mux.HandleFunc("POST /v1/traffic", s.auth(s.startTraffic))
	mux.HandleFunc("GET /v1/traffic", s.auth(s.trafficReport))
	mux.HandleFunc("DELETE /v1/traffic", s.auth(s.stopTraffic))
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout}
	return s
}

// Describe has GET /v1/fabric answer with v, for those who find a chip and no
// more; it is to be called before Serve.
func (s *Server) Describe(v any) { s.about = v }

// Serve answers requests on l until Close.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close stops the server and its streams at once.
func (s *Server) Close() error { return s.http.Close() }

func (s *Server) auth(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		got, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if s.token != "" && subtle.ConstantTimeCompare([]byte(got), []byte(s.token)) != 1 {
			problem(w, http.StatusUnauthorized, "the token is missing or wrong; it is in the fabric's run folder")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, api.MaxBatchBody)
		h(w, r)
	}
}

// aboutBlank is the type of a problem that only its status tells (RFC 9457, section 4.2.1).
const aboutBlank = "about:blank"

// problem refuses a call with an RFC 9457 problem.
func problem(w http.ResponseWriter, code int, detail string) {
	write(w, newProblem(code, aboutBlank, detail))
}

func newProblem(code int, kind, detail string) *api.Problem {
	return &api.Problem{Type: kind, Status: code, Title: http.StatusText(code), Detail: detail}
}

func write(w http.ResponseWriter, p *api.Problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	st, _ := s.n.Status()
	if st.PortsUp < len(st.Ports) {
		var down []string
		for _, p := range st.Ports {
			if p.Link.State.String() != "up" {
				down = append(down, fmt.Sprintf("channel %d to %s is %s", p.Local.Channel, p.Peer.Node, p.Link.State))
			}
		}
		http.Error(w, fmt.Sprintf("%d of %d links up: %s", st.PortsUp, len(st.Ports), strings.Join(down, ", ")), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (s *Server) fabric(w http.ResponseWriter, _ *http.Request) {
	if s.about == nil {
		problem(w, http.StatusNotFound, "nobody described the fabric to this chip")
		return
	}
	answer(w, s.about)
}

func (s *Server) chip(w http.ResponseWriter, _ *http.Request) { answer(w, View(s.n)) }

func (s *Server) members(w http.ResponseWriter, _ *http.Request) {
	out := []api.MemberView{}
	for _, m := range s.n.Members() {
		v := api.MemberView{Chip: m.Meta.Node, Name: m.Name, Address: m.Addr.String(), Incarnation: fmt.Sprintf("%016x", uint64(m.Meta.Incarnation)), InService: m.Meta.InService}
		if m.Meta.API != 0 {
			v.API = netip.AddrPortFrom(m.Addr, m.Meta.API).String()
		}
		out = append(out, v)
	}
	answer(w, out)
}

func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	ch, cancel := s.n.Events()
	defer cancel()
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	beat := time.NewTicker(eventKeepalive)
	defer beat.Stop()
	rc.Flush()
	for {
		select {
		case e, ok := <-ch:
			if !ok {
				return
			}
			b, _ := json.Marshal(EventOf(s.n.Self(), e))
			if _, err := fmt.Fprintf(w, "data: %s\n\n", b); err != nil {
				return
			}
		case <-beat.C:
			if _, err := fmt.Fprint(w, ":\n\n"); err != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
		if len(ch) == 0 {
			rc.Flush()
		}
	}
}

// body reads the body of a call, without the space around it.
func body(r *http.Request) ([]byte, error) {
	text, err := io.ReadAll(r.Body)
	return bytes.TrimSpace(text), err
}

// decode reads the body of a call, one JSON object, into b. A field that b does
// not have is an error: the caller may have misspelled one, and would get
// something else than what was asked for.
func decode(r *http.Request, b any) error {
	text, err := body(r)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(text, []byte("{")) {
		return errors.New("want a JSON object")
	}
	return decodeText(text, b)
}

func decodeText(text []byte, b any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(b); err != nil {
		return err
	}
	if d.InputOffset() != int64(len(text)) {
		return errors.New("more than one JSON value")
	}
	return nil
}

// badBody refuses a body that cannot be read.
func badBody(w http.ResponseWriter, err error) {
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		problem(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is longer than %d bytes", long.Limit))
		return
	}
	problem(w, http.StatusBadRequest, err.Error())
}
