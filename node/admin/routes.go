package admin

import (
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"

	"ttfabric/node/admin/api"
)

// handlers returns the handler of each route of [api.Routes], by the route's pattern.
func (s *Server) handlers() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /livez": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }, "GET /readyz": s.readyz,
		"GET /metrics": metrics(s.n).ServeHTTP,

		"GET /v1/fabric": s.fabric, "GET /v1/chip": s.chip, "GET /v1/brief": s.brief, "GET /v1/losses": s.losses, "GET /v1/ends": s.ends, "GET /v1/members": s.members,
		"GET /v1/events": s.events, "GET /v1/profile/{kind}": s.profile,

		"POST /v1/requests": s.requests, "DELETE /v1/requests": s.stopBatch, "POST /v1/bench": s.bench, "GET /v1/traces": s.traces,
		"POST /v1/wait": s.wait, "POST /v1/barrier": s.barrier, "POST /v1/claim": s.claim,
		"POST /v1/traffic": s.startTraffic, "GET /v1/traffic": s.trafficReport, "DELETE /v1/traffic": s.stopTraffic,

		"GET /v1/netem": s.netem, "PUT /v1/netem": s.setNetem, "DELETE /v1/netem": s.resetNetem, "POST /v1/faults": s.tellFault,
		"GET /v1/gossip": s.gossip, "PUT /v1/gossip": s.setGossip, "DELETE /v1/gossip": s.healGossip,
		"GET /v1/gossip/keys": s.gossipKeys, "PUT /v1/gossip/keys": s.setGossipKeys,

		"GET /v1/router": s.routers, "GET /v1/router/channels": s.channels, "POST /v1/router": s.commandRouter, "PUT /v1/service": s.setService, "PUT /v1/fallback": s.assignFallback, "PUT /v1/leaving": s.drain,
		"GET /v1/capture": s.capture, "DELETE /v1/capture": s.endCapture, "DELETE /v1/recording": s.endRecording,

		"GET /v1/jobs": s.jobs, "POST /v1/jobs": s.startJob, "GET /v1/jobs/end": s.waitJob, "DELETE /v1/jobs": s.stopJob,

		"GET /v1/host": s.host, "POST /v1/snapshot": s.snapshot, "GET /v1/memory": s.saveMemory, "PUT /v1/memory": s.restoreMemory,

		"GET /v1/": page, "GET /v1/openapi.json": document,
	}
}

// newMux returns a multiplexer that serves the routes by their handlers. Because the table of
// routes documents the calls, every route needs a handler, and every handler needs a route.
// Otherwise newMux returns an error. newMux also returns an error for a route that is in the table
// twice.
func newMux(routes []api.Route, handlers map[string]http.HandlerFunc, token string) (*http.ServeMux, error) {
	mux := http.NewServeMux()
	known, methods := map[string]bool{}, map[string][]string{}
	b := &bodies{big: make(places, maxBigBodies), wait: api.BodyTimeout}
	for i := range routes {
		r := &routes[i]
		name := r.Method + " " + r.Path
		h := handlers[name]
		switch {
		case h == nil:
			return nil, fmt.Errorf("the route %s has no handler", name)
		case known[name]:
			return nil, fmt.Errorf("the route %s is in the table twice", name)
		}
		known[name] = true
		if !r.Open {
			h = guarded(h, token)
		}
		mux.HandleFunc(r.Pattern(), b.limited(h, r.Limit(), r.Stream(), r.Image))
		_, at, _ := strings.Cut(r.Pattern(), " ")
		methods[at] = append(methods[at], r.Method)
	}
	for at, allowed := range methods {
		mux.HandleFunc(at, b.limited(wrongMethod(allowed), api.MaxBody, false, false))
	}
	mux.HandleFunc("/", b.limited(noSuchPath, api.MaxBody, false, false))
	for name := range handlers {
		if !known[name] {
			return nil, fmt.Errorf("the handler of %s has no route in the table", name)
		}
	}
	return mux, nil
}

// wrongMethod returns a handler for calls of a path with a method that the path does not have.
func wrongMethod(allowed []string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		problem(w, http.StatusMethodNotAllowed, fmt.Sprintf("%s has no method %s: want %s", r.URL.Path, r.Method, strings.Join(allowed, ", ")))
	}
}

func noSuchPath(w http.ResponseWriter, r *http.Request) {
	problem(w, http.StatusNotFound, fmt.Sprintf("the API has no path %s; GET /v1/ lists the calls", r.URL.Path))
}

// guarded refuses calls without the token. If the token is empty, guarded accepts all calls.
func guarded(h http.HandlerFunc, token string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		got, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if token != "" && subtle.ConstantTimeCompare([]byte(got), []byte(token)) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			problem(w, http.StatusUnauthorized, "the token is missing or wrong; it is in the fabric's run folder")
			return
		}
		h(w, r)
	}
}

// document answers with the API's OpenAPI document.
func document(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", api.MediaJSON)
	w.Write(api.OpenAPI)
}

// page answers with an HTML page that lists the calls. The page needs no other files.
func page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", api.MediaHTML)
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	pageTemplate.Execute(w, api.Routes)
}
