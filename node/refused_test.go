package node_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ttfabric/membership"
	"ttfabric/node"
	"ttfabric/router/topo"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
)

// aimedPort is a port that counts the calls of SetPeer.
type aimedPort struct {
	transport.Port
	calls *atomic.Int64
}

func (c aimedPort) SetPeer(to netip.AddrPort) error {
	c.calls.Add(1)
	return c.Port.SetPeer(to)
}

// lines counts the lines of a log.
type lines struct {
	mu sync.Mutex
	n  int
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n += bytes.Count(b, []byte("\n"))
	return len(b), nil
}

func (l *lines) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// TestRefusedAddress reports addresses to a chip to which its ports cannot send. Each port must log one
// warning, and must try again only from time to time.
func TestRefusedAddress(t *testing.T) {
	const ports, retry = 2, time.Second
	for _, addr := range []string{"224.0.0.1", "0.0.0.0", "255.255.255.255", "::1"} {
		t.Run(addr, func(t *testing.T) {
			t.Parallel()
			m, err := topo.Named("n300")
			if err != nil {
				t.Fatal(err)
			}
			p, log, calls := newPool(), &lines{}, &atomic.Int64{}
			cfg := config(m, p, m.Chips[0].Node, 1000)
			cfg.Log = slog.New(slog.NewTextHandler(log, nil))
			cfg.Port = func(a netip.AddrPort) (transport.Port, error) {
				c, err := udpPort(a)
				return aimedPort{c, calls}, err
			}
			n, err := node.Start(context.Background(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			meta := membership.Meta{Node: m.Chips[1].Node, Incarnation: 7, Started: 1, Topology: uint32(m.Hash())}
			for i := range meta.Ports {
				meta.Ports[i] = 9
			}
			begin := time.Now()
			p.change(func() { p.view.Alive(meta.Name(), netip.MustParseAddr(addr), meta.Append(nil)) })
			for log.count() < ports && time.Since(begin) < patience {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(100 * time.Millisecond)
			tries, said := calls.Load(), log.count()
			if most := ports * int64(time.Since(begin)/retry+2); said != ports || tries < ports || tries > most {
				t.Errorf("the ports tried %d times, want %d to %d, and logged %d lines, want %d", tries, ports, most, said, ports)
			}
		})
	}
}

// TestMeetAgain gives a chip an address that its ports refuse. The ports must look again.
func TestMeetAgain(t *testing.T) {
	t.Parallel()
	_, n := lonely(t)
	looks := make(chan struct{}, 8)
	n.Meet(func(wire.PortID) (netip.AddrPort, bool) {
		select {
		case looks <- struct{}{}:
		default:
		}
		return netip.MustParseAddrPort("[::1]:99"), true // the ports listen on IPv4
	})
	for k := range cap(looks) { // two ports look once in each round
		select {
		case <-looks:
		case <-time.After(patience):
			t.Fatalf("the ports looked %d times", k)
		}
	}
}
