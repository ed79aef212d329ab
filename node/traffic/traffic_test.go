package traffic

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// delivery is the arrival of a packet's bytes, with source, destination, plane and direction as
// the fabric reports them.
type delivery struct {
	src   wire.FabricNodeID
	dst   wire.FabricNodeID
	plane wire.Plane
	other bool
	data  []byte
}

// rig is a run on a 2×2 mesh without a fabric. The test hands the generators' packets directly to
// the verifiers.
type rig struct {
	spec  Spec
	pairs []Pair
	chips []wire.FabricNodeID
}

func newRig(t *testing.T, size int) *rig {
	t.Helper()
	m, err := topo.Named("mesh:2x2")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{spec: Spec{Run: 9, Pattern: "all-to-all", Packets: 1003, Size: size, Planes: 2, Ways: 2, Window: 4, Seed: 1},
		pairs: pairsOf(t, "all_to_all", m, Options{Ways: func(a, b wire.FabricNodeID) int { return 1 + int(a.Chip+b.Chip)%2 }})}
	if err := r.spec.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range m.Chips {
		r.chips = append(r.chips, c.Node)
	}
	return r
}

// run moves all packets of the run. The function "meddle" may change, drop, repeat or delay each
// packet.
func (r *rig) run(t *testing.T, meddle func(i int, d delivery) []delivery) Result {
	t.Helper()
	vs, gs := map[wire.FabricNodeID]*Verifier{}, map[wire.FabricNodeID]*Generator{}
	for _, n := range r.chips {
		vs[n], gs[n] = NewVerifier(r.spec, n, r.pairs), NewGenerator(r.spec, n, r.pairs)
	}
	i := 0
	for _, n := range r.chips {
		g := gs[n]
		for !g.Finished() {
			p, ok := g.Next(0)
			if !ok {
				t.Fatal("the generator stands still with nothing outstanding")
			}
			if i%5 == 0 { // as if the fabric had no room: Next must return the same packet again
				g.Undo()
				if q, _ := g.Next(0); q != p {
					t.Fatalf("after Undo %+v, before %+v", q, p)
				}
			}
			b := make([]byte, r.spec.Size)
			g.Fill(p, b)
			if !vs[p.Dst].Owns(p.Addr) || !vs[p.Dst].Owns(p.Addr.Add(r.spec.Size-1)) {
				t.Fatalf("%v is not in the traffic region", p.Addr)
			}
			for _, d := range meddle(i, delivery{p.Src, p.Dst, p.Plane, p.Other, b}) {
				vs[d.dst].Arrived(d.src, d.plane, d.other, d.data)
			}
			g.Done(p, mono.Time(i), mono.Time(i).Add(time.Millisecond), wire.OutcomeDone, false)
			i++
		}
	}
	var reports []Report
	for _, n := range r.chips {
		reports = append(reports, overJSON(t, NewReport(gs[n], vs[n])))
	}
	return Merge(r.spec, r.pairs, reports)
}

// overJSON returns a report encoded to JSON and decoded again.
func overJSON(t *testing.T, r Report) (out Report) {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(r, out) {
		t.Fatalf("JSON made %+v of %+v", out, r)
	}
	return out
}

func TestAllIsWell(t *testing.T) {
	for _, size := range []int{MinSize, 33, 200, MaxSize} {
		res := newRig(t, size).run(t, func(_ int, d delivery) []delivery { return []delivery{d} })
		if !res.OK() || res.Total.Sent != 1003 || res.Total.Bytes != 1003*uint64(size) || res.Total.P50 < 980 || res.Total.P50 > 1020 {
			t.Errorf("%d bytes: %+v", size, res.Total)
		}
		if len(res.Rows) != 12 || res.Rows[0].Sent != 84 || res.Rows[11].Sent != 83 {
			t.Errorf("%d bytes: the packets were split into %+v", size, res.Rows)
		}
	}
}

