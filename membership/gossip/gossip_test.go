package gossip

import (
	"context"
	"errors"
	"flag"
	"math"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ttfabric/membership"
	"ttfabric/wire"
)

// TestMain runs eight of these tests at a time, on any number of cores. The tests wait most of
// the time. More tests at a time could starve one another's pools, whose times the tests bound.
// A flag -parallel on the command line applies instead.
func TestMain(m *testing.M) {
	flag.Set("test.parallel", "8")
	m.Run()
}

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

// swarm starts pools. The seeds of each pool are the pools that were started before it.
type swarm struct {
	t     *testing.T
	pace  pace // zero value: lan
	mu    sync.Mutex
	addrs []string
}

func (s *swarm) seeds() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.addrs[:min(8, len(s.addrs))]...)
}

func (s *swarm) start(chip int, inc wire.Incarnation, label string) *Pool {
	s.t.Helper()
	m := membership.Meta{Node: wire.FabricNodeID{Chip: wire.ChipID(chip)}, Incarnation: inc, Started: uint64(inc), Topology: 1}
	p, err := Start(context.Background(), Config{Node: m.Node, Incarnation: inc, Bind: loopback, Label: label, Meta: m, Seeds: s.seeds, Seed: uint64(inc), pace: s.pace})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { p.Close(0) })
	s.mu.Lock()
	s.addrs = append(s.addrs, p.Addr().String())
	s.mu.Unlock()
	return p
}

func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

func TestEveryoneSeesEveryone(t *testing.T) {
	t.Parallel()
	s := &swarm{t: t}
	var pools []*Pool
	for i := range 8 {
		pools = append(pools, s.start(i, wire.Incarnation(i+1), "a"))
	}
	eventually(t, patience, "8 members in 8 views", func() bool {
		for _, p := range pools {
			if len(p.View()) != 8 {
				return false
			}
		}
		return true
	})
	m := pools[3].cfg.Meta
	m.InService, m.LinkVersion = 7, 1
	pools[3].UpdateMeta(m)
	eventually(t, patience, "new metadata seen by all", func() bool {
		for _, p := range pools {
			if p.View()[3].Meta.InService != 7 {
				return false
			}
		}
		return true
	})
	// The chip's process dies without a message to the others, and a new process starts at another
	// address.
	pools[5].Close(0)
	s.start(5, 100, "a")
	eventually(t, patience, "the new process seen by all", func() bool {
		for i, p := range pools {
			if i != 5 && p.View()[5].Meta.Incarnation != 100 {
				return false
			}
		}
		return true
	})
}

func TestLabelsKeepPoolsApart(t *testing.T) {
	t.Parallel()
	s := &swarm{t: t}
	a, b := s.start(0, 1, "a"), s.start(1, 2, "b")
	time.Sleep(500 * time.Millisecond)
	if len(a.View()) != 1 || len(b.View()) != 1 {
		t.Errorf("views of %d and %d members; want each alone", len(a.View()), len(b.View()))
	}
}

func TestTakenAddress(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := l.Addr().(*net.TCPAddr).AddrPort()
	_, err = Start(context.Background(), Config{Bind: at, Incarnation: 1, Meta: membership.Meta{Incarnation: 1}, Seeds: func() []string { return nil }})
	if err == nil || !strings.Contains(err.Error(), at.String()) {
		t.Errorf("got %v; want an error that names %s", err, at)
	}
	if !errors.Is(err, syscall.EADDRINUSE) && !strings.Contains(err.Error(), "in use") {
		t.Errorf("%v: want an error that says that the address is in use", err)
	}
}

// TestIslandsHeal starts two pools without common members, and then adds members of one pool to the
// seeds of the other pool. The pools must become one pool.
func TestIslandsHeal(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var addrs [4]string
	bridged := false
	start := func(chip int) *Pool {
		m := membership.Meta{Node: wire.FabricNodeID{Chip: wire.ChipID(chip)}, Incarnation: wire.Incarnation(chip + 1), Started: 1, Topology: 1}
		seeds := func() []string {
			mu.Lock()
			defer mu.Unlock()
			island := addrs[chip/2*2 : chip/2*2+2]
			if bridged {
				island = addrs[:]
			}
			var out []string
			for i, a := range island {
				if a != "" && (chip/2*2+i != chip) {
					out = append(out, a)
				}
			}
			return out
		}
		p, err := Start(context.Background(), Config{Node: m.Node, Incarnation: m.Incarnation, Bind: loopback, Meta: m, Seeds: seeds, Expect: 4, Seed: uint64(chip), pace: quick})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close(0) })
		mu.Lock()
		addrs[chip] = p.Addr().String()
		mu.Unlock()
		return p
	}
	var pools []*Pool
	for i := range 4 {
		pools = append(pools, start(i))
	}
	views := func(n int) func() bool {
		return func() bool {
			for _, p := range pools {
				if len(p.View()) != n {
					return false
				}
			}
			return true
		}
	}
	eventually(t, patience, "two islands of two", views(2))
	if !testing.Short() {
		time.Sleep(repairs * quick.repairMax) // until all repairs are over, and only heal can join the pools
	}
	mu.Lock()
	bridged = true
	mu.Unlock()
	eventually(t, patience, "one pool of four", views(4))
}

// TestSilentSeed checks a seed that accepts connections and never answers. Such a seed must delay
// neither the joining of other members nor Close.
func TestSilentSeed(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	m := membership.Meta{Node: wire.FabricNodeID{Chip: 1}, Incarnation: 1, Started: 1, Topology: 1}
	p, err := Start(context.Background(), Config{Node: m.Node, Incarnation: 1, Bind: loopback, Meta: m, Seeds: func() []string { return []string{l.Addr().String()} }, pace: quick})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	begin := time.Now()
	p.Close(time.Second)
	if d := time.Since(begin); d > soon {
		t.Errorf("closing took %v beside a silent seed; want at most %v", d, soon)
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	none := func() []string { return nil }
	good := membership.Meta{Node: wire.FabricNodeID{Chip: 1}, Incarnation: 5}
	for what, c := range map[string]Config{
		"no seeds":          {Node: good.Node, Incarnation: 5, Bind: loopback, Meta: good},
		"no incarnation":    {Node: good.Node, Bind: loopback, Meta: membership.Meta{Node: good.Node}, Seeds: none},
		"other incarnation": {Node: good.Node, Incarnation: 6, Bind: loopback, Meta: good, Seeds: none},
		"other chip":        {Node: wire.FabricNodeID{Chip: 2}, Incarnation: 5, Bind: loopback, Meta: good, Seeds: none},
	} {
		if p, err := Start(context.Background(), c); err == nil {
			p.Close(0)
			t.Errorf("%s: taken", what)
		}
	}
}

// TestRetransmits checks how often the members of large pools repeat news. The limit is memberlist's:
// the factor times the logarithm of the number of members plus 1, rounded up.
func TestRetransmits(t *testing.T) {
	for n := manyChips + 1; n < 1000; n++ {
		if got := retransmits(n) * int(math.Ceil(math.Log10(float64(n+1)))); got != manyRepeats {
			t.Errorf("%d members repeat news %d times, want %d", n, got, manyRepeats)
		}
	}
}
