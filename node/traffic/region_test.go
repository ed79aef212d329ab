package traffic

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"ttfabric/node/noc"
	"ttfabric/wire"
)

// Two sources of a destination never share a byte, whatever the number of sources.
func TestSourcesShareNoBytes(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 31, 255, 256, 257, 300, 1000, MaxSources} {
		pairs := crowd(n)
		owner := map[wire.NocAddr]wire.FabricNodeID{}
		spec := Spec{Packets: uint64(n) * 20, Size: MaxSize, Planes: 2, Window: 1}
		v := NewVerifier(spec, pairs[0].Dst, pairs)
		every := 1 + n/200 // NewGenerator reads all pairs: of many sources, the test runs about 200
		for i := 0; i < n; i += every {
			g := NewGenerator(spec, pairs[i].Src, pairs)
			for !g.Finished() {
				p, _ := g.Next(0)
				if who, taken := owner[p.Addr]; taken && who != p.Src {
					t.Fatalf("%d sources: %s and %s both write %s", n, who, p.Src, p.Addr)
				}
				if (p.Addr.Offset()-regionBase)%MaxSize != 0 || !v.Owns(p.Addr) || !v.Owns(p.Addr.Add(MaxSize-1)) {
					t.Fatalf("%d sources: %s writes %s", n, p.Src, p.Addr)
				}
				owner[p.Addr] = p.Src
				g.Done(p, 0, 0, wire.OutcomeDone, false)
			}
		}
		if s := (slots{v.used, 1, n, allTiles()}); v.used < MaxSources && v.Owns(s.addr(0)) {
			t.Errorf("%d sources: the slot behind the last is owned", n)
		}
	}
	v := NewVerifier(Spec{Packets: 1, Size: 32, Planes: 1, Window: 1}, crowd(1)[0].Dst, crowd(1))
	for _, a := range []wire.NocAddr{0, wire.NewNocAddr(1, 2, regionBase-1), wire.NewNocAddr(1, 2, regionBase+maxSlotsPerPair*MaxSize), wire.NewNocAddr(2, 2, regionBase), wire.NewNocAddr(0, 0, regionBase), wire.NewNocAddr(1, 2, wire.MaxNocOffset)} {
		if v.Owns(a) {
			t.Errorf("%s is owned", a)
		}
	}
}

// All slots of the region lie in the L1 of Tensix tiles, on both architectures.
func TestRegionIsTensixL1(t *testing.T) {
	for _, arch := range []wire.Arch{wire.Wormhole, wire.Blackhole} {
		m, err := noc.New(arch, 0)
		if err != nil {
			t.Fatal(err)
		}
		for n := range MaxSources {
			s := slots{n, 1, 1, allTiles()}
			a := s.addr(0)
			if x, ok := m.TileAt(a.X(), a.Y()); !ok || x.Kind != noc.Tensix || m.Check(a, MaxSize) != wire.OutcomeDone {
				t.Fatalf("%s: slot %d at %s is on %v", arch, n, a, x)
			}
			if k, ok := s.in.slotAt(a.Add(MaxSize - 1)); !ok || k != n {
				t.Fatalf("the end of slot %d is in slot %d, %v", n, k, ok)
			}
		}
	}
}

