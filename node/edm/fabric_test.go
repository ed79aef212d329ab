package edm

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

// bench is a fabric of simulated chips with all links up, whose chips run the kernels of this package.
type bench struct {
	t       *testing.T
	m       *topo.Topology
	chips   map[wire.FabricNodeID]*chip.Chip
	now     mono.Time
	gone    map[wire.PortID]bool // ports whose cables carry nothing
	lose    func() bool          // whether a cable loses the next datagram; nil: none
	checker *Checker
	seen    map[Kind]int                 // events of EDMs by kind, since the last call of done
	ends    map[wire.FabricNodeID]string // how the last job ended on each chip
	broken  []string                     // broken rules of the data movement API
}

// newBench returns a bench. The seed delays the kernels' starts and NoC commands.
func newBench(t *testing.T, machine string, seed uint64, broken sabotage) *bench {
	t.Helper()
	m, err := topo.Named(machine)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, m: m, now: 1, chips: map[wire.FabricNodeID]*chip.Chip{}, gone: map[wire.PortID]bool{}, ends: map[wire.FabricNodeID]string{}, seen: map[Kind]int{}}
	b.checker = NewChecker(func(p wire.PortID) (wire.PortID, bool) { return kernel.ConnectedEthernetCore(m, p.Node, p.Channel) })
	table := kernels(b.observe, broken)
	table["stranger"] = func(k *kernel.Context) { k.EthSetupHandshake(true) } // a kernel of the guide, and no EDM
	for i, tc := range m.Chips {
		c, err := chip.New(b.now, chip.Config{Node: tc.Node, Incarnation: wire.Incarnation(i + 1), Topology: m, MaxPayload: 1408, Seed: uint64(i),
			Kernels: table, KernelSeed: seed})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range c.Channels() {
			c.SetPath(b.now, p.Local.Channel, true)
		}
		b.chips[tc.Node] = c
		b.litter(c)
		t.Cleanup(func() { c.Close(b.now) })
	}
	b.run(time.Second, func() bool { return false })
	return b
}

// litter fills the L1 of a chip's ethernet tiles with what an earlier job could have left.
func (b *bench) litter(c *chip.Chip) {
	b.t.Helper()
	rng := rand.New(rand.NewPCG(9, uint64(c.Node().Chip)))
	junk := make([]byte, 4096)
	for i := range junk {
		junk[i] = byte(rng.Uint32())
	}
	for _, p := range c.Channels() {
		tile, _ := kernel.EthernetTile(b.m.Arch, p.Local.Channel)
		cmd := wire.Command{Type: wire.NocUnicastWrite, Addr: tile.Addr(Handshake)}
		if o := c.Memory().Execute(&cmd, junk); o != wire.OutcomeDone {
			b.t.Fatal(o)
		}
	}
}

// observe takes an event of an EDM.
func (b *bench) observe(e Event) {
	b.seen[e.Kind]++
	b.checker.Observe(e)
}

// run runs the fabric for the time d at most, in steps of a millisecond, until "over" holds.
func (b *bench) run(d time.Duration, over func() bool) bool {
	for end := b.now.Add(d); b.now.Before(end) && !over(); b.now = b.now.Add(time.Millisecond) {
		for moved := true; moved; {
			moved = false
			for _, c := range b.m.Chips {
				moved = b.step(b.chips[c.Node]) || moved
			}
		}
	}
	return over()
}

