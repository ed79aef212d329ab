package model_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/flow"
	"ttfabric/node/model"
	"ttfabric/node/sim"
	"ttfabric/node/traffic"
	"ttfabric/node/traffic/client"
	"ttfabric/router"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// carrier are hosts that only carry datagrams, and start requests that wait.
type carrier struct {
	m     *model.Machine
	queue map[int][]flow.Request
}

func (c *carrier) Feed(i int) (more bool) {
	for len(c.queue[i]) > 0 && c.m.Chip(i).HandleRequest(c.m.Now(), c.queue[i][0]) == flow.Accepted {
		c.queue[i], more = c.queue[i][1:], true
	}
	return more
}
func (c *carrier) Send(i int, ch wire.Channel, t ttlink.Transmit) { c.m.Carry(i, ch, t.Data, t.Seg) }
func (*carrier) Received(int, wire.Channel, []byte)               {}
func (*carrier) Result(int, flow.Result)                          {}
func (*carrier) Event(int, chip.Event)                            {}
func (*carrier) Stepped(int)                                      {}

func machine(t *testing.T, name string, b chip.Behaviour) (*model.Machine, *carrier, *topo.Topology) {
	t.Helper()
	m, err := topo.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	b.Profile, b.Slots = ttlink.ProfileLAN, router.SlotSpec
	c := &carrier{queue: map[int][]flow.Request{}}
	c.m, err = model.NewMachine(m, func(r model.Recorder, h sim.Hosts) (*sim.Hosted, error) {
		return sim.NewHosted(sim.Config{Topology: m, Seed: 3, Quick: true, Record: r}, b, 0, h)
	}, c)
	if err != nil {
		t.Fatal(err)
	}
	return c.m, c, m
}

