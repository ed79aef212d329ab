package node_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"ttfabric/node"
	"ttfabric/node/flow"
	"ttfabric/node/sim"
	"ttfabric/node/snapshot"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// cut takes a snapshot of live chips, as fabric.Fabric.Snapshot does. First, cut asks only the chip "first".
// The other chips must learn of the cut from marks. cut asks these chips later.
func cut(t *testing.T, m *topo.Topology, ns []*node.Node, number uint32, first int) *snapshot.File {
	t.Helper()
	f := &snapshot.File{Format: snapshot.Format, Version: snapshot.Version, Source: snapshot.FromFabric, Cut: snapshot.Hex32(number), Payloads: number&wire.CutPayload != 0,
		Topology: snapshot.Topology{Name: m.String(), Hash: snapshot.Hex64(m.Hash()), Text: string(m.Encode())}, Chips: make([]snapshot.Chip, len(ns)), NoAnswer: []wire.FabricNodeID{}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ask := func(i int) {
		p, err := ns[i].Snapshot(ctx, number, func() {})
		if err != nil {
			t.Errorf("chip %d: %v", i, err)
			return
		}
		f.Chips[i] = p.Chip
		if i == 0 {
			f.Options = p.Options
		}
	}
	ask(first) // ends when all neighbours have sent their marks
	var wg sync.WaitGroup
	for i := range ns {
		if i != first {
			wg.Go(func() { ask(i) })
		}
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	f.Join()
	return f
}

// TestLiveSnapshotDrains takes a consistent cut through a live T3000 while all chips send to all others.
// The test asks one chip for the cut, and marks tell the other chips. The snapshot must have each open
// request: in one packet, or as performed. In the simulator, the loaded fabric must perform each packet once, and end
// each request that the sources had open.
func TestLiveSnapshotDrains(t *testing.T) {
	m, _, ns := fabric(t, "t3000")
	ctx, cancel := context.WithCancel(context.Background())
	const size = 64
	var wg sync.WaitGroup
	payload := bytes.Repeat([]byte{7}, size)
	for src := range ns {
		for pl := range 2 {
			wg.Go(func() {
				for k := 0; ctx.Err() == nil; k++ {
					var rs []flow.Request
					for step := range len(ns) - 1 {
						for b := range 16 { // each open request of a chip has an address of its own at its destination
							slot := ((src*2+pl)*4096 + (k*16+b)%4096) * size
							rs = append(rs, flow.Request{Dst: m.Chips[(src+step+1)%len(ns)].Node, Plane: wire.Plane(pl), Payload: payload,
								Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(0, 0, uint64(slot))}})
						}
					}
					ns[src].Submit(ctx, rs, func(int, flow.Result) {})
				}
			})
		}
	}
	var f *snapshot.File
	for try := range 20 { // a cut of a moment when chips wait for a processor may have few packets
		time.Sleep(50 * time.Millisecond)
		f = cut(t, m, ns, uint32(4*(try+1))|wire.CutPayload, try%len(ns))
		if a := f.Account(); a.UnderWay > 100 {
			break
		}
	}
	cancel()
	wg.Wait()
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	a := f.Account()
	if len(a.Missing)+len(a.Strays)+len(a.Doubles) > 0 || a.UnderWay == 0 || a.Open != a.UnderWay+a.Settled {
		t.Fatalf("%d missing, %d strays, %d doubles, %d open, %d under way, %d settled", len(a.Missing), len(a.Strays), len(a.Doubles), a.Open, a.UnderWay, a.Settled)
	}
	flying := 0
	f.Packets(func(*snapshot.Chip, *snapshot.Packet) { flying++ })
	t.Logf("%d open requests, %d of them under way, %d packets in all", a.Open, a.UnderWay, flying)
	for i := range f.Chips {
		for _, p := range f.Chips[i].Ports {
			if !p.Complete {
				t.Errorf("%s channel %d has no mark", f.Chips[i].Node, p.Channel)
			}
		}
	}
	drainLoaded(t, f)
}

// drainLoaded loads a snapshot into the simulator, and lets the fabric come to rest. Each write of the
// snapshot must be performed once.
func drainLoaded(t *testing.T, f *snapshot.File) {
	t.Helper()
	want := map[string]int{}
	f.Packets(func(_ *snapshot.Chip, p *snapshot.Packet) {
		if p.Type == "request" {
			b, err := p.Raw()
			if err != nil {
				t.Fatal(err)
			}
			q, err := wire.DecodePacket(b)
			if err != nil {
				t.Fatal(err)
			}
			want[fmt.Sprint(q.Src, q.Dst, q.Command.Addr)]++
		}
	})
	d, _, err := sim.Load(f, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, ended, n := map[string]int{}, map[flow.Fate]int{}, 0
	d.OnPerformed(func(c int, src wire.FabricNodeID, cmd *wire.Command) {
		got[fmt.Sprint(src, f.Chips[c].Node, cmd.Addr)]++
	})
	d.OnResult(func(_ int, r flow.Result) {
		ended[r.Fate]++
		n++
	})
	if rest, err := d.Drain(time.Minute); err != nil || !rest {
		t.Fatalf("the loaded fabric does not come to rest: %v", err)
	}
	for at, k := range want {
		if got[at] != k {
			t.Errorf("%s: performed %d times, but the snapshot has %d packets", at, got[at], k)
		}
	}
	a := f.Account()
	if open := a.Open - a.Probes; len(got) != len(want) || n != open || ended[flow.FateDone] != open {
		t.Errorf("%d places were written, want %d; of %d open requests, %d ended: %v", len(got), len(want), open, n, ended)
	}
}
