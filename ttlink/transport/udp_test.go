package transport_test

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ttfabric/ttlink/transport"
	"ttfabric/ttlink/transport/transporttest"
)

func open(t testing.TB, o transport.Options) transport.Port {
	t.Helper()
	if !o.Local.IsValid() {
		o.Local = netip.MustParseAddrPort("127.0.0.1:0")
	}
	p, err := transport.Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func joined(t testing.TB, o transport.Options) (a, b transport.Port) {
	t.Helper()
	a, b = open(t, o), open(t, o)
	if err := errors.Join(a.SetPeer(b.LocalAddr()), b.SetPeer(a.LocalAddr())); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// needIPv6 skips the test on a machine without IPv6.
func needIPv6(t testing.TB) {
	l, err := net.ListenPacket("udp6", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no IPv6 loopback:", err)
	}
	l.Close()
}

func TestConformance(t *testing.T) {
	ip6 := netip.MustParseAddrPort("[::1]:0")
	for _, c := range []struct {
		name string
		o    transport.Options
	}{
		{"udp", transport.Options{}},
		{"udp without GSO", transport.Options{GSO: transport.Off}},
		{"udp without GRO", transport.Options{GRO: transport.Off}},
		{"udp plain", transport.Options{GSO: transport.Off, GRO: transport.Off, Batch: transport.Off}},
		{"udp with small buffers", transport.Options{ReceiveBuffer: 208 << 10, SendBuffer: 208 << 10}},
		{"udp over IPv6", transport.Options{Local: ip6}},
		{"udp over IPv6 plain", transport.Options{Local: ip6, GSO: transport.Off, GRO: transport.Off, Batch: transport.Off}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.o.Local == ip6 {
				needIPv6(t)
			}
			transporttest.Run(t, func(t *testing.T) (transport.Port, transport.Port) { return open(t, c.o), open(t, c.o) })
		})
	}
	t.Run("memory", func(t *testing.T) {
		m := transport.NewMemory()
		transporttest.Run(t, func(*testing.T) (transport.Port, transport.Port) { return m.Listen(), m.Listen() })
	})
}

// TestQueuedStrangersAreCounted checks that datagrams of a stranger that wait in the socket from
// before SetPeer are dropped and counted.
func TestQueuedStrangersAreCounted(t *testing.T) {
	a, b, other := open(t, transport.Options{}), open(t, transport.Options{}), open(t, transport.Options{})
	if err := errors.Join(other.SetPeer(a.LocalAddr()), b.SetPeer(a.LocalAddr())); err != nil {
		t.Fatal(err)
	}
	other.Send(make([]byte, 640), 64)
	if err := a.SetPeer(b.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	b.Send([]byte("mine"), 4)
	var batch transport.Batch
	if err := a.Recv(&batch); err != nil {
		t.Fatal(err)
	}
	batch.Each(func(d []byte) {
		if string(d) != "mine" {
			t.Errorf("heard %q", d)
		}
	})
	if got := a.Stats().Foreign; got != 10 {
		t.Errorf("Foreign = %d, want 10", got)
	}
	for _, s := range batch.Supers() {
		if s.From != b.LocalAddr() {
			t.Errorf("from %s, want %s", s.From, b.LocalAddr())
		}
	}
}

// TestWildcard checks that a port on a wildcard address reaches peers, and keeps its port number
// when the peer changes.
func TestWildcard(t *testing.T) {
	for _, c := range []struct{ listen, peer string }{{"0.0.0.0", "127.0.0.1"}, {"::", "::1"}} {
		t.Run(c.listen, func(t *testing.T) {
			peer := netip.MustParseAddr(c.peer)
			if peer.Is6() {
				needIPv6(t)
			}
			for _, numbered := range []bool{false, true} {
				at := netip.AddrPortFrom(netip.MustParseAddr(c.listen), 0)
				if numbered {
					probe := open(t, transport.Options{Local: at})
					at = probe.LocalAddr()
					probe.Close()
				}
				a := open(t, transport.Options{Local: at})
				local := a.LocalAddr()
				if n := a.MaxDatagram(); n < 500 || n > transport.MaxDatagram {
					t.Errorf("MaxDatagram is %d before there is a peer", n)
				}
				for range 3 {
					b := open(t, transport.Options{Local: netip.AddrPortFrom(peer, 0)})
					if err := errors.Join(a.SetPeer(b.LocalAddr()), b.SetPeer(netip.AddrPortFrom(peer, local.Port()))); err != nil {
						t.Fatal(err)
					}
					if got, want := a.MaxDatagram(), b.MaxDatagram(); got != want {
						t.Errorf("MaxDatagram is %d on the path to %s, want %d", got, c.peer, want)
					}
					var batch transport.Batch
					a.Send([]byte("there"), 5)
					if err := b.Recv(&batch); err != nil {
						t.Fatal(err)
					}
					b.Send([]byte("back"), 4)
					if err := a.Recv(&batch); err != nil {
						t.Fatal(err)
					}
					if a.LocalAddr() != local {
						t.Errorf("the port moved from %s to %s", local, a.LocalAddr())
					}
				}
			}
		})
	}
}

func TestErrorsNameTheWayOut(t *testing.T) {
	a := open(t, transport.Options{})
	for _, c := range []struct {
		o    transport.Options
		is   error
		says string
	}{
		{transport.Options{Local: a.LocalAddr()}, syscall.EADDRINUSE, a.LocalAddr().String() + " is taken by another process; choose another --port-base"},
		{transport.Options{Local: netip.MustParseAddrPort("192.0.2.1:0")}, syscall.EADDRNOTAVAIL, "no such address"},
		{transport.Options{}, nil, "no local address"},
		{transport.Options{Local: a.LocalAddr(), ReceiveBuffer: 1000}, nil, "1000"},
	} {
		p, err := transport.Listen(c.o)
		if err == nil {
			p.Close()
		}
		if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.says)
		}
	}
	for _, peer := range []string{"[::1]:5", "0.0.0.0:5", "224.0.0.1:5", "127.0.0.1:0"} {
		if err := a.SetPeer(netip.MustParseAddrPort(peer)); err == nil || !strings.Contains(err.Error(), peer) {
			t.Errorf("peer %s: %v", peer, err)
		}
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		pair func() (transport.Port, transport.Port)
	}{
		{"udp", func() (transport.Port, transport.Port) { return joined(t, transport.Options{}) }},
		{"udp without GSO", func() (transport.Port, transport.Port) { return joined(t, transport.Options{GSO: transport.Off}) }},
		{"memory", func() (transport.Port, transport.Port) {
			a, b := transport.NewPair()
			if err := errors.Join(a.SetPeer(b.LocalAddr()), b.SetPeer(a.LocalAddr())); err != nil {
				t.Fatal(err)
			}
			return a, b
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := c.pair()
			runs := []transport.Run{{Data: make([]byte, 20*1000), Seg: 1000}, {Data: make([]byte, 30), Seg: 30}}
			var batch transport.Batch
			received := 0
			n := testing.AllocsPerRun(200, func() {
				a.Send(runs[0].Data, runs[0].Seg)
				a.SendBatch(runs)
				for got := 0; got < 41; got += batch.Len() {
					b.Recv(&batch)
					batch.Each(func(d []byte) { received += len(d) })
				}
			})
			if n > 0 {
				t.Errorf("%v allocations per round", n)
			}
			if want := 201 * 40030; received != want {
				t.Errorf("%d bytes came, want %d", received, want)
			}
		})
	}
}

