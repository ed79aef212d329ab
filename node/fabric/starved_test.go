package fabric

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/traffic"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// TestStarvedBetween compares views of a chip from before and after a run.
func TestStarvedBetween(t *testing.T) {
	view := func(life string, longest float64, latest ...float64) api.ChipView {
		v := api.ChipView{Chip: wire.FabricNodeID{Chip: 5}, Incarnation: life}
		v.Starved = api.StarvedView{LongestS: longest, LatestS: latest}
		for _, s := range latest {
			v.Starved.Times, v.Starved.TotalS = v.Starved.Times+1, v.Starved.TotalS+s
		}
		return v
	}
	many := make([]float64, 40)
	for i := range many {
		many[i] = .25
	}
	after40 := view("a", 8, many...)
	after40.Starved.LatestS = many[:16]
	for _, c := range []struct {
		name          string
		before, after api.ChipView
		want          traffic.Starved
		text          string
	}{
		{"never", view("a", 0), view("a", 0), traffic.Starved{}, ""},
		{"only before", view("a", 8, 8), view("a", 8, 8), traffic.Starved{}, ""},
		{"once, and longer before", view("a", 8, 8), view("a", 8, 8, 2), traffic.Starved{Times: 1, TotalS: 2, LongestS: 2}, "M0D5 was starved for 2.0 s"},
		{"twice", view("a", 8, 8), view("a", 8, 8, .5, 1.5), traffic.Starved{Times: 2, TotalS: 2, LongestS: 1.5}, "M0D5 was starved for 2.0 s in all (longest 1.5 s)"},
		{"the longest of all", view("a", 1, 1), view("a", 4, 1, 4, .5), traffic.Starved{Times: 2, TotalS: 4.5, LongestS: 4}, "M0D5 was starved for 4.5 s in all (longest 4.0 s)"},
		{"very often", view("a", 8), after40, traffic.Starved{Times: 40, TotalS: 10, LongestS: .25}, "M0D5 was starved for 10.0 s in all (longest 0.2 s)"},
		{"restarted", view("a", 8, 8, 8), view("b", .5, .5), traffic.Starved{Times: 1, TotalS: .5, LongestS: .5}, "M0D5 was starved for 0.5 s"},
	} {
		c.want.Chip = c.after.Chip
		got := starvedBetween(&c.before, &c.after)
		if got != c.want || c.text != "" && got.String() != c.text {
			t.Errorf("%s: %+v, %q; want %+v, %q", c.name, got, got, c.want, c.text)
		}
	}
}

func TestStarvedInAny(t *testing.T) {
	a, b := wire.FabricNodeID{Chip: 1}, wire.FabricNodeID{Chip: 2}
	got := StarvedInAny([]traffic.Starved{{Chip: b, Times: 1, TotalS: 1, LongestS: 1}}, nil,
		[]traffic.Starved{{Chip: a, Times: 2, TotalS: 3, LongestS: 2}, {Chip: b, Times: 1, TotalS: 2, LongestS: 2}})
	if want := []traffic.Starved{{Chip: b, Times: 2, TotalS: 3, LongestS: 2}, {Chip: a, Times: 2, TotalS: 3, LongestS: 2}}; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestLateLines checks the lines about chips that were starved lately, and about silent chips.
func TestLateLines(t *testing.T) {
	began := time.Now()
	view := func(chip wire.ChipID, end float64, times uint64, silent ...wire.FabricNodeID) api.ChipView {
		at := began.Add(time.Duration(end * float64(time.Second)))
		return api.ChipView{Chip: wire.FabricNodeID{Chip: chip}, Started: began, UptimeS: 100, Silent: silent,
			Starved: api.StarvedView{Times: times, TotalS: 2.1 * float64(times), LastS: 2.1, LastEnd: &at}}
	}
	far := wire.FabricNodeID{Chip: 9}
	views := []api.ChipView{view(5, 97, 1, far), view(6, 97, 3, far), view(7, 30, 1), {Chip: wire.FabricNodeID{Chip: 8}}}
	if got, want := StarvedLines(views), []string{"M0D5 was starved for 2.1 s, 3 s ago", "M0D6 was starved for 2.1 s, 3 s ago; 3 times since its start, for 6.3 s in all"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := SilentLines(views), []string{"M0D9 is silent: requests to it wait"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestStarvedRun asks two chips before and after a run, with one call each. A third chip does not run.
func TestStarvedRun(t *testing.T) {
	m, err := topo.Named("ring:3")
	if err != nil {
		t.Fatal(err)
	}
	nodes := m.Nodes()
	calls := make([]atomic.Int64, 2)
	var cs []*api.Client
	for i := range calls {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			v := api.ChipView{Chip: nodes[i], Incarnation: "a"}
			if calls[i].Add(1) > 1 && i == 1 {
				v.Starved = api.StarvedView{Times: 1, TotalS: 2, LongestS: 2, LatestS: []float64{2}}
			}
			json.NewEncoder(w).Encode(v)
		}))
		defer s.Close()
		cs = append(cs, api.NewClient(s.Listener.Addr().String(), "", nodes[i], m))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	s := StarvedFromNow(ctx, append([]*api.Client{api.NewClient(l.Addr().String(), "", nodes[2], m)}, cs...))
	past, end := context.WithDeadline(ctx, time.Now())
	defer end()
	got := s.End(past)
	if want := []traffic.Starved{{Chip: nodes[1], Times: 1, TotalS: 2, LongestS: 2}}; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if calls[0].Load() != 2 || calls[1].Load() != 2 {
		t.Errorf("%d and %d calls, want 2 and 2", calls[0].Load(), calls[1].Load())
	}
	if cancel(); s.End(ctx) != nil || calls[1].Load() != 2 {
		t.Error("a canceled run has a result")
	}
}
