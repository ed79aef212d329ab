package fabric

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/kernel"
	"ttfabric/wire"
)

// TestJobWithAPausedChip waits for a job that has ended on one chip because another chip died. The chip
// that died gives no answer, as a paused process does, and the wait must end nevertheless.
func TestJobWithAPausedChip(t *testing.T) {
	over := make(chan struct{})
	paused, end := wire.FabricNodeID{Chip: 1}, kernel.End{Why: kernel.EndChip, By: wire.FabricNodeID{Chip: 1}}
	var cs []*api.Client
	for i, answer := range []http.HandlerFunc{
		func(w http.ResponseWriter, _ *http.Request) { json.NewEncoder(w).Encode(end) },
		func(http.ResponseWriter, *http.Request) { <-over },
	} {
		server := httptest.NewServer(answer)
		defer server.Close()
		cs = append(cs, api.NewClient(strings.TrimPrefix(server.URL, "http://"), "", wire.FabricNodeID{Chip: wire.ChipID(i)}, nil))
	}
	defer close(over)
	ends := waitJob(t.Context(), cs, 1, time.Millisecond)
	if ends[0].Err != nil || ends[0].Value != end {
		t.Errorf("chip M0D0 answers %+v, %v", ends[0].Value, ends[0].Err)
	}
	if ends[1].Err == nil || ends[1].Chip != paused {
		t.Errorf("the paused chip %s answers %+v", ends[1].Chip, ends[1].Value)
	}
}
