package losses

import (
	"encoding/json"
	"reflect"
	"testing"

	"ttfabric/ttlink"
	"ttfabric/wire"
)

func port(mesh, chip, ch int) wire.PortID {
	return wire.PortID{Node: wire.FabricNodeID{Mesh: wire.MeshID(mesh), Chip: wire.ChipID(chip)}, Channel: wire.Channel(ch)}
}

// session returns the counts of a session that carried only requests.
func session(id wire.SessionID, peer wire.Incarnation, sent, acked, received uint64) ttlink.SessionTally {
	return ttlink.SessionTally{ID: id, Peer: peer, Packets: ttlink.Tallies{{Sent: sent, Acked: acked, Received: received}}}
}

// pair returns the reports of two chips, left and right, joined by a cable. In the
// running session, left sent 10 requests and right sent 4. In the earlier session, with
// the former incarnation of right, left sent 7 requests, of which 5 were acknowledged,
// and right sent 3.
func pair() []Chip {
	left := Chip{Node: port(0, 0, 0).Node, Incarnation: 1, Ports: []Port{{Local: port(0, 0, 0), Peer: port(0, 1, 0),
		Packets: Packets{Injected: Count{17}, Sent: Count{17}, Received: Count{7}, Delivered: Count{7}},
		Link:    ttlink.History{Now: session(2, 22, 10, 10, 4), Ended: []ttlink.SessionTally{session(1, 21, 7, 5, 3)}}}}}
	right := Chip{Node: port(0, 1, 0).Node, Incarnation: 22, Ports: []Port{{Local: port(0, 1, 0), Peer: port(0, 0, 0),
		Packets: Packets{Injected: Count{4}, Sent: Count{4}, Received: Count{10}, Delivered: Count{10}},
		Link:    ttlink.History{Now: session(2, 1, 4, 4, 10)}}}}
	return []Chip{left, right}
}

func TestMerge(t *testing.T) {
	r := Merge(pair(), nil)
	want := Total{Injected: 21, FromGone: 3, Delivered: 17, ToGone: 5, Unknown: 2}
	if r.Total != want || r.Classes[wire.ClassRequest] != want || r.Unexplained() != 0 {
		t.Errorf("%+v, want %+v", r.Total, want)
	}
	gone := Gone{Chip: port(0, 1, 0).Node, Incarnation: 21, Received: Count{5}, ReceivedMax: Count{7}, Sent: Count{3}, ToldBy: 1}
	if len(r.Gone) != 1 || r.Gone[0] != gone {
		t.Errorf("gone %+v, want %+v", r.Gone, gone)
	}
	if r.Links[0].Sent != (Count{17}) || r.Links[0].Received != (Count{10}) || r.Links[1].FromGone != (Count{3}) {
		t.Errorf("links %+v", r.Links)
	}

	// Chip 1 is dead. Chip 0 reports sessions with both incarnations of chip 1.
	dead := Merge(pair()[:1], []wire.FabricNodeID{port(0, 1, 0).Node})
	want = Total{Injected: 17, FromGone: 7, Delivered: 7, ToGone: 15, Unknown: 2}
	if dead.Total != want || dead.Unexplained() != 0 || len(dead.Gone) != 2 || dead.Gone[1].Sent != (Count{4}) {
		t.Errorf("%+v, want %+v; %+v", dead.Total, want, dead.Gone)
	}
	if len(dead.Links) != 2 || !dead.Links[1].Inferred || dead.Links[1].Sent != (Count{7}) || dead.Links[1].Src != port(0, 1, 0).Node {
		t.Errorf("links %+v", dead.Links)
	}
}

// A session ended, but both ends live. The packets that did not arrive count as lost.
func TestLostWithASession(t *testing.T) {
	c := pair()
	c[1].Ports[0].Link.Ended = []ttlink.SessionTally{session(1, 1, 3, 3, 6)}
	c[1].Ports[0].Packets.Received[0] += 6
	c[1].Ports[0].Packets.Delivered[0] += 6
	c[1].Ports[0].Packets.Injected[0] += 3
	c[1].Ports[0].Packets.Sent[0] += 3
	r := Merge(c, nil)
	if want := (Total{Injected: 24, Delivered: 23, Lost: 1}); r.Total != want || r.Unexplained() != 0 || len(r.Gone) != 0 {
		t.Errorf("%+v, want %+v; gone %+v", r.Total, want, r.Gone)
	}
}

