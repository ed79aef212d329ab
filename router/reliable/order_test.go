package reliable

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"ttfabric/router/reliable/nexthop"
	"ttfabric/wire/mono"
)

// ordered returns an orderer, and the numbers that come out.
func ordered(window int) (*orderer, *[]uint64) {
	var out []uint64
	o := &orderer{window: window, patience: time.Millisecond}
	o.out = func(p Packet) { out = append(out, p.Seq) }
	return o, &out
}

// TestOrder gives packets of a flow in many orders. The packets come out in order if none is displaced
// by a window or more.
func TestOrder(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		window := 1 + rng.IntN(8)
		o, out := ordered(window)
		for first := uint64(0); first < 100; first += uint64(window) {
			for _, k := range rng.Perm(window) {
				o.take(0, Packet{Seq: first + uint64(k)})
			}
		}
		if len(*out) < 100 || !slices.IsSorted(*out) || o.late+o.skipped+len(o.waiting) > 0 || o.deadline() != mono.Never {
			t.Fatalf("seed %d, window %d: %v, %+v", seed, window, *out, o)
		}
	}
}

// TestMissing leaves packets out. The flow goes on when the window or the patience ends, and a packet
// that comes later comes out at once.
func TestMissing(t *testing.T) {
	o, out := ordered(4)
	for _, seq := range []uint64{1, 2, 3} {
		o.take(0, Packet{Seq: seq})
	}
	if len(*out) != 0 || o.deadline() != mono.Time(time.Millisecond) {
		t.Fatalf("%v came out, deadline %v", *out, o.deadline())
	}
	o.take(5, Packet{Seq: 4}) // packet 0 is now a window behind
	if !slices.Equal(*out, []uint64{1, 2, 3, 4}) || o.skipped != 1 {
		t.Fatalf("the window ended: %v, %d skipped", *out, o.skipped)
	}
	o.take(6, Packet{Seq: 0})
	o.take(7, Packet{Seq: 7})
	o.take(8, Packet{Seq: 8})
	o.tick(mono.Time(time.Millisecond) + 6)
	if !slices.Equal((*out)[4:], []uint64{0}) || o.late != 1 {
		t.Fatalf("before the patience ends: %v, %d late", *out, o.late)
	}
	o.tick(mono.Time(time.Millisecond) + 7)
	if !slices.Equal((*out)[4:], []uint64{0, 7, 8}) || o.skipped != 3 || len(o.waiting) > 0 {
		t.Fatalf("the patience ended: %v, %d skipped", *out, o.skipped)
	}
	o.take(9, Packet{Seq: 1 << 40})
	o.tick(mono.Never - 1)
	if (*out)[7] != 1<<40 {
		t.Fatalf("a number far ahead: %v", *out)
	}
}

// TestManyFlows has more flows than a destination remembers. Every packet comes out.
func TestManyFlows(t *testing.T) {
	o, out := ordered(8)
	for i := range uint32(maxFlows + 100) {
		o.take(0, Packet{Epoch: i, Seq: 1, Src: nexthop.Place{X: 1}})
	}
	if len(o.flows) != maxFlows || len(*out) != 100 || len(o.waiting) != maxFlows {
		t.Fatalf("%d flows, %d packets, %d wait", len(o.flows), len(*out), len(o.waiting))
	}
	o.tick(mono.Time(time.Second))
	if len(*out) != maxFlows+100 || len(o.waiting) > 0 {
		t.Fatalf("%d packets, %d flows wait", len(*out), len(o.waiting))
	}
}

// TestReplicas fills the memory of replicas. The oldest ones are forgotten first.
func TestReplicas(t *testing.T) {
	var r replicas
	for i := range uint64(maxReplicas) {
		if fresh, forgotten := r.add(packetID{seq: i}); !fresh || forgotten {
			t.Fatal(i, fresh, forgotten)
		}
	}
	for i, want := range []struct {
		seq              uint64
		fresh, forgotten bool
	}{{7, false, false}, {1 << 20, true, true}, {0, true, true}, {2, false, false}} {
		if fresh, forgotten := r.add(packetID{seq: want.seq}); fresh != want.fresh || forgotten != want.forgotten {
			t.Errorf("%d: packet %d is fresh: %v, one was forgotten: %v", i, want.seq, fresh, forgotten)
		}
	}
	if len(r.seen) != maxReplicas {
		t.Errorf("%d packets in the memory", len(r.seen))
	}
}
