package fabric

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"ttfabric/node/admin/api"
	"ttfabric/router/topo"
	"ttfabric/router/topo/pick"
	"ttfabric/wire"
)

// fakeChip is the API of a chip that may fail to answer. All links of the chip are up.
type fakeChip struct {
	mu      sync.Mutex
	view    api.ChipView
	silent  map[string]bool // calls that get no answer, such as "GET /v1/chip"
	service []api.ServiceBody
	leaving []api.DrainBody
}

// ServeHTTP implements [http.Handler].
func (f *fakeChip) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	call := r.Method + " " + r.URL.Path
	if f.silent[call] {
		panic(http.ErrAbortHandler) // closes the connection without an answer
	}
	var answer any = api.OK{OK: true}
	switch call {
	case "GET /v1/chip":
		answer = f.view
	case "PUT /v1/service":
		var b api.ServiceBody
		json.NewDecoder(r.Body).Decode(&b)
		f.service = append(f.service, b)
	case "PUT /v1/leaving":
		var b api.DrainBody
		json.NewDecoder(r.Body).Decode(&b)
		f.leaving = append(f.leaving, b)
	case "GET /v1/netem":
		answer = []api.ImpairmentView{}
	case "GET /v1/router":
		answer = []api.RouterView{}
	case "GET /v1/gossip":
		answer = api.GossipView{Chip: f.view.Chip}
	}
	json.NewEncoder(w).Encode(answer)
}

// change calls do while the chip answers no call.
func (f *fakeChip) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// told returns the changes of service, and the calls to refuse new requests, that the chip got.
func (f *fakeChip) told() ([]api.ServiceBody, []api.DrainBody) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.service), slices.Clone(f.leaving)
}

// fakes returns the two chips of an N300 and their clients.
func fakes(t *testing.T) (*Chips, []*fakeChip) {
	t.Helper()
	top, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	s := NewChips(top)
	var all []*fakeChip
	for _, n := range top.Nodes() {
		f := &fakeChip{view: api.ChipView{Chip: n}, silent: map[string]bool{}}
		for _, p := range top.Ports(n) {
			f.view.Links = append(f.view.Links, api.LinkView{Channel: p.Local.Channel, State: "up"})
		}
		srv := httptest.NewServer(f)
		t.Cleanup(srv.Close)
		s.Add(api.NewClient(srv.Listener.Addr().String(), "", n, top))
		all = append(all, f)
	}
	return s, all
}

// TestServiceOfSilentChips changes the service of cables whose chips do not say their state. A chip
// that does not answer must not count as a chip whose cables are as wanted.
func TestServiceOfSilentChips(t *testing.T) {
	t.Parallel()
	const ask, tell = "GET /v1/chip", "PUT /v1/service"
	for name, x := range map[string]struct {
		silent [2][]string // calls without an answer, by chip
		absent int         // number of chips that do not run, from the first
		avoids bool        // the first chip's ports are out of service
		out    bool
		told   [2]bool // chips that carry out the change
		want   int     // number of changed cables
		names  string  // what the error names
	}{
		"as wanted":                              {},
		"taken out":                              {out: true, told: [2]bool{true, true}, want: 2},
		"put back at one end":                    {avoids: true, told: [2]bool{true, true}, want: 2},
		"put back, both ends silent":             {silent: [2][]string{{ask, tell}, {ask, tell}}, names: "M0D0 M0D1"},
		"put back, avoided end silent":           {avoids: true, silent: [2][]string{{ask, tell}, {}}, told: [2]bool{false, true}, names: "M0D0"},
		"put back, state unknown for a moment":   {avoids: true, silent: [2][]string{{ask}, {}}, told: [2]bool{true, true}, want: 2},
		"taken out, one end silent":              {silent: [2][]string{{ask, tell}, {}}, out: true, told: [2]bool{false, true}, want: 2, names: "M0D0"},
		"taken out, one end does not run":        {absent: 1, out: true, told: [2]bool{false, true}, want: 2},
		"taken out, no end runs":                 {absent: 2, out: true},
		"put back, no end runs":                  {absent: 2},
		"taken out, all ends say no to the call": {silent: [2][]string{{tell}, {tell}}, out: true, names: "M0D0 M0D1"},
	} {
		s, chips := fakes(t)
		links, err := pick.Links(s.Topology, []string{"all"})
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range chips {
			for _, call := range x.silent[i] {
				f.silent[call] = true
			}
			if i < x.absent {
				s.Drop(f.view.Chip)
			}
			for k := range f.view.Links {
				f.view.Links[k].Avoided = x.avoids && i == 0
			}
		}
		r, err := s.SetService(t.Context(), links, x.out)
		if len(r.Changed) != x.want {
			t.Errorf("%s: %d cables count as changed, want %d", name, len(r.Changed), x.want)
		}
		if (err != nil) != (x.names != "") {
			t.Errorf("%s: %v", name, err)
		}
		for _, n := range strings.Fields(x.names) {
			if !strings.Contains(fmt.Sprint(err), n) {
				t.Errorf("%s: %v, want an error that names %s", name, err, n)
			}
		}
		for i, f := range chips {
			if service, _ := f.told(); len(service) > 0 != x.told[i] {
				t.Errorf("%s: chip %s got %+v, and should carry out the change: %v", name, f.view.Chip, service, x.told[i])
			}
		}
		if wantAbsent := x.out && x.absent > 0; (len(r.Absent) > 0) != wantAbsent {
			t.Errorf("%s: absent %v", name, r.Absent)
		}
	}
}

