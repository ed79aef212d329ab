package router

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// The method "many" makes a multicast with the given numbers of hops to the east, west, north and
// south.
func (b *bench) many(id uint64, ttl uint16, hops ...uint8) Slot {
	p := wire.Packet{Type: wire.PacketRequest, TTL: ttl, ID: id, Group: 1, Trunk: wire.TrunkX, Command: wire.Command{Type: wire.NocNone}}
	copy(p.Ranges.Hops[:], hops)
	s, ok := b.pool.Get(p.Len())
	if !ok {
		b.t.Fatal("the pool is empty")
	}
	p.Append(b.pool.Bytes(s)[:0])
	return s
}

// local takes the next packet for this chip, and returns the packet's id.
func (b *bench) local() (id uint64, ok bool) {
	l, ok := b.r.PollLocal()
	if !ok {
		return 0, false
	}
	id = b.id(l.Slot)
	if !l.Shared {
		b.pool.Put(l.Slot)
	}
	return id, true
}

// left takes the packet that port i offers. left returns the packet's remaining ranges and TTL.
func (b *bench) left(i int) (r wire.Ranges, ttl uint16, ok bool) {
	o, ok := b.r.Next(i, 0)
	if !ok {
		return r, 0, false
	}
	v := wire.PacketView(b.pool.Bytes(o.Slot))
	r, ttl = v.Ranges(), v.TTL()
	b.pool.Put(b.r.Sent(i))
	return r, ttl, true
}

func (b *bench) empty() {
	b.t.Helper()
	if b.r.InFlight() != 0 || b.pool.InUse() != 0 {
		b.t.Errorf("%d packets and %d buffers are left", b.r.InFlight(), b.pool.InUse())
	}
}

// TestMulticastIsForwardedAndTaken is about Spec §3.1.1.1: "In case of an mcast packet, data is
// both forwarded as well as consumed locally."
func TestMulticastIsForwardedAndTaken(t *testing.T) {
	b := newBench(t)
	b.arrive(int(wire.West), b.many(1, 9, 2, 0, 3, 1))
	if id, ok := b.local(); !ok || id != 1 {
		t.Fatal("the member did not get the packet")
	}
	b.r.Step(0)
	if _, ok := b.local(); ok {
		t.Error("the member got the packet twice")
	}
	for d, want := range map[wire.Direction][4]uint8{wire.East: {1, 0, 3, 1}, wire.North: {0, 0, 2, 0}, wire.South: {0, 0, 0, 0}} {
		if r, ttl, ok := b.left(int(d)); !ok || r.Hops != want || ttl != 8 {
			t.Errorf("%s: %v, TTL %d, %v; want %v", d, r.Hops, ttl, ok, want)
		}
	}
	if _, _, ok := b.left(int(wire.West)); ok || b.freed() != 1 {
		t.Error("the packet went back to the west, or the number of freed slots is not 1")
	}
	if c := b.r.Status(int(wire.West)).Counters; c.Copied != 3 || c.Forwarded != 3 || c.Delivered != 1 {
		t.Errorf("%+v", c)
	}
	b.empty()
}

// TestMulticastWithABlockedBranch finds that a blocked branch keeps the receiver slot and delays
// the packets behind the multicast. Other branches of the multicast go on. When the blocked branch
// goes on, each copy has left exactly once.
func TestMulticastWithABlockedBranch(t *testing.T) {
	b := newBench(t)
	in, north := int(wire.West), int(wire.North)
	full := SlotSpec.Sender[wire.VCData]
	for k := range full { // these packets come in by the same side as the multicast: they fill the sender channel that the branch needs
		b.arrive(in, b.packet(wire.VCData, uint64(100+k), 9, wire.RouteNorth, wire.RouteSouth))
	}
	b.r.Step(0)
	b.freed()
	b.arrive(in, b.many(1, 9, 1, 0, 1, 1))
	b.arrive(in, b.many(2, 9, 1, 0, 0, 0))
	b.r.Step(0)
	for _, d := range []wire.Direction{wire.East, wire.South} {
		if id, ok := b.send(int(d)); !ok || id != 1 {
			t.Errorf("the copy for %s waits for the copy for the north", d)
		}
	}
	if id, ok := b.local(); !ok || id != 1 {
		t.Error("the member waits for the copy for the north")
	}
	for range 3 {
		b.r.Step(0)
	}
	for _, d := range []wire.Direction{wire.East, wire.South} {
		if id, ok := b.send(int(d)); ok {
			t.Errorf("%s got packet %d while the first packet waits", d, id)
		}
	}
	if _, ok := b.local(); ok || b.freed() != 0 {
		t.Error("the member got the packet twice, or the router freed the slot too early")
	}
	for k := range full {
		if id, ok := b.send(north); !ok || id != uint64(100+k) {
			t.Fatalf("north offers %d", id)
		}
	}
	b.r.Step(0)
	if id, ok := b.send(north); !ok || id != 1 {
		t.Error("the blocked branch was lost")
	}
	if id, ok := b.local(); !ok || id != 2 {
		t.Error("the member did not get the next multicast")
	}
	b.r.Step(0)
	if id, ok := b.send(int(wire.East)); !ok || id != 2 || b.freed() != 2 {
		t.Error("the next multicast did not leave by the east")
	}
	b.empty()
}

