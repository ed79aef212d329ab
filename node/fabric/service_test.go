package fabric

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/router/topo/pick"
	"ttfabric/wire"
)

// allUp returns what the chips of a topology say while all cables work.
func allUp(t *topo.Topology) live {
	m := live{}
	for _, c := range t.Cables {
		m[c.A], m[c.B] = liveEnd{carries: true}, liveEnd{carries: true}
	}
	return m
}

// TestCutOff takes cables of a T3000 out of service, and checks which chips have no route to the
// others any more. Before, the cables in "down" have failed.
func TestCutOff(t *testing.T) {
	top, err := topo.Named("t3000")
	if err != nil {
		t.Fatal(err)
	}
	p, err := route.New(top, route.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ down, take, line, want string }{
		{"", "M0D1-M0D2", "", ""},
		{"", "M0D1-M0D2 M0D5-M0D6", "", "M0D2, M0D3, M0D6, M0D7"},
		{"M0D5-M0D6", "M0D1-M0D2", "", "M0D2, M0D3, M0D6, M0D7"},
		{"M0D5-M0D6", "M0D1-M0D2/p0", "", ""},                                    // the frames of plane 0 move to the cable of plane 1
		{"M0D5-M0D6 M0D1-M0D2/p0", "M0D1-M0D2/p1", "", "M0D2, M0D3, M0D6, M0D7"}, // the frames of plane 0 have moved already
		{"M0D1-M0D2 M0D5-M0D6", "M0D2-M0D3", "", ""},                             // packets still reach M0D3 through M0D7
		{"M0D1-M0D2 M0D5-M0D6", "M0D3", "", "M0D3"},
		{"", "M0D5", "", "M0D5"},
		{"", "", "column 0", ""}, // the chips of the removed line do not count as cut off
		{"", "", "column 1", "M0D0, M0D4"},
		{"", "", "row 0", ""},
	} {
		links := func(names string) []topo.Link {
			ls, err := pick.Links(top, strings.Fields(names))
			if err != nil {
				t.Fatal(err)
			}
			return ls
		}
		m := allUp(top)
		for _, l := range links(x.down) {
			m[l.A], m[l.B] = liveEnd{}, liveEnd{}
		}
		line := Line{Links: links(x.take)}
		if kind, number, ok := strings.Cut(x.line, " "); ok {
			if line, err = LineOf(top, 0, kind, number); err != nil {
				t.Fatal(err)
			}
		}
		sets := cutOff(p.Around(m.without(top, nil)), p.Around(m.without(top, line.Links)), line.Chips)
		got := ""
		for _, s := range sets {
			got += s.String()
		}
		if got != x.want {
			t.Errorf("%+v: cuts off %q", x, got)
		}
	}
}

