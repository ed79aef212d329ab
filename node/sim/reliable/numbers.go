package reliable

import (
	"fmt"
	"math"

	"ttfabric/wire"
)

// Number is a figure of the paper beside the figure that the model measures.
type Number struct {
	What    string `json:"what"`    // what was measured, and in which unit
	Section string `json:"section"` // section or table of the paper; empty for a figure that the paper does not give
	Paper   string `json:"paper"`   // the paper's figure; empty if the paper gives none
	Ours    string `json:"model"`   // the model's figure
	OK      bool   `json:"ok"`      // the model's figure is the paper's, within the resolution of the measurement
}

// Sizes of the experiments of [Numbers], in flit times.
const (
	settled    = 500
	numberTime = 2_000
	driftSlots = 50_000
	driftStep  = 50 // ppm
	driftMost  = 1500
)

// Numbers measures the figures of the paper on a mesh of at least four columns and two rows.
func Numbers(m Mesh, seed uint64) ([]Number, error) {
	if m.W < 4 || m.H < 2 {
		return nil, fmt.Errorf("%v has less than four columns or two rows", m)
	}
	var out []Number
	for _, part := range []func(Mesh, uint64) ([]Number, error){hopNumbers, linkNumbers, channelNumbers, clockNumbers} {
		ns, err := part(m, seed)
		if err != nil {
			return nil, err
		}
		out = append(out, ns...)
	}
	return out, nil
}

// busy runs a small uniform load, and returns the network.
func busy(cfg Config) (*loadRun, error) {
	l := Load{Config: cfg, Pattern: "uniform", Words: 8, Offered: 0.05, Measure: numberTime, Drain: settled}
	r, err := l.start()
	if err != nil {
		return nil, err
	}
	return r, r.run(r.to + settled*FlitTime)
}

// hopNumbers measures the latency of hops: from flit register to flit register (RR Table 3).
func hopNumbers(m Mesh, seed uint64) ([]Number, error) {
	whole, err := busy(Config{Mesh: m, Seed: seed, Phase: WholeCycles})
	if err != nil {
		return nil, err
	}
	any, err := busy(Config{Mesh: m, Seed: seed, Drift: 100})
	if err != nil {
		return nil, err
	}
	h, a := whole.n.Hops, any.n.Hops
	cycles := func(t Time) float64 { return float64(t) / float64(Cycle) }
	late := float64(a.Late) / float64(a.N)
	return []Number{
		{"cycles per hop, clocks whole cycles apart", "§3, Table 3", "7 to 8", fmt.Sprintf("%g to %g, mean %.2f", cycles(h.Min), cycles(h.Max), h.Mean()), h.Min == HopCycles*Cycle && h.Max == (HopCycles+1)*Cycle},
		{"cycles per hop, any phase, clocks within 100 ppm", "", "", fmt.Sprintf("%.2f to %.2f, mean %.2f", cycles(a.Min), cycles(a.Max), a.Mean()), true},
		{"longest hop, ns, clocks whole cycles apart", "§3", "80", fmt.Sprint(int(cycles(h.Max) * 10)), h.Max <= 8*Cycle},
		{"cycles of synchronisation, mean", "§2.2", "0.5", fmt.Sprintf("%.2f", late), math.Abs(late-0.5) < 0.15},
	}, nil
}

// linkNumbers fills one link, and measures its useful bandwidth and the padding (RR §3, §6).
func linkNumbers(m Mesh, seed uint64) ([]Number, error) {
	n, err := New(Config{Mesh: m, Seed: seed, Phase: WholeCycles})
	if err != nil {
		return nil, err
	}
	const span = 20 * numberTime
	for seq := range uint64(4) {
		if err := n.Send(&Packet{Dst: Place{X: 1, Y: 0}, Seq: seq, Words: make([]uint64, span)[:min(span, MaxWords)]}); err != nil {
			return nil, err
		}
	}
	n.RunUntil(n.Now() + settled*FlitTime)
	x := &n.nodes[1]
	bodies, padded, slots := x.Stats.Bodies, n.nodes[0].Stats.Padded, n.nodes[0].slot
	n.RunUntil(n.Now() + span*FlitTime)
	rate := float64(x.Stats.Bodies-bodies) * 64 / (span * float64(FlitTime) * 1e-15) / 1e9
	pad := float64(n.nodes[0].Stats.Padded-padded) / float64(n.nodes[0].slot-slots)
	return []Number{
		{"useful Gbit/s of a link and direction", "§3", "3.2", fmt.Sprintf("%.4f", rate), math.Abs(rate-3.2*(1-1./PadEvery)) < 0.002},
		{"bandwidth that padding takes, %", "§1, §6", "0.1", fmt.Sprintf("%.3f", 100*pad), math.Abs(pad-1./PadEvery) < 1e-4},
	}, n.Check()
}

