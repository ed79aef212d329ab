package edm

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"ttfabric/router"
	"ttfabric/wire"
)

// settings returns settings of streams of all kinds. The streams cover both termination modes, both sharing
// modes, and one and both directions. Some streams have one worker or one channel, and others have several.
// Some streams have pages that do not fill the last packet.
func settings() map[string]Settings {
	return map[string]Settings{
		"one channel":          {Channels: 1, Workers: 1, Pages: 40, PageSize: 1024},
		"three channels":       {Channels: 3, Workers: 1, Pages: 21, PageSize: 2048, Bidirectional: true},
		"seven channels":       {Channels: 7, Workers: 1, Pages: 17, PageSize: 1088},
		"parts of a buffer":    {Channels: 1, Workers: 4, Pages: 23, PageSize: 512, Bidirectional: true},
		"turns":                {Channels: 2, Workers: 3, Pages: 19, PageSize: 1024, Sharing: RoundRobin, Bidirectional: true},
		"worker ends":          {Channels: 2, Workers: 1, Pages: 33, PageSize: 1024, Termination: WorkerInitiated, Bidirectional: true},
		"turns, worker ends":   {Channels: 1, Workers: 3, Pages: 33, PageSize: 1024, Sharing: RoundRobin, Termination: WorkerInitiated},
		"nothing":              {Channels: 2, Workers: 1, PageSize: 1024, Bidirectional: true},
		"nothing, worker ends": {Channels: 1, Workers: 1, PageSize: 1024, Termination: WorkerInitiated, Bidirectional: true},
		"nothing, turns":       {Channels: 1, Workers: 3, PageSize: 1024, Sharing: RoundRobin, Termination: WorkerInitiated},
		"small packets":        {Channels: 1, Workers: 2, Pages: 50, PageSize: 64, Packet: 256, Bidirectional: true},
	}
}

// TestStream runs streams of all kinds over the links of a line of chips. All pages must arrive. The
// checkers must find no broken rule of the EDM or of the data movement API. A second job on the same
// links must work, too.
func TestStream(t *testing.T) {
	for name, s := range settings() {
		for _, seed := range []uint64{0, 1, 2} {
			t.Run(fmt.Sprintf("%s, seed %d", name, seed), func(t *testing.T) {
				b := newBench(t, "mesh:1x3", seed, sabotage{})
				for round := range uint64(2) {
					st := b.stream(b.line(1, 0, 1, 2), s)
					pages := b.fill(st, seed+10*round)
					b.Start(st.Parts)
					b.Run(30*time.Second, b.Quiet)
					b.done(st, pages)
				}
			})
		}
	}
}

// TestStreamUnderFaults runs streams over a ring of chips of a T3000 under faults. Cables lose
// datagrams in every run. In some runs, a link also trains anew, or a cable fails. The frames of the
// failed cable's link take the parallel cable.
func TestStreamUnderFaults(t *testing.T) {
	for name, fault := range map[string]func(b *bench, l Link){
		"loss": func(*bench, Link) {},
		"retrain": func(b *bench, l Link) {
			if err := b.Chips[l.From.Node].Command(b.Now, l.From.Channel, router.CommandRetrain); err != nil {
				b.T.Error(err)
			}
		},
		"fallback": func(b *bench, l Link) { b.Gone[l.From], b.Gone[l.To] = true, true },
	} {
		for kind, s := range settings() {
			if s.Pages == 0 || s.Workers*s.Channels > 4 {
				continue
			}
			t.Run(name+", "+kind, func(t *testing.T) {
				b := newBench(t, "t3000", 7, sabotage{})
				rng := rand.New(rand.NewPCG(3, 4))
				b.Lose = func() bool { return rng.IntN(50) == 0 }
				p, err := NewRing(b.M, []wire.FabricNodeID{{Chip: 0}, {Chip: 1}, {Chip: 5}, {Chip: 4}}, 1)
				if err != nil {
					t.Fatal(err)
				}
				s.Pages *= 10
				st := b.stream(p, s)
				pages := b.fill(st, 5)
				b.Start(st.Parts)
				if b.Run(8*time.Millisecond, b.Quiet) {
					t.Fatal("the stream ended before the fault")
				}
				fault(b, p.Hops[1][0])
				b.Run(60*time.Second, b.Quiet)
				b.done(st, pages)
			})
		}
	}
}