// intended returns the destination that a packet's header names.
func intended(b []byte) wire.FabricNodeID {
	p, _, _ := parse(b, make([]byte, MaxSize))
	return p.Dst
}

// harm holds the counts of a result that are 0 in a run without faults.
type harm struct{ lost, duplicated, corrupted, reordered, misdirected, stray uint64 }

func harmOf(r Result) harm {
	t := r.Total
	return harm{t.Lost, t.Duplicated, t.Corrupted, t.Reordered, r.Misdirected, r.Stray}
}

func TestEveryFlippedBitIsCorruption(t *testing.T) {
	for _, size := range []int{MinSize, 75} {
		r := newRig(t, size)
		r.spec.Packets = 50
		for bit := range size * 8 {
			res := r.run(t, func(i int, d delivery) []delivery {
				if i == 7 {
					d.data[bit/8] ^= 1 << (bit % 8)
				}
				return []delivery{d}
			})
			if res.OK() || harmOf(res) != (harm{lost: 1, corrupted: 1}) {
				t.Fatalf("%d bytes, bit %d of byte %d flipped: %+v", size, bit%8, bit/8, harmOf(res))
			}
		}
	}
}

// The test does one kind of harm to one packet. The result must count exactly the harm
// that was done.
func TestEveryHarmIsCountedAsWhatItIs(t *testing.T) {
	r := newRig(t, 200)
	var held *delivery
	other := make([]byte, 200)
	for name, c := range map[string]struct {
		do   func(d delivery) []delivery // applied to packet 100
		want harm
	}{
		"dropped":            {func(d delivery) []delivery { return nil }, harm{lost: 1}},
		"twice":              {func(d delivery) []delivery { return []delivery{d, d} }, harm{duplicated: 1}},
		"three times":        {func(d delivery) []delivery { return []delivery{d, d, d} }, harm{duplicated: 2}},
		"cut short":          {func(d delivery) []delivery { d.data = d.data[:199]; return []delivery{d} }, harm{lost: 1, corrupted: 1}},
		"cut to its header":  {func(d delivery) []delivery { d.data = d.data[:headerLen]; return []delivery{d} }, harm{lost: 1, corrupted: 1}},
		"cut in its header":  {func(d delivery) []delivery { d.data = d.data[:9]; return []delivery{d} }, harm{lost: 1, corrupted: 1}},
		"longer":             {func(d delivery) []delivery { d.data = append(d.data, 0); return []delivery{d} }, harm{lost: 1, corrupted: 1}},
		"far too long":       {func(d delivery) []delivery { d.data = make([]byte, MaxSize+1); return []delivery{d} }, harm{lost: 1, corrupted: 1}},
		"zeroed":             {func(d delivery) []delivery { clear(d.data); return []delivery{d} }, harm{lost: 1, corrupted: 1}},
		"empty":              {func(d delivery) []delivery { d.data = nil; return []delivery{d} }, harm{lost: 1, corrupted: 1}},
		"on the wrong plane": {func(d delivery) []delivery { d.plane ^= 1; return []delivery{d} }, harm{lost: 1, misdirected: 1}},
		"on no plane":        {func(d delivery) []delivery { d.plane = 7; return []delivery{d} }, harm{lost: 1, misdirected: 1}},
		"the wrong way":      {func(d delivery) []delivery { d.other = !d.other; return []delivery{d} }, harm{lost: 1, misdirected: 1}},
		"to the wrong chip": {func(d delivery) []delivery {
			// Choose another destination of the source.
			for d.dst.Chip = 0; d.dst == d.src || d.dst == intended(d.data); d.dst.Chip++ {
			}
			return []delivery{d}
		}, harm{lost: 1, misdirected: 1}},
		"under a wrong name": {func(d delivery) []delivery { d.src = wire.FabricNodeID{Chip: d.src.Chip ^ 2}; return []delivery{d} }, harm{lost: 1, misdirected: 1}},
		"under no name":      {func(d delivery) []delivery { d.src.Mesh = 5; return []delivery{d} }, harm{lost: 1, misdirected: 1}},
		"with a stranger's": {func(d delivery) []delivery {
			return []delivery{d, {wire.FabricNodeID{Mesh: 3}, d.dst, 0, false, []byte("hello")}}
		},
			harm{stray: 1}},
		"with one of another run": {func(d delivery) []delivery {
			(&Packet{Src: d.src, Dst: d.dst, Plane: d.plane}).fill(8, other)
			return []delivery{d, {d.src, d.dst, d.plane, d.other, other}}
		}, harm{stray: 1}},
		"with one too many": {func(d delivery) []delivery {
			(&Packet{Src: d.src, Dst: d.dst, Plane: d.plane, Other: d.other, Number: 1 << 40}).fill(9, other)
			return []delivery{d, {d.src, d.dst, d.plane, d.other, other}}
		}, harm{misdirected: 1}},
		"with one of a plane too many": {func(d delivery) []delivery {
			(&Packet{Src: d.src, Dst: d.dst, Plane: 7}).fill(9, other)
			return []delivery{d, {d.src, d.dst, 7, d.other, other}}
		}, harm{misdirected: 1}},
		"with one of a way too many": {func(d delivery) []delivery {
			d.dst.Chip = (d.src.Chip + 2) % 4 // a chip to which the source has only one route
			(&Packet{Src: d.src, Dst: d.dst, Plane: d.plane, Other: true}).fill(9, other)
			return []delivery{{d.src, d.dst, d.plane, true, other}}
		}, harm{lost: 1, misdirected: 1}},
		"with one of another size": {func(d delivery) []delivery {
			(&Packet{Src: d.src, Dst: d.dst, Plane: d.plane, Other: d.other}).fill(9, other[:100])
			return []delivery{d, {d.src, d.dst, d.plane, d.other, other[:100]}}
		}, harm{misdirected: 1}},
	} {
		res := r.run(t, func(i int, d delivery) []delivery {
			if i == 100 {
				return c.do(d)
			}
			return []delivery{d}
		})
		if harmOf(res) != c.want || res.OK() != (c.want == harm{stray: 1}) {
			t.Errorf("one packet %s: got %+v, want %+v; OK %v", name, harmOf(res), c.want, res.OK())
		}
	}
	res := r.run(t, func(i int, d delivery) []delivery { // packet 100 comes after the next packet of its pair, plane and direction
		if i == 100 {
			held = &d
			return nil
		}
		if held != nil && held.src == d.src && held.dst == d.dst && held.plane == d.plane && held.other == d.other {
			out := []delivery{d, *held}
			held = nil
			return out
		}
		return []delivery{d}
	})
	if res.OK() || harmOf(res) != (harm{reordered: 1}) {
		t.Errorf("two packets swapped: %+v", harmOf(res))
	}
}