// TestOwnMulticast finds that a multicast of this chip leaves by each port as soon as that port has
// room. Copies for other ports do not wait.
func TestOwnMulticast(t *testing.T) {
	b := newBench(t)
	full := SlotSpec.Sender[wire.VCData]
	for k := range full {
		b.r.Inject(int(wire.South), wire.VCData, b.packet(wire.VCData, uint64(100+k), 5, wire.RouteNorth))
	}
	for k := range MaxOwn {
		if !b.r.Multicast(0, b.many(uint64(k), 9, 1, 1, 2, 3)) {
			t.Fatal("no room")
		}
	}
	if b.r.CanMulticast(0) || b.r.CanMulticast(maxPlanes) {
		t.Error("there is room for more multicasts than MaxOwn")
	}
	b.r.Step(0)
	if r, ttl, ok := b.left(int(wire.East)); !ok || r.Hops != [4]uint8{0, 0, 2, 3} || ttl != 9 {
		t.Errorf("east: %v, TTL %d", r.Hops, ttl)
	}
	if r, _, ok := b.left(int(wire.North)); !ok || r.Hops != [4]uint8{0, 0, 1, 0} {
		t.Errorf("north: %v", r.Hops)
	}
	got := 0
	for b.r.InFlight() > 0 {
		b.r.Step(0)
		for d := range wire.NumDirections {
			if _, ok := b.send(d); ok {
				got++
			}
		}
	}
	if want := 4*MaxOwn - 2 + full; got != want {
		t.Errorf("%d packets left, want %d", got, want)
	}
	if _, ok := b.local(); ok {
		t.Error("the source got its own multicast")
	}
	b.empty()
}

// TestMulticastDrops finds that a copy that cannot go on is dropped alone. The dropped copy has the
// ranges of the members that it would have reached.
func TestMulticastDrops(t *testing.T) {
	for _, c := range []struct {
		name   string
		ttl    uint16
		hops   []uint8
		why    wire.DropReason
		drops  []wire.Direction
		member bool
	}{
		{"time to live used up", 0, []uint8{1, 0, 0, 2}, wire.DropTTL, []wire.Direction{wire.East, wire.South}, true},
		{"no direction but back", 5, []uint8{1, 1}, wire.DropNoRoute, []wire.Direction{wire.NumSides}, false},
	} {
		b := newBench(t)
		b.arrive(int(wire.West), b.many(1, c.ttl, c.hops...))
		b.r.Step(0)
		if _, ok := b.local(); ok != c.member {
			t.Errorf("%s: the member got the packet: %v", c.name, ok)
		}
		for _, want := range c.drops {
			d, ok := b.r.PollDrop()
			if !ok || d.Reason != c.why || d.Dir != want {
				t.Errorf("%s: got %+v %v, want %s to %s", c.name, d, ok, c.why, want)
				continue
			}
			b.pool.Put(d.Slot)
		}
		if b.freed() != 1 {
			t.Errorf("%s: the packet's slot is not free", c.name)
		}
		b.empty()
	}
	// A branch has a dead next hop, and its sender channel is emptied. The dropped packet has the
	// ranges of the branch's copy.
	b := newBench(t)
	down := mono.Time(time.Second)
	b.r.SetPort(int(wire.North), false)
	b.r.SetDead(down, int(wire.North))
	b.arrive(int(wire.West), b.many(1, 5, 1, 0, 3, 0))
	b.r.Step(down)
	b.local()
	b.r.Step(down.Add(grace))
	d, ok := b.r.PollDrop()
	if !ok || d.Reason != wire.DropNextHopDead || d.Dir != wire.North || wire.PacketView(b.pool.Bytes(d.Slot)).Ranges().Hops != [4]uint8{0, 0, 2, 0} {
		t.Errorf("got %+v %v", d, ok)
	}
	if _, ok := b.send(int(wire.East)); !ok {
		t.Error("the copy for the east was dropped with the copy for the north")
	}
}

