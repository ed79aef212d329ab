package dashboard

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// policy is the Content-Security-Policy. Code and styles come only from files of the server. Trusted
// types refuse every attempt of the page's code to make HTML or code from text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// secured refuses calls that name another host or come from another site, and sets the headers that
// restrict the page.
func secured(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", policy)
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Cross-Origin-Opener-Policy", "same-origin")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		head.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		head.Set("Cache-Control", "no-store")
		if !loopbackHost(r.Host) {
			refuse(w, http.StatusMisdirectedRequest, fmt.Sprintf("the page has no host %q; open it at 127.0.0.1 or localhost", r.Host))
			return
		}
		if o := r.Header.Get("Origin"); o != "" && o != "http://"+r.Host {
			refuse(w, http.StatusForbidden, fmt.Sprintf("the call comes from the origin %q; only the page itself may call", o))
			return
		}
		if s := r.Header.Get("Sec-Fetch-Site"); s == "cross-site" || s == "same-site" {
			if r.Method != http.MethodGet || r.URL.Path != "/" { // a link on another site may lead to the page
				refuse(w, http.StatusForbidden, "the call comes from another site; only the page itself may call")
				return
			}
		}
		h.ServeHTTP(w, r)
	})
}

// loopbackHost reports whether a header Host names this machine's loopback. Any port is accepted,
// because ssh may forward another port. If the owner of another site points a name to 127.0.0.1, calls
// of that site's pages have this name in the header, and the server refuses the calls.
func loopbackHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	ip, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && ip.IsLoopback()
}

// guarded refuses calls without the key.
func guarded(key, what string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !bearer || key == "" || subtle.ConstantTimeCompare([]byte(got), []byte(key)) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, fmt.Sprintf("the %s key is missing or wrong; open the address that 'ttfabric dashboard' printed", what))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// controlled refuses calls without the key for control, and all calls if there is no such key.
func (s *server) controlled(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.keys.Control == "" {
			refuse(w, http.StatusForbidden, "the dashboard only reads; 'ttfabric dashboard --control' injects faults, too")
			return
		}
		if r.Header.Get("Content-Type") != "application/json" {
			refuse(w, http.StatusUnsupportedMediaType, "want a body of the type application/json")
			return
		}
		guarded(s.keys.Control, "control", h).ServeHTTP(w, r)
	})
}

// limited refuses calls beyond the places.
func limited(places chan struct{}, what string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		default:
			w.Header().Set("Retry-After", "2")
			refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("there are %d %s already, as many as there may be at once; close another page first", cap(places), what))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// refuse answers with an error as JSON.
func refuse(w http.ResponseWriter, code int, why string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(map[string]any{"type": "about:blank", "status": code, "title": http.StatusText(code), "detail": why})
}

// answer answers with v as JSON.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime))
	json.NewEncoder(w).Encode(v)
}
