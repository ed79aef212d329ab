package admin

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"ttfabric/node/admin/api"
)

// profile answers with a profile of the chip's process in the format of pprof. A CPU profile covers
// the time in the query's parameter "for", or less if the caller disconnects earlier.
func (s *Server) profile(w http.ResponseWriter, r *http.Request) {
	kind := r.PathValue("kind")
	if kind == "cpu" {
		d, err := time.ParseDuration(r.URL.Query().Get("for"))
		if err != nil || d <= 0 || d > api.MaxProfile {
			problem(w, http.StatusBadRequest, fmt.Sprintf("for=%s: want a duration up to %v, such as 5s", r.URL.Query().Get("for"), api.MaxProfile))
			return
		}
		w.Header().Set("Content-Type", api.MediaProfile)
		if err := pprof.StartCPUProfile(w); err != nil {
			problem(w, http.StatusConflict, err.Error())
			return
		}
		defer pprof.StopCPUProfile()
		select {
		case <-time.After(d):
		case <-r.Context().Done():
		}
		return
	}
	p := pprof.Lookup(kind)
	if p == nil || !slices.Contains(api.ProfileKinds, kind) {
		problem(w, http.StatusNotFound, fmt.Sprintf("profile %q: want %s", kind, strings.Join(api.ProfileKinds, ", ")))
		return
	}
	if kind == "heap" {
		runtime.GC()
	}
	w.Header().Set("Content-Type", api.MediaProfile)
	p.WriteTo(w, 0)
}
