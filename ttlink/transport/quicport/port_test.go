package quicport_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ttfabric/ttlink/transport"
	"ttfabric/ttlink/transport/pki"
	"ttfabric/ttlink/transport/quicport"
	"ttfabric/ttlink/transport/transporttest"
	"ttfabric/wire"
)

var (
	chip0 = wire.FabricNodeID{Chip: 0}
	chip1 = wire.FabricNodeID{Chip: 1}
	lower = wire.PortID{Node: chip0, Channel: 3}
	upper = wire.PortID{Node: chip1, Channel: 9}

	loopback = netip.MustParseAddrPort("127.0.0.1:0")
)

// papers makes the certificates of a fabric in a new folder, and returns the folder.
func papers(t testing.TB, fabric string, now time.Time, valid time.Duration) string {
	t.Helper()
	dir := t.TempDir()
	if err := pki.Make(dir, fabric, []wire.FabricNodeID{chip0, chip1, {Chip: 0, Mesh: 1}}, now, valid); err != nil {
		t.Fatal(err)
	}
	return dir
}

func chip(t testing.TB, dir, fabric string, n wire.FabricNodeID) *pki.Chip {
	t.Helper()
	c, err := pki.Load(dir, pki.Identity{Fabric: fabric, Chip: n})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type opener func(t testing.TB, o quicport.Options) transport.Keyed

// ends returns functions that open a port at the lower and at the upper end of a cable.
func ends(t testing.TB) (a, b opener) {
	dir := papers(t, "lab", time.Now(), time.Hour)
	end := func(from, to wire.PortID) opener {
		c := chip(t, dir, "lab", from.Node)
		return func(t testing.TB, o quicport.Options) transport.Keyed {
			t.Helper()
			if o.Chip == nil {
				o.Chip = c
			}
			if !o.Local.IsValid() {
				o.Local = netip.MustParseAddrPort("127.0.0.1:0")
			}
			tell := o.Cable.Tell
			o.Cable = transport.Cable{Fabric: o.Chip.Self.Fabric, From: from, To: to, Incarnation: 1, Tell: tell}
			p, err := quicport.Listen(o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { p.Close() })
			return p.(transport.Keyed)
		}
	}
	return end(lower, upper), end(upper, lower)
}

func TestConformance(t *testing.T) {
	a, b := ends(t)
	for name, local := range map[string]string{"IPv4": "127.0.0.1:0", "IPv6": "[::1]:0"} {
		o := quicport.Options{Local: netip.MustParseAddrPort(local)}
		t.Run(name+" dialer first", func(t *testing.T) {
			transporttest.Run(t, func(t *testing.T) (transport.Port, transport.Port) { return a(t, o), b(t, o) })
		})
		t.Run(name+" acceptor first", func(t *testing.T) {
			transporttest.Run(t, func(t *testing.T) (transport.Port, transport.Port) { return b(t, o), a(t, o) })
		})
	}
}

func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// reads receives from a port in a goroutine, and returns the channel of received datagrams.
func reads(p transport.Port) <-chan []byte {
	got := make(chan []byte, 10000)
	go func() {
		var b transport.Batch
		for p.Recv(&b) == nil {
			b.Each(func(d []byte) { got <- bytes.Clone(d) })
		}
	}()
	return got
}

func join(t testing.TB, a, b transport.Keyed) {
	t.Helper()
	if err := errors.Join(a.SetPeer(b.LocalAddr()), b.SetPeer(a.LocalAddr())); err != nil {
		t.Fatal(err)
	}
	until(t, "both ends are ready", func() bool { return a.Ready() && b.Ready() })
}

// pulse measures stalls of this process. A goroutine sleeps again and again, and the time that the
// goroutine oversleeps counts as a stall. The function "stood" returns the sum of all stalls so far.
func pulse(t testing.TB) (stood func() time.Duration) {
	const every = 2 * time.Millisecond
	var mu sync.Mutex
	sum, last := time.Duration(0), time.Now()
	beat := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		if late := time.Since(last) - every; late > 0 {
			sum, last = sum+late, last.Add(late)
		}
		return sum
	}
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	go func() {
		for {
			time.Sleep(every)
			beat()
			mu.Lock()
			last = time.Now()
			mu.Unlock()
			select {
			case <-over:
				return
			default:
			}
		}
	}()
	return beat
}

