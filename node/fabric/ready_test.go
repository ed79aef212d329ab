package fabric

import (
	"maps"
	"slices"
	"testing"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/wire"
)

// TestOutOfDateAnswers has answers of the two chips of a cable. Both answers are out of date if the two
// ends are in different sessions. The answer of a chip that ran before is out of date if the other
// chip became ready later.
func TestOutOfDateAnswers(t *testing.T) {
	a, b := wire.FabricNodeID{Chip: 0}, wire.FabricNodeID{Chip: 1}
	view := func(peer wire.FabricNodeID, channel, peerChannel wire.Channel, session string) api.ChipView {
		return api.ChipView{Links: []api.LinkView{{Channel: channel, Peer: peer, PeerChan: peerChannel, Session: session}}}
	}
	early, changed, late := time.Unix(1, 0), time.Unix(2, 0), time.Unix(3, 0)
	for _, x := range []struct {
		name      string
		session   string // session of chip b; chip a is in the session "1"
		running   []wire.FabricNodeID
		a, b      time.Time // when the requests began
		want      []wire.FabricNodeID
		outOfDate bool
	}{
		{"all agree", "1", []wire.FabricNodeID{a, b}, late, late, []wire.FabricNodeID{a, b}, false},
		{"different sessions", "2", nil, late, late, nil, true},
		{"chip a answered before chip b was ready", "1", []wire.FabricNodeID{a}, early, late, []wire.FabricNodeID{b}, true},
		{"a new chip answers when it is ready", "1", []wire.FabricNodeID{a}, late, early, []wire.FabricNodeID{a, b}, false},
		{"a fabric that starts", "1", nil, early, early, []wire.FabricNodeID{a, b}, false},
	} {
		views := map[wire.FabricNodeID]api.ChipView{a: view(b, 8, 0, "1"), b: view(a, 0, 8, x.session)}
		running := map[wire.FabricNodeID]bool{}
		for _, n := range x.running {
			running[n] = true
		}
		got := outOfDate(views, running, map[wire.FabricNodeID]time.Time{a: x.a, b: x.b}, changed)
		left := slices.SortedFunc(maps.Keys(views), wire.FabricNodeID.Compare)
		if got != x.outOfDate || !slices.Equal(left, x.want) {
			t.Errorf("%s: out of date %v, the answers of %v are left; want %v and %v", x.name, got, left, x.outOfDate, x.want)
		}
	}
}