// TestHostileMulticasts sends packets to a router, with random ranges or random members in the
// headers. The router must not panic, must get rid of every packet, and must return every buffer.
func TestHostileMulticasts(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	b := newBench(t)
	for range 20000 {
		p := wire.Packet{Type: wire.PacketProbe, TTL: uint16(rng.IntN(3)), Group: 1, Trunk: wire.Trunk(1 + rng.IntN(2)), Command: wire.Command{Type: wire.NocNone},
			VC: []wire.VC{wire.VCData, wire.VCReply, wire.VCControl, wire.VCDataDateline}[rng.IntN(4)]}
		for d := range p.Ranges.Hops {
			if rng.IntN(2) == 0 {
				p.Ranges.Hops[d] = uint8(rng.Uint32())
			}
			if rng.IntN(3) == 0 {
				p.Ranges.Skip[d] = uint8(rng.Uint32())
			}
		}
		if rng.IntN(4) == 0 {
			p.Route = []byte{byte(rng.Uint32())}
		}
		if rng.IntN(2) == 0 {
			p.Members, p.Trunk = wire.Members{rng.Uint64() & rng.Uint64(), uint64(rng.IntN(3))}, wire.Trunk(rng.IntN(3))
		}
		if rng.IntN(100) == 0 {
			b.r.cfg.Place = wire.Place{Chip: wire.ChipID(rng.IntN(12)), Rows: 3, Cols: rng.IntN(5), WrapX: rng.IntN(2) == 0}
		}
		s, _ := b.pool.Get(p.Len())
		p.Append(b.pool.Bytes(s)[:0])
		if in := rng.IntN(wire.NumDirections); rng.IntN(4) > 0 {
			b.arrive(in, s)
		} else if !b.r.Multicast(0, s) {
			b.pool.Put(s)
		}
		for k := 0; b.r.InFlight() > 0; k++ {
			if k > 20 {
				t.Fatalf("packet %+v stays in the router", p)
			}
			b.local()
			b.r.Step(0)
			for d := range wire.NumDirections {
				b.send(d)
			}
			for d, ok := b.r.PollDrop(); ok; d, ok = b.r.PollDrop() {
				b.pool.Put(d.Slot)
			}
		}
		b.freed()
	}
	b.empty()
}

// TestMulticastsAtRandom opens and closes ports at random. The test finds that each copy of each
// multicast leaves once, and that the copies leave in order in each direction.
func TestMulticastsAtRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	b := newBench(t)
	want, got := [5][]uint64{}, [5][]uint64{} // ids by direction; the last list is for the packets for this chip
	room := SlotSpec.Receiver[wire.VCData]
	for id := uint64(0); id < 5000 || b.r.InFlight() > 0; {
		if room > 0 && id < 5000 {
			h := [4]uint8{uint8(rng.IntN(2)), 0, uint8(rng.IntN(2)), uint8(rng.IntN(2))}
			b.arrive(int(wire.West), b.many(id, 9, h[:]...))
			for d, n := range h {
				if n > 0 {
					want[d] = append(want[d], id)
				}
			}
			want[4] = append(want[4], id)
			id++
			room--
		}
		if rng.IntN(3) == 0 {
			if k, ok := b.local(); ok {
				got[4] = append(got[4], k)
			}
		}
		b.r.Step(0)
		for d := range wire.NumDirections {
			if rng.IntN(2+2*d) == 0 {
				if k, ok := b.send(d); ok {
					got[d] = append(got[d], k)
				}
			}
		}
		room += b.freed()
	}
	for d := range want {
		if !slices.Equal(got[d], want[d]) {
			t.Errorf("direction %d: %d packets left, want %d, or the packets are out of order", d, len(got[d]), len(want[d]))
		}
	}
	b.empty()
}
