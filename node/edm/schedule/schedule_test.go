package schedule

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"ttfabric/node/collective"
	"ttfabric/node/edm"
	"ttfabric/node/edm/edmtest"
	"ttfabric/node/kernel"
	"ttfabric/node/noc"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// bench is a fabric of simulated chips that perform schedules, with a checker of their EDMs.
type bench struct {
	*edmtest.Fabric
	checker *edm.Checker
	path    *collective.Path
	bank    wire.NocAddr
	job     kernel.JobID
}

func newBench(t *testing.T, machine string) *bench {
	t.Helper()
	b := &bench{}
	b.checker = edm.NewChecker(func(p wire.PortID) (wire.PortID, bool) { return kernel.ConnectedEthernetCore(b.M, p.Node, p.Channel) })
	table := edm.Observed(b.checker.Observe)
	maps.Copy(table, Kernels)
	b.Fabric = edmtest.New(t, machine, 17, table)
	var err error
	if b.path, err = collective.FindPath(b.M, b.M.Nodes()); err != nil {
		t.Fatal(err)
	}
	for _, x := range b.Chips[b.M.Chips[0].Node].Memory().Tiles() {
		if x.Kind == noc.DRAM {
			b.bank = wire.NewNocAddr(x.X, x.Y, 0)
		}
	}
	return b
}

// chips returns the chips in the order of the path.
func (b *bench) chips() (all []wire.FabricNodeID) {
	for _, r := range b.path.Order {
		all = append(all, b.M.Nodes()[r])
	}
	return all
}

// settings plans a call.
func (b *bench) settings(c collective.Call, planes int) Settings {
	b.T.Helper()
	s, err := collective.PlanAlong(c, b.path, planes)
	if err != nil {
		b.T.Fatal(err)
	}
	make := edm.NewLine
	if b.path.Ring {
		make = edm.NewRing
	}
	links, err := make(b.M, b.chips(), planes)
	if err != nil {
		b.T.Fatal(err)
	}
	return Settings{Path: b.path, Links: links, Schedule: s, Key: 9}
}

// start stores random input of all ranks, and starts the parts of a job that performs a call.
func (b *bench) start(s Settings, rng *rand.Rand) (in [][]byte, m Memory, parts map[wire.FabricNodeID]kernel.Job) {
	b.T.Helper()
	b.job++
	m, parts = Memory{b.bank, b.bank.Add(1 << 24)}, map[wire.FabricNodeID]kernel.Job{}
	links, n, e := edm.NewLinks(b.M), s.Schedule.Ranks, s.Schedule.Type.Size()
	for rank, node := range b.M.Nodes() {
		in = append(in, edmtest.Random(rng, e*s.Schedule.InCount(rank, n)))
		j, err := New(b.M, b.job, s, rank, m, links)
		if err != nil {
			b.T.Fatal(err)
		}
		parts[node] = j
		b.Write(node, m.Input, in[rank])
		for _, x := range s.Schedule.Copies {
			if x.Rank == rank {
				b.Write(node, m.Work.Add(x.DstOff*e), in[rank][x.SrcOff*e:(x.SrcOff+x.Len)*e])
			}
		}
	}
	if err := links.Check(); err != nil {
		b.T.Fatal(err)
	}
	b.Start(parts)
	return in, m, parts
}

// run performs a call, and compares the outputs with those of the schedule on one machine.
func (b *bench) run(c collective.Call, planes int, rng *rand.Rand) {
	b.T.Helper()
	s := b.settings(c, planes)
	in, m, parts := b.start(s, rng)
	b.Run(time.Minute, b.Quiet)
	b.Done(parts)
	for _, x := range b.checker.Finish() {
		b.T.Error(x)
	}
	e := c.Type.Size()
	for rank, want := range s.Schedule.Reference(in) {
		work := collective.Buffers{Work: b.Read(b.M.Nodes()[rank], m.Work, e*s.Schedule.Work[rank])}
		if string(s.Schedule.End(rank, work)) != string(want) {
			b.T.Fatalf("%+v on %s: rank %d has wrong bytes", c, b.path, rank)
		}
	}
}