// The region of a destination lies in Tensix tiles that work, as long as they have a slot for each
// source. Generator and verifier agree on the region.
func TestRegionAvoidsHarvestedTiles(t *testing.T) {
	for _, c := range []struct {
		arch    wire.Arch
		mask    noc.Harvested
		sources int
		refused bool // the working tiles have too few slots
	}{
		{wire.Wormhole, 513, 7, false}, {wire.Wormhole, 2, 300, false}, {wire.Wormhole, 0x2FF, 1536, false}, {wire.Wormhole, 0x2FF, 1537, true},
		{wire.Wormhole, 0x3FF, 1, true}, {wire.Blackhole, 192, 300, false}, {wire.Blackhole, 1, 1000, false}, {wire.Blackhole, 0x3F80, 3000, false},
	} {
		m, _ := noc.New(c.arch, 0)
		if err := m.Harvest(c.mask); err != nil {
			t.Fatal(err)
		}
		pairs := crowd(c.sources)
		tiles := func(wire.FabricNodeID) (xs, ys []uint8) { return noc.Shared(c.arch, c.mask) }
		spec := Spec{Packets: uint64(c.sources) * 4, Size: 64, Planes: 1, Window: 1}
		v := NewVerifier(spec, pairs[0].Dst, pairs)
		v.Place(tiles)
		outcomes := map[wire.Outcome]int{}
		owner := map[wire.NocAddr]wire.FabricNodeID{}
		for i := 0; i < c.sources; i += 1 + c.sources/50 {
			g := NewGenerator(spec, pairs[i].Src, pairs)
			g.Place(tiles)
			for !g.Finished() {
				p, _ := g.Next(0)
				if !v.Owns(p.Addr) {
					t.Fatalf("%+v: %s is not owned", c, p.Addr)
				}
				if who, taken := owner[p.Addr]; taken && who != p.Src {
					t.Fatalf("%+v: %s and %s both write %s", c, who, p.Src, p.Addr)
				}
				owner[p.Addr] = p.Src
				outcomes[m.Check(p.Addr, MaxSize)]++
				g.Done(p, 0, 0, wire.OutcomeDone, false)
			}
		}
		if refused := outcomes[wire.OutcomeHarvested] > 0; refused != c.refused || !c.refused && outcomes[wire.OutcomeDone] == 0 {
			t.Errorf("%+v: %v", c, outcomes)
		}
	}
}

// If two packets differ in any field of the header, they also differ in the bytes after the
// header.
func TestContentFollowsFromAllThatAPacketIs(t *testing.T) {
	base := Packet{Src: wire.FabricNodeID{Chip: 1}, Dst: wire.FabricNodeID{Chip: 2}, Plane: 1, Number: 7}
	bodies := [][]byte{}
	for _, change := range []func(p *Packet, run *uint64){
		func(*Packet, *uint64) {},
		func(p *Packet, _ *uint64) { p.Src.Mesh++ }, func(p *Packet, _ *uint64) { p.Src.Chip++ },
		func(p *Packet, _ *uint64) { p.Dst.Mesh++ }, func(p *Packet, _ *uint64) { p.Dst.Chip++ },
		func(p *Packet, _ *uint64) { p.Plane++ }, func(p *Packet, _ *uint64) { p.Number++ },
		func(p *Packet, _ *uint64) { p.Number += 1 << 32 }, func(_ *Packet, run *uint64) { *run += 1 << 63 },
	} {
		p, run, b := base, uint64(5), make([]byte, 99)
		change(&p, &run)
		p.fill(run, b)
		q, r, intact := parse(b, make([]byte, MaxSize))
		if !intact || q != p || r != run {
			t.Errorf("%+v of run %d reads %+v of run %d, %v", p, run, q, r, intact)
		}
		for _, o := range bodies {
			if bytes.Equal(o, b[headerLen:]) {
				t.Errorf("%+v of run %d has another packet's content", p, run)
			}
		}
		bodies = append(bodies, b[headerLen:])
	}
}

func TestHistogramError(t *testing.T) {
	for d := time.Duration(1); d < 1000*time.Hour; d = d*5/4 + 1 {
		var c Tally
		c.Add(d)
		h := c.Histogram()
		if got := h.Quantile(0.99); math.Abs(float64(got-d)) > float64(d)/64+1 {
			t.Errorf("%v came back as %v", d, got)
		}
	}
	for k := range bucket(math.MaxInt64) + 1 {
		if got := bucket(uint64(middle(k))); got != k {
			t.Fatalf("the middle of bucket %d is in bucket %d", k, got)
		}
	}
	hostile := Histogram{N: 9, Buckets: map[int]uint64{-1 << 62: 1, 1 << 62: 1}}
	if got := hostile.Quantile(1); got != 0 {
		t.Errorf("buckets that can't be give %v", got)
	}
}

