package node_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"ttfabric/membership"
	"ttfabric/node"
	"ttfabric/node/chip"
	"ttfabric/node/session"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
)

// patience is the longest time that a test waits for something. An idle machine needs much less,
// but a busy machine may be slow.
const patience = 4 * time.Minute

// pool is a membership of chips in one process, for tests without gossip.
type pool struct {
	mu      sync.Mutex
	view    *membership.View
	members []*poolMember
}

type poolMember struct {
	p      *pool
	name   string
	notify chan struct{}
}

func newPool() *pool { return &pool{view: membership.NewView(0, nil)} }

func (p *pool) join(_ context.Context, m membership.Meta) (node.Membership, error) {
	pm := &poolMember{p, fmt.Sprintf("%s-%x", m.Node, m.Incarnation), make(chan struct{}, 1)}
	p.mu.Lock()
	p.members = append(p.members, pm)
	p.mu.Unlock()
	pm.UpdateMeta(m)
	return pm, nil
}

func (p *pool) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	for _, m := range p.members {
		select {
		case m.notify <- struct{}{}:
		default:
		}
	}
}

func (m *poolMember) Notify() <-chan struct{} { return m.notify }
func (m *poolMember) View() []membership.Member {
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	return m.p.view.Members()
}
func (m *poolMember) Events() []membership.Event { return nil }
func (m *poolMember) UpdateMeta(meta membership.Meta) {
	m.p.change(func() { m.p.view.Alive(m.name, netip.MustParseAddr("127.0.0.1"), meta.Append(nil)) })
}
func (m *poolMember) Addr() netip.AddrPort { return netip.AddrPort{} }
func (m *poolMember) Close(time.Duration) error {
	m.p.change(func() { m.p.view.Gone(m.name) })
	return nil
}

func udpPort(a netip.AddrPort) (transport.Port, error) {
	return transport.Listen(transport.Options{Local: a})
}

// config returns the settings of a chip in this process. The links have the profile for chips that
// share cores, because a busy machine must not take a link down.
func config(t *topo.Topology, p *pool, at wire.FabricNodeID, inc wire.Incarnation) node.Config {
	return node.Config{Node: at, Topology: t, Incarnation: inc, Port: udpPort, Join: p.join, Behaviour: chip.Behaviour{Profile: ttlink.ProfileCrowded}}
}

// fabric starts all chips of a topology over UDP, and waits until chip 0 reaches all chips.
func fabric(t testing.TB, name string) (*topo.Topology, *pool, []*node.Node) {
	t.Helper()
	return fabricWith(t, name, func(*node.Config) {})
}

