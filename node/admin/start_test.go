package admin_test

import (
	"context"
	"flag"
	"net"
	"net/netip"
	"testing"
	"time"

	"ttfabric/membership"
	"ttfabric/membership/gossip"
	"ttfabric/node"
	"ttfabric/node/admin"
	"ttfabric/node/admin/api"
	"ttfabric/node/chip"
	"ttfabric/node/kernel"
	"ttfabric/node/session"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
)

const token = "secret"

// TestMain runs eight of these tests at a time, on any number of cores, because the tests wait
// most of the time. A flag -parallel on the command line applies instead.
func TestMain(m *testing.M) {
	flag.Set("test.parallel", "8")
	m.Run()
}

// patience is the longest time that a test waits for something. An idle machine needs much less,
// but a busy machine may be slow.
const patience = 4 * time.Minute

// start starts the two chips of an n300 with real gossip, and the chips' APIs. start returns the
// addresses of the APIs.
func start() (machine *topo.Topology, addrs []string, stop func(), err error) {
	return startWith("n300", options{})
}

// options are the settings of startWith that differ from test to test.
type options struct {
	routes route.Config
	keys   [][]byte // keys that encrypt gossip; none: gossip is not encrypted
	record string   // folder of the chips' recordings; "": the chips are not recorded
	about  any      // answer of GET /v1/fabric; nil: none
	first  bool     // start only the first chip
	closed bool     // close the chips at once, and keep only the APIs running
}

// startWith starts the chips of the machine "name", and the chips' APIs.
func startWith(name string, o options) (machine *topo.Topology, addrs []string, stop func(), err error) {
	machine, _ = topo.Named(name)
	var seeds []string
	var stops []func()
	stop = func() {
		for _, f := range stops {
			f()
		}
	}
	for i := range machine.Chips {
		if o.first && i > 0 {
			break
		}
		n, err := startChip(machine, i, &o, seeds)
		if err != nil {
			return nil, nil, stop, err
		}
		seeds = append(seeds, n.GossipAddr().String())
		if o.closed {
			n.Close()
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, stop, err
		}
		srv := admin.NewServer(n, token)
		srv.Describe(o.about)
		go srv.Serve(l)
		stops = append(stops, func() { n.Close() }, func() { srv.Close() })
		addrs = append(addrs, l.Addr().String())
	}
	return machine, addrs, stop, nil
}

func startChip(machine *topo.Topology, i int, o *options, seeds []string) (*node.Node, error) {
	self := machine.Chips[i].Node
	inc := wire.Incarnation(time.Now().UnixNano()) + wire.Incarnation(i)
	join := append([]string(nil), seeds...)
	cfg := node.Config{Node: self, Kernels: kernel.Table{"wait": func(k *kernel.Context) { k.NocSemaphoreWait(0x1000, 1) }}, Topology: machine, Incarnation: inc, Behaviour: chip.Behaviour{Profile: ttlink.ProfileCrowded, Route: o.routes},
		Port: func(a netip.AddrPort) (transport.Port, error) {
			return transport.Listen(transport.Options{Local: a})
		}}
	pool := gossip.Config{Node: self, Incarnation: inc, Bind: netip.MustParseAddrPort("127.0.0.1:0"), Label: "test", Seeds: func() []string { return join }}
	if o.keys != nil {
		k, err := gossip.NewKeys(o.keys)
		if err != nil {
			return nil, err
		}
		cfg.Keys, pool.Keys = k, k
	}
	if o.record != "" {
		cfg.Record = &node.Recording{Dir: o.record}
	}
	cfg.Join = func(ctx context.Context, m membership.Meta) (node.Membership, error) {
		pool.Meta = m
		return gossip.Start(ctx, pool)
	}
	return node.Start(context.Background(), cfg)
}

// ready starts two chips, and waits until both answer. ready returns a client of the first chip's
// API, and the address of the second chip.
func ready(t *testing.T) (ctx context.Context, c *api.Client, dst wire.FabricNodeID, machine *topo.Topology) {
	t.Helper()
	ctx, c, dst, machine, _ = readyAt(t)
	return ctx, c, dst, machine
}

// readyAt works like ready, and also returns the address of the first chip's API.
func readyAt(t *testing.T) (ctx context.Context, c *api.Client, dst wire.FabricNodeID, machine *topo.Topology, addr string) {
	t.Helper()
	machine, addrs, stop, err := start()
	t.Cleanup(stop)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	c = api.NewClient(addrs[0], token, machine.Chips[0].Node, machine)
	if err := session.New(c).Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx, c, machine.Chips[1].Node, machine, addrs[0]
}
