package fabric

import (
	"slices"
	"strings"
	"testing"

	"ttfabric/node/admin/api"
	"ttfabric/wire"
)

// TestBeside compares planned hops with the records of packets that took the planned route,
// took another route, or did not arrive.
func TestBeside(t *testing.T) {
	plan := []Hop{{Number: 1, From: "M0D0", Dir: "E", To: "M0D1", VC: "data"}, {Number: 2, From: "M0D1", Dir: "S", To: "M0D3", VC: "data"}}
	at := func(id string, chip, ttl int, vc string) sighting {
		return sighting{wire.FabricNodeID{Chip: wire.ChipID(chip)}, api.SightingView{ID: id, Channel: 4, VC: vc, TTL: uint16(ttl)}}
	}
	old := []sighting{at("a", 1, 9, "data"), at("a", 3, 8, "data")}
	for _, c := range []struct {
		name string
		seen []sighting // records of new packets
		want string
	}{
		{"as planned", []sighting{at("b", 3, 8, "data"), at("b", 1, 9, "data")}, "M0D1 as planned, M0D3 as planned"},
		{"lost after a hop", []sighting{at("b", 1, 9, "data")}, "M0D1 as planned,  not seen"},
		{"lost at once", nil, " not seen,  not seen"},
		{"another route", []sighting{at("b", 2, 9, "data"), at("b", 3, 8, "data")}, "M0D2 another route, M0D3 as planned"},
		{"another channel", []sighting{at("b", 1, 9, "data-detour"), at("b", 3, 8, "data")}, "M0D1 another route, M0D3 as planned"},
		{"a longer route", []sighting{at("b", 2, 9, "data"), at("b", 3, 7, "data"), at("b", 0, 8, "data")}, "M0D2 another route, M0D0 another route, M0D3 another route"},
		{"a second new packet", []sighting{at("b", 1, 9, "data"), at("c", 3, 8, "data")}, "M0D1 as planned,  not seen"},
	} {
		var got []string
		for _, h := range beside(slices.Clone(plan), newOnes(old, append(slices.Clone(old), c.seen...))) {
			chip, _, _ := strings.Cut(h.Seen, " ")
			got = append(got, chip+" "+h.Verdict())
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s: %q, want %q", c.name, s, c.want)
		}
	}
}
