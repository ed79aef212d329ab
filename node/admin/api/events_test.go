package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ttfabric/node/session"
)

// TestWatchSkipsByNumber watches a chip whose events have misleading times. Watch must skip the events
// up to the number in the header, and report all others.
func TestWatchSkipsByNumber(t *testing.T) {
	t.Parallel()
	header := "5"
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(HeaderSeq, header)
		for seq, at := range map[uint64]time.Time{5: time.Now().Add(time.Hour), 6: time.Unix(1000, 0)} {
			b, _ := json.Marshal(EventView{Time: at, Type: "link", Action: "up", Seq: seq})
			fmt.Fprintf(w, "data: %s\n\n", b)
		}
	}))
	defer srv.Close()
	c := clientOf(t, srv)
	var seen []session.Event
	if err := c.Watch(t.Context(), func(e session.Event) { seen = append(seen, e) }); err != nil || len(seen) != 1 || seen[0].Time.Unix() != 1000 {
		t.Errorf("%+v, %v; want the event 6", seen, err)
	}
	header = "soon"
	if err := c.Watch(t.Context(), func(session.Event) {}); err == nil || !strings.Contains(err.Error(), HeaderSeq) {
		t.Errorf("a malformed header: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Watch(ctx, func(session.Event) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}