// TestHealNamesEverything heals a fabric with a chip that refuses new requests and a link with an
// assigned fallback. If a chip does not carry out a call, Heal fails, and the error names the chip.
func TestHealNamesEverything(t *testing.T) {
	t.Parallel()
	s, chips := fakes(t)
	chips[0].view.Leaving = true
	chips[1].view.Links[0].Assigned = true
	h, err := s.Heal(t.Context())
	_, first := chips[0].told()
	_, second := chips[1].told()
	if err != nil || !slices.Equal(h.Leaving, []wire.FabricNodeID{chips[0].view.Chip}) || !slices.Equal(first, []api.DrainBody{{On: false}}) || len(second) != 0 {
		t.Errorf("a chip that refuses new requests: %+v, %v", h, err)
	}
	if len(h.Left) != 1 || !strings.Contains(h.Left[0], "1 link") || !strings.Contains(h.Left[0], "--by auto") {
		t.Errorf("an assigned fallback: %q", h.Left)
	}
	for _, call := range []string{"PUT /v1/leaving", "GET /v1/router", "GET /v1/gossip", "PUT /v1/netem"} {
		chips[0].change(func() { chips[0].silent = map[string]bool{call: true} })
		if h, err = s.Heal(t.Context()); err == nil || !strings.Contains(err.Error(), "M0D0") {
			t.Errorf("%s without an answer: %+v, %v", call, h, err)
		}
	}
	chips[0].change(func() { chips[0].silent = map[string]bool{"GET /v1/chip": true} })
	if h, err = s.Heal(t.Context()); err != nil || !slices.Equal(h.Silent, []wire.FabricNodeID{chips[0].view.Chip}) {
		t.Errorf("a silent chip: %+v, %v", h, err)
	}
}

// TestInterruptedRemove ends the context of a removal while the chip has open requests. The chip must
// accept new requests again.
func TestInterruptedRemove(t *testing.T) {
	t.Parallel()
	s, chips := fakes(t)
	chips[0].view.OpenOps = 1
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := make(chan struct{})
	go func() {
		defer cancel()
		<-asked
	}()
	f := chips[0]
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" {
			select {
			case asked <- struct{}{}:
			case <-ctx.Done():
			}
		}
		f.ServeHTTP(w, r)
	}))
	defer inner.Close()
	if _, err := drain(ctx, api.NewClient(inner.Listener.Addr().String(), "", f.view.Chip, s.Topology), soon); err == nil {
		t.Error("the removal goes on after the end of its context")
	}
	if _, got := f.told(); !slices.Equal(got, []api.DrainBody{{On: true}, {On: false}}) {
		t.Errorf("the chip was told %+v", got)
	}
}
