package router

import (
	"testing"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// TestChannels fills a sender channel whose port is paused, and the receiver channel behind it. The
// list must show both channels with their first packets in order, and the time since each packet
// came.
func TestChannels(t *testing.T) {
	b := newBench(t)
	now := mono.Time(time.Hour)
	b.r.SetTime(now)
	if got := b.r.Channels(now); len(got) != 0 {
		t.Fatalf("empty router: %+v", got)
	}
	for i := range MaxListed + 4 {
		b.r.SetTime(now.Add(time.Duration(i) * 10 * time.Millisecond))
		q := &b.r.ports[0].recv[wire.VCData]
		if i >= len(q.slots) {
			break
		}
		b.r.Arrive(0, wire.VCData, b.packet(wire.VCData, uint64(i), 9, wire.RouteBit(wire.East)))
	}
	cs := b.r.Channels(now.Add(time.Second))
	if len(cs) != 1 {
		t.Fatalf("%+v", cs)
	}
	c := cs[0]
	if c.Port != 0 || c.VC != wire.VCData || c.Sender != -1 || c.Waiting != 16 || c.Slots != 16 || len(c.Packets) != min(16, MaxListed) {
		t.Errorf("%+v", c)
	}
	for i, p := range c.Packets {
		if want := time.Second - time.Duration(i)*10*time.Millisecond; p.ID != uint64(i) || p.Age != want || p.Type != wire.PacketRequest || p.Bytes == 0 {
			t.Errorf("packet %d: %+v, want an age of %v", i, p, want)
		}
	}
	// When packets leave a channel at its front, or from its middle, the ages of the other packets
	// must not change.
	b.r.ports[0].recv[wire.VCData].pop()
	b.r.ports[0].recv[wire.VCData].remove(nil, func(s Slot) bool { return wire.PacketView(b.pool.Bytes(s)).ID()%2 == 0 })
	for i, p := range b.r.Channels(now.Add(time.Second))[0].Packets {
		if id := uint64(2*i + 1); p.ID != id || p.Age != time.Second-time.Duration(id)*10*time.Millisecond {
			t.Errorf("packet %d: %+v", i, p)
		}
	}
}
