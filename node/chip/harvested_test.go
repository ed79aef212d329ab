package chip

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"ttfabric/node/kernel"
	"ttfabric/node/kernel/guide"
	"ttfabric/router/control"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// harvestedFabric returns the T3000 of tt-umd's descriptor, whose chips have harvested rows.
func harvestedFabric(t *testing.T) *fabric {
	const file = "../../router/topo/testdata/t3k_cluster_desc.yaml"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := topo.Load(file, text)
	if err != nil {
		t.Fatal(err)
	}
	w := fabricOf(t, m, func(c *Config) {
		c.Kernels = kernel.Table{"wait": func(k *kernel.Context) { k.Sleep(time.Millisecond) }}
		for name, f := range guide.Kernels {
			c.Kernels[name] = f
		}
	})
	t.Cleanup(func() {
		for _, c := range w.chips {
			c.Close(w.now)
		}
	})
	return w
}

// TestKernelsOnHarvestedChips runs kernels on chips with harvested rows. Tile 1-1 works on only
// four of the eight chips. The guide's rings must use tiles that work. The chips must refuse a job
// with a tile of a harvested row. A job on a tile that works on all chips must run.
func TestKernelsOnHarvestedChips(t *testing.T) {
	w := harvestedFabric(t)
	refused := 0
	for i, c := range w.chips {
		j := kernel.Job{ID: kernel.JobID(i + 1), Programs: []kernel.Program{{Kernels: []kernel.Start{{Kernel: "wait", Tile: kernel.Tile{X: 1, Y: 1}}}}}}
		err := c.StartJob(w.now, j)
		off := w.m.Chips[i].Harvested&1 != 0
		if off {
			refused++
		}
		if (err != nil) != off || off && !strings.Contains(err.Error(), "1-1") {
			t.Errorf("chip %s with mask %d: a kernel on tile 1-1: %v", c.Node(), w.m.Chips[i].Harvested, err)
		}
	}
	if refused != 4 {
		t.Errorf("tile 1-1 is harvested on %d chips, want 4", refused)
	}
	w.run(20 * time.Millisecond)
	for i := range w.chips {
		w.kernelEvents(i)
	}
	for _, n := range []int{8, 12} {
		r := w.ring(n, guide.Settings{Samples: 5, Size: 1024, Payloads: 2})
		for c, j := range r.Parts {
			for _, k := range j.Programs[0].Kernels {
				if k.Kernel == "ring-setup" && w.at[c].Memory().Execute(writeWord(k.Tile), nil) != 0 {
					t.Errorf("chip %s: the setup worker is on tile %s, which does not work", c, k.Tile)
				}
			}
		}
		w.startRing(r)
		for range 200 {
			if w.run(10 * time.Millisecond); len(w.at[r.Master].Jobs()) == 0 {
				break
			}
		}
		for i, c := range w.chips {
			if got := w.kernelEvents(i); len(r.Parts[c.Node()].Programs) > 0 && !strings.HasSuffix(got, "ended: done\n") {
				t.Errorf("%d hops, chip %s: events\n%s", n, c.Node(), got)
			}
		}
	}
}

// TestChipOfARingIsKilled kills a chip of a ring that runs, with both profiles of live fabrics. The
// job must end on all other chips within 15 s if the killed chip's host refuses datagrams or if
// somebody cuts the cables. If the chip is only silent, its neighbours first wait for
// [control.GiveUp] (20 s). The job must then end within the link's silence and the grace period.
// Each report must name the killed chip.
func TestChipOfARingIsKilled(t *testing.T) {
	for name, c := range map[string]struct {
		kill  func(w *fabric, c *Chip)
		limit time.Duration
	}{
		"refuses": {func(w *fabric, c *Chip) { w.isolate(c, true) }, 15 * time.Second},
		"cut": {func(w *fabric, c *Chip) {
			for d := range wire.Direction(wire.NumDirections) {
				w.cut(c, d, true)
			}
		}, 15 * time.Second},
		"silent": {func(w *fabric, c *Chip) { w.isolate(c, true) }, control.GiveUp},
	} {
		for victim, p := range map[int]ttlink.Profile{0: ttlink.ProfileLAN, 5: ttlink.ProfileCrowded} {
			t.Run(fmt.Sprintf("%s, %v, chip %d", name, p.DeadIdle, victim), func(t *testing.T) {
				t.Parallel()
				limit := c.limit
				if name == "silent" {
					limit += p.DeadIdle + GraceDeadTimes*p.DeadTraffic
				}
				killInRing(t, p, victim, c.kill, name == "refuses", limit)
			})
		}
	}
}

// killInRing kills a chip of a ring. If "refuses" is true, the chip's host refuses all datagrams to the chip.
func killInRing(t *testing.T, p ttlink.Profile, victim int, kill func(w *fabric, c *Chip), refuses bool, limit time.Duration) {
	m, err := topo.Named("t3000")
	if err != nil {
		t.Fatal(err)
	}
	w := fabricOf(t, m, func(c *Config) { c.Kernels, c.Profile = guide.Kernels, p })
	r := w.ring(8, guide.Settings{Samples: guide.MaxSamples, Size: 4096, Payloads: 3})
	rng := rand.New(rand.NewPCG(5, uint64(victim)))
	w.lose = func(wire.PortID, []byte) bool { return rng.IntN(50) == 0 } // so that the ring still runs when the chip is killed
	w.startRing(r)
	w.run(20 * time.Millisecond)
	dead := w.chips[victim]
	kill(w, dead)
	others := func() (n int) {
		for _, c := range w.chips {
			if c != dead {
				n += len(c.Jobs())
			}
		}
		return n
	}
	if others() != 7 {
		t.Fatalf("the ring runs on %d of 7 chips", others())
	}
	for begin := w.now; others() > 0 && w.now.Sub(begin) < limit; {
		w.run(10 * time.Millisecond)
		for _, port := range dead.Channels() {
			if refuses {
				w.at[port.Peer.Node].Refused(w.now, port.Peer.Channel)
			}
		}
	}
	for i, c := range w.chips {
		got := w.kernelEvents(i)
		if want := "ended: chip died, first at chip " + dead.Node().String(); c != dead && (!strings.Contains(got, want) || len(c.Jobs()) > 0) {
			t.Errorf("chip %s after %v: %d jobs, events\n%s", c.Node(), limit, len(c.Jobs()), got)
		}
		c.Close(w.now)
	}
}

// writeWord returns a command that writes a word of a tile.
func writeWord(t kernel.Tile) *wire.Command {
	return &wire.Command{Type: wire.NocInlineWrite, Addr: t.Addr(0x40000)}
}
