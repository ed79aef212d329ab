package kernel_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ttfabric/node/kernel"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// TestSkew checks that the programs of different chips start in no order: each seed delays the
// start by another time of at most MaxSkew. Two runs with the same seed have the same delays.
// Without a seed, no start is delayed.
func TestSkew(t *testing.T) {
	start := func(seed uint64) (at mono.Time) {
		b := newBench(t, kernel.Table{"note": func(k *kernel.Context) { at = k.Now() }}, seed)
		b.start(one(1, kernel.Start{Kernel: "note", Tile: t11}))
		b.run(forever)
		return at
	}
	seen := map[mono.Time]bool{}
	for seed := uint64(1); seed <= 20; seed++ {
		at := start(seed)
		if at > mono.Time(kernel.MaxSkew) || start(seed) != at {
			t.Errorf("seed %d: the kernel starts at %v, then at %v", seed, at, start(seed))
		}
		seen[at] = true
	}
	if len(seen) < 15 {
		t.Errorf("20 seeds have only %d different delays", len(seen))
	}
	if at := start(0); at != 0 {
		t.Errorf("without a seed, the kernel starts at %v", at)
	}
}

// TestEthernetCores checks which channels kernels may use: on an n300, the dispatcher reserves one of the two
// cables between the chips (CCL guide, "Acquiring Ethernet Cores").
func TestEthernetCores(t *testing.T) {
	for _, c := range []struct {
		machine   string
		all, free []wire.Channel // channels of chip 0
	}{
		{"n300", []wire.Channel{8, 9}, []wire.Channel{8}},
		{"mesh:1x2", []wire.Channel{0, 1}, []wire.Channel{0, 1}},
	} {
		m, err := topo.Named(c.machine)
		if err != nil {
			t.Fatal(err)
		}
		n := m.Chips[0].Node
		if all, free := kernel.ActiveEthernetCores(m, n, false), kernel.ActiveEthernetCores(m, n, true); !slices.Equal(all, c.all) || !slices.Equal(free, c.free) {
			t.Errorf("%s: channels %v, without reserved ones %v, want %v and %v", c.machine, all, free, c.all, c.free)
		}
		for _, ch := range c.all {
			p, ok := kernel.ConnectedEthernetCore(m, n, ch)
			if !ok || p.Node != m.Chips[1].Node {
				t.Errorf("%s: channel %d leads to %v, %v", c.machine, ch, p, ok)
			}
			if back, _ := kernel.ConnectedEthernetCore(m, p.Node, p.Channel); back != (wire.PortID{Node: n, Channel: ch}) {
				t.Errorf("%s: the way back from channel %d leads to %v", c.machine, ch, back)
			}
		}
		if p, ok := kernel.ConnectedEthernetCore(m, n, 15); ok {
			t.Errorf("%s: channel 15 leads to %v", c.machine, p)
		}
	}
	if at, ok := kernel.EthernetTile(wire.Wormhole, 2); !ok || at != (kernel.Tile{X: 8, Y: 0}) {
		t.Errorf("the tile of channel 2 is %s, %v", at, ok)
	}
}

