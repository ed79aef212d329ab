package collective_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/node/noc"
	"ttfabric/node/session"
	"ttfabric/node/session/collective"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// machine is the memories of some chips. Its sessions lose writes on purpose.
type machine struct {
	t     *topo.Topology
	mu    sync.Mutex
	more  *sync.Cond
	chips map[wire.FabricNodeID]*noc.Memory
	r     *rand.Rand
	fates [4]int // writes that were lost, by kind of loss
}

// end is one chip's session with the machine.
type end struct {
	*machine
	self wire.FabricNodeID
}

func newMachine(t *testing.T, name string) *machine {
	top, err := topo.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: top, chips: map[wire.FabricNodeID]*noc.Memory{}, r: rand.New(rand.NewPCG(7, 8))}
	m.more = sync.NewCond(&m.mu)
	for _, n := range top.Nodes() {
		if m.chips[n], err = noc.New(top.Arch, 0); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func (e *end) Self() wire.FabricNodeID  { return e.self }
func (e *end) Topology() *topo.Topology { return e.t }

// Submit performs most requests at once. One write in 50 ends in another way: a posted write is lost
// without a word. Another write is lost with a report, or performed with an unknown outcome, or neither
// performed nor reported.
func (e *end) Submit(_ context.Context, rs []flow.Request, done func(int, flow.Result)) (int, error) {
	e.mu.Lock()
	res := make([]flow.Result, len(rs))
	for i := range rs {
		q, r := &rs[i], &res[i]
		m := e.chips[q.Dst]
		r.Dst = q.Dst
		switch luck := e.r.IntN(200); {
		case q.Probe:
		case q.Command.Type == wire.NocRead:
			r.Data = make([]byte, q.Command.Size)
			m.Read(q.Command.Addr, r.Data)
		case q.Dst == e.self || luck > 3:
			q.Command.Size = uint16(len(q.Payload))
			m.Execute(&q.Command, q.Payload)
		case q.Posted:
			e.fates[0]++
		case luck == 0:
			r.Fate = flow.FateLost
			e.fates[1]++
		case luck == 1:
			q.Command.Size = uint16(len(q.Payload))
			m.Execute(&q.Command, q.Payload)
			r.Fate = flow.FateUnknown
			e.fates[2]++
		default:
			r.Fate = flow.FateUnknown
			e.fates[3]++
		}
		if q.Posted {
			r.Fate = flow.FatePosted
		}
	}
	e.more.Broadcast()
	e.mu.Unlock()
	for i := range rs {
		done(i, res[i])
	}
	return len(rs), nil
}

func (e *end) Await(ctx context.Context, a wire.NocAddr, t session.Test, value uint32) (uint32, error) {
	defer context.AfterFunc(ctx, func() { e.mu.Lock(); e.more.Broadcast(); e.mu.Unlock() })()
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		var b [4]byte
		e.chips[e.self].Read(a, b[:])
		if w := binary.LittleEndian.Uint32(b[:]); t.Holds(w, value) {
			return w, nil
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		e.more.Wait()
	}
}

// TestLostWrites performs operations while writes of every kind are lost. All results must be right.
func TestLostWrites(t *testing.T) {
	m := newMachine(t, "mesh:2x2")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	ns := m.t.Nodes()
	var came sync.WaitGroup
	meets := make([]sync.WaitGroup, 2)
	for i := range meets {
		meets[i].Add(len(ns))
	}
	cs := make([]*collective.Comm, len(ns))
	each := func(f func(r int)) {
		for r := range ns {
			came.Go(func() { f(r) })
		}
		came.Wait()
	}
	each(func(r int) {
		at := 0
		c, err := collective.New(ctx, session.New(&end{m, ns[r]}), collective.Options{Chips: ns, Meet: func(context.Context) error {
			meets[at].Done()
			meets[at].Wait()
			at++
			return nil
		}})
		if err != nil {
			t.Error(err)
		}
		cs[r] = c
	})
	for k := 0; k < 120 && !t.Failed(); k++ {
		n := []int{2, 9, 1000, 5000, 70000}[k%5] // one packet, several packets, several messages
		each(func(r int) {
			in, out := make([]byte, 4*n), make([]byte, 4*n)
			for i := range n {
				binary.LittleEndian.PutUint32(in[4*i:], uint32(i*(r+1)+k))
			}
			if err := cs[r].AllReduce(ctx, collective.Sum, collective.Int32, in, out); err != nil {
				t.Errorf("all-reduce %d of %d elements: %v", k, n, err)
				return
			}
			want := make([]byte, 4*n)
			for i := range n {
				binary.LittleEndian.PutUint32(want[4*i:], uint32(i*10+4*k))
			}
			if !bytes.Equal(out, want) {
				t.Errorf("all-reduce %d of %d elements: rank %d has wrong sums", k, n, r)
			}
		})
	}
	for i, x := range m.fates {
		if x == 0 {
			t.Errorf("no write had fate %d; the test needs other random numbers", i)
		}
	}
	t.Logf("lost writes by kind: %v", m.fates)
	each(func(r int) { cs[r].Close() })
}
