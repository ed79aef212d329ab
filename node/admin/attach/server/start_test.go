package server_test

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ttfabric/membership"
	"ttfabric/membership/gossip"
	"ttfabric/node"
	"ttfabric/node/admin/attach"
	"ttfabric/node/admin/attach/server"
	"ttfabric/node/admin/barrier"
	"ttfabric/node/chip"
	"ttfabric/node/session"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
)

// patience is the longest time that a test waits for something.
const patience = time.Minute

// TestMain runs eight tests at a time, on any number of cores, because the tests mostly wait.
func TestMain(m *testing.M) {
	flag.Set("test.parallel", "8")
	m.Run()
}

// live is a fabric of live chips with sockets.
type live struct {
	ctx      context.Context
	topology *topo.Topology
	nodes    []*node.Node
	servers  []*server.Server
	paths    []string
}

// start starts the chips of a built-in topology, and waits until they answer. If record is not "", the
// chips are recorded in this folder.
func start(t testing.TB, name, record string) *live {
	t.Helper()
	if one, ok := t.(*testing.T); ok {
		one.Parallel()
	}
	machine, err := topo.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "tt") // the path of t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	l := &live{ctx: ctx, topology: machine}
	t.Cleanup(func() {
		cancel()
		for i := range l.nodes {
			l.servers[i].Close()
			l.nodes[i].Close()
		}
		os.RemoveAll(dir)
	})
	var seeds []string
	for i, c := range machine.Chips {
		self, inc, join := c.Node, wire.Incarnation(time.Now().UnixNano())+wire.Incarnation(i), append([]string(nil), seeds...)
		cfg := node.Config{Node: self, Topology: machine, Incarnation: inc, Behaviour: chip.Behaviour{Profile: ttlink.ProfileCrowded}, Kernels: kernels, HostMemory: 1 << 30,
			Port: func(a netip.AddrPort) (transport.Port, error) {
				return transport.Listen(transport.Options{Local: a})
			}}
		if record != "" {
			cfg.Record = &node.Recording{Dir: record}
		}
		pool := gossip.Config{Node: self, Incarnation: inc, Bind: netip.MustParseAddrPort("127.0.0.1:0"), Label: "test", Seeds: func() []string { return join }}
		cfg.Join = func(ctx context.Context, m membership.Meta) (node.Membership, error) {
			pool.Meta = m
			return gossip.Start(ctx, pool)
		}
		n, err := node.Start(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, n.GossipAddr().String())
		path := filepath.Join(dir, self.String()+".sock")
		s, err := server.Listen(n, server.Options{Path: path, Topology: uint32(machine.Hash()), Barriers: new(barrier.Table), Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			n.Close()
			t.Fatal(err)
		}
		l.nodes, l.servers, l.paths = append(l.nodes, n), append(l.servers, s), append(l.paths, path)
	}
	if err := session.New(l.nodes[0]).Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return l
}

// dial connects to chip i.
func (l *live) dial(t testing.TB, i int) *attach.Client {
	t.Helper()
	c, err := attach.Dial(l.ctx, l.paths[i], l.topology)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// eventually waits until f returns true.
func (l *live) eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for !f() {
		if l.ctx.Err() != nil {
			t.Fatalf("%s did not happen", what)
		}
		time.Sleep(time.Millisecond)
	}
}
