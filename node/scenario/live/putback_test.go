package live

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/scenario"
	"ttfabric/router/topo"
	"ttfabric/router/topo/pick"
	"ttfabric/wire"
)

// TestPutBackKeepsWhatTheOperatorDid takes two cables out of service, of which an operator took the
// first out of service before. The test also delays the first cable. putBack must put only the
// second cable back in service, and must mend no cable that the scenario did not cut.
func TestPutBackKeepsWhatTheOperatorDid(t *testing.T) {
	t.Parallel()
	top, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	links, err := pick.Links(top, []string{"all"})
	if err != nil || len(links) != 2 {
		t.Fatal(links, err)
	}
	var mu sync.Mutex
	avoided := map[wire.PortID]bool{links[0].A: true, links[0].B: true}
	var told []string
	g := &stage{t: top, chips: fabric.NewChips(top)}
	for _, n := range top.Nodes() {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			v := api.ChipView{Chip: n}
			switch r.Method + " " + r.URL.Path {
			case "PUT /v1/service":
				var b api.ServiceBody
				json.NewDecoder(r.Body).Decode(&b)
				for _, ch := range b.Channels {
					avoided[wire.PortID{Node: n, Channel: ch}] = b.Out
				}
			case "PUT /v1/netem":
				var b api.NetemBody
				json.NewDecoder(r.Body).Decode(&b)
				if b.Cut != nil {
					told = append(told, fmt.Sprintf("%s cut %v", n, *b.Cut))
				}
			case "DELETE /v1/netem":
				told = append(told, fmt.Sprintf("%s reset %s", n, r.URL.RawQuery))
			}
			for _, p := range top.Ports(n) {
				v.Links = append(v.Links, api.LinkView{Channel: p.Local.Channel, State: "up", Avoided: avoided[p.Local]})
			}
			json.NewEncoder(w).Encode(v)
		}))
		t.Cleanup(srv.Close)
		g.chips.Add(api.NewClient(srv.Listener.Addr().String(), "", n, top))
	}
	for _, a := range []scenario.Action{
		{Verb: scenario.LinkReroute, Links: links, Step: &scenario.Step{}},
		{Verb: scenario.NetemSet, Links: links[:1], Step: &scenario.Step{Direction: "both"}},
	} {
		if err := g.doLinks(t.Context(), &a); err != nil {
			t.Fatal(err)
		}
	}
	if !avoided[links[1].A] || !avoided[links[1].B] {
		t.Error("the second cable is in service")
	}
	if err := g.putBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if !avoided[links[0].A] || !avoided[links[0].B] || avoided[links[1].A] || avoided[links[1].B] {
		t.Errorf("out of service: %v", avoided)
	}
	slices.Sort(told)
	if want := []string{"M0D0 reset channel=8", "M0D1 reset channel=0"}; !slices.Equal(told, want) {
		t.Errorf("the chips were told %q, want %q", told, want)
	}
}
