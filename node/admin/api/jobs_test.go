package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ttfabric/node/kernel"
	"ttfabric/wire"
)

// TestJobsOfASilentChip starts and stops a job on a chip that never answers. The calls must end with an
// error that names the chip.
func TestJobsOfASilentChip(t *testing.T) {
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	defer server.Close()
	defer close(over)
	c := NewClient(strings.TrimPrefix(server.URL, "http://"), "", wire.FabricNodeID{Chip: 3}, nil)
	c.limit = 20 * time.Millisecond
	for what, err := range map[string]error{"start": c.StartJob(kernel.Job{ID: 1}), "stop": c.EndJob(1, "over")} {
		if err == nil || !strings.Contains(err.Error(), "chip M0D3 does not answer") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