// The test does several kinds of harm to random packets. The result must count each kind exactly.
func TestManyHarmsAddUp(t *testing.T) {
	for seed := range uint64(30) {
		r := newRig(t, 64)
		rng := rand.New(rand.NewPCG(seed, 0))
		var want harm
		res := r.run(t, func(_ int, d delivery) []delivery {
			switch rng.IntN(20) {
			case 0:
				want.lost++
				return nil
			case 1:
				want.duplicated++
				return []delivery{d, d}
			case 2:
				want.lost++
				want.corrupted++
				d.data[rng.IntN(64)] ^= byte(1 + rng.IntN(255))
			}
			return []delivery{d}
		})
		if harmOf(res) != want {
			t.Fatalf("seed %d: got %+v, want %+v", seed, harmOf(res), want)
		}
	}
}

func TestNumbersAgainstASet(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var s numbers
		seen := map[uint64]bool{}
		top := uint64(0) // one more than the highest number so far
		for range 300 {
			n := uint64(r.IntN(120))
			if r.IntN(3) > 0 {
				n = top + uint64(r.IntN(4))
			}
			want := inOrder
			switch {
			case seen[n]:
				want = duplicate
			case n < top:
				want = late
			}
			if got := s.add(n); got != want {
				t.Fatalf("seed %d: %d with %d next: got %d, want %d; gaps %v", seed, n, top, got, want, s.gaps)
			}
			seen[n] = true
			top = max(top, n+1)
			for i, g := range s.gaps {
				if g.lo >= g.hi || g.hi > s.next || i > 0 && g.lo <= s.gaps[i-1].hi {
					t.Fatalf("seed %d: gaps %v", seed, s.gaps)
				}
			}
		}
		if s.next != top || s.forgotten != 0 {
			t.Fatalf("seed %d: next %d, want %d; %d forgotten", seed, s.next, top, s.forgotten)
		}
	}
}

