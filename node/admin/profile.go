package admin

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"
)

// MaxProfile is the longest CPU profile that a chip takes.
const MaxProfile = 5 * time.Minute

// ProfileKinds are the profiles of a chip's process that can be taken.
var ProfileKinds = []string{"cpu", "allocs", "heap", "goroutine"}

// profile answers with a profile in pprof's format. Of the CPU it takes as long as the request says.
func (s *Server) profile(w http.ResponseWriter, r *http.Request) {
	kind := r.PathValue("kind")
	if kind == "cpu" {
		d, err := time.ParseDuration(r.URL.Query().Get("for"))
		if err != nil || d <= 0 || d > MaxProfile {
			problem(w, http.StatusBadRequest, fmt.Sprintf("for=%s: want a duration up to %v, such as 5s", r.URL.Query().Get("for"), MaxProfile))
			return
		}
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
	if p == nil || !slices.Contains(ProfileKinds, kind) {
		problem(w, http.StatusNotFound, fmt.Sprintf("profile %q: want %s", kind, strings.Join(ProfileKinds, ", ")))
		return
	}
	if kind == "heap" {
		runtime.GC()
	}
	p.WriteTo(w, 0)
}

// Profile writes a profile of the chip's process to w, in pprof's format. Of
// the CPU it takes d, at most [MaxProfile]; the other kinds are at once.
func (c *Client) Profile(ctx context.Context, kind string, d time.Duration, w io.Writer) error {
	resp, err := c.open(ctx, "GET", fmt.Sprintf("/v1/profile/%s?for=%s", kind, d), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(w, resp.Body)
	return err
}