// If any count of any class is wrong by one, Merge reports unexplained packets.
func TestNothingGoesUnnoticed(t *testing.T) {
	for k := range wire.NumClasses {
		for name, spoil := range map[string]func(c []Chip){
			"injected":        func(c []Chip) { c[0].Ports[0].Packets.Injected[k]++ },
			"copied":          func(c []Chip) { c[0].Ports[0].Packets.Copied[k]++ },
			"delivered":       func(c []Chip) { c[1].Ports[0].Packets.Delivered[k]++ },
			"router received": func(c []Chip) { c[1].Ports[0].Packets.Received[k]++ },
			"malformed":       func(c []Chip) { c[1].Ports[0].Packets.Malformed[k]++ },
			"dropped":         func(c []Chip) { c[1].Ports[0].Packets.Dropped[wire.DropTTL][k]++ },
			"router sent":     func(c []Chip) { c[0].Ports[0].Packets.Sent[k]++ },
			"in flight":       func(c []Chip) { c[0].InFlight[k]++ },
			"link received":   func(c []Chip) { c[1].Ports[0].Link.Now.Packets[k].Received++ },
			"sent and injected, and acknowledged": func(c []Chip) {
				c[0].Ports[0].Packets.Injected[k]++
				c[0].Ports[0].Packets.Sent[k]++
				c[0].Ports[0].Link.Now.Packets[k].Sent++
				c[0].Ports[0].Link.Now.Packets[k].Acked++
			},
			"received and delivered, and never sent": func(c []Chip) {
				c[1].Ports[0].Packets.Delivered[k]++
				c[1].Ports[0].Packets.Received[k]++
				c[1].Ports[0].Link.Now.Packets[k].Received++
			},
		} {
			c := pair()
			spoil(c)
			if r := Merge(c, nil); r.Unexplained() == 0 {
				t.Errorf("class %d: %s is wrong by one, but Merge reports no unexplained packet: %+v", k, name, r.Total)
			}
			if good := pair(); c[0].Same(&good[0]) && c[1].Same(&good[1]) {
				t.Errorf("class %d: %s has changed, but Same returns true", k, name)
			}
		}
	}
}

func TestAccountsAsJSON(t *testing.T) {
	for _, c := range pair() {
		b, err := json.Marshal(c)
		var back Chip
		if err != nil || json.Unmarshal(b, &back) != nil || !back.Same(&c) {
			t.Errorf("%v: %s", err, b)
		}
	}
}

// Reports come over the network. Merge must neither panic nor depend on chance, whatever the
// reports hold.
func FuzzMerge(f *testing.F) {
	b, _ := json.Marshal(pair())
	f.Add(b)
	f.Add([]byte(`[{"ports":[{},{}]},{"ports":[{"link":{"now":{"session":1}}}]}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var chips []Chip
		if json.Unmarshal(b, &chips) != nil {
			return
		}
		r := Merge(chips, nil)
		if again := Merge(chips, nil); !reflect.DeepEqual(r, again) {
			t.Errorf("%+v, then %+v", r, again)
		}
	})
}

// A packet that a chip refused after its router delivered the packet counts as dropped.
func TestRefusedAfterDelivery(t *testing.T) {
	c := pair()
	c[1].Refused = Count{3}
	r := Merge(c, nil)
	want := Total{Injected: 21, FromGone: 3, Delivered: 14, Dropped: 3, ToGone: 5, Unknown: 2}
	if r.Total != want || r.Dropped[wire.DropMalformed.String()] != 3 || r.Unexplained() != 0 {
		t.Errorf("%+v, want %+v; dropped %v", r.Total, want, r.Dropped)
	}
	if good := pair(); c[1].Same(&good[1]) {
		t.Error("Same ignores the refused packets")
	}
}