// The memory for gaps is bounded, and forgotten numbers are counted.
func TestGapsAreBounded(t *testing.T) {
	var s numbers
	for n := uint64(1); n < 4*maxGaps; n += 2 {
		s.add(n)
	}
	if len(s.gaps) != maxGaps || s.forgotten != maxGaps {
		t.Errorf("%d gaps, %d forgotten", len(s.gaps), s.forgotten)
	}
	if got := s.add(0); got != duplicate {
		t.Errorf("a number of a forgotten gap: %d", got)
	}
	if got := s.add(4*maxGaps - 2); got != late {
		t.Errorf("a number of the last gap: %d", got)
	}
	s = numbers{}
	for n := uint64(3); len(s.gaps) < maxGaps; n += 4 { // gaps of three numbers; then a number in the middle splits a gap in two
		s.add(n)
	}
	if got := s.add(4*maxGaps - 3); got != late || len(s.gaps) != maxGaps || s.forgotten != 3 {
		t.Errorf("a gap broken in two: %d, %d gaps, %d forgotten", got, len(s.gaps), s.forgotten)
	}
}

func TestMissingIsReportedByTheDestinationAlone(t *testing.T) {
	r := newRig(t, 64)
	v := NewVerifier(r.spec, r.chips[0], r.pairs)
	rep := NewReport(NewGenerator(r.spec, r.chips[0], r.pairs), v)
	if len(rep.Dest) != 3 || rep.Dest[0].Missing < 83 || rep.Dest[0].Missing > 84 {
		t.Errorf("before the first packet: %+v", rep.Dest)
	}
}

func TestMergeDoesNotTakeSilenceForSuccess(t *testing.T) {
	r := newRig(t, 64)
	full := func(confirm bool) []Report {
		var reports []Report
		vs := map[wire.FabricNodeID]*Verifier{}
		for _, n := range r.chips {
			vs[n] = NewVerifier(r.spec, n, r.pairs)
		}
		for _, n := range r.chips {
			spec := r.spec
			spec.Window = MaxWindow
			g := NewGenerator(spec, n, r.pairs)
			for {
				p, ok := g.Next(0)
				if !ok {
					break
				}
				b := make([]byte, spec.Size)
				g.Fill(p, b)
				vs[p.Dst].Arrived(p.Src, p.Plane, p.Other, b)
				if confirm || p.Number > 0 || n.Chip > 0 {
					g.Done(p, 0, 1, wire.OutcomeDone, false)
				}
			}
			reports = append(reports, NewReport(g, &Verifier{}))
		}
		for i, n := range r.chips {
			reports[i].Dest = NewReport(NewGenerator(r.spec, n, nil), vs[n]).Dest
		}
		return reports
	}
	all := full(true)
	if res := Merge(r.spec, r.pairs, all); !res.OK() {
		t.Fatalf("all reports: %+v", res.Total)
	}
	if res := Merge(r.spec, r.pairs, all[1:]); res.OK() || len(res.Rows) != len(r.pairs) {
		t.Errorf("without the report of one chip: %+v", res.Total)
	}
	if res := Merge(r.spec, r.pairs, full(false)); res.OK() || res.Total.Lost != 0 || res.Total.Completed == res.Total.Sent {
		t.Errorf("some not confirmed: %+v", res.Total)
	}
	all[2].Run++
	if res := Merge(r.spec, r.pairs, all); res.OK() {
		t.Errorf("with a report of another run: %+v", res.Total)
	}
	if res := Merge(r.spec, nil, nil); res.OK() {
		t.Error("OK returns true without any report")
	}
}