// condition parses a condition.
func condition(t *testing.T, m *topo.Topology, text string) *model.Condition {
	t.Helper()
	c, err := model.ParseCondition(m, strings.Fields(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// state returns the state of all chips as text.
func state(t *testing.T, m *model.Machine) string {
	t.Helper()
	b, err := json.Marshal(m.Snapshot(true, true))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestBack makes requests, runs traffic, cuts and impairs cables, and kills a chip. The model must then go back to
// former states, and must go on from there as before, if the test makes the same inputs again.
func TestBack(t *testing.T) {
	m, c, top := machine(t, "mesh:1x3", chip.Behaviour{})
	go1 := func(d time.Duration) string {
		if hit, err := m.Go(m.Now().Add(d), 1<<30); err != nil || hit != nil {
			t.Fatal(hit, err)
		}
		return state(t, m)
	}
	p, err := traffic.PatternByName("neighbour-exchange")
	if err != nil {
		t.Fatal(err)
	}
	pairs, err := p.Pairs(top, traffic.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	spec := traffic.Spec{Run: 1, Pattern: p.Name, Packets: 300, Size: 64, Planes: 1, Window: 8, Seed: 1}
	go1(time.Microsecond)
	var clients []*client.Client
	for i := range top.Chips {
		x := client.New(spec, top.Chips[i].Node, pairs, top)
		x.Sending = true
		clients = append(clients, x)
		m.Chip(i).SetClient(x)
		m.Step(i)
	}
	first := go1(200 * time.Microsecond)
	at, report := m.Now(), traffic.NewReport(clients[0].Gen, clients[0].Ver)
	second := func() string {
		go1(time.Microsecond) // Back makes the inputs of its instant again
		for k := range 40 {
			c.queue[0] = append(c.queue[0], flow.Request{Dst: top.Chips[2].Node, Payload: []byte{byte(k)}, Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 2, 0).Add(k)}})
		}
		m.Step(0)
		go1(30 * time.Microsecond)
		port := m.Chip(1).Channels()[0].Local
		if err := m.Impair(port, fault.Options{Loss: 0.2}, false, nil); err != nil {
			t.Fatal(err)
		}
		go1(time.Millisecond)
		if err := m.Impair(port, fault.Options{}, true, nil); err != nil {
			t.Fatal(err)
		}
		m.Chip(1).Cut(m.Now(), port.Channel, true)
		m.Step(1)
		return go1(200*time.Millisecond) + go1(time.Millisecond)
	}
	end := second()
	m.End(2, false)
	go1(3 * time.Second)
	m.Start(2)
	go1(time.Second)
	for range 2 {
		if err := m.Back(at); err != nil {
			t.Fatal(err)
		}
		if now := state(t, m); m.Now() != at || now != first {
			k := 0
			for k < min(len(now), len(first)) && now[k] == first[k] {
				k++
			}
			t.Fatalf("back at %v, the state differs from the former state at %v:\n%.300s\nwas\n%.300s", m.Now(), at, now[max(0, k-200):], first[max(0, k-200):])
		}
		if now := traffic.NewReport(clients[0].Gen, clients[0].Ver); !reflect.DeepEqual(now.Source, report.Source) {
			t.Errorf("back, the traffic of the first chip has counts %+v; want %+v", now.Source, report.Source)
		}
		if second() != end {
			t.Fatal("with the same inputs, the model came to another state")
		}
	}
	if err := m.Back(0); err != nil || m.Now() != m.Begin() || m.Elapsed() != 0 || !m.Quiet() {
		t.Errorf("at the begin: %v, %v elapsed, quiet %v", err, m.Elapsed(), m.Quiet())
	}
}

// TestDeadlock sends packets round a square as in "Cyclic Dependency Deadlock" of Spec §6.1, without an order of
// dimensions. The model must stop at a circle of full channels. After the model has gone back before the circle closed,
// the model must come to the same circle at the same time.
func TestDeadlock(t *testing.T) {
	m, c, top := machine(t, "mesh:2x2", chip.Behaviour{Route: route.Config{Order: route.NoOrder}, LocalFirst: true})
	for i := range top.Chips {
		for range 2000 {
			c.queue[i] = append(c.queue[i], flow.Request{Dst: top.Chips[3-i].Node, Payload: make([]byte, 64), Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 2, 0)}})
		}
		m.Step(i)
	}
	if m.Circle() != nil {
		t.Fatal("a circle before any packet has moved")
	}
	if _, err := m.Break(condition(t, top, "deadlock")); err != nil {
		t.Fatal(err)
	}
	run := func() *model.Hit {
		hit, err := m.Go(m.Now().Add(time.Second), 1<<30)
		if err != nil || hit == nil {
			t.Fatalf("no deadlock: %v", err)
		}
		return hit
	}
	hit := run()
	if len(hit.Circle) < 4 || hit.Breakpoint != 1 {
		t.Errorf("%v", hit)
	}
	for _, w := range hit.Circle {
		if w.Packets != w.Slots {
			t.Errorf("not full: %v", w)
		}
	}
	if err := m.Back(m.Begin().Add(time.Duration(hit.Nanos) - 2*time.Microsecond - 100*time.Microsecond)); err != nil {
		t.Fatal(err)
	}
	if m.Circle() != nil {
		t.Error("the circle is closed before its begin")
	}
	again := run()
	if again.String() != hit.String() {
		t.Errorf("again:\n%v\nwant:\n%v", again, hit)
	}
}

// TestConditions runs until conditions of each kind.
func TestConditions(t *testing.T) {
	m, c, top := machine(t, "mesh:1x3", chip.Behaviour{})
	until := func(text, want string) {
		t.Helper()
		hit := m.Until(condition(t, top, text))
		if hit == nil {
			var err error
			if hit, err = m.Go(m.Now().Add(5*time.Second), 1<<30); err != nil || hit == nil {
				t.Fatalf("%s: not within 5 s: %v", text, err)
			}
		}
		if !strings.Contains(hit.String(), want) || hit.Nanos != int64(m.Elapsed()) {
			t.Errorf("%s at %v: %v; want %q", text, m.Elapsed(), hit, want)
		}
	}
	until("idle", "no request is open")
	until("time 10ms", "this time has come")
	if m.Elapsed() != 10*time.Millisecond {
		t.Errorf("stopped at %v", m.Elapsed())
	}
	for range 200 {
		c.queue[0] = append(c.queue[0], flow.Request{Dst: top.Chips[2].Node, Payload: make([]byte, 512), Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 2, 0)}})
	}
	m.Step(0)
	until("packet at M0D2 src M0D0", "M0D2 channel")
	until("channel full at M0D0", "slots")
	until("idle", "no packet is under way")
	p := m.Chip(0).Channels()
	for _, q := range p {
		if err := m.Impair(q.Local, fault.Options{}, true, nil); err != nil {
			t.Fatal(err)
		}
	}
	until("link M0D0-M0D1/p0 down", "is down")
	until("link M0D0-M0D1/p0 down", "so already")
	for _, q := range p {
		if err := m.Impair(q.Local, fault.Options{}, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	until("link M0D0-M0D1/p0 up", "is up")
	for _, bad := range []string{"", "packet", "packet at M0D9", "packet at M0D1 nonsense", "channel", "channel full M0D1", "link M0D0-M0D1", "link x up", "time", "time -1s", "time x", "idle now", "deadlock soon", "event"} {
		if _, err := model.ParseCondition(top, strings.Fields(bad)); err == nil {
			t.Errorf("condition %q has no error", bad)
		}
	}
}
