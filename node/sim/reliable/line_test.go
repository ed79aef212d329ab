package reliable

import (
	"fmt"
	"math"
	"testing"

	"ttfabric/wire"
)

// TestPipeline finds that a hop takes the cycles of RR Table 3. With clocks that are a whole number of
// cycles apart, a hop takes 7 cycles, or 8 with the cycle of synchronisation.
func TestPipeline(t *testing.T) {
	if HopCycles != 7 {
		t.Errorf("a hop without synchronisation takes %d cycles, want 7", HopCycles)
	}
	for phase := Time(0); phase < FlitTime; phase += Cycle / 8 {
		l := &line{cut: math.MaxInt64, cycle: Cycle, wave: wave{last: -1}}
		var took Time
		for k := range Time(200) {
			sent := k * FlitTime
			l.put(sentSlot{ready: sent + assembledAfter*Cycle, sent: sent})
			if s, dead := l.sample(sent + phase); dead {
				t.Fatal("the line is dead")
			} else if s != nil {
				took = sent + phase - s.sent
			}
		}
		want := assembledAfter*Cycle + phase // waveform A
		late := phase < Cycle/2 || phase > Cycle+Cycle/2
		if phase < Cycle/2 {
			want += FlitTime
		}
		if took != want || l.wave.late != late && phase != Cycle/2 && phase != Cycle+Cycle/2 || l.wave.Missed+l.wave.Doubled+l.wave.Changes != 0 {
			t.Errorf("phase %v: a hop takes %v fs with waveform B %v, want %v with %v; %+v", phase, took, l.wave.late, want, late, l.wave)
		}
		if phase == 0 && took != (HopCycles+1)*Cycle || phase == Cycle && took != HopCycles*Cycle {
			t.Errorf("phase %v: a hop takes %v fs", phase, took)
		}
	}
}

// TestDrift runs one line for 200,000 flit times. The sender pads one slot in a thousand, and
// all other slots carry information. Up to a quarter of a cycle per thousand cycles, 250 ppm, no slot
// is lost or doubled, whatever the phase. Beyond 0.1 %, and without padding, slots get lost
// or doubled.
func TestDrift(t *testing.T) {
	const slots = 200_000
	for _, ppm := range []float64{0, 10, 100, 240} {
		for _, sign := range []float64{1, -1} {
			for phase := range 4 {
				w := DriftLine(sign*ppm, Time(phase)*FlitTime/4, slots, PadEvery)
				if w.Missed+w.Doubled != 0 || ppm > 0 && w.Padding != int(math.Round(ppm*1e-6*slots)) && math.Abs(float64(w.Padding)-ppm*1e-6*slots) > 1 {
					t.Errorf("%v ppm, phase %d/4: %+v, want about %.0f slips of padding", sign*ppm, phase, w, ppm*1e-6*slots)
				}
			}
		}
	}
	for _, c := range []struct {
		ppm float64
		pad int
	}{{1500, PadEvery}, {-1500, PadEvery}, {100, 0}, {-100, 0}} {
		w := DriftLine(c.ppm, 0, slots, c.pad)
		if c.ppm > 0 && (w.Doubled == 0 || w.Missed != 0) || c.ppm < 0 && (w.Missed == 0 || w.Doubled != 0) {
			t.Errorf("%v ppm, padding every %d: %+v, want doubled slots at a fast receiver and missed slots at a slow one", c.ppm, c.pad, w)
		}
	}
}

