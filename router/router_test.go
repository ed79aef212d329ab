package router

import (
	"encoding/binary"
	"testing"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

const grace = 100 * time.Millisecond

// bench is one router in the middle of a mesh, with a port in every direction on plane 0.
type bench struct {
	t    *testing.T
	r    *Router
	pool *Pool
}

func newBench(t *testing.T) *bench { return benchWith(t, SlotSpec) }

func benchWith(t *testing.T, slots SlotProfile) *bench {
	b := &bench{t: t, pool: NewPool(1000)}
	cfg := Config{Slots: slots, Grace: grace, Pool: b.pool}
	for d := range wire.Direction(wire.NumDirections) {
		cfg.Ports = append(cfg.Ports, PortConfig{Channel: wire.Channel(d), Dir: d})
	}
	var err error
	if b.r, err = New(0, cfg); err != nil {
		t.Fatal(err)
	}
	for i := range cfg.Ports {
		b.r.SetPort(i, true)
	}
	return b
}

// packet makes a request with the given route bytes. The router under test reads the first of these
// bytes.
func (b *bench) packet(vc wire.VC, id uint64, ttl uint16, actions ...byte) Slot {
	p := wire.Packet{Type: wire.PacketRequest, VC: vc, TTL: ttl, ID: id, Command: wire.Command{Type: wire.NocNone}, Route: actions}
	s, ok := b.pool.Get(p.Len())
	if !ok {
		b.t.Fatal("the pool is empty")
	}
	p.Append(b.pool.Bytes(s)[:0])
	return s
}

// arrive puts a packet into the receiver channel of port i.
func (b *bench) arrive(i int, s Slot) {
	b.r.Arrive(i, wire.PacketView(b.pool.Bytes(s)).VC(), s)
}

func (b *bench) id(s Slot) uint64 {
	v, err := wire.ViewPacket(b.pool.Bytes(s))
	if err != nil {
		b.t.Fatal(err)
	}
	return number(v)
}

// numbered moves the number of a control packet, which has no field ID, to the payload.
func numbered(p *wire.Packet) {
	p.Payload = binary.LittleEndian.AppendUint64(nil, p.ID)
}

// number returns the number of a packet.
func number(v wire.PacketView) uint64 {
	if p, err := wire.DecodePacket(v); err == nil && p.Type.Control() {
		return binary.LittleEndian.Uint64(p.Payload)
	}
	return v.ID()
}

// send takes the packet that port i offers, as a link with enough credits would.
func (b *bench) send(i int) (id uint64, ok bool) {
	o, ok := b.r.Next(i, 0)
	if !ok {
		return 0, false
	}
	id = b.id(o.Slot)
	b.pool.Put(b.r.Sent(i))
	return id, true
}

func (b *bench) freed() int {
	n := 0
	for {
		if _, ok := b.r.PollFreed(); !ok {
			return n
		}
		n++
	}
}

func TestForwardAndDeliver(t *testing.T) {
	b := newBench(t)
	// Packet 1 came in from the west and goes on to the east. For packets from the west, the action
	// "west" means: deliver here.
	b.arrive(int(wire.West), b.packet(wire.VCData, 1, 5, wire.RouteEast, wire.RouteWest))
	b.arrive(int(wire.West), b.packet(wire.VCData, 2, 5, wire.RouteWest))
	if _, ok := b.r.PollLocal(); ok {
		t.Fatal("a packet overtook the head of its receiver channel")
	}
	b.r.Step(0)
	l, ok := b.r.PollLocal()
	if !ok || b.id(l.Slot) != 2 {
		t.Fatalf("got %v %v, want packet 2 for this chip", l, ok)
	}
	if b.freed() != 2 {
		t.Error("the router did not report two freed slots")
	}
	o, ok := b.r.Next(int(wire.East), 0)
	v := wire.PacketView(b.pool.Bytes(o.Slot))
	if !ok || v.Hop() != 1 || v.TTL() != 4 {
		t.Errorf("forwarded with hop %d, TTL %d", v.Hop(), v.TTL())
	}
}

// TestSenderChannelsTakeTurns is about Spec §3.1.2: "Fabric router iterates over the channels".
// Every sender channel gets its turn.
func TestSenderChannelsTakeTurns(t *testing.T) {
	b := newBench(t)
	for k := range 4 {
		b.r.Inject(int(wire.East), wire.VCData, b.packet(wire.VCData, uint64(k), 5, wire.RouteWest))
		for i, from := range []wire.Direction{wire.West, wire.North, wire.South} {
			b.arrive(int(from), b.packet(wire.VCData, uint64(100*(i+1)+k), 5, wire.RouteEast, wire.RouteWest))
		}
	}
	b.r.Step(0)
	for round := range 4 {
		seen := map[uint64]bool{}
		for range SenderChannels {
			id, ok := b.send(int(wire.East))
			if !ok {
				t.Fatal("nothing is offered")
			}
			if int(id%100) != round {
				t.Errorf("round %d: packet %d is out of its channel's order", round, id)
			}
			seen[id/100] = true
		}
		if len(seen) != SenderChannels {
			t.Errorf("round %d served only the channels %v", round, seen)
		}
	}
}

func TestBackpressureHoldsAndDropsNothing(t *testing.T) {
	b := newBench(t)
	in, out := int(wire.West), int(wire.East)
	n := 0
	for ; n < SlotSpec.Receiver[wire.VCData]; n++ {
		b.arrive(in, b.packet(wire.VCData, uint64(n), 5, wire.RouteEast, wire.RouteWest))
	}
	b.r.Step(0)
	if got, want := b.freed(), SlotSpec.Sender[wire.VCData]; got != want {
		t.Errorf("%d packets moved on while no packet left the router; the sender channel has %d slots", got, want)
	}
	// A full channel for data does not delay control packets.
	b.arrive(in, b.packet(wire.VCControl, 99, 5, wire.RouteEast, wire.RouteWest))
	b.r.Step(0)
	data, _ := b.r.Next(out, 0)
	if o, ok := b.r.Next(out, data.All); !ok || o.VC != wire.VCControl || b.id(o.Slot) != 99 {
		t.Error("control traffic waits for data")
	}
	for k := 0; k < n+1; k++ {
		if _, ok := b.send(out); !ok {
			t.Fatalf("only %d of %d packets left", k, n+1)
		}
		b.r.Step(0)
	}
	if b.r.InFlight() != 0 || b.pool.InUse() != 0 {
		t.Errorf("%d packets and %d buffers are left", b.r.InFlight(), b.pool.InUse())
	}
	for !b.r.CanInject(out, wire.VCData) {
		t.Fatal("an empty channel has no room")
	}
}

func TestDeadNextHop(t *testing.T) {
	b := newBench(t)
	out := int(wire.East)
	down := mono.Time(time.Second)
	b.r.Inject(out, wire.VCData, b.packet(wire.VCData, 1, 5, wire.RouteWest))
	b.r.SetPort(out, false)
	b.r.SetDead(down, out)
	if _, ok := b.send(out); ok {
		t.Fatal("a packet was offered to a dead link")
	}
	b.r.Step(down.Add(grace - 1))
	if _, ok := b.r.PollDrop(); ok {
		t.Fatal("dropped before the grace period was over")
	}
	if at, ok := b.r.Deadline(); !ok || at != down.Add(grace) {
		t.Errorf("deadline %v, want %v", at, down.Add(grace))
	}
	// The link comes back before the grace period ends. The packet goes on.
	b.r.SetPort(out, true)
	b.r.Step(down.Add(2 * grace))
	if id, ok := b.send(out); !ok || id != 1 {
		t.Fatal("the packet was lost although the link came back")
	}
	b.r.SetPort(out, false)
	b.r.SetDead(down, out)
	b.r.Inject(out, wire.VCData, b.packet(wire.VCData, 2, 5, wire.RouteWest))
	b.r.Step(down.Add(grace))
	d, ok := b.r.PollDrop()
	if !ok || d.Reason != wire.DropNextHopDead || b.id(d.Slot) != 2 || b.r.Status(out).Counters.Dropped[wire.DropNextHopDead] != 1 {
		t.Errorf("got %v %v", d, ok)
	}
}

func TestBadRoutesAreDroppedAndNamed(t *testing.T) {
	for _, c := range []struct {
		name   string
		ttl    uint16
		action []byte
		want   wire.DropReason
	}{
		{"no action", 5, nil, wire.DropNoRoute},
		{"two directions at once", 5, []byte{wire.RouteEast | wire.RouteNorth}, wire.DropNoRoute},
		{"unknown bits", 5, []byte{0x80}, wire.DropNoRoute},
		{"time to live used up", 0, []byte{wire.RouteEast, wire.RouteWest}, wire.DropTTL},
	} {
		b := newBench(t)
		b.arrive(int(wire.West), b.packet(wire.VCData, 1, c.ttl, c.action...))
		b.r.Step(0)
		d, ok := b.r.PollDrop()
		if !ok || d.Reason != c.want || b.freed() != 1 {
			t.Errorf("%s: got %v %v, want %v and one freed slot", c.name, d, ok, c.want)
		}
	}
	// The destination delivers a packet even if the packet's TTL is 0.
	b := newBench(t)
	b.arrive(int(wire.West), b.packet(wire.VCData, 1, 0, wire.RouteWest))
	if _, ok := b.r.PollLocal(); !ok {
		t.Error("a packet at its destination was held back for its TTL")
	}
}

// TestSlotProfiles compares the profiles with their sources. Spec §3.1.1 draws 8 slots in a sender
// channel and 16 in a receiver channel. The sizes for chips are the ones that tt-metal's builder
// takes first (fabric_builder_config). The sizes for 2D routers are {7, 11} on Wormhole and {8, 16}
// on Blackhole. The sizes for 1D routers are {8, 16} on Wormhole and {32, 32} on Blackhole. The
// control channel "is smaller" (Spec §2.3.2).
func TestSlotProfiles(t *testing.T) {
	want := map[string][2]int{"spec": {8, 16}, "wormhole": {7, 11}, "blackhole": {8, 16}, "blackhole-1d": {32, 32}, "fast": {128, 256}}
	if len(SlotProfiles) != len(want) {
		t.Errorf("%d profiles, want %d", len(SlotProfiles), len(want))
	}
	for _, p := range SlotProfiles {
		for v := range wire.VC(wire.NumVCs) {
			switch got := [2]int{p.Sender[v], p.Receiver[v]}; {
			case v.Class() != wire.ClassControl && got != want[p.Name]:
				t.Errorf("%s, %s: %v, want %v", p.Name, v, got, want[p.Name])
			case v.Class() == wire.ClassControl && (got[0] >= want[p.Name][0] || got[1] >= want[p.Name][1] || got[0] < 1 || got[1] < 1):
				t.Errorf("%s, %s: %v is not smaller than %v", p.Name, v, got, want[p.Name])
			}
		}
	}
	if r := newBench(t).r; r.ports[0].send[wire.VCData][0].slots == nil || len(r.ports[0].send[wire.VCData]) != 4 || len(r.ports[0].recv[wire.VCData].slots) != 16 || len(r.ports[0].send[wire.VCData][3].slots) != 8 {
		t.Error("a port does not have 4 sender channels of 8 slots and a receiver channel of 16 slots")
	}
}

// TestBubblesAreNeededToEnterARing is about bubble flow control. A packet that enters a ring needs
// two free slots at the peer, whether the packet comes from the chip or makes a turn. A packet that
// continues along the ring needs one free slot. Packets off rings, packets on detours and control
// messages also need one.
func TestBubblesAreNeededToEnterARing(t *testing.T) {
	for _, c := range []struct {
		name   string
		ring   bool
		bubble bool
		vc     wire.VC
		from   int // side by which the packet came in; -1: the packet is this chip's own
		want   int
	}{
		{"injected", true, true, wire.VCData, -1, 2},
		{"turned", true, true, wire.VCData, int(wire.North), 2},
		{"goes on", true, true, wire.VCData, int(wire.West), 1},
		{"no ring", false, true, wire.VCData, -1, 1},
		{"dateline", true, false, wire.VCData, -1, 1},
		{"a reply", true, true, wire.VCReply, -1, 2},
		{"control", true, true, wire.VCControl, -1, 1},
		{"detour", true, true, wire.DetourVC(wire.ClassRequest, false), -1, 1},
	} {
		b := newBench(t)
		b.r.cfg.Bubble, b.r.ports[wire.East].Ring = c.bubble, c.ring
		if s := b.packet(c.vc, 1, 5, wire.RouteEast, wire.RouteWest); c.from < 0 {
			b.r.Inject(int(wire.East), c.vc, s)
		} else {
			b.arrive(c.from, s)
			b.r.Step(0)
		}
		if o, ok := b.r.Next(int(wire.East), 0); !ok || o.Needs != c.want {
			t.Errorf("%s: %v, needs %d free slots, want %d", c.name, ok, o.Needs, c.want)
		}
	}
}

// TestOwnPacketsAlone finds that eight of the chip's own packets may wait at a port where no other
// packet waits. When other packets wait too, the chip's own packets may fill their sender channel.
func TestOwnPacketsAlone(t *testing.T) {
	b := benchWith(t, SlotFast)
	in, out, room := int(wire.West), int(wire.East), SlotFast.Sender[wire.VCData]
	inject := func() (n int) {
		for ; b.r.CanInject(out, wire.VCData); n++ {
			if !b.r.Inject(out, wire.VCData, b.packet(wire.VCData, 0, 9, wire.RouteWest)) {
				t.Fatal("a channel that takes a packet has no room for it")
			}
		}
		return n
	}
	if n := inject(); n != aloneLimit {
		t.Errorf("%d own packets wait at a port without other packets, want %d", n, aloneLimit)
	}
	b.arrive(in, b.packet(wire.VCData, 1, 5, wire.RouteEast, wire.RouteWest))
	b.r.Step(0)
	if n := inject(); n != room-aloneLimit {
		t.Errorf("%d more own packets fit when another packet waits, want %d", n, room-aloneLimit)
	}
	b.send(out) // the port sends one packet of each of the two channels
	b.send(out)
	if n := inject(); n != 0 {
		t.Errorf("%d more own packets fit while %d own packets and no others wait", n, room-1)
	}
}

// TestThroughZ finds that packets pass from direction Z into the mesh and from the mesh to direction
// Z. Packets from Z share no sender channel with packets that go straight on.
func TestThroughZ(t *testing.T) {
	pool := NewPool(1000)
	b := &bench{t: t, pool: pool}
	cfg := Config{Slots: SlotSpec, Grace: grace, Pool: pool}
	for d := range wire.Direction(wire.NumSides) {
		cfg.Ports = append(cfg.Ports, PortConfig{Channel: wire.Channel(d), Dir: d, External: d == wire.Z})
	}
	var err error
	if b.r, err = New(0, cfg); err != nil {
		t.Fatal(err)
	}
	for i := range cfg.Ports {
		b.r.SetPort(i, true)
	}
	for d := range wire.Direction(wire.NumDirections) {
		b.arrive(int(wire.Z), b.packet(wire.VCData, uint64(d)+1, 5, wire.RouteBit(d), 0))
		b.arrive(int(d), b.packet(wire.VCData, uint64(d)+10, 5, wire.RouteZ, 0))
		b.r.Step(0)
		if id, ok := b.send(int(d)); !ok || id != uint64(d)+1 {
			t.Errorf("from Z to %s: got packet %d %v", d, id, ok)
		}
		if id, ok := b.send(int(wire.Z)); !ok || id != uint64(d)+10 {
			t.Errorf("from %s to Z: got packet %d %v", d, id, ok)
		}
		if passThrough(d, wire.Z) == passThrough(d, d.Opposite()) {
			t.Errorf("packets from Z to %s share the channel of packets from %s", d, d.Opposite())
		}
	}
	b.arrive(int(wire.Z), b.packet(wire.VCData, 99, 5, wire.RouteZ))
	b.r.Step(0)
	if l, ok := b.r.PollLocal(); !ok || b.id(l.Slot) != 99 {
		t.Error("the action Z did not deliver a packet that came in from Z")
	}
	cfg.Ports = append(cfg.Ports, PortConfig{Dir: wire.NumSides})
	if _, err := New(0, cfg); err == nil {
		t.Error("a port with a sixth direction was accepted")
	}
}
