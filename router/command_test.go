package router

import (
	"testing"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

func TestPausedPort(t *testing.T) {
	b := newBench(t)
	in, out := int(wire.West), int(wire.East)
	b.r.cfg.Timeout = Timeout{After: 10 * time.Millisecond, Drop: true, Drain: true}
	b.r.Order(0, out, CommandPause)
	if b.r.State(out) != StatePaused || b.r.Bypass(out) {
		t.Fatalf("the port is %s; Bypass: %v", b.r.State(out), b.r.Bypass(out))
	}
	n := SlotSpec.Receiver[wire.VCData]
	for k := range n {
		b.arrive(in, b.packet(wire.VCData, uint64(k), 5, wire.RouteEast, wire.RouteWest))
	}
	// The time is longer than the grace period and the timeout. The link is up at first, and down
	// later.
	b.r.SetPort(out, false)
	b.r.SetDead(mono.Time(time.Second), out)
	for now := mono.Time(1); now < mono.Time(3*time.Second); now = now.Add(5 * time.Millisecond) {
		b.r.Step(now)
	}
	if got, want := b.freed(), SlotSpec.Sender[wire.VCData]; got != want {
		t.Errorf("%d packets have moved on; the sender channel of the paused port has %d slots", got, want)
	}
	if d, ok := b.r.PollDrop(); ok {
		t.Fatalf("dropped by %s", d.Reason)
	}
	if _, ok := b.r.PollStuck(); ok {
		t.Error("a channel that waits for a paused port counts as stuck")
	}
	// The port runs again while its link is down. The grace period begins now.
	at := mono.Time(4 * time.Second)
	b.r.Order(at, out, CommandRun)
	if d, ok := b.r.Deadline(); !ok || d.After(at.Add(grace)) || b.r.State(out) != StateRetraining {
		t.Errorf("deadline %v, %s", d, b.r.State(out))
	}
	b.r.cfg.Timeout = Timeout{}
	b.r.Step(at.Add(grace - 1))
	if _, ok := b.r.PollDrop(); ok {
		t.Fatal("dropped before the grace period was over")
	}
	b.r.SetPort(out, true)
	for k := range n {
		b.r.Step(at.Add(grace))
		if id, ok := b.send(out); !ok || id != uint64(k) {
			t.Fatalf("packet %d: got %d, %v", k, id, ok)
		}
	}
}

// TestPausedReceiver finds that a paused port neither forwards nor delivers packets that came in by
// the port.
func TestPausedReceiver(t *testing.T) {
	b := newBench(t)
	in := int(wire.West)
	b.r.Order(0, in, CommandPause)
	if b.r.Idle(in, wire.VCData) {
		t.Error("a packet could pass by the receiver channel of a paused port")
	}
	b.arrive(in, b.packet(wire.VCControl, 1, 5, wire.RouteWest))
	b.arrive(in, b.packet(wire.VCData, 2, 5, wire.RouteEast, wire.RouteWest))
	b.r.Step(0)
	if _, ok := b.r.PollLocal(); ok || b.freed() != 0 {
		t.Fatal("a paused port delivers or forwards packets")
	}
	b.r.Order(0, in, CommandRun)
	b.r.Step(0)
	if _, ok := b.r.PollLocal(); !ok || b.freed() != 2 {
		t.Error("the port does not run again")
	}
	if id, ok := b.send(int(wire.East)); !ok || id != 2 {
		t.Error("packet 2 was lost")
	}
}

func TestDrainingPort(t *testing.T) {
	b := newBench(t)
	out := int(wire.East)
	b.r.Inject(out, wire.VCData, b.packet(wire.VCData, 1, 5, wire.RouteWest))
	b.r.Inject(out, wire.VCData, b.typed(wire.PacketProbe, wire.VCData, 2))
	b.r.Inject(out, wire.VCData, b.packet(wire.VCData, 3, 5, wire.RouteWest))
	b.r.Inject(out, wire.VCControl, b.typed(wire.PacketCompletion, wire.VCControl, 4))
	b.r.Inject(out, wire.VCReply, b.typed(wire.PacketReply, wire.VCReply, 5))
	b.r.Order(0, out, CommandDrain)
	if b.r.Bypass(out) || b.r.State(out) != StateDraining {
		t.Errorf("the port is %s; Bypass: %v", b.r.State(out), b.r.Bypass(out))
	}
	sent := map[uint64]bool{}
	for range 5 {
		b.r.Step(0)
		for id, ok := b.send(out); ok; id, ok = b.send(out) {
			sent[id] = true
		}
	}
	if len(sent) != 3 || !sent[2] || !sent[4] || !sent[5] {
		t.Errorf("sent %v, want the probe, the completion and the reply", sent)
	}
	for _, want := range []uint64{1, 3} {
		d, ok := b.r.PollDrop()
		if !ok || d.Reason != wire.DropDrained || b.id(d.Slot) != want || d.Channel != wire.Channel(out) {
			t.Errorf("dropped %v %v, want packet %d", d, ok, want)
		}
		b.pool.Put(d.Slot)
	}
	if b.r.InFlight() != 0 || b.pool.InUse() != 0 || b.r.Status(out).Counters.Dropped[wire.DropDrained] != 2 {
		t.Errorf("%d packets, %d buffers left, %v", b.r.InFlight(), b.pool.InUse(), b.r.Status(out).Counters)
	}
	b.r.Order(0, out, CommandRun)
	if b.r.State(out) != StateRunning || !b.r.Bypass(out) {
		t.Error("the port does not run again")
	}
}

func (b *bench) typed(t wire.PacketType, vc wire.VC, id uint64) Slot {
	s := b.packet(vc, id, 5, wire.RouteWest)
	p, err := wire.DecodePacket(b.pool.Bytes(s))
	if err != nil {
		b.t.Fatal(err)
	}
	p.Type = t
	if t != wire.PacketRequest {
		p.Command = wire.Command{Type: wire.NocNone}
	}
	if t.Control() {
		p.Route = p.Route[:1]
		numbered(&p)
		b.pool.SetLen(s, p.Len())
	}
	p.Append(b.pool.Bytes(s)[:0])
	return s
}

func TestFlushedPort(t *testing.T) {
	b := newBench(t)
	out := int(wire.East)
	b.r.Order(0, out, CommandPause)
	for k := range 3 {
		b.r.Inject(out, wire.VCData, b.packet(wire.VCData, uint64(k), 5, wire.RouteWest))
	}
	b.r.Inject(int(wire.North), wire.VCData, b.packet(wire.VCData, 9, 5, wire.RouteSouth))
	if n := b.r.Flush(out); n != 3 {
		t.Errorf("%d packets were flushed, want 3", n)
	}
	for range 3 {
		if d, ok := b.r.PollDrop(); !ok || d.Reason != wire.DropFlushed {
			t.Errorf("got %v %v", d, ok)
		}
	}
	if b.r.Flush(out) != 0 || b.r.InFlight() != 1 || b.r.State(out) != StatePaused {
		t.Errorf("%d packets in flight, the port is %s", b.r.InFlight(), b.r.State(out))
	}
}

// TestStates compares State and Command with the codes of tt-metal's RouterState and RouterCommand.
func TestStates(t *testing.T) {
	r, err := New(0, Config{Ports: []PortConfig{{Dir: wire.East}}, Slots: SlotSpec, Grace: grace, Pool: NewPool(10)})
	if err != nil {
		t.Fatal(err)
	}
	is := func(want State, code uint32) {
		t.Helper()
		if got := r.State(0); got != want || uint32(got) != code {
			t.Errorf("%s, %d; want %s, %d", got, got, want, code)
		}
	}
	is(StateInitializing, 0)
	r.SetPort(0, true)
	is(StateRunning, 1)
	r.Order(0, 0, Command(1))
	is(StatePaused, 2)
	r.Order(0, 0, Command(3))
	is(StateDraining, 3)
	r.SetPort(0, false)
	r.SetDead(0, 0)
	r.Order(0, 0, Command(4))
	is(StateDraining, 3)
	r.Order(0, 0, Command(0))
	is(StateRetraining, 4)
	for _, c := range []Command{2, 5, 1 << 31} {
		if r.Order(0, 0, c); c.Valid() || r.State(0) != StateRetraining {
			t.Errorf("%s was taken", c)
		}
	}
}