// relay passes datagrams between two ports, and can drop all datagrams.
type relay struct {
	socks [2]*net.UDPConn // sockets to which the two ends send
	ends  [2]netip.AddrPort
	mute  atomic.Bool
}

func newRelay(t testing.TB, ends ...netip.AddrPort) *relay {
	r := &relay{}
	for i := range r.socks {
		c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(loopback))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		r.socks[i], r.ends[i] = c, ends[i]
	}
	for i, c := range r.socks {
		go func() {
			b := make([]byte, 1<<16)
			for n, err := c.Read(b); err == nil; n, err = c.Read(b) {
				if !r.mute.Load() {
					r.socks[1-i].WriteToUDPAddrPort(b[:n], r.ends[1-i])
				}
			}
		}()
	}
	return r
}

// The method "at" returns the relay's address to which end i sends.
func (r *relay) at(i int) netip.AddrPort { return r.socks[i].LocalAddr().(*net.UDPAddr).AddrPort() }

// TestRestartInPlace stops a port and opens a new port at the same address. Each
// restart must be fast without the stalls of this process. At least one restart must be fast including
// the stalls.
func TestRestartInPlace(t *testing.T) {
	a, b := ends(t)
	for name, e := range map[string][2]opener{"dialer restarts": {a, b}, "acceptor restarts": {b, a}} {
		t.Run(name, func(t *testing.T) { restartInPlace(t, e, false) })
		t.Run(name+" without a close message", func(t *testing.T) { restartInPlace(t, e, true) })
	}
}

func restartInPlace(t *testing.T, e [2]opener, silent bool) {
	const soon, lives = 3 * time.Second, 5
	hello := make([]byte, 100)
	x, y := e[0](t, quicport.Options{}), e[1](t, quicport.Options{})
	reads(x)
	got := reads(y)
	between := newRelay(t, x.LocalAddr(), y.LocalAddr())
	if err := errors.Join(x.SetPeer(between.at(0)), y.SetPeer(between.at(1))); err != nil {
		t.Fatal(err)
	}
	until(t, "both ends are ready", func() bool { return x.Ready() && y.Ready() })
	stood := pulse(t)
	best := time.Hour
	for life := byte(1); life <= lives; life++ {
		at := x.LocalAddr()
		between.mute.Store(silent)
		x.Close()
		time.Sleep(20 * time.Millisecond) // time for x to send its close message
		between.mute.Store(false)
		x = e[0](t, quicport.Options{Local: at})
		reads(x)
		if err := x.SetPeer(between.at(0)); err != nil {
			t.Fatal(err)
		}
		begin, before := time.Now(), stood()
		until(t, "the new port is ready", func() bool {
			y.Send(hello, len(hello)) // y sends too, as a link does while it receives nothing
			return x.Ready()
		})
		until(t, "y receives from the new port", func() bool {
			x.Send([]byte{life}, 1)
			select {
			case d := <-got:
				return d[0] == life
			case <-time.After(5 * time.Millisecond):
				return false
			}
		})
		took := time.Since(begin)
		if still := stood() - before; took-still >= soon {
			t.Errorf("restart %d took %v, of which this process was stalled for %v", life, took, still)
		}
		best = min(best, took)
	}
	if best >= soon {
		t.Errorf("no restart took less than %v", best)
	}
	t.Logf("the fastest restart took %v", best)
}

// told collects the reasons of refusals that a port reports.
type told struct {
	mu  sync.Mutex
	why []string
}

func (n *told) tell(x transport.Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if x.Refused != "" {
		n.why = append(n.why, x.Refused)
	}
}

