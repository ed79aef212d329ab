package router

import (
	"testing"

	"ttfabric/wire"
)

// TestSilentLimit fills the places for packets of silent ports. The next packet for the silent port
// must wait in its receiver channel. Outdated packets must still be parked, up to MaxParked.
func TestSilentLimit(t *testing.T) {
	pool := NewPool(2 * MaxParked)
	outdated := false
	cfg := Config{Slots: slots("tight", 1, 1, 1, 1), Pool: pool, Outdated: func(wire.PacketView) bool { return outdated }, Ports: []PortConfig{
		{Channel: 0, Dir: wire.East}, {Channel: 1, Dir: wire.West}}}
	r, err := New(1, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.SetPort(0, true)
	r.SetPort(1, true)
	r.SetPort(0, false) // silent: the chip has not said that the port is dead
	bring := func(v wire.VC) {
		p := wire.Packet{Type: wire.PacketRequest, TTL: 9, Src: wire.FabricNodeID{Chip: 1}, Dst: wire.FabricNodeID{Chip: 2}, VC: v,
			Route: []byte{wire.RouteBit(wire.East)}, Command: wire.Command{Type: wire.NocNone}}
		s, _ := pool.Get(p.Len())
		p.Append(pool.Bytes(s)[:0])
		r.Arrive(1, v, s)
		r.Step(1)
	}
	plain, other := wire.VCFor(wire.ClassRequest, false, false), wire.VCFor(wire.ClassRequest, true, false)
	for range 1 + MaxSilent {
		bring(plain)
	}
	if r.recvd != 0 {
		t.Fatalf("%d packets wait in receiver channels, although there are %d places for packets of silent ports", r.recvd, MaxSilent)
	}
	bring(plain)
	if r.recvd != 1 {
		t.Fatalf("%d packets wait in receiver channels, want 1", r.recvd)
	}
	outdated = true
	for range MaxParked - MaxSilent - 1 { // the packet in the receiver channel is outdated now, too
		bring(other)
	}
	if d, ok := r.PollDrop(); ok || r.ports[0].parked != MaxParked {
		t.Errorf("%d packets are parked, want %d; a packet was dropped: %v %v", r.ports[0].parked, MaxParked, ok, d.Reason)
	}
	if err := r.CheckInvariants(); err != nil {
		t.Error(err)
	}
}

// TestParkedLimit brings more outdated packets to a full sender channel than a router parks. The
// router must drop the packets beyond MaxParked, and send all others in order.
func TestParkedLimit(t *testing.T) {
	const more = 10
	pool := NewPool(2 * MaxParked)
	cfg := Config{Slots: slots("tight", 1, 1, 1, 1), Pool: pool, Outdated: func(wire.PacketView) bool { return true }, Ports: []PortConfig{
		{Channel: 0, Dir: wire.East}, {Channel: 1, Dir: wire.West}}}
	r, err := New(1, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.SetPort(0, true)
	r.SetPort(1, true)
	for id := range uint64(1 + MaxParked + more) {
		p := wire.Packet{Type: wire.PacketRequest, ID: id, TTL: 9, Detour: true, Src: wire.FabricNodeID{Chip: 1}, Dst: wire.FabricNodeID{Chip: 2},
			Route: []byte{wire.RouteBit(wire.East)}, Command: wire.Command{Type: wire.NocNone}}
		p.VC = wire.DetourVC(wire.ClassRequest, false)
		s, _ := pool.Get(p.Len())
		p.Append(pool.Bytes(s)[:0])
		r.Arrive(1, p.VC, s)
		r.Step(1)
	}
	for range more {
		d, ok := r.PollDrop()
		if !ok || d.Reason != wire.DropTables {
			t.Fatalf("%v: %+v, want %d packets dropped for new tables", ok, d, more)
		}
		pool.Put(d.Slot)
	}
	if err := r.CheckInvariants(); err != nil {
		t.Error(err)
	}
	for id := range uint64(1 + MaxParked) {
		o, ok := r.Next(0, 0)
		if !ok || wire.PacketView(pool.Bytes(o.Slot)).ID() != id {
			t.Fatalf("packet %d is not the next: %v", id, ok)
		}
		pool.Put(r.Sent(0))
	}
	if pool.InUse() != 0 || r.InFlight() != 0 {
		t.Errorf("%d buffers in use, %d packets in flight", pool.InUse(), r.InFlight())
	}
	if err := r.CheckInvariants(); err != nil {
		t.Error(err)
	}
}