// TestNetworkBeyondDrift runs a network whose clocks differ by too much. The routers must not panic,
// and the counters must show the loss.
func TestNetworkBeyondDrift(t *testing.T) {
	for _, c := range []struct {
		drift  float64
		no     bool
		losses bool
	}{{120, false, false}, {9000, false, true}, {9000, true, true}} {
		n, err := New(Config{Mesh: Mesh{W: 4, H: 4}, Drift: c.drift, NoPadding: c.no, Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		seq := uint64(0)
		for range 12 {
			for i := range 16 {
				seq++
				if err := n.Send(packet(n.cfg.Mesh.Place(i), n.cfg.Mesh.Place(15-i), seq, 60)); err != nil {
					t.Fatal(err)
				}
			}
		}
		n.RunUntil(10_000 * FlitTime)
		lost := n.Lost() + n.Total().Violations
		if lost > 0 != c.losses || !c.losses && !n.Idle() {
			t.Errorf("drift %v ppm, no padding %v: %d slots lost, %+v", c.drift, c.no, n.Lost(), n.Total())
		}
	}
}

// TestOneChannelAlone sends one long packet over one link. A flit's place is free again only after two
// hops forward and two acknowledgements back, so 14 places for data do not fill a link whose hops take 8
// cycles; without tokens, they do.
func TestOneChannelAlone(t *testing.T) {
	for _, c := range []struct {
		plain bool
		want  float64
	}{{false, 14.0 / 16}, {true, 0.999}} {
		got, err := ChannelAlone(Config{Mesh: Mesh{W: 4, H: 2}, NoTokens: c.plain, Phase: OnePhase})
		if err != nil || math.Abs(got-c.want) > 0.01 {
			t.Errorf("without tokens %v: one channel uses %.3f of the link, want %.3f; %v", c.plain, got, c.want, err)
		}
	}
}

// TestPriorities fills a link with packets of both priorities. The crossbar prefers priority 1, but
// after seven refusals a packet of priority 0 goes first (RR §2.3.3).
// Two inputs with seven refusals can meet, so a few bids are refused once or twice more.
func TestPriorities(t *testing.T) {
	n, err := New(Config{Mesh: Mesh{W: 3, H: 3}, Seed: 1, Policy: Ordered})
	if err != nil {
		t.Fatal(err)
	}
	to := Place{X: 2, Y: 1}
	for seq := range uint64(40) {
		for i, src := range []Place{{X: 0, Y: 1}, {X: 1, Y: 0}, {X: 1, Y: 2}} {
			p := packet(src, to, seq, 30)
			if p.Priority = 1; i == 0 {
				p.Priority = 0
			}
			if err := n.Send(p); err != nil {
				t.Fatal(err)
			}
		}
	}
	last := map[uint8]Time{}
	if err := settle(n, settleLimit); err != nil {
		t.Fatal(err)
	}
	count := map[uint8]int{}
	for d, ok := n.PollDelivery(); ok; d, ok = n.PollDelivery() {
		last[d.Priority] = max(last[d.Priority], d.At)
		count[d.Priority]++
	}
	if s := n.Total(); s.Promoted == 0 || s.LongestRefusal < 7 || s.LongestRefusal > 9 || count[0] != 40 || count[1] != 80 || last[0] < last[1] {
		t.Errorf("%+v, %v packets, last at %v", s, count, last)
	}
}

// TestParityAndStatus inverts one bit of a data flit. The receiver discards the slot and marks the link
// faulty; the sender learns this by the bits PE and U/D of the next slot (RR §2.2, Table 2).
func TestParityAndStatus(t *testing.T) {
	n, err := New(Config{Mesh: Mesh{W: 2, H: 2}, Seed: 1, Phase: OnePhase})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Corrupt(Place{X: 0, Y: 0}, wire.East, 1, 7); err != nil {
		t.Fatal(err)
	}
	a, b := &n.nodes[0], &n.nodes[1]
	n.RunUntil(n.Now() + 4*FlitTime)
	if b.Stats.ParityErrors != 1 || b.up.Has(wire.West) || !b.pe.Has(wire.West) || !a.up.Has(wire.East) {
		t.Errorf("after one hop: %+v, links %b and %b", b.Stats, a.up, b.up)
	}
	n.RunUntil(n.Now() + 4*FlitTime)
	s, err := DecodeSlot(b.out[wire.West].at(b.out[wire.West].next - 1).frames)
	if err != nil || s.Up || !s.PE || s.Kind != Control || a.up.Has(wire.East) || a.Stats.ParityErrors != 0 {
		t.Errorf("the slots back say %+v (%v); the sender's links are %b", s, err, a.up)
	}
	p := packet(Place{X: 0, Y: 0}, Place{X: 1, Y: 0}, 1, 9)
	if err := n.Send(p); err != nil {
		t.Fatal(err)
	}
	if err := settle(n, settleLimit); err != nil {
		t.Fatal(err)
	}
	compare(t, n, map[uint64]*Packet{p.ID(): p})
	if c := n.Total().OnClass; fmt.Sprint(c) != "[1 0 2]" && fmt.Sprint(c) != "[2 0 1]" && fmt.Sprint(c) != "[0 2 1]" && fmt.Sprint(c) != "[1 1 1]" {
		t.Errorf("the packet used %v channels of the three classes", c)
	}
}

// TestBadRequests gives the network what no endpoint may.
func TestBadRequests(t *testing.T) {
	for _, cfg := range []Config{{}, {Mesh: Mesh{W: 33, H: 1}}, {Mesh: Mesh{W: 2, H: 2}, Drift: -1}, {Mesh: Mesh{W: 2, H: 2}, Drift: math.NaN()}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
	n, err := New(Config{Mesh: Mesh{W: 2, H: 2}})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Packet{{Dst: Place{X: 2, Y: 0}}, {Src: Place{X: -1, Y: 0}}, {Priority: 2}, {Seq: 1 << seqBits}, {Words: make([]uint64, MaxWords+1)}} {
		if err := n.Send(p); err == nil {
			t.Errorf("%+v is accepted", p)
		}
	}
	if err := n.Kill(Place{X: 1, Y: 1}); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"send from a dead node": n.Send(&Packet{Src: Place{X: 1, Y: 1}}), "cut at the edge": n.Cut(Place{X: 0, Y: 0}, wire.West), "cut in direction Z": n.Cut(Place{X: 0, Y: 0}, wire.Z),
		"kill outside": n.Kill(Place{X: 2, Y: 2}), "frame 4": n.Corrupt(Place{X: 0, Y: 0}, wire.East, 4, 0), "line 24": n.Corrupt(Place{X: 0, Y: 0}, wire.East, 0, 24),
	} {
		if err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
}