func (n *told) has(s string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.why) > 0 && strings.Contains(strings.Join(n.why, "\n"), s)
}

func (n *told) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.why)
}

// TestRefusals checks that ports refuse peers whose certificates do not fit the cable, and that
// both ends report the refusal once.
func TestRefusals(t *testing.T) {
	t.Parallel()
	a, b := ends(t)
	now := time.Now()
	otherCA, otherFabric, old := papers(t, "lab", now, time.Hour), papers(t, "elsewhere", now, time.Hour), papers(t, "lab", now.Add(-2*time.Hour), time.Hour)
	same := papers(t, "lab", now, time.Hour)
	expired := chip(t, same, "lab", chip0)
	if _, err := pki.Load(old, pki.Identity{Fabric: "lab", Chip: chip0}); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Fatalf("Load of an expired certificate: %v", err)
	}
	expired.Pair = pairOf(t, old, chip0)
	stranger := chip(t, same, "lab", chip0)
	stranger.Pair = pairOf(t, same, wire.FabricNodeID{Mesh: 1})
	for _, c := range []struct {
		name, want string
		chip       *pki.Chip
		peer       *pki.Chip // identity of the other end; nil: the valid identity
	}{
		{"authority", "another authority", chip(t, otherCA, "lab", chip0), nil},
		{"fabric", "another authority", chip(t, otherFabric, "elsewhere", chip0), nil},
		{"chip", "not of chip M0D0", stranger, chip(t, same, "lab", chip1)},
		{"expired", "expired", expired, trusting(t, same, old)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ours, theirs told
			x := a(t, quicport.Options{Chip: c.chip, Cable: transport.Cable{Tell: ours.tell}})
			y := b(t, quicport.Options{Chip: c.peer, Cable: transport.Cable{Tell: theirs.tell}})
			reads(x)
			reads(y)
			if err := errors.Join(x.SetPeer(y.LocalAddr()), y.SetPeer(x.LocalAddr())); err != nil {
				t.Fatal(err)
			}
			until(t, "an end reports the reason", func() bool { return ours.has(c.want) || theirs.has(c.want) })
			until(t, "both ends report a refusal", func() bool { return ours.count() > 0 && theirs.count() > 0 })
			time.Sleep(300 * time.Millisecond) // time for several more handshakes
			if n, m := ours.count(), theirs.count(); n > 1 || m > 1 {
				t.Errorf("%d and %d reports: %q %q", n, m, ours.why, theirs.why)
			}
			if x.Ready() || y.Ready() {
				t.Error("a port is ready")
			}
			if n, err := x.Send([]byte("x"), 1); n != 0 || err != nil || x.Stats().Auth.Unkeyed != 1 {
				t.Errorf("%d datagrams accepted, %v", n, err)
			}
			t.Logf("%q %q", ours.why, theirs.why)
		})
	}
}

// TestGarbage checks that random bytes from other addresses end no connection.
func TestGarbage(t *testing.T) {
	a, b := ends(t)
	x, y := a(t, quicport.Options{}), b(t, quicport.Options{})
	back := reads(x)
	got := reads(y)
	join(t, x, y)
	for _, p := range []transport.Port{x, y} {
		c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(p.LocalAddr()))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for n := range 2000 {
			d := make([]byte, n%1500)
			rand.Read(d)
			if n%3 == 0 && len(d) > 5 {
				copy(d, []byte{0xc3, 0, 0, 0, 1, 8}) // a long header of version 1
			}
			c.Write(d)
		}
	}
	// While the garbage fills a socket, datagrams of the peer are lost.
	for _, way := range []struct {
		from transport.Port
		got  <-chan []byte
	}{{x, got}, {y, back}} {
		until(t, "a datagram arrives after the garbage", func() bool {
			if n, err := way.from.Send([]byte{255}, 1); n != 1 || err != nil {
				t.Fatalf("%d %v", n, err)
			}
			select {
			case <-way.got:
				return true
			case <-time.After(5 * time.Millisecond):
				return false
			}
		})
	}
	for i := range 100 {
		if n, err := x.Send([]byte{byte(i)}, 1); n != 1 || err != nil {
			t.Fatalf("%d %v", n, err)
		}
		for d := []byte{255}; d[0] != byte(i); { // datagrams of 255 may still come
			select {
			case d = <-got:
			case <-time.After(30 * time.Second):
				t.Fatalf("datagram %d did not come", i)
			}
			if d[0] != byte(i) && d[0] != 255 {
				t.Fatalf("datagram %d came instead of %d", d[0], i)
			}
		}
	}
	if k := x.Stats().Auth.Keyings; k != 1 {
		t.Errorf("connected %d times", k)
	}
}