// fabricWith works like fabric, but calls change on the settings of each chip first.
func fabricWith(t testing.TB, name string, change func(c *node.Config)) (*topo.Topology, *pool, []*node.Node) {
	t.Helper()
	m, err := topo.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	p := newPool()
	var ns []*node.Node
	for i, c := range m.Chips {
		cfg := config(m, p, c.Node, wire.Incarnation(1000+i))
		change(&cfg)
		n, err := node.Start(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		ns = append(ns, n)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := session.New(ns[0]).Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return m, p, ns
}

func chipID(i int) wire.FabricNodeID { return wire.FabricNodeID{Chip: wire.ChipID(i)} }

func TestEveryCommandOverRealSockets(t *testing.T) {
	_, _, ns := fabric(t, "mesh:2x2")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s := session.New(ns[0])
	for dst := range 4 { // chip 0 also writes to itself
		to := chipID(dst)
		data := bytes.Repeat([]byte{byte(dst + 1), 2, 3, 4, 5}, 20000)
		at := wire.NewNocAddr(1, 1, 0x1000)
		if err := s.Write(ctx, to, at, data, session.OnPlane(1)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(data))
		if err := s.Read(ctx, to, at, got); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("chip %d: read back: %v", dst, err)
		}
		word := wire.NewNocAddr(2, 1, 64)
		for range 10 {
			if err := s.AtomicInc(ctx, to, word, 3, true); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.InlineWrite(ctx, to, word.Add(4), 0x01020304); err != nil {
			t.Fatal(err)
		}
		if err := s.WriteInc(ctx, to, word.Add(8), []byte("fuse"), word, 12, true); err != nil {
			t.Fatal(err)
		}
		if err := s.ScatterWrite(ctx, to, []session.Chunk{{Addr: word.Add(12), Data: []byte("ab")}, {Addr: word.Add(14), Data: []byte("cd")}}); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 16)
		if err := s.Read(ctx, to, word, b); err != nil || string(b) != "\x2a\x00\x00\x00\x04\x03\x02\x01fuseabcd" {
			t.Fatalf("chip %d: %q, %v", dst, b, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	_, _, ns := fabric(t, "n300")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s := session.New(ns[0])
	var refused *session.RefusedError
	for _, c := range []struct {
		name string
		err  error
		want wire.Outcome
	}{
		{"no such tile", s.Write(ctx, chipID(1), wire.NewNocAddr(0, 10, 0), []byte("x")), wire.OutcomeBadAddress},
		{"past the end", s.Write(ctx, chipID(1), wire.NewNocAddr(1, 1, 1464<<10-1), []byte("xy")), wire.OutcomeBadAddress},
		{"read past the end", s.Read(ctx, chipID(1), wire.NewNocAddr(1, 1, 1464<<10), make([]byte, 1)), wire.OutcomeBadAddress},
		{"odd counter", s.AtomicInc(ctx, chipID(1), wire.NewNocAddr(1, 1, 2), 1, false), wire.OutcomeMisaligned},
	} {
		if !errors.As(c.err, &refused) || refused.Outcome != c.want {
			t.Errorf("%s: got %v, want %v", c.name, c.err, c.want)
		}
	}
	if err := s.Write(ctx, chipID(9), 0, []byte("x")); err == nil {
		t.Error("a chip that does not exist was written")
	}
	if err := s.Write(ctx, chipID(1), wire.NewNocAddr(1, 1, 0), []byte("x"), session.OnPlane(7)); err == nil {
		t.Error("a plane that does not exist was used")
	}
	if err := s.Write(ctx, chipID(1), wire.NewNocAddr(1, 1, 0), []byte("x")); err != nil {
		t.Errorf("a valid write after the refused requests: %v", err)
	}
}

func TestChipDiesAndComesBack(t *testing.T) {
	m, p, ns := fabric(t, "mesh:1x3")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s := session.New(ns[0])
	at := wire.NewNocAddr(1, 1, 0)
	ns[1].Close()
	begin := time.Now()
	err := s.Write(ctx, chipID(2), at, []byte("through the dead one"))
	var lost *session.LostError
	var unknown *session.OutcomeUnknownError
	if !errors.As(err, &lost) && !errors.As(err, &unknown) {
		t.Fatalf("a write through a dead chip ended with %v", err)
	}
	if d := time.Since(begin); d > patience/3 { // an idle machine takes the grace period, one second
		t.Errorf("the write took %v to fail", d)
	}
	n, err := node.Start(context.Background(), config(m, p, chipID(1), 2001))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	if err := s.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(ctx, chipID(2), at, []byte("and again")); err != nil {
		t.Error(err)
	}
}

func TestManyWritersAtOnce(t *testing.T) {
	_, _, ns := fabric(t, "t3000")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	counter := wire.NewNocAddr(1, 1, 0)
	const each = 200
	var wg sync.WaitGroup
	errs := make(chan error, len(ns)*len(ns)*each)
	for _, n := range ns {
		s := session.New(n)
		for dst := range ns {
			wg.Go(func() {
				for k := range each {
					if err := s.AtomicInc(ctx, chipID(dst), counter, 1, false, session.OnPlane(wire.Plane(k%2))); err != nil {
						errs <- err
						return
					}
				}
			})
		}
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Fatal(err)
	}
	for dst := range ns {
		b := make([]byte, 4)
		if err := session.New(ns[0]).Read(ctx, chipID(dst), counter, b); err != nil {
			t.Fatal(err)
		}
		if got, want := int(b[0])|int(b[1])<<8, each*len(ns); got != want {
			t.Errorf("chip %d: counter %d, want %d", dst, got, want)
		}
	}
}

// Run runs a program inside a chip. In this example, both chips of an n300 run in one process.
func ExampleRun() {
	machine, _ := topo.Named("n300")
	gossip := newPool() // a real program joins the gossip pool with membership/gossip
	other, err := node.Start(context.Background(), config(machine, gossip, chipID(1), 2))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer other.Close()

	err = node.Run(context.Background(), config(machine, gossip, chipID(0), 1), func(ctx context.Context, s *session.Session) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err := s.Ready(ctx); err != nil {
			return err
		}
		right, tile := chipID(1), wire.NewNocAddr(1, 1, 0x1000)
		if err := s.Write(ctx, right, tile, []byte("hello, right chip")); err != nil {
			return err
		}
		b := make([]byte, 17)
		if err := s.Read(ctx, right, tile, b); err != nil {
			return err
		}
		fmt.Printf("%s read %q from %s\n", s.Self(), b, right)
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: M0D0 read "hello, right chip" from M0D1
}