// TestService takes cables of a live T3000 out of service and puts them back. A refused change must
// change nothing. While a parallel cable works, no chip may change its tables.
func TestService(t *testing.T) {
	f := up(t, own(t), "t3000", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 3*soon)
	defer cancel()
	s, err := f.Chips()
	if err != nil {
		t.Fatal(err)
	}
	links := func(names ...string) []topo.Link {
		ls, err := pick.Links(f.Topology, names)
		if err != nil {
			t.Fatal(err)
		}
		return ls
	}
	until := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(soon); !done(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: not after %v: %+v", what, soon, s.Fallbacks(ctx, links("M0D1-M0D2")))
			}
		}
	}
	epochs := func() string {
		views, _ := Ask(ctx, s.Clients())
		var all []string
		for _, v := range views {
			all = append(all, v.TableEpoch)
		}
		return strings.Join(all, " ")
	}
	first, second := links("M0D1-M0D2/p0"), links("M0D1-M0D2/p1")
	until("the fallback is shown before its use", func() bool {
		fb := s.Fallbacks(ctx, first)
		return fb[0].CarriedBy == "own" && fb[0].Fallback == second[0].String()
	})
	before := epochs()
	if r, err := f.TakeOut(ctx, first, nil, false); err != nil || len(r.Changed) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	until("the link moves", func() bool { return s.Fallbacks(ctx, first)[0].CarriedBy == second[0].String() })
	if r, err := f.TakeOut(ctx, first, nil, false); err != nil || len(r.Changed) != 0 {
		t.Errorf("once more: %+v, %v", r, err)
	}
	time.Sleep(time.Second)
	if now := epochs(); now != before {
		t.Errorf("the tables changed from %s to %s, although a parallel cable works", before, now)
	}
	if _, err := f.TakeOut(ctx, links("M0D5-M0D6"), nil, false); err != nil {
		t.Fatal(err)
	}
	until("the tables change", func() bool { return epochs() != before })
	before = epochs()
	var refused *CutOffError
	if _, err := f.TakeOut(ctx, second, nil, false); !errors.As(err, &refused) || fmt.Sprint(refused.Sets) != "[M0D2, M0D3, M0D6, M0D7]" {
		t.Errorf("cutting the fabric in two: %v", err)
	}
	if r, err := f.TakeOut(ctx, second, nil, true); err != nil || len(r.Changed) != 1 {
		t.Errorf("with force: %+v, %v", r, err)
	}
	if err := third(s.CommandRouters(ctx, Where{first[0].A.Node: {first[0].A.Channel}}, "pause")); err != nil {
		t.Error(err)
	}
	h, err := s.Heal(ctx)
	if err != nil || len(h.Service) != 4 || len(h.Cables) != 0 || len(h.Routers) != 1 || len(h.Left) != 0 {
		t.Errorf("%+v, %v", h, err)
	}
	until("the links return", func() bool { return s.Fallbacks(ctx, first)[0].CarriedBy == "own" })
	if h, err = s.Heal(ctx); err != nil || len(h.Service)+len(h.Cables)+len(h.Routers)+len(h.Gossip)+len(h.Left) != 0 {
		t.Errorf("healed once more: %+v, %v", h, err)
	}
}

// third returns the last of three results.
func third[A, B any](_ A, _ B, err error) error { return err }

// TestAssignFallback assigns the fallback of a live link, and ends the assignment. A cable that is
// not parallel must be refused. The chips must report data rates.
func TestAssignFallback(t *testing.T) {
	f := up(t, own(t), "n300", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	s, err := f.Chips()
	if err != nil {
		t.Fatal(err)
	}
	all, _ := pick.Links(f.Topology, []string{"all"})
	if _, err := s.AssignFallback(ctx, all[:1], all[1].String()); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(soon); ; time.Sleep(20 * time.Millisecond) {
		fb := s.Fallbacks(ctx, all)[0]
		if fb.Assigned && fb.Fallback == all[1].String() && fb.Note() == "assigned" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%+v", fb)
		}
	}
	if _, err := s.AssignFallback(ctx, all[:1], all[0].String()); err == nil || !strings.Contains(err.Error(), "not parallel") {
		t.Errorf("the link's own cable as its fallback: %v", err)
	}
	if _, err := s.AssignFallback(ctx, all, "auto"); err != nil {
		t.Fatal(err)
	}
	if fb := s.Fallbacks(ctx, all)[0]; fb.Assigned {
		t.Errorf("%+v", fb)
	}
	if err := s.Client(all[0].A.Node).AssignFallback(ctx, all[0].A.Channel, new(wire.Channel(15))); err == nil {
		t.Error("a chip assigned the cable of a channel without a cable")
	}
	var rates api.RateView
	for end := time.Now().Add(soon); rates.OverS < 1 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		v, err := s.Client(all[0].A.Node).Chip(ctx)
		if err != nil {
			t.Fatal(err)
		}
		rates = v.Links[0].Rate
	}
	if rates.OverS < 1 {
		t.Errorf("rates: %+v", rates)
	}
}
