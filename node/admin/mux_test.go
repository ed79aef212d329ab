package admin

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"ttfabric/node/admin/api"
)

// TestMux checks that newMux returns an error for a route without a handler, and for a handler
// without a route.
func TestMux(t *testing.T) {
	all := (&Server{}).handlers
	if _, err := newMux(api.Routes, all(), ""); err != nil {
		t.Fatal(err)
	}
	less, more := all(), all()
	delete(less, "PUT /v1/service")
	more["GET /v1/secrets"] = func(http.ResponseWriter, *http.Request) {}
	for want, err := range map[string]error{
		"PUT /v1/service": errOf(newMux(api.Routes, less, "")),
		"GET /v1/secrets": errOf(newMux(api.Routes, more, "")),
		"GET /livez":      errOf(newMux(api.Routes[1:], all(), "")),
		"GET /readyz":     errOf(newMux(slices.Concat(api.Routes, api.Routes[1:2]), maps.Clone(all()), "")),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error about %s", err, want)
		}
	}
}

func errOf(_ *http.ServeMux, err error) error { return err }