// TestEverythingAtOnce calls all methods of a port at the same time, for the race detector.
func TestEverythingAtOnce(t *testing.T) {
	a, b := joined(t, transport.Options{})
	c := open(t, transport.Options{})
	var wg, senders sync.WaitGroup
	var stop atomic.Bool
	for _, p := range []transport.Port{a, b, c} {
		wg.Go(func() {
			var batch transport.Batch
			for p.Recv(&batch) == nil {
				batch.Each(func([]byte) {})
			}
		})
		for range 2 {
			senders.Go(func() {
				data := make([]byte, 3000)
				for !stop.Load() {
					if _, err := p.Send(data, 100); err != nil {
						t.Error(err)
					}
					p.SendBatch([]transport.Run{{Data: data, Seg: 1000}, {Data: data[:1], Seg: 1}})
				}
			})
		}
	}
	for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
		for _, p := range []transport.Port{b, c} {
			if err := a.SetPeer(p.LocalAddr()); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = a.Stats(), a.MaxDatagram()
	}
	stop.Store(true)
	senders.Wait()
	for _, p := range []transport.Port{a, b, c} {
		p.Close()
	}
	wg.Wait()
}

func TestBatch(t *testing.T) {
	var b transport.Batch
	from := netip.MustParseAddrPort("10.0.0.1:7")
	if b.Len() != 0 || b.Append(nil, from) || b.Append(make([]byte, 1<<16+1), from) {
		t.Error("an empty Batch has datagrams, or accepts a datagram that is empty or too long")
	}
	var want, got []int
	for i := 0; ; i++ {
		n := 1 + i*131%2000
		if !b.Append(make([]byte, n), from) {
			break
		}
		want = append(want, n)
	}
	b.Each(func(d []byte) { got = append(got, len(d)) })
	if len(want) < 8 || len(want) != len(got) || b.Len() != len(got) {
		t.Fatalf("%d datagrams were appended, Each gave %d, Len is %d", len(want), len(got), b.Len())
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("datagram %d has %d bytes, want %d", i, got[i], want[i])
		}
	}
	b.Reset()
	for i := range 1000 { // datagrams of equal size share a super-packet
		if !b.Append(make([]byte, 64), from) {
			t.Fatalf("no room for datagram %d", i)
		}
	}
	if s := b.Supers(); len(s) != 1 || s[0].Seg != 64 || s[0].From != from || len(s[0].Data) != 64000 {
		t.Errorf("%d super-packets", len(s))
	}
	if !b.Append(make([]byte, 64), netip.MustParseAddrPort("10.0.0.1:8")) || len(b.Supers()) != 2 {
		t.Error("datagrams of two senders share a super-packet")
	}
	b.Reset()
	if b.Len() != 0 || len(b.Supers()) != 0 {
		t.Error("the Batch has datagrams after Reset")
	}
}
