package ttlink

import (
	"slices"
	"testing"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// pair is two ends that are up. A test passes frames between the two ends without a cable.
type pair struct {
	a, b *Link
	now  mono.Time
}

func newPair(t testing.TB, slots, payload int) *pair {
	w := newWorld(t, 1, fault.Options{}, func(_ int, c *Config) {
		c.Slots = [wire.NumVCs]int{slots, 1, 1}
		c.Window, c.MaxPayload = DefaultWindow, payload
	})
	w.start()
	if !w.until(time.Second, w.bothUp) {
		w.fail("not up")
	}
	return &pair{w.ends[0].link, w.ends[1].link, w.now}
}

// round sends up to n packets from a to b, and passes the answers of b to a. round returns the
// number of delivered bytes.
func (p *pair) round(packet []byte, n int) (bytes int) {
	p.now = p.now.Add(10 * time.Microsecond)
	for ; n > 0 && p.a.Send(p.now, wire.VCData, packet); n-- {
	}
	for x, ok := p.a.PollTransmit(p.now); ok; x, ok = p.a.PollTransmit(p.now) {
		for b := x.Data; len(b) > 0; b = b[min(x.Seg, len(b)):] {
			if d, ok := p.b.HandleDatagram(p.now, b[:min(x.Seg, len(b))]); ok {
				bytes += len(d.Data)
				if d.End && d.Kind == wire.KindData {
					p.b.Free(d.VC)
				}
			}
		}
	}
	for x, ok := p.b.PollTransmit(p.now); ok; x, ok = p.b.PollTransmit(p.now) {
		p.a.HandleDatagram(p.now, x.Data)
	}
	p.a.Tick(p.now)
	p.b.Tick(p.now)
	return bytes
}

// TestNoAllocation checks that sending and receiving allocate no memory after the first packets.
func TestNoAllocation(t *testing.T) {
	p := newPair(t, 128, 1408)
	packet := make([]byte, 4096)
	p.round(packet, 16)
	if n := testing.AllocsPerRun(200, func() { p.round(packet, 16) }); n != 0 {
		t.Errorf("%v allocations per round of 16 packets", n)
	}
}

// TestOneUpdatePerBatch checks that the receiver answers a batch of 16 packets with one frame.
func TestOneUpdatePerBatch(t *testing.T) {
	p := newPair(t, 128, 1408)
	before := p.b.Counters().FramesSent
	p.round(make([]byte, 4096), 16)
	if n := p.b.Counters().FramesSent - before; n != 1 {
		t.Errorf("the receiver answered one batch with %d frames", n)
	}
}

// TestShorterFrameLast checks which frames leave together: equal data frames and one shorter frame,
// which is the next data frame or a sequence update. A sequence update that is not due does not join
// a single data frame.
func TestShorterFrameLast(t *testing.T) {
	p := newPair(t, 16, 1408)
	p.round(make([]byte, 1000), 5) // more than a quarter of the slots, less than half
	for _, c := range []struct {
		sizes []int
		kinds []wire.Kind
	}{
		{[]int{1000}, []wire.Kind{wire.KindData}},
		{[]int{1000, 1000, 100}, []wire.Kind{wire.KindData, wire.KindData, wire.KindData}},
		{[]int{1000, 1000}, []wire.Kind{wire.KindData, wire.KindData, wire.KindUpdate}},
		{[]int{1000, 1000}, []wire.Kind{wire.KindData, wire.KindData}}, // the grants are told
	} {
		for _, n := range c.sizes {
			if !p.b.Send(p.now, wire.VCData, make([]byte, n)) {
				t.Fatalf("the link refused a packet of %d bytes", n)
			}
		}
		x, _ := p.b.PollTransmit(p.now)
		var got []wire.Kind
		for b := x.Data; len(b) > 0; b = b[min(x.Seg, len(b)):] {
			f, err := wire.DecodeFrame(b[:min(x.Seg, len(b))])
			if err != nil {
				t.Fatalf("packets of %v bytes: %v", c.sizes, err)
			}
			got = append(got, f.Kind)
		}
		if !slices.Equal(got, c.kinds) {
			t.Errorf("packets of %v bytes: frames of the kinds %v, want %v", c.sizes, got, c.kinds)
		}
	}
}

// TestSlabIsGivenBack checks that an idle link frees the memory of its slab.
func TestSlabIsGivenBack(t *testing.T) {
	w := upWorld(t, 1, nil)
	if w.ends[0].link.tx.slab.buf != nil {
		t.Error("a link that has sent no packet has memory for a slab")
	}
	w.load(1)
	w.mustQuiet(time.Second)
	w.run(slabIdle + time.Second)
	if w.ends[0].link.tx.slab.buf != nil {
		t.Error("an idle link has memory for a slab")
	}
	w.load(1)
	w.mustQuiet(time.Second)
}

// BenchmarkGoodput sends packets of 4 KiB from one Link to another in memory.
func BenchmarkGoodput(b *testing.B) {
	for _, c := range []struct {
		name            string
		packet, payload int
	}{{"4096B/one frame", 4096, 4096}, {"4096B/MTU 1500", 4096, 1408}, {"64B", 64, 1408}} {
		b.Run(c.name, func(b *testing.B) {
			p := newPair(b, 128, c.payload)
			packet := make([]byte, c.packet)
			b.SetBytes(int64(c.packet) * 64)
			b.ReportAllocs()
			for b.Loop() {
				if n := p.round(packet, 64); n != 64*c.packet {
					b.Fatalf("%d bytes delivered", n)
				}
			}
		})
	}
}