// TestEthernetCoresAreThoseOfThePlanes compares the active channels of each chip with the planes of
// the topology. Each routed cable of a plane must end at one active channel. Each active channel
// must be the only channel in its direction and plane. A reserved cable is reserved at both ends.
func TestEthernetCoresAreThoseOfThePlanes(t *testing.T) {
	files, err := filepath.Glob("../../router/topo/testdata/*cluster_desc.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range append(files, "n300", "t3000", "galaxy", "2xt3000", "mesh:3x3", "torus:4x4", "ring:5") {
		m, err := topo.Named(name)
		if strings.HasSuffix(name, ".yaml") {
			var text []byte
			if text, err = os.ReadFile(name); err == nil {
				m, err = topo.Load(name, text)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range m.Chips {
			active, free := kernel.ActiveEthernetCores(m, c.Node, false), kernel.ActiveEthernetCores(m, c.Node, true)
			type way struct {
				d wire.Direction
				p wire.Plane
			}
			seen := map[way]wire.Channel{}
			for _, p := range m.Ports(c.Node) {
				w := way{p.Dir, p.Plane}
				if other, twice := seen[w]; twice && m.Chips[0].Node.Mesh == p.Peer.Node.Mesh {
					t.Errorf("%s, chip %s: channels %d and %d both lead %v on plane %d", name, c.Node, other, p.Local.Channel, p.Dir, p.Plane)
				}
				seen[w] = p.Local.Channel
				to, ok := kernel.ConnectedEthernetCore(m, c.Node, p.Local.Channel)
				if !ok || to != p.Peer || !slices.Contains(active, p.Local.Channel) || !slices.Contains(kernel.ActiveEthernetCores(m, to.Node, false), to.Channel) {
					t.Errorf("%s: the cable of %v leads to %v, %v", name, p.Local, to, ok)
				}
				if slices.Contains(free, p.Local.Channel) != slices.Contains(kernel.ActiveEthernetCores(m, to.Node, true), to.Channel) {
					t.Errorf("%s: the cable of %v is reserved at one end only", name, p.Local)
				}
			}
			ways := 0
			for p := range wire.Plane(m.Planes()) {
				for d := range wire.Direction(wire.NumDirections) {
					if _, ok := m.Neighbour(c.Node, d, p); ok {
						ways++
						if _, ok := seen[way{d, p}]; !ok {
							t.Errorf("%s, chip %s: no active channel leads %v on plane %d", name, c.Node, d, p)
						}
					}
				}
			}
			if ways != len(seen) || len(active) < ways || !slices.IsSorted(active) {
				t.Errorf("%s, chip %s: %d ways, %d of the planes, channels %v", name, c.Node, len(seen), ways, active)
			}
		}
	}
}

// TestReasonsInWords reads back the reason of each end of a job, and checks that an unknown reason
// is refused by name.
func TestReasonsInWords(t *testing.T) {
	names := kernel.EndDone.Names()
	for i, name := range names {
		var w kernel.Why
		if err := w.UnmarshalText([]byte(name)); err != nil || w != kernel.EndDone+kernel.Why(i) || w.String() != name {
			t.Errorf("%q is read as %v: %v", name, w, err)
		}
		if b, err := w.MarshalText(); err != nil || string(b) != name {
			t.Errorf("%v is written as %q: %v", w, b, err)
		}
	}
	var w kernel.Why
	err := w.UnmarshalText([]byte("boredom"))
	if err == nil {
		t.Fatal("an unknown reason was read")
	}
	for _, name := range append(names, "boredom") {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name %q: %v", name, err)
		}
	}
	if slices.Contains(names, "unknown reason") || len(names) != int(kernel.EndReset) {
		t.Errorf("names %q", names)
	}
}

// TestLimitsOfJobs checks that Start refuses a job that exceeds a limit by 1, and that the error
// names the limit.
func TestLimitsOfJobs(t *testing.T) {
	program := kernel.Program{Kernels: []kernel.Start{{Kernel: "wait", Tile: t11}}}
	for want, spec := range map[string]kernel.Job{
		"owner of 65 bytes: want at most 64":                   {Owner: strings.Repeat("x", kernel.MaxOwner+1)},
		"arguments of 262149 bytes: want at most 262144":       {Programs: []kernel.Program{{Kernels: []kernel.Start{{Kernel: "wait", Tile: t11, Args: make([]byte, kernel.MaxArguments+1)}}}}},
		"65 programs: want at most 64":                         {Programs: slices.Repeat([]kernel.Program{program}, kernel.MaxPrograms+1)},
		"2049 buffers and semaphores: want at most 2048":       {Programs: []kernel.Program{{Buffers: make([]kernel.Buffer, kernel.MaxRanges+1)}}},
		"4097 chips: want at most 4096":                        {Chips: make([]wire.FabricNodeID, kernel.MaxChips+1)},
		"a chip runs at most 64 jobs and 256 kernels at once":  {Programs: []kernel.Program{{Kernels: slices.Repeat(program.Kernels, kernel.MaxKernels+1)}}},
		"semaphore at 0x1004 of tile 1-1: want a multiple of":  {Programs: []kernel.Program{{Semaphores: []kernel.Semaphore{{Tile: t11, Addr: 0x1004}}}}},
		"tile 1-1 has 1499136 bytes of L1":                     {Programs: []kernel.Program{{Buffers: []kernel.Buffer{{Tile: t11, Addr: 1499136 - 8, Size: 16}}}}},
		"the chip has no Tensix or ethernet tile 0-0":          {Programs: []kernel.Program{{Kernels: []kernel.Start{{Kernel: "wait", Tile: kernel.Tile{}}}}}},
		"kernel \"none\": the chip's program has no kernel of": {Programs: []kernel.Program{{Kernels: []kernel.Start{{Kernel: "none", Tile: t11}}}}},
	} {
		b := newBench(t, kernel.Table{"wait": func(k *kernel.Context) { k.Sleep(time.Second) }}, 0)
		spec.ID = 1
		if err := b.m.Start(b.now, spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
		if !b.m.Idle() {
			t.Errorf("the refused job runs: %s", want)
		}
	}
}