// channelNumbers measures what one virtual channel alone can carry.
func channelNumbers(m Mesh, seed uint64) (out []Number, err error) {
	for _, plain := range []bool{false, true} {
		share, err := ChannelAlone(Config{Mesh: m, Seed: seed, Phase: OnePhase, NoTokens: plain})
		if err != nil {
			return nil, err
		}
		what := "share of a link that one virtual channel fills, 8 cycles per hop"
		if plain {
			what += ", without tokens"
		}
		out = append(out, Number{What: what, Ours: fmt.Sprintf("%.3f", share), OK: true})
	}
	return out, nil
}

// clockNumbers finds the drift from which on a full line loses or doubles slots, over all phases and
// both signs.
func clockNumbers(Mesh, uint64) ([]Number, error) {
	first := 0
	for ppm := driftStep; ppm <= driftMost && first == 0; ppm += driftStep {
		for phase := range 8 {
			for _, sign := range []float64{1, -1} {
				if s := DriftLine(sign*float64(ppm), Time(phase)*FlitTime/8, driftSlots, PadEvery); s.Missed+s.Doubled > 0 {
					first = ppm
				}
			}
		}
	}
	return []Number{
		{"ppm between two clocks at which a full line first loses slots", "", "", fmt.Sprint(first), first > 0},
		{"ppm that padding one slot in a thousand can make up at most", "§6", "1000", fmt.Sprint(1_000_000 / PadEvery), true},
	}, nil
}

// ChannelAlone sends long packets from (0,0) three hops along one row of a mesh with dimension-ordered
// routing, so that they use one virtual channel. The result is the share of the first link's flit
// times with a data flit, while one packet is under way.
func ChannelAlone(cfg Config) (float64, error) {
	cfg.Policy = Ordered
	if cfg.Mesh.W < 4 {
		return 0, fmt.Errorf("%v has less than four columns", cfg.Mesh)
	}
	n, err := New(cfg)
	if err != nil {
		return 0, err
	}
	if err := n.Send(&Packet{Dst: Place{X: 3, Y: 0}, Words: make([]uint64, 2*numberTime)}); err != nil {
		return 0, err
	}
	n.RunUntil(n.Now() + settled*FlitTime)
	before := n.nodes[1].Stats.Bodies
	n.RunUntil(n.Now() + numberTime*FlitTime)
	return float64(n.nodes[1].Stats.Bodies-before) / numberTime, n.Check()
}

// DriftLine runs one line for a number of slots. The sender's clock is the nominal one, the receiver's
// differs by the given parts per million and has the given phase. Every slot carries information,
// except one of each "pad" slots; 0 means no padding.
func DriftLine(ppm float64, phase Time, slots, pad int) Slips {
	l := &line{cut: math.MaxInt64, cycle: Cycle, wave: wave{last: -1}}
	mine := FlitTime - Time(math.Round(ppm*1e-6*float64(FlitTime)))
	at := phase + 8*FlitTime
	for k := range slots {
		sent := Time(k) * FlitTime
		for ; at < sent; at += mine {
			l.sample(at)
		}
		l.put(sentSlot{ready: sent + assembledAfter*Cycle, sent: sent, pad: pad > 0 && k%pad == 0})
	}
	return l.wave.Slips
}

// Lost returns the number of slots with information that the receivers of all links missed or took
// twice.
func (n *Network) Lost() (lost int) {
	for i := range n.nodes {
		for d := range wire.Direction(wire.NumDirections) {
			if l := n.nodes[i].out[d]; l != nil {
				lost += l.wave.Missed + l.wave.Doubled
			}
		}
	}
	return lost
}
