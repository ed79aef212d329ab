package admin

import (
	"reflect"
	"testing"
	"time"

	"ttfabric/node"
	"ttfabric/node/admin/api"
	"ttfabric/node/chip"
	"ttfabric/node/session"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// TestSessionEvents converts events of a chip to the API's type, and the result to events of a
// session. The session's events must be complete.
func TestSessionEvents(t *testing.T) {
	here, there := wire.PortID{Node: wire.FabricNodeID{Chip: 3}, Channel: 8}, wire.PortID{Node: wire.FabricNodeID{Mesh: 1, Chip: 4}, Channel: 9}
	at := time.Now()
	for _, c := range []struct {
		e    chip.Event
		want session.Event
	}{
		{chip.Event{Local: here, Peer: there, Link: ttlink.Event{Kind: ttlink.EventUp}}, session.Event{Kind: session.LinkUp, Port: here, Peer: there}},
		{chip.Event{Local: here, Peer: there, Link: ttlink.Event{Kind: ttlink.EventDown, DownNews: ttlink.DownNews{Reason: ttlink.DownSilence}}},
			session.Event{Kind: session.LinkDown, Port: here, Peer: there, Reason: "silence"}},
		{chip.Event{Local: here, Peer: there, Link: ttlink.Event{Kind: ttlink.EventSessionEnded, Unknown: [wire.NumVCs]int{2, 3}}},
			session.Event{Kind: session.SessionEnded, Port: here, Peer: there, Count: 5}},
		{chip.Event{Local: here, Drop: wire.DropUnreachable, Count: 7}, session.Event{Kind: session.PacketsDropped, Port: here, Reason: "unreachable", Count: 7}},
		{chip.Event{Tables: &chip.Tables{Epoch: 1, Out: []wire.PortID{here, there}, Silent: []wire.FabricNodeID{there.Node}, Unreachable: []wire.FabricNodeID{here.Node, there.Node}}},
			session.Event{Kind: session.TablesChanged, Port: wire.PortID{Node: here.Node}, Silent: []wire.FabricNodeID{there.Node}, Unreachable: []wire.FabricNodeID{here.Node, there.Node}}},
	} {
		v := EventOf(here.Node, node.Event{Time: at, Chip: &c.e})
		c.want.Time = at
		if got, ok := api.SessionEvent(&v); !ok || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v, %v; want %+v", got, ok, c.want)
		}
	}
	v := EventOf(here.Node, node.Event{Time: at, Chip: &chip.Event{Tables: &chip.Tables{Refused: true}}})
	if got, ok := api.SessionEvent(&v); ok {
		t.Errorf("refused tables caused an event of the session: %+v", got)
	}
	if v.Detail["silent"] != "none" || v.Detail["unreachable"] != "none" || v.Detail["out_of_service"] != "none" {
		t.Errorf("tables without faults: %v", v.Detail)
	}
}

// TestLateDownEvents converts the event of a link that went down late because its chip was starved.
func TestLateDownEvents(t *testing.T) {
	port := wire.PortID{Channel: 8}
	for late, want := range map[time.Duration]string{0: "", 82 * time.Millisecond: "82ms"} {
		v := EventOf(port.Node, node.Event{Chip: &chip.Event{Local: port, Peer: port, Link: ttlink.Event{Kind: ttlink.EventDown, DownNews: ttlink.DownNews{Reason: ttlink.DownSilence, Late: late}}}})
		if v.Detail["late"] != want || v.Detail["reason"] != "silence" {
			t.Errorf("late by %v: %v", late, v.Detail)
		}
	}
}

// TestStarvedEvents converts the event of a starved chip.
func TestStarvedEvents(t *testing.T) {
	self := wire.FabricNodeID{Chip: 5}
	v := EventOf(self, node.Event{Time: time.Now(), Starved: &node.StarvedEvent{For: 2100*time.Millisecond + 3}})
	if v.Type != "chip" || v.Action != "starved" || v.Actor != "M0D5" || v.Detail["for"] != "2.1s" {
		t.Errorf("%+v", v)
	}
	if e, ok := api.SessionEvent(&v); ok {
		t.Errorf("an event of the session: %+v", e)
	}
	if s := starvedView(node.Starved{}); s.LastEnd != nil || s.LatestS == nil {
		t.Errorf("never starved: %+v", s)
	}
	end := time.Now()
	s := starvedView(node.Starved{Times: 3, Total: 2 * time.Second, Longest: time.Second, LastEnd: end, Latest: []time.Duration{time.Second, 500 * time.Millisecond, 250 * time.Millisecond}})
	if s.Times != 3 || s.TotalS != 2 || s.LongestS != 1 || s.LastS != .25 || !s.LastEnd.Equal(end) || len(s.LatestS) != 3 {
		t.Errorf("%+v", s)
	}
}