// TestSendNeverWaits sends faster than QUIC does. Send must refuse and count the datagrams that do
// not fit the queue, and must return at once. Most calls find the queue full, so the median time
// shows whether Send waits.
func TestSendNeverWaits(t *testing.T) {
	a, b := ends(t)
	x, y := a(t, quicport.Options{}), b(t, quicport.Options{})
	reads(x)
	reads(y)
	join(t, x, y)
	stood := pulse(t)
	data := make([]byte, 40*1200)
	var took []time.Duration
	for range 1000 {
		begin, before := time.Now(), stood()
		if _, err := x.Send(data, 1200); err != nil {
			t.Fatal(err)
		}
		d := time.Since(begin)
		if still := stood() - before; d-still > time.Second {
			t.Fatalf("Send took %v, of which this process was stalled for %v", d, still)
		}
		took = append(took, d)
	}
	slices.Sort(took)
	if d := took[len(took)/2]; d > time.Millisecond {
		t.Errorf("half of the calls took longer than %v", d)
	}
	if s := x.Stats(); s.SendFull < 20000 || s.Sent+s.SendFull != 40000 {
		t.Errorf("%+v", s)
	}
}

// TestKeyLog checks that a KeyLog gets a connection's secrets, and that a subscriber gets each line once.
func TestKeyLog(t *testing.T) {
	a, b := ends(t)
	var k transport.KeyLog
	x, y := a(t, quicport.Options{KeyLog: &k}), b(t, quicport.Options{})
	reads(x)
	reads(y)
	join(t, x, y)
	var got []byte
	cancel := k.Subscribe(func(l []byte) { got = append(got, l...) })
	if !bytes.Contains(got, []byte("CLIENT_TRAFFIC_SECRET_0 ")) || !bytes.Contains(got, []byte("SERVER_TRAFFIC_SECRET_0 ")) {
		t.Fatalf("%q", got)
	}
	n := len(got)
	k.Write([]byte("NEW line\n"))
	cancel()
	k.Write([]byte("LATER line\n"))
	if string(got[n:]) != "NEW line\n" || !bytes.HasPrefix(k.Lines(), got) {
		t.Errorf("%q", got[n:])
	}
}

func TestErrors(t *testing.T) {
	dir := papers(t, "lab", time.Now(), time.Hour)
	c := chip(t, dir, "lab", chip0)
	local := netip.MustParseAddrPort("127.0.0.1:0")
	for _, x := range []struct {
		o    quicport.Options
		want string
	}{
		{quicport.Options{Local: local, Cable: transport.Cable{From: lower, To: upper}}, "pki make"},
		{quicport.Options{Local: local, Chip: c, Cable: transport.Cable{From: lower, To: lower}}, "two ports"},
		{quicport.Options{Local: local, Chip: c, Cable: transport.Cable{Fabric: "lab", From: upper, To: lower}}, "belongs to chip M0D0"},
		{quicport.Options{Chip: c, Cable: transport.Cable{Fabric: "lab", From: lower, To: upper}}, "no local address"},
	} {
		if _, err := quicport.Listen(x.o); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v, want %q", err, x.want)
		}
	}
}