// TestSchedules performs all operations on lines and rings, over one plane and two, for data of one message and of many
// messages.
func TestSchedules(t *testing.T) {
	for _, c := range []struct {
		machine string
		planes  int
	}{{"mesh:1x2", 2}, {"mesh:1x3", 1}, {"mesh:2x2", 2}, {"ring:5", 1}} {
		t.Run(c.machine, func(t *testing.T) {
			b, rng := newBench(t, c.machine), rand.New(rand.NewPCG(1, 3))
			for k := range collective.Barrier {
				for _, count := range []int{1, 1001, 60000} {
					scheme := collective.Scheme(rng.IntN(5))
					if scheme == collective.Halves && !b.path.Ring {
						scheme = collective.Auto
					}
					b.run(collective.Call{Kind: k, Count: count, Type: collective.Int32, Op: collective.Op(rng.IntN(4)), Root: rng.IntN(len(b.path.Order)), Scheme: scheme}, c.planes, rng)
				}
			}
		})
	}
}

// TestUnderLoss performs operations while the cables lose datagrams.
func TestUnderLoss(t *testing.T) {
	b, rng := newBench(t, "mesh:2x2"), rand.New(rand.NewPCG(2, 3))
	b.Lose = func() bool { return rng.IntN(50) == 0 }
	for k := range collective.Barrier {
		b.run(collective.Call{Kind: k, Count: 30000, Type: collective.BFloat16}, 1, rng)
	}
}

// TestOtherOperation starts a part of another operation on one chip. The job must end on all chips, and name both keys.
func TestOtherOperation(t *testing.T) {
	b, rng := newBench(t, "mesh:2x2"), rand.New(rand.NewPCG(2, 3))
	call := collective.Call{Kind: collective.AllReduce, Count: 40000}
	_, m, parts := b.start(b.settings(call, 1), rng)
	b.Run(time.Minute, b.Quiet)
	call.Op = collective.Max
	s := b.settings(call, 1)
	s.Key = 10
	other, err := New(b.M, b.job, s, 1, m, edm.NewLinks(b.M))
	if err != nil {
		t.Fatal(err)
	}
	parts[b.M.Nodes()[1]] = other
	for n, j := range parts {
		j.ID++
		parts[n] = j
	}
	b.Start(parts)
	b.Run(time.Minute, b.Quiet)
	for n := range parts {
		if end := b.Ends[n]; !strings.Contains(end, "the other end performs another operation: key 0x") {
			t.Errorf("chip %s: %q", n, end)
		}
	}
}

// TestNoNeighbour checks that New names the ranks of a move that goes to no neighbour.
func TestNoNeighbour(t *testing.T) {
	b := newBench(t, "mesh:1x3")
	s := b.settings(collective.Call{Kind: collective.AllGather, Count: 4}, 1)
	var err error
	if s.Schedule, err = collective.Plan(collective.Call{Kind: collective.AllToAll, Count: 4}, b.path, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := New(b.M, 1, s, 0, Memory{}, edm.NewLinks(b.M)); err == nil || !strings.Contains(err.Error(), "they are no neighbours") {
		t.Error(err)
	}
}

// FuzzArguments starts the two workers with arbitrary arguments, see [edmtest.RunWorker].
func FuzzArguments(f *testing.F) {
	m, err := topo.Named("mesh:1x2")
	if err != nil {
		f.Fatal(err)
	}
	path, err := collective.FindPath(m, m.Nodes())
	if err != nil {
		f.Fatal(err)
	}
	s, err := collective.PlanAlong(collective.Call{Kind: collective.AllReduce, Count: 50000}, path, 1)
	if err != nil {
		f.Fatal(err)
	}
	line, err := edm.NewLine(m, m.Nodes(), 1)
	if err != nil {
		f.Fatal(err)
	}
	j, err := New(m, 1, Settings{Path: path, Links: line, Schedule: s}, 0, Memory{wire.NewNocAddr(1, 1, 0x20000), wire.NewNocAddr(1, 2, 0x20000)}, edm.NewLinks(m))
	if err != nil {
		f.Fatal(err)
	}
	for _, k := range j.Programs[0].Kernels {
		if slices.Contains([]string{senderName, receiverName}, k.Kernel) {
			f.Add(k.Kernel == senderName, k.Args)
			f.Add(k.Kernel == senderName, k.Args[:len(k.Args)-4])
		}
	}
	f.Fuzz(func(t *testing.T, sends bool, args []byte) {
		name, fixed := receiverName, receiverArgs
		if sends {
			name, fixed = senderName, senderArgs
		}
		edmtest.RunWorker(t, m, Kernels, name, args, fixed+4, fixed+9, fixed+14)
	})
}