func TestFailuresByOutcome(t *testing.T) {
	r := newRig(t, 64)
	g := NewGenerator(r.spec, r.chips[0], r.pairs)
	ends := []struct {
		o    wire.Outcome
		lost bool
	}{{wire.OutcomeDone, false}, {wire.OutcomeBadAddress, false}, {wire.OutcomeBadAddress, false}, {wire.OutcomeDone, true}}
	for _, e := range ends {
		p, _ := g.Next(0)
		g.Done(p, 5, mono.Time(5).Add(time.Second), e.o, e.lost)
	}
	rep := NewReport(g, NewVerifier(r.spec, r.chips[0], r.pairs))
	var sum PairReport
	for _, p := range rep.Source {
		sum.Completed += p.Completed
		sum.Refused += p.Refused
		sum.Failed += p.Failed
		for k, n := range p.Outcomes {
			if k != "bad address" {
				t.Errorf("outcome %q %d times", k, n)
			}
		}
		sum.Latency.Merge(&p.Latency)
	}
	if sum.Completed != 1 || sum.Refused != 2 || sum.Failed != 1 || sum.Latency.N != 1 || rep.Elapsed != time.Second || rep.Finished {
		t.Errorf("%+v of %+v", sum, rep)
	}
}

func TestWindowAndTurns(t *testing.T) {
	r := newRig(t, 64)
	r.spec.Window = 6
	g := NewGenerator(r.spec, r.chips[1], r.pairs)
	to := map[wire.FabricNodeID]int{}
	var first Packet
	for i := range 6 {
		p, ok := g.Next(0)
		if !ok || p.Src != r.chips[1] {
			t.Fatalf("packet %d: %+v %v", i, p, ok)
		}
		if i == 0 {
			first = p
		}
		to[p.Dst]++
	}
	if len(to) != 3 || to[r.chips[0]] != 2 {
		t.Errorf("the first six packets went to %v", to)
	}
	if p, ok := g.Next(0); ok {
		t.Errorf("a seventh packet with a window of six: %+v", p)
	}
	g.Done(first, 0, 1, wire.OutcomeDone, false)
	if _, ok := g.Next(0); !ok {
		t.Error("no packet although one has ended")
	}
	orders := map[string]bool{}
	for seed := range uint64(20) {
		r.spec.Seed = seed
		g, s := NewGenerator(r.spec, r.chips[1], r.pairs), ""
		for range 3 {
			p, _ := g.Next(0)
			s += p.Dst.String()
		}
		orders[s] = true
	}
	if len(orders) < 3 {
		t.Errorf("20 seeds made %d orders", len(orders))
	}
}

func TestOurOwnMistakesPanic(t *testing.T) {
	r := newRig(t, 64)
	g := NewGenerator(r.spec, r.chips[0], r.pairs)
	for name, f := range map[string]func(){
		"Undo before Next":         func() { g.Undo() },
		"Done of nothing":          func() { g.Done(Packet{Dst: r.chips[1]}, 0, 0, wire.OutcomeDone, false) },
		"Fill into a short buffer": func() { g.Fill(Packet{}, make([]byte, 63)) },
		"a spec without planes":    func() { NewVerifier(Spec{Packets: 1, Size: 64, Window: 1}, r.chips[0], nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}