// step lets a chip work, and carries what it sends to its neighbours.
func (b *bench) step(c *chip.Chip) (moved bool) {
	c.Tick(b.now)
	c.Pump(b.now)
	for ch, x, ok := c.PollTransmit(b.now); ok; ch, x, ok = c.PollTransmit(b.now) {
		moved = true
		peer, _ := kernel.ConnectedEthernetCore(b.m, c.Node(), ch)
		for d := x.Data; len(d) > 0; d = d[min(x.Seg, len(d)):] {
			if !b.gone[peer] && (b.lose == nil || !b.lose()) {
				b.chips[peer.Node].HandleDatagram(b.now, peer.Channel, append([]byte(nil), d[:min(x.Seg, len(d))]...))
			}
		}
	}
	for e, ok := c.PollEvent(); ok; e, ok = c.PollEvent() {
		switch k := e.Kernel; {
		case k == nil:
		case k.Kind == kernel.JobEnded:
			b.ends[c.Node()] = k.String()
		case k.Kind == kernel.Violated || k.Kind == kernel.StopIgnored:
			b.broken = append(b.broken, fmt.Sprintf("chip %s: %s", c.Node(), k.String()))
		}
	}
	return moved
}

// start starts the parts of a job.
func (b *bench) start(parts map[wire.FabricNodeID]kernel.Job) {
	b.t.Helper()
	for n, j := range parts {
		if err := b.chips[n].StartJob(b.now, j); err != nil {
			b.t.Fatal(err)
		}
	}
}

// quiet reports whether no chip runs a job.
func (b *bench) quiet() bool {
	for _, c := range b.chips {
		if len(c.Jobs()) > 0 {
			return false
		}
	}
	return true
}

// fill writes random pages to the sources of a stream, and returns them.
func (b *bench) fill(s *Stream, seed uint64) (pages [][]byte) {
	b.t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, f := range s.Flows {
		data := make([]byte, f.Size)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		for at := 0; at < f.Size; at += wire.MaxPayload {
			cmd := wire.Command{Type: wire.NocUnicastWrite, Addr: f.Source.Add(at)}
			if o := b.chips[f.From].Memory().Execute(&cmd, data[at:min(at+wire.MaxPayload, f.Size)]); o != wire.OutcomeDone {
				b.t.Fatal(o)
			}
		}
		pages = append(pages, data)
	}
	return pages
}

// wrong lists the flows of a stream whose pages did not arrive whole.
func (b *bench) wrong(s *Stream, pages [][]byte) (all []string) {
	for i, f := range s.Flows {
		got := make([]byte, f.Size)
		if o := b.chips[f.To].Memory().Read(f.Dest, got); o != wire.OutcomeDone || string(got) != string(pages[i]) {
			all = append(all, fmt.Sprintf("the pages of %s to %s, channel %d, are wrong", f.From, f.To, f.Channel))
		}
	}
	return all
}

// done fails the test unless the job has ended as done on all chips of a stream, no rule was broken, and the
// pages have arrived.
func (b *bench) done(s *Stream, pages [][]byte) {
	b.t.Helper()
	for n := range s.Parts {
		if end := b.ends[n]; !strings.HasSuffix(end, "ended: done") {
			b.t.Errorf("chip %s: %q, want an end as done", n, end)
		}
	}
	n := len(s.Links.Ports())
	if b.seen[Begun] != n || b.seen[Ended] != n || b.seen[Sent] != b.seen[Released] || b.seen[Sent] == 0 && len(pages) > 0 && len(pages[0]) > 0 {
		b.t.Errorf("%d EDMs gave these events: %v", n, b.seen)
	}
	clear(b.seen)
	for _, list := range [][]string{b.broken, b.checker.Finish(), b.wrong(s, pages)} {
		for _, x := range list {
			b.t.Error(x)
		}
	}
}

// line returns the line through all chips of the bench's machine, in the order of the topology.
func (b *bench) line(links int, chips ...wire.ChipID) *Path {
	b.t.Helper()
	var all []wire.FabricNodeID
	for _, c := range chips {
		all = append(all, wire.FabricNodeID{Chip: c})
	}
	p, err := NewLine(b.m, all, links)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// stream makes a stream, or fails the test.
func (b *bench) stream(p *Path, s Settings) *Stream {
	b.t.Helper()
	made, err := NewStream(b.m, 1, p, s)
	if err != nil {
		b.t.Fatal(err)
	}
	return made
}