func TestQuantilesAgainstSorting(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		var parts [3]Tally
		var all Histogram
		var ds []time.Duration
		for range 1 + r.IntN(500) {
			d := time.Duration(math.Exp(r.Float64() * 25))
			ds = append(ds, d)
			parts[r.IntN(3)].Add(d)
		}
		slices.Sort(ds)
		for i := range parts {
			h := parts[i].Histogram()
			all.Merge(&h)
		}
		if all.N != uint64(len(ds)) {
			t.Fatalf("merged %d of %d", all.N, len(ds))
		}
		for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 1} {
			want := ds[max(1, int(math.Ceil(q*float64(len(ds)))))-1]
			if got := all.Quantile(q); math.Abs(float64(got-want)) > float64(want)/64+1 {
				t.Errorf("seed %d quantile %v: got %v, want %v", seed, q, got, want)
			}
		}
	}
	if (&Histogram{}).Quantile(0.5) != 0 {
		t.Error("nothing has a median")
	}
}

// The verifier counts any arrival exactly once. Only a packet of the run counts as delivered.
func FuzzArrived(f *testing.F) {
	pairs := []Pair{{Src: wire.FabricNodeID{Chip: 1}, Ways: 2}, {Src: wire.FabricNodeID{Chip: 2}}}
	spec := Spec{Run: 3, Packets: 40, Size: 48, Planes: 2, Ways: 2, Window: 4}
	g := NewGenerator(spec, pairs[0].Src, pairs)
	real := map[string]bool{}
	for !g.Finished() {
		p, _ := g.Next(0)
		b := make([]byte, spec.Size)
		g.Fill(p, b)
		g.Done(p, 0, 0, wire.OutcomeDone, false)
		real[fmt.Sprint(p.Plane, p.Other, b)] = true
		f.Add(uint16(1), uint8(p.Plane), p.Other, b)
	}
	f.Add(uint16(9), uint8(0), false, []byte("TF"))
	f.Fuzz(func(t *testing.T, src uint16, plane uint8, other bool, data []byte) {
		v := NewVerifier(spec, wire.FabricNodeID{}, pairs)
		v.Arrived(wire.FabricNodeID{Chip: wire.ChipID(src)}, wire.Plane(plane), other, data)
		rep := NewReport(NewGenerator(spec, wire.FabricNodeID{}, pairs), v)
		sum, delivered := rep.Stray+rep.Misdirected, uint64(0)
		for _, p := range rep.Dest {
			sum += p.Delivered + p.Corrupted + p.Duplicated
			delivered += p.Delivered
		}
		if sum != 1 {
			t.Fatalf("counted %d times: %+v", sum, rep)
		}
		if is := src == 1 && real[fmt.Sprint(wire.Plane(plane), other, data)]; delivered == 1 && src == 1 != is {
			t.Fatalf("delivered %d, a packet of the run: %v", delivered, is)
		}
	})
}

func BenchmarkFillAndVerify4KiB(b *testing.B) {
	pairs := crowd(1)
	spec := Spec{Packets: MaxPackets, Size: MaxSize, Planes: 2, Window: 8}
	g, v, buf := NewGenerator(spec, pairs[0].Src, pairs), NewVerifier(spec, pairs[0].Dst, pairs), make([]byte, MaxSize)
	b.SetBytes(MaxSize)
	b.ReportAllocs()
	for b.Loop() {
		p, _ := g.Next(0)
		g.Fill(p, buf)
		v.Arrived(p.Src, p.Plane, p.Other, buf)
		g.Done(p, 0, 1000, wire.OutcomeDone, false)
	}
}
