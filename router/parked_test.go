package router

import (
	"testing"

	"ttfabric/wire"
)

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
