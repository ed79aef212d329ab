package edm_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/edm"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/kernel"
	"ttfabric/node/kernel/guide"
	"ttfabric/node/process/processtest"
	"ttfabric/node/session"
	"ttfabric/router/topo"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// TestMain lets the test binary run chips that have this package's kernels.
func TestMain(m *testing.M) {
	fabric.ServesChips()
	processtest.Main(m, edm.Kernels)
}

// patience limits the live test. On an idle machine, the test takes a few seconds.
const patience = 6 * time.Minute

// live brings a T3000 up, with a process for each chip.
func live(ctx context.Context, t *testing.T) *fabric.Fabric {
	t.Helper()
	m, err := topo.Named("t3000")
	if err != nil {
		t.Fatal(err)
	}
	w := fabric.Wanted{Name: "edm", Topology: m, Named: "t3000", Spec: spec.Default()}
	w.Spec.Profile = "crowded" // with the timers of this profile, no link fails because the machine is busy
	f, err := fabric.Create(ctx, w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Remove(); err != nil {
			t.Error(err)
		}
	})
	if _, err := f.Up(ctx, nil, nil); err != nil {
		t.Fatal(err)
	}
	return f
}

// ringOf returns the ring of n chips of a fabric.
func ringOf(t *testing.T, f *fabric.Fabric, n int) *edm.Path {
	t.Helper()
	order, err := guide.Order(f.Topology, n)
	if err != nil {
		t.Fatal(err)
	}
	p, err := edm.NewRing(f.Topology, order, 1)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// stream writes random pages, runs a stream over a path, and compares the pages that arrived.
func stream(ctx context.Context, t *testing.T, f *fabric.Fabric, p *edm.Path, s edm.Settings) {
	t.Helper()
	s.Patience = patience
	st, err := edm.NewStream(f.Topology, fabric.NewJobID(), p, s)
	if err != nil {
		t.Fatal(err)
	}
	at, err := f.Session(p.Chips[0])
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	pages := make([][]byte, len(st.Flows))
	for i, x := range st.Flows {
		pages[i] = make([]byte, x.Size)
		for j := range pages[i] {
			pages[i][j] = byte(rng.Uint32())
		}
		if err := at.Write(ctx, x.From, x.Source, pages[i]); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	if err := f.RunJob(ctx, st.Parts); err != nil {
		t.Fatal(err)
	}
	t.Logf("the job took %s", time.Since(begun))
	for i, x := range st.Flows {
		got := make([]byte, x.Size)
		if err := at.Read(ctx, x.To, x.Dest, got); err != nil {
			t.Fatal(err)
		}
		if string(got) != string(pages[i]) {
			t.Errorf("the pages from %s to %s, channel %d, are wrong", x.From, x.To, x.Channel)
		}
	}
}

// impair changes the impairments of a port.
func impair(ctx context.Context, t *testing.T, f *fabric.Fabric, p wire.PortID, change func(b *api.NetemBody)) {
	t.Helper()
	c, err := f.Client(p.Node)
	if err != nil {
		t.Fatal(err)
	}
	b := api.NetemBody{Channels: api.Channels{p.Channel}}
	change(&b)
	if err := c.SetNetem(ctx, b); err != nil {
		t.Fatal(err)
	}
}

// TestLive runs streams over the ring of all chips of a live T3000: without a fault, with loss on
// each cable of the ring, while links train anew, and after a cable was cut. The frames of the cut
// cable's link take the parallel cable. Then the test runs a job whose EDMs do not fit together.
// The job's error must name the link, the channel and the counts.
func TestLive(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	f := live(ctx, t)
	p := ringOf(t, f, 8)
	stream(ctx, t, f, p, edm.Settings{Channels: 2, Workers: 1, Bidirectional: true, Pages: 12, PageSize: 2048})
	stream(ctx, t, f, p, edm.Settings{Channels: 1, Workers: 3, Bidirectional: true, Pages: 12, PageSize: 1024, Sharing: edm.RoundRobin, Termination: edm.WorkerInitiated})

	for _, hop := range p.Hops {
		for _, at := range []wire.PortID{hop[0].From, hop[0].To} {
			impair(ctx, t, f, at, func(b *api.NetemBody) { b.Options = fault.Change{"loss": "2%"} })
		}
	}
	stream(ctx, t, f, p, edm.Settings{Channels: 1, Workers: 2, Bidirectional: true, Pages: 12, PageSize: 2048})

	for _, hop := range p.Hops[:3] {
		c, err := f.Client(hop[0].From.Node)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.CommandRouter(ctx, api.RouterBody{Channels: api.Channels{hop[0].From.Channel}, Action: "retrain"}); err != nil {
			t.Fatal(err)
		}
	}
	stream(ctx, t, f, p, edm.Settings{Channels: 2, Workers: 1, Pages: 12, PageSize: 2048, Termination: edm.WorkerInitiated})

	for _, at := range []wire.PortID{p.Hops[0][0].From, p.Hops[0][0].To} {
		cut := true
		impair(ctx, t, f, at, func(b *api.NetemBody) { b.Cut = &cut })
	}
	stream(ctx, t, f, p, edm.Settings{Channels: 2, Workers: 1, Bidirectional: true, Pages: 12, PageSize: 2048})
	mismatch(ctx, t, f, p.Hops[3][0])
}

// mismatch runs a job on a link whose sender has 3 messages, and whose receiver expects 5.
func mismatch(ctx context.Context, t *testing.T, f *fabric.Fabric, l edm.Link) {
	t.Helper()
	parts, id := map[wire.FabricNodeID]kernel.Job{}, fabric.NewJobID()
	for _, end := range []struct {
		at       wire.PortID
		messages int
		sender   bool
	}{{l.From, 3, true}, {l.To, 5, false}} {
		program := kernel.NewBuilder(f.Topology)
		worker := program.Tensix(0)
		ready := program.CreateSemaphore(worker, 0)
		mover, err := edm.NewBuilder(edm.Config{Channels: 1, PageSize: 1024, Patience: patience})
		if err != nil {
			t.Fatal(err)
		}
		add, name := mover.AddReceiverChannel, edm.ReceiveWorkerName
		if end.sender {
			add, name = mover.AddSenderChannel, edm.SendWorkerName
		}
		c, err := add(ready, end.messages, []kernel.Tile{worker}, 1024)
		if err != nil {
			t.Fatal(err)
		}
		tile, _ := kernel.EthernetTile(f.Topology.Arch, end.at.Channel)
		n := uint32(end.messages)
		program.CreateKernel(name, worker, append(edm.WorkerArgs(tile, c, 0, ready),
			uint32(worker.X), uint32(worker.Y), program.CreateBuffer(worker, n*1024), n, 1024, 1, n, program.CreateBuffer(worker, 2048), 0)...)
		links := edm.NewLinks(f.Topology) // each end has a Links of its own, so nobody compares the two ends before the job starts
		if err := links.Generate(program, mover, end.at); err != nil {
			t.Fatal(err)
		}
		made, err := program.Build()
		if err != nil {
			t.Fatal(err)
		}
		parts[end.at.Node] = kernel.Job{ID: id, Chips: []wire.FabricNodeID{l.From.Node, l.To.Node}, Channels: links.Channels(end.at.Node), Programs: []kernel.Program{made}}
	}
	err := f.RunJob(ctx, parts)
	var early *session.JobError
	if want := ", channel 0: expected 5 messages from the sender, seen 3"; !errors.As(err, &early) || !strings.Contains(err.Error(), "link "+l.To.Short()+" to "+l.From.Short()+want) {
		t.Errorf("error %v, want %q", err, want)
	}
}
