// Package admin is the server of a chip's control API. The API uses HTTP and JSON, and server-sent
// events for the chip's events. Package api holds the types of the JSON, the client, and the table
// of calls ([api.Routes]). For each call, the table says what the chip does, and lists parameters,
// body, answers and errors. A chip shows the table as an HTML page at GET /v1/, and as an OpenAPI
// document at GET /v1/openapi.json.
//
// The two health checks and the two descriptions of the API need no token. Every other call needs
// the fabric's token as a bearer token. The following command writes the bytes "hello" to the
// memory of chip M0D7:
//
//	curl -H "Authorization: Bearer $(cat token)" http://127.0.0.1:8474/v1/requests \
//		-d '{"dst":"M0D7","command":{"type":"write","tile":"1-1","addr":"0x1000"},"payload":"aGVsbG8="}'
//
// JSON names commands, fates, outcomes and reasons by words. The chip refuses bodies with unknown
// fields. Every error is a problem by RFC 9457. Events have ids, and the header Last-Event-ID resumes
// an event stream.
package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ttfabric/node"
	"ttfabric/node/admin/api"
	"ttfabric/node/admin/barrier"
)

// Server is a chip's API.
type Server struct {
	n     *node.Node
	http  *http.Server
	run   trafficRun
	about any // description of the fabric for GET /v1/fabric; nil: unknown

	capturing places // calls GET /v1/capture under way
	reading   places // calls under way that count as event streams: GET /v1/events, POST /v1/snapshot, and GET /v1/chip while the call waits until the chip is ready
	batching  places // batches under way
	waiting   places // calls that wait on a word or at a barrier
	imaging   places // memory images that the chip writes or reads

	barriers barrier.Table
	closing  atomic.Bool // Close was called

	captures sync.Map // *node.Capture by the id that the caller chose for the capture
	batches  sync.Map // context.CancelFunc by the id of an open batch; the function makes the chip start no more requests of the batch
}

// NewServer returns the API server of the chip n. If token is not empty, callers must send the
// token. NewServer panics if a route has no handler or a handler has no route.
func NewServer(n *node.Node, token string) *Server {
	s := &Server{n: n, capturing: make(places, api.MaxCaptures), reading: make(places, api.MaxReaders), batching: make(places, api.MaxBatches),
		waiting: make(places, api.MaxWaits), imaging: make(places, api.MaxImages)}
	mux, err := newMux(api.Routes, s.handlers(), token)
	if err != nil {
		panic("admin: " + err.Error())
	}
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: api.HeaderTimeout, IdleTimeout: api.IdleTimeout, MaxHeaderBytes: api.MaxHeader}
	return s
}

// Describe sets v as the answer to GET /v1/fabric. v says how the fabric was started. A caller who
// knows the address of one chip learns from v about the whole fabric. Describe must be called
// before Serve.
func (s *Server) Describe(v any) { s.about = v }

// Serve answers calls on l until Close.
func (s *Server) Serve(l net.Listener) error {
	limited := newListener(l)
	s.http.ConnState = limited.state
	if err := s.http.Serve(limited); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close stops the server at once, and ends all open answers.
func (s *Server) Close() error {
	s.closing.Store(true)
	return s.http.Close()
}

// list returns l, or an empty list if l is nil. A nil list would be null in JSON.
func list[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}

// aboutBlank is the type of a problem that has the meaning of its HTTP status and no other (RFC
// 9457, section 4.2.1).
const aboutBlank = "about:blank"

// problem answers a call with a problem (RFC 9457) that has an HTTP status and an explanation.
func problem(w http.ResponseWriter, code int, detail string) {
	write(w, newProblem(code, aboutBlank, detail))
}

// newProblem returns a problem with an HTTP status, a type and an explanation.
func newProblem(code int, kind, detail string) *api.Problem {
	return &api.Problem{Type: kind, Status: code, Title: http.StatusText(code), Detail: detail}
}

// write answers a call with a problem.
func write(w http.ResponseWriter, p *api.Problem) {
	w.Header().Set("Content-Type", api.MediaProblem)
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p)
}

// answer answers a call with v as JSON.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", api.MediaJSON)
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
		problem(w, http.StatusServiceUnavailable, fmt.Sprintf("%d of %d links up: %s", st.PortsUp, len(st.Ports), strings.Join(down, ", ")))
		return
	}
	fmt.Fprintln(w, "ok")
}

func (s *Server) fabric(w http.ResponseWriter, _ *http.Request) {
	if s.about == nil {
		problem(w, http.StatusNotFound, "this chip has no description of the fabric")
		return
	}
	answer(w, s.about)
}

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
	life, seq, err := api.ParseEventID(r.Header.Get("Last-Event-ID"))
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	if !s.reading.take(w, "event streams") {
		return
	}
	defer s.reading.leave()
	ch, latest, cancel := s.n.EventsAfter(life, seq)
	defer cancel()
	w.Header().Set("Content-Type", api.MediaEvents)
	w.Header().Set(api.HeaderSeq, strconv.FormatUint(latest, 10))
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
			v := EventOf(s.n.Self(), e)
			b, _ := json.Marshal(v)
			if _, err := fmt.Fprintf(w, "id: %s\ndata: %s\n\n", v.ID(), b); err != nil {
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

// body reads the body of a call, without leading and trailing white space.
func body(r *http.Request) ([]byte, error) {
	var b bytes.Buffer
	length := int(max(0, min(r.ContentLength, api.MaxBatchBody)))
	b.Grow(min(length, bigBody) + bytes.MinRead)
	_, err := io.CopyN(&b, r.Body, bigBody)
	if err == io.EOF {
		return bytes.TrimSpace(b.Bytes()), nil
	}
	// The next read waits until the body has a place among the large bodies. Only then does the
	// body get memory for its whole length.
	var next [1]byte
	if err == nil {
		_, err = io.ReadFull(r.Body, next[:])
	}
	switch {
	case err == io.EOF: // the body has exactly bigBody bytes
		return bytes.TrimSpace(b.Bytes()), nil
	case err != nil:
		return nil, err
	}
	b.Grow(max(0, length-bigBody) + bytes.MinRead)
	b.WriteByte(next[0])
	_, err = b.ReadFrom(r.Body)
	return bytes.TrimSpace(b.Bytes()), err
}

// decode reads the body of a call, one JSON object, into b. If the object has a field that b does
// not have, decode returns an error, because the caller may have misspelled the field.
func decode(r *http.Request, b any) error {
	text, err := body(r)
	if err != nil {
		return err
	}
	return decodeObject(text, b)
}

// decodeObject reads one JSON object into b. Unknown fields are errors.
func decodeObject(text []byte, b any) error {
	if !bytes.HasPrefix(text, []byte("{")) {
		return errors.New("want a JSON object")
	}
	return decodeText(text, b)
}

// decodeText reads one JSON value into b. Unknown fields are errors.
func decodeText(text []byte, b any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(b); err != nil {
		return err
	}
	if d.InputOffset() != int64(len(text)) {
		return errors.New("the body holds more than one JSON value")
	}
	return nil
}

// badBody refuses a call whose body cannot be read.
func badBody(w http.ResponseWriter, err error) {
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		problem(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is longer than %d bytes", long.Limit))
		return
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		problem(w, http.StatusRequestTimeout, fmt.Sprintf("the body did not come within %v", api.BodyTimeout))
		return
	case errors.Is(err, errBusy):
		problem(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	problem(w, http.StatusBadRequest, err.Error())
}
