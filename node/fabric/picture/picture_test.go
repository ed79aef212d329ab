package picture

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/router"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/router/topo/pick"
	"ttfabric/wire"
)

func machineOf(t *testing.T, name string) (*topo.Topology, *Machine) {
	t.Helper()
	x, err := topo.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return x, NewMachine("lab", x)
}

// views returns views of all chips with all links up. The chips have run for the given time, in which each port
// sent 1000 bytes and 10 frames again per second.
func views(x *topo.Topology, seconds float64) (out []api.ChipBrief) {
	for _, c := range x.Chips {
		v := api.ChipBrief{Chip: c.Node, Incarnation: "1", UptimeS: seconds}
		for _, p := range x.Ports(c.Node) {
			v.Links = append(v.Links, api.LinkBrief{Channel: p.Local.Channel, State: "up", Router: "running", LastDown: "none",
				Bytes: uint64(1000 * seconds), Packets: uint64(3 * seconds), Resent: uint64(10 * seconds)})
		}
		v.LinksUp = len(v.Links)
		out = append(out, v)
	}
	return out
}

func link(vs []api.ChipBrief, chip, channel int) *api.LinkBrief {
	for i := range vs[chip].Links {
		if l := &vs[chip].Links[i]; int(l.Channel) == channel {
			return l
		}
	}
	panic("no such port")
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// TestMachines describes every built-in machine. All cables must join chips of the machine, and be found by both ports.
func TestMachines(t *testing.T) {
	for _, b := range topo.Builders {
		x, m := machineOf(t, b.Example)
		cells := map[[2]int]bool{}
		for _, mesh := range m.Meshes {
			cells[[2]int{mesh.CellRow, mesh.CellCol}] = true
		}
		if len(cells) != len(x.Meshes) || len(m.Chips) != len(x.Chips) || len(m.Cables) != len(x.Cables) {
			t.Errorf("%s: %d cells, %d chips, %d cables", b.Example, len(cells), len(m.Chips), len(m.Cables))
		}
		for i, c := range x.Cables {
			info := m.Cables[i]
			if m.Cable(c.A) != i || m.Cable(c.B) != i || m.Chips[info.A].Name != c.A.Node.String() || m.Chips[info.B].Name != c.B.Node.String() {
				t.Fatalf("%s: cable %d is %+v, want %v", b.Example, i, info, c)
			}
			if ls, err := pick.Links(x, []string{info.Name}); !info.Unused && (err != nil || len(ls) != 1 || ls[0].A != c.A) {
				t.Fatalf("%s: commands do not know the cable %s: %v %v", b.Example, info.Name, ls, err)
			}
		}
	}
	_, ring := machineOf(t, "torus:4x4")
	wraps := 0
	for _, c := range ring.Cables {
		if c.Wrap {
			wraps++
		}
	}
	if want := 8 * ring.Planes; wraps != want {
		t.Errorf("torus:4x4 has %d cables that wrap, want %d", wraps, want)
	}
	_, two := machineOf(t, "2xt3000")
	exits := slices.DeleteFunc(slices.Clone(two.Chips), func(c Chip) bool { return !c.Exit })
	if len(exits) == 0 || len(exits) == len(two.Chips) {
		t.Errorf("2xt3000 has %d exit nodes", len(exits))
	}
}

// TestRates checks the rates between two answers of the chips, by the chips' own clocks, and that a restart
// makes no wrong rates.
func TestRates(t *testing.T) {
	x, m := machineOf(t, "t3000")
	p := New(m)
	p.Take(start, Round{Views: views(x, 10)})
	s := p.Take(start.Add(time.Minute), Round{Views: views(x, 12)}) // two seconds of the chips, whatever the picture's clock says
	if c := s.Cables[0]; c.AB != (Flow{Bytes: 1000, Packets: 3, Resent: 10, Use: c.AB.Use}) || c.BA.Bytes != 1000 {
		t.Errorf("flows %+v and %+v", c.AB, c.BA)
	}
	if s.Total.Bytes != 40*1000 || s.Total.Resent != 40*10 || s.Total.Answer != 8 || s.Total.States[Up] != 20 {
		t.Errorf("total %+v", s.Total)
	}
	again := views(x, 1)
	for i := range again {
		again[i].Incarnation = "2"
		for k := range again[i].Links {
			again[i].Links[k].BytesOut = 7
		}
	}
	if s = p.Take(start, Round{Views: again}); s.Cables[0].AB.Bytes != 7 || s.Cables[0].AB.Resent != 0 {
		t.Errorf("after a restart: %+v", s.Cables[0].AB)
	}
}

// TestStates checks the state of a cable for what its two ends say. The worse end counts.
func TestStates(t *testing.T) {
	by := wire.Channel(1)
	for _, c := range []struct {
		name string
		a, b func(*api.LinkBrief)
		want CableState
	}{
		{"both up", nil, nil, CableState{State: Up}},
		{"one trains", func(l *api.LinkBrief) { l.State, l.LastDown = "training", "silence" }, nil, CableState{State: Training, Training: true, LastDown: "silence"}},
		{"by another cable", func(l *api.LinkBrief) { l.By = &by }, nil, CableState{State: Fallback, By: "M0D0/1-M0D1/9"}},
		{"held", func(l *api.LinkBrief) { l.State, l.Held = "training", true }, func(l *api.LinkBrief) { l.State = "training" }, CableState{State: Held, Training: true}},
		{"avoided by the routes", func(l *api.LinkBrief) { l.State, l.Out = "training", true }, nil, CableState{State: Out, Training: true}},
		{"taken out by an operator", func(l *api.LinkBrief) { l.Avoided, l.Out = true, true }, nil, CableState{State: Out, Avoided: true}},
		{"off", nil, func(l *api.LinkBrief) { l.State = "off" }, CableState{State: Off, Training: true}},
		{"paused router", nil, func(l *api.LinkBrief) { l.Router = "paused" }, CableState{State: Up, Router: "paused"}},
		{"silent and unreliable", func(l *api.LinkBrief) { l.Silent, l.Unreliable = true, true }, nil, CableState{State: Up, Silent: true, Unreliable: true}},
		{"wrong cable", func(l *api.LinkBrief) { l.State, l.Miswired = "training", "M0D3/0" }, nil, CableState{State: Training, Training: true, Miswired: "M0D3/0"}},
	} {
		x, m := machineOf(t, "t3000")
		vs := views(x, 0)
		if c.a != nil {
			c.a(link(vs, 0, 0))
		}
		if c.b != nil {
			c.b(link(vs, 1, 8))
		}
		if c.want.LastDown == "" {
			c.want.LastDown = "none"
		}
		got := New(m).Take(start, Round{Views: vs}).Cables[m.Cable(wire.PortID{Node: x.Chips[0].Node, Channel: 0})]
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestChips checks the states of chips that do not answer, do not run, or are not heard by others.
func TestChips(t *testing.T) {
	x, m := machineOf(t, "t3000")
	p := New(m)
	if s := p.State(); s.Chips[0].State != Waiting || s.Cables[0].State != Unknown {
		t.Errorf("at first: %+v", s.Chips[0])
	}
	vs := views(x, 1)
	vs[0].Silent, vs[0].Unreachable, vs[2].Leaving = []wire.FabricNodeID{x.Chips[1].Node}, []wire.FabricNodeID{x.Chips[3].Node}, true
	s := p.Take(start, Round{Views: vs[:6], Silent: []wire.FabricNodeID{x.Chips[6].Node}, Absent: []wire.FabricNodeID{x.Chips[7].Node}})
	var got []string
	for _, c := range s.Chips {
		got = append(got, c.State)
	}
	if want := []string{Answers, Late, Unwanted, Cornered, Answers, Answers, NoAnswer, Absent}; !slices.Equal(got, want) {
		t.Errorf("chips are %q, want %q", got, want)
	}
	if c := s.Cables[m.Cable(wire.PortID{Node: x.Chips[6].Node, Channel: 8})]; c.State != Unknown {
		t.Errorf("the cable between two chips without an answer is %s", c.State)
	}
	if s.Total.Answer != 6 {
		t.Errorf("%d chips answer", s.Total.Answer)
	}
}

// TestImpairments checks cuts, impairments, and that a rate limit is the capacity of a cable.
func TestImpairments(t *testing.T) {
	x, m := machineOf(t, "t3000")
	p := New(m)
	p.Impair([]api.ImpairmentView{{Chip: x.Chips[0].Node, Channel: 0, Active: true, Options: "rate=16kbit", Rate: 16}, {Chip: x.Chips[1].Node, Channel: 8, Active: true, Cut: true},
		{Chip: x.Chips[2].Node, Channel: 8}})
	p.Take(start, Round{Views: views(x, 1)})
	s := p.Take(start, Round{Views: views(x, 2)})
	c := s.Cables[m.Cable(wire.PortID{Node: x.Chips[0].Node, Channel: 0})]
	if !c.Cut || c.Impaired != "rate=16kbit" || c.AB.Use != .5 || c.BA.Use > .001 || s.Total.Cut != 1 || s.Total.Impaired != 1 {
		t.Errorf("cable %+v, total %+v", c, s.Total)
	}
	p.Impair(nil)
	if s = p.Take(start, Round{Views: views(x, 3)}); s.Total.Cut+s.Total.Impaired != 0 {
		t.Errorf("after the end: %+v", s.Total)
	}
}

// TestLosses checks that a state counts what was lost since the state before, and nothing from before a restart.
func TestLosses(t *testing.T) {
	x, m := machineOf(t, "t3000")
	p := New(m)
	vs := views(x, 1)
	vs[0].Dropped, vs[1].Lost, vs[1].Unknown = 100, 3, 4
	if s := p.Take(start, Round{Views: vs}); s.Total.Dropped+s.Total.Lost != 0 {
		t.Errorf("the first state counts %d losses, which are of unknown times", s.Total.Dropped+s.Total.Lost)
	}
	vs = views(x, 2)
	vs[0].Dropped, vs[1].Lost, vs[1].Unknown = 105, 4, 6
	s := p.Take(start, Round{Views: vs})
	if s.Total.Dropped != 5 || s.Total.Lost != 3 || s.Chips[0].Dropped != 105 {
		t.Errorf("total %+v", s.Total)
	}
}

// TestSince checks that a page that applies the changes has the new state.
func TestSince(t *testing.T) {
	x, m := machineOf(t, "t3000")
	p := New(m)
	old := p.Take(start, Round{Views: views(x, 1)})
	vs := views(x, 1)
	link(vs, 0, 0).State = "training"
	vs[7].InFlight = 3
	s := p.Take(start, Round{Views: vs})
	c := s.Since(old)
	for i := range c.Cables {
		old.Cables[c.Cables[i].I] = c.Cables[i].CableState
	}
	for i := range c.Chips {
		old.Chips[c.Chips[i].I] = c.Chips[i].ChipState
	}
	if !slices.Equal(old.Cables, s.Cables) || !slices.Equal(old.Chips, s.Chips) {
		t.Error("the changes do not lead to the new state")
	}
	var one map[string]any
	text, _ := json.Marshal(c)
	if err := json.Unmarshal(text, &one); err != nil || len(c.Chips) != 1 {
		t.Errorf("%d chips changed, %v", len(c.Chips), err)
	}
}

// TestHistory checks that the history keeps the latest states in order, and no more than the limit.
func TestHistory(t *testing.T) {
	x, m := machineOf(t, "n300")
	p := New(m)
	for i := range Kept + 7 {
		vs := views(x, float64(i+1))
		vs[0].Links[0].Bytes = uint64(i * i)
		p.Take(start.Add(time.Duration(i)*time.Second), Round{Views: vs})
	}
	h := p.History(0)
	if len(h.Time) != Kept || !h.Time[0].Equal(start.Add(7*time.Second)) || !slices.IsSorted(h.AB) || h.AB[Kept-1] != 2*(Kept+6)-1 {
		t.Errorf("%d rows from %v, last rate %d", len(h.Time), h.Time[0], h.AB[len(h.AB)-1])
	}
	if all := p.History(-1); len(all.AB) != Kept || all.AB[Kept-1] < h.AB[Kept-1] {
		t.Errorf("the whole fabric has %d rows", len(all.AB))
	}
}

// TestEvents checks what an event is about, and its text.
func TestEvents(t *testing.T) {
	x, m := machineOf(t, "t3000")
	e := m.Event(&api.EventView{Chip: x.Chips[5].Node, Type: "link", Action: "down", Actor: "M0D5 channel 0", Detail: map[string]string{"reason": "silence", "peer": "M0D6 channel 0"}, Life: "0123456789abcdef", Seq: 4})
	if e.Cable != m.Cable(wire.PortID{Node: x.Chips[5].Node, Channel: 0}) || e.About != 5 || e.Kind != KindDown || e.Text != "M0D5 channel 0 link down, peer M0D6 channel 0, reason silence" {
		t.Errorf("%+v", e)
	}
	e = m.Event(&api.EventView{Chip: x.Chips[5].Node, Type: "packet", Action: "dropped", Actor: "M0D5 channel 0", Detail: map[string]string{"count": "12"}})
	if e.Kind != KindLoss || e.Lost != 12 {
		t.Errorf("%+v", e)
	}
	for _, actor := range []string{"", "M0D99", "M9D1 channel 0", "M0D5 channel 999", "M0D5 channel x", "channel 3", "<b>"} {
		if e := m.Event(&api.EventView{Type: "link", Action: "up", Actor: actor}); e.Cable != -1 {
			t.Errorf("%q is about cable %d", actor, e.Cable)
		}
	}
}

// TestLog checks the order and the limit of kept events, and that faults outlast their consequences.
func TestLog(t *testing.T) {
	var l Log
	l.Add(Event{ID: "fault", Kind: KindFault, Time: start})
	for i := range 3 * KeptEvents {
		l.Add(Event{ID: fmt.Sprint(i), Kind: KindLoss, Time: start.Add(time.Duration(i^1) * time.Second)})
	}
	got := l.Events()
	inOrder := slices.IsSortedFunc(got, func(a, b Event) int { return a.Time.Compare(b.Time) })
	if len(got) != KeptEvents || got[0].ID != "fault" || !inOrder || len(l.list) > 2*KeptEvents {
		t.Errorf("%d events, the first is %q, in order: %v", len(got), got[0].ID, inOrder)
	}
	for i := range 3 * KeptEvents {
		l.Add(Event{Kind: KindFault, Time: start.Add(time.Duration(i) * time.Hour)})
	}
	if got = l.Events(); len(got) > KeptEvents {
		t.Errorf("%d events", len(got))
	}
}

// TestDetail checks the channels of a chip: empty channels from the sizes, full ones from the answer.
func TestDetail(t *testing.T) {
	x, m := machineOf(t, "t3000")
	plan, err := route.New(x, route.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p, one := New(m), 1
	v := api.ChipView{Chip: x.Chips[1].Node}
	for _, port := range x.Ports(v.Chip) {
		v.Links = append(v.Links, api.LinkView{Channel: port.Local.Channel, Direction: port.Dir.String(), Credits: map[string]int{"data": 16}})
	}
	held := []api.ChannelView{{Chip: x.Chips[1].Node, Channel: 6, VC: "data", Side: "sender", Sender: &one, Slots: 8, Waiting: 8, Packets: []api.HeldView{{ID: "00"}}},
		{Chip: x.Chips[1].Node, Channel: 6, VC: "control", Side: "receiver", Slots: 8, Waiting: 2}}
	d := p.Detail(start, &v, held, router.SlotSpec.Only(plan.VCs()))
	r := d.Routers[slices.IndexFunc(d.Routers, func(r RouterView) bool { return r.Channel == 6 })]
	names := map[string]VCView{}
	for _, v := range r.VCs {
		names[v.VC] = v
	}
	data := names["data"]
	if len(d.Routers) != 6 || r.Direction != "E" || len(data.Senders) != router.SenderChannels || data.Receiver.Slots != 16 || data.Credits != 16 {
		t.Fatalf("%+v", r)
	}
	if c := data.Senders[1]; c.From != "W" || c.Waiting != 8 || len(c.Packets) != 1 || data.Senders[0].From != "worker" || data.Senders[2].From != "N" || data.Senders[3].From != "S" {
		t.Errorf("senders %+v", data.Senders)
	}
	if names["control"].Receiver.Waiting != 2 || names["control"].Senders[0].Slots != 4 {
		t.Errorf("control %+v", names["control"])
	}
	if used := slices.Sorted(maps.Keys(names)); slices.Contains(used, "data-up") || !slices.Contains(used, "data-detour") {
		t.Errorf("a single mesh uses %v", used)
	}
}

// TestRoute checks the cables of a route, round a cut and without a route.
func TestRoute(t *testing.T) {
	x, m := machineOf(t, "t3000")
	plan, err := route.New(x, route.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p, vs := New(m), views(x, 1)
	a, b := x.Chips[5].Node, x.Chips[6].Node
	r := m.Route(plan, a, b, 1)
	want := []Hop{{From: "M0D5", To: "M0D6", Dir: "E", VC: "data", Cable: m.Cable(wire.PortID{Node: a, Channel: 1}), FromA: true}}
	if !reflect.DeepEqual(r.Hops, want) {
		t.Errorf("%+v, want %+v", r.Hops, want)
	}
	link(vs, 5, 0).Out, link(vs, 5, 1).Out = true, true
	p.Take(start, Round{Views: vs})
	r = m.Route(plan.Around(p.OutOfService()), a, b, 1)
	if len(r.Hops) != 3 || !r.Hops[0].Detour || r.Hops[2].To != "M0D6" || r.Hops[0].Cable < 0 {
		t.Errorf("round the cut: %+v", r)
	}
	if r := m.Route(plan, a, a, 0); r.None == "" || len(r.Hops) != 0 {
		t.Errorf("to itself: %+v", r)
	}
}
