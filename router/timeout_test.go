package router

import (
	"slices"
	"testing"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// TestTimeoutActions is about Spec §7.3: a timeout acts "if a packet head cannot make progress
// through a fabric router within the configured timeout interval". The router then drops the
// packet, drains buffered packets and notifies the control plane. Dropping and draining are
// optional. The test finds that each action works alone, in receiver and sender channels.
func TestTimeoutActions(t *testing.T) {
	const after = 40 * time.Millisecond
	full := SlotSpec.Sender[wire.VCData]
	for _, c := range []struct {
		name    string
		timeout Timeout
		in, out []uint64 // ids of the packets that stay in the receiver channel, of 8 to 10 at first, and in the sender channel, of 0 to 7 at first
	}{
		{"notify", Timeout{After: after}, []uint64{8, 9, 10}, []uint64{0, 1, 2, 3, 4, 5, 6, 7}},
		{"drop", Timeout{After: after, Drop: true}, []uint64{9, 10}, []uint64{1, 2, 3, 4, 5, 6, 7}},
		{"drain", Timeout{After: after, Drain: true}, []uint64{8}, []uint64{0}},
		{"drop,drain", Timeout{After: after, Drop: true, Drain: true}, nil, nil},
		{"off", Timeout{Drop: true, Drain: true}, []uint64{8, 9, 10}, []uint64{0, 1, 2, 3, 4, 5, 6, 7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.r.cfg.Timeout = c.timeout
			// Three packets more arrive for the east port than its sender channel holds. The link
			// has no credit.
			for i := range full + 3 {
				b.arrive(int(wire.West), b.packet(wire.VCData, uint64(i), 5, wire.RouteEast, wire.RouteWest))
			}
			var told []Stuck
			now := mono.Time(1)
			for ; now < mono.Time(after+after/2) && len(told) == 0; now = now.Add(time.Millisecond) {
				b.r.Step(now)
				for s, ok := b.r.PollStuck(); ok; s, ok = b.r.PollStuck() {
					told = append(told, s)
				}
			}
			if on := c.timeout.After > 0; on != (len(told) == 2) || !on && len(told) > 0 {
				t.Fatalf("told of %+v", told)
			}
			for _, s := range told { // id of the first packet, number of packets in the channel, and number of the sender channel
				id, n, sender := uint64(0), full, passThrough(wire.East, wire.West)
				if s.Port == int(wire.West) {
					id, n, sender = 8, 3, -1
				}
				if s.ID != id || s.Waiting != n || s.Sender != sender || s.VC != wire.VCData || s.For < after || s.For > after+after/looksPerTimeout+time.Millisecond {
					t.Errorf("told %+v", s)
				}
			}
			dropped := map[uint64]bool{}
			for d, ok := b.r.PollDrop(); ok; d, ok = b.r.PollDrop() {
				v := wire.PacketView(b.pool.Bytes(d.Slot))
				if d.Reason != wire.DropTimeout || dropped[v.ID()] {
					t.Errorf("packet %d was dropped for %s; dropped before: %v", v.ID(), d.Reason, dropped[v.ID()])
				}
				dropped[v.ID()] = true
				b.pool.Put(d.Slot)
			}
			if want := full + 3 - len(c.in) - len(c.out); len(dropped) != want || b.freed() != full+3-len(c.in) {
				t.Errorf("%d packets were dropped, want %d", len(dropped), want)
			}
			in, out := b.ids(&b.r.ports[wire.West].recv[wire.VCData]), b.ids(&b.r.ports[wire.East].send[wire.VCData][passThrough(wire.East, wire.West)])
			if !slices.Equal(in, c.in) || !slices.Equal(out, c.out) {
				t.Errorf("left in the receiver channel %v, want %v; in the sender channel %v, want %v", in, c.in, out, c.out)
			}
			// The remaining packets go on in order, and no packet is left at the end.
			for range c.out {
				b.r.Step(now)
				if id, ok := b.send(int(wire.East)); !ok || id != c.out[0] {
					t.Fatalf("sent %d, %v; want %v", id, ok, c.out)
				}
				c.out = c.out[1:]
			}
			for _, want := range c.in {
				b.r.Step(now)
				if id, ok := b.send(int(wire.East)); !ok || id != want {
					t.Fatalf("sent %d, %v; want %d", id, ok, want)
				}
			}
			if b.r.InFlight() != 0 || b.r.Status(int(wire.West)).Receiver[wire.VCData] != 0 {
				t.Errorf("%d left", b.r.InFlight())
			}
		})
	}
}

// TestTimeoutIsPerHead finds that the timeout is about a channel's first packet. A channel that is
// never empty is not stuck while its first packets move on one after the other. The channel is
// stuck when the first packet stays.
func TestTimeoutIsPerHead(t *testing.T) {
	const after = 40 * time.Millisecond
	b := newBench(t)
	b.r.cfg.Timeout = Timeout{After: after}
	full := SlotSpec.Sender[wire.VCData]
	next := uint64(0)
	fill := func() {
		for b.r.Status(int(wire.West)).Receiver[wire.VCData] < 2 {
			b.arrive(int(wire.West), b.packet(wire.VCData, next, 5, wire.RouteEast, wire.RouteWest))
			next++
			b.r.Step(0)
		}
	}
	fill()
	now, moved := mono.Time(1), 0
	for ; now < mono.Time(10*after); now = now.Add(time.Millisecond) {
		if b.r.Step(now); now%mono.Time(30*time.Millisecond) == 1 {
			if _, ok := b.send(int(wire.East)); !ok {
				t.Fatal("nothing to send")
			}
			b.r.Step(now)
			fill()
			moved++
		}
		if s, ok := b.r.PollStuck(); ok {
			t.Fatalf("%d first packets have moved on, but the channel is reported as stuck: %+v", moved, s)
		}
	}
	if moved < 10 || b.r.InFlight() < full {
		t.Fatalf("%d first packets have moved on, and %d packets wait", moved, b.r.InFlight())
	}
	still := now
	for ; now < still.Add(2*after); now = now.Add(time.Millisecond) {
		b.r.Step(now)
		if s, ok := b.r.PollStuck(); ok {
			if s.For < after {
				t.Errorf("told %+v", s)
			}
			return
		}
	}
	t.Error("the router did not report a channel whose first packet does not move")
}

// ids returns the ids of the packets of a channel, the first packet first.
func (b *bench) ids(q *ring) (ids []uint64) {
	for k := range q.n {
		ids = append(ids, wire.PacketView(b.pool.Bytes(q.slots[q.index(k)])).ID())
	}
	return ids
}

// TestParseTimeout finds that ParseTimeout reads every list of known actions and refuses other
// texts.
func TestParseTimeout(t *testing.T) {
	for s, want := range map[string]Timeout{
		"none": {Quiet: true}, "notify": {}, "drop": {Drop: true, Quiet: true}, "drain": {Drain: true, Quiet: true},
		"notify,drop": {Drop: true}, "drain,notify": {Drain: true}, "drop,drain": {Drop: true, Drain: true, Quiet: true}, "drop,notify,drain": {Drop: true, Drain: true},
	} {
		if got, err := ParseTimeout(s); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "maybe", "none,drop", "drop,drop", "drop,", "drop drain"} {
		if got, err := ParseTimeout(s); err == nil {
			t.Errorf("%q: %+v", s, got)
		}
	}
}
