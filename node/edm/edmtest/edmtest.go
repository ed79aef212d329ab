// Package edmtest runs jobs of kernels on simulated chips, for tests of EDMs and of operations that use EDMs.
package edmtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/kernel"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Fabric is a fabric of simulated chips with all links up. A part of the L1 of the chips' ethernet
// tiles has random bytes, as if an earlier job had left these bytes.
type Fabric struct {
	T     *testing.T
	M     *topo.Topology
	Chips map[wire.FabricNodeID]*chip.Chip
	Now   mono.Time
	Gone  map[wire.PortID]bool         // ports that get nothing from their cables
	Dead  map[wire.FabricNodeID]bool   // chips that [Fabric.Kill] has killed
	Lose  func() bool                  // says whether a cable loses the next datagram; nil: no cable loses any
	Ends  map[wire.FabricNodeID]string // how the last job ended on each chip
	Rules []string                     // reports of broken rules of the data movement API
}

// New returns a fabric of the named machine, whose chips can run the kernels of the table. The seed
// determines the random delays of the starts of programs and of NoC commands.
func New(t *testing.T, machine string, seed uint64, table kernel.Table) *Fabric {
	t.Helper()
	m, err := topo.Named(machine)
	if err != nil {
		t.Fatal(err)
	}
	f := &Fabric{T: t, M: m, Now: 1, Chips: map[wire.FabricNodeID]*chip.Chip{}, Gone: map[wire.PortID]bool{}, Dead: map[wire.FabricNodeID]bool{}, Ends: map[wire.FabricNodeID]string{}}
	for i, tc := range m.Chips {
		c, err := chip.New(f.Now, chip.Config{Node: tc.Node, Incarnation: wire.Incarnation(i + 1), Topology: m, MaxPayload: 1408, Seed: uint64(i), Kernels: table, KernelSeed: seed})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range c.Channels() {
			c.SetPath(f.Now, p.Local.Channel, true)
		}
		f.Chips[tc.Node] = c
		f.litter(c)
		t.Cleanup(func() { c.Close(f.Now) })
	}
	f.Run(time.Second, func() bool { return false })
	return f
}

// litter writes random bytes to the kernels' area of a chip's ethernet tiles, as if an earlier job
// had left these bytes.
func (f *Fabric) litter(c *chip.Chip) {
	f.T.Helper()
	rng := rand.New(rand.NewPCG(9, uint64(c.Node().Chip)))
	for _, p := range c.Channels() {
		tile, _ := kernel.EthernetTile(f.M.Arch, p.Local.Channel)
		f.Write(c.Node(), tile.Addr(kernel.HandshakeAddr), Random(rng, wire.MaxPayload))
	}
}

// Random returns n random bytes.
func Random(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// Run runs the fabric for the time d at most, in steps of a millisecond, until "over" holds. Run
// reports whether "over" holds.
func (f *Fabric) Run(d time.Duration, over func() bool) bool {
	for end := f.Now.Add(d); f.Now.Before(end) && !over(); f.Now = f.Now.Add(time.Millisecond) {
		for moved := true; moved; {
			moved = false
			for _, c := range f.M.Chips {
				moved = !f.Dead[c.Node] && f.step(f.Chips[c.Node]) || moved
			}
		}
	}
	return over()
}

// step lets a chip work, and carries the chip's datagrams to its neighbours.
func (f *Fabric) step(c *chip.Chip) (moved bool) {
	c.Tick(f.Now)
	c.Pump(f.Now)
	for ch, x, ok := c.PollTransmit(f.Now); ok; ch, x, ok = c.PollTransmit(f.Now) {
		moved = true
		peer, _ := kernel.ConnectedEthernetCore(f.M, c.Node(), ch)
		for d := x.Data; len(d) > 0; d = d[min(x.Seg, len(d)):] {
			if !f.Gone[peer] && !f.Dead[peer.Node] && (f.Lose == nil || !f.Lose()) {
				f.Chips[peer.Node].HandleDatagram(f.Now, peer.Channel, append([]byte(nil), d[:min(x.Seg, len(d))]...))
			}
		}
	}
	for e, ok := c.PollEvent(); ok; e, ok = c.PollEvent() {
		switch k := e.Kernel; {
		case k == nil:
		case k.Kind == kernel.JobEnded:
			f.Ends[c.Node()] = k.String()
		case k.Kind == kernel.Violated || k.Kind == kernel.StopIgnored:
			f.Rules = append(f.Rules, fmt.Sprintf("chip %s: %s", c.Node(), k.String()))
		}
	}
	return moved
}

// Kill kills a chip: the chip does nothing more, and gets nothing from its cables.
func (f *Fabric) Kill(n wire.FabricNodeID) { f.Dead[n] = true }

// Start starts the parts of a job.
func (f *Fabric) Start(parts map[wire.FabricNodeID]kernel.Job) {
	f.T.Helper()
	for _, c := range f.M.Chips {
		if j, ok := parts[c.Node]; ok {
			if err := f.Chips[c.Node].StartJob(f.Now, j); err != nil {
				f.T.Fatal(err)
			}
		}
	}
}

// Quiet reports whether no living chip runs a job.
func (f *Fabric) Quiet() bool {
	for n, c := range f.Chips {
		if !f.Dead[n] && len(c.Jobs()) > 0 {
			return false
		}
	}
	return true
}

// Write writes bytes to the memory of a chip.
func (f *Fabric) Write(n wire.FabricNodeID, a wire.NocAddr, b []byte) {
	f.T.Helper()
	for at := 0; at < len(b); at += wire.MaxPayload {
		cmd := wire.Command{Type: wire.NocUnicastWrite, Addr: a.Add(at)}
		if o := f.Chips[n].Memory().Execute(&cmd, b[at:min(at+wire.MaxPayload, len(b))]); o != wire.OutcomeDone {
			f.T.Fatal(o)
		}
	}
}

// Read reads n bytes from the memory of a chip.
func (f *Fabric) Read(from wire.FabricNodeID, a wire.NocAddr, n int) []byte {
	f.T.Helper()
	b := make([]byte, n)
	if o := f.Chips[from].Memory().Read(a, b); o != wire.OutcomeDone {
		f.T.Fatal(o)
	}
	return b
}

// Done fails the test unless the last job has ended as done on all chips of its parts. Done also
// fails the test if a kernel broke a rule of the data movement API.
func (f *Fabric) Done(parts map[wire.FabricNodeID]kernel.Job) {
	f.T.Helper()
	for n := range parts {
		if end := f.Ends[n]; !strings.HasSuffix(end, "ended: done") {
			f.T.Errorf("chip %s: %q, want an end as done", n, end)
		}
	}
	for _, r := range f.Rules {
		f.T.Error(r)
	}
}
