package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"ttfabric/node/fabric/picture"
	"ttfabric/node/fabric/picture/live"
	"ttfabric/node/fabric/spec"
)

// Hello is what a page asks for first.
type Hello struct {
	Machine *picture.Machine `json:"machine"`
	Control bool             `json:"control"` // the server injects faults for those who have the key
}

func (s *server) machine(w http.ResponseWriter, _ *http.Request) {
	answer(w, Hello{s.src.Machine(), s.keys.Control != ""})
}

// fail answers with the error of a source.
func fail(w http.ResponseWriter, err error) {
	var usage *spec.Error
	code := http.StatusBadGateway
	switch {
	case errors.Is(err, live.ErrFull):
		code = http.StatusServiceUnavailable
	case errors.As(err, &usage):
		code = http.StatusBadRequest
	}
	refuse(w, code, err.Error())
}

func (s *server) history(w http.ResponseWriter, r *http.Request) {
	i, most := -1, len(s.src.Machine().Cables)
	if text := r.URL.Query().Get("cable"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n >= most {
			refuse(w, http.StatusBadRequest, fmt.Sprintf("cable %q: want a number from 0 to %d, or no cable for the whole fabric", text, most-1))
			return
		}
		i = n
	}
	answer(w, s.src.History(i))
}

func (s *server) chip(w http.ResponseWriter, r *http.Request) {
	d, err := s.src.Chip(r.Context(), r.URL.Query().Get("name"))
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, d)
}

func (s *server) route(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	plane, err := strconv.Atoi(q.Get("plane"))
	if err != nil {
		refuse(w, http.StatusBadRequest, fmt.Sprintf("plane %q: want a number", q.Get("plane")))
		return
	}
	way, err := s.src.Route(q.Get("src"), q.Get("dst"), plane, q.Get("all") == "1")
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, way)
}

func (s *server) losses(w http.ResponseWriter, r *http.Request) {
	b, err := s.src.Losses(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, b)
}

func (s *server) do(w http.ResponseWriter, r *http.Request) {
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	var a live.Action
	if err := d.Decode(&a); err != nil {
		refuse(w, http.StatusBadRequest, "the body is no action: "+err.Error())
		return
	}
	text, err := s.src.Do(r.Context(), a)
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, map[string]string{"done": text})
}

// whole is the first message of a stream.
type whole struct {
	State  *picture.State  `json:"state"`
	Events []picture.Event `json:"events"`
}

// stream sends the present state, and then each update, as server-sent events.
func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	updates, leave, err := s.src.Subscribe()
	if err != nil {
		fail(w, err)
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	send := func(kind string, data []byte) bool {
		rc.SetWriteDeadline(time.Now().Add(writeTime))
		_, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, data)
		return err == nil
	}
	first := whole{s.src.State(), s.src.Events()}
	text, err := json.Marshal(first)
	if err != nil || !send("whole", text) {
		return
	}
	rc.Flush()
	beat := time.NewTicker(keepalive)
	defer beat.Stop()
	for {
		select {
		case u, ok := <-updates:
			if !ok { // the page was too slow; the page begins again with the whole state
				return
			}
			kind := "changes"
			if u.Event != nil {
				kind = "event"
			} else if u.Changes.Seq <= first.State.Seq {
				continue // the first message has these changes already
			}
			if !send(kind, u.JSON()) {
				return
			}
			beat.Reset(keepalive)
		case <-beat.C:
			rc.SetWriteDeadline(time.Now().Add(writeTime))
			if _, err := fmt.Fprint(w, ":\n\n"); err != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
		if len(updates) == 0 {
			rc.Flush()
		}
	}
}
