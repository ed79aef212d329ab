package transport

import (
	"errors"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

func openLinux(t *testing.T, o Options) *udp {
	t.Helper()
	if !o.Local.IsValid() {
		o.Local = loopback
	}
	p, err := Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p.(*udp)
}

func joinedLinux(t *testing.T, o Options) (a, b *udp) {
	t.Helper()
	a, b = openLinux(t, o), openLinux(t, o)
	if err := errors.Join(a.SetPeer(b.local), b.SetPeer(a.local)); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// gather receives n datagrams and returns their sizes.
func gather(t *testing.T, u *udp, n int) []int {
	t.Helper()
	stop := time.AfterFunc(30*time.Second, func() { u.Close() })
	defer stop.Stop()
	var sizes []int
	var b Batch
	for len(sizes) < n {
		if err := u.Recv(&b); err != nil {
			t.Fatalf("%d of %d datagrams arrived: %v, counters %+v", len(sizes), n, err, u.Stats())
		}
		b.Each(func(d []byte) { sizes = append(sizes, len(d)) })
	}
	return sizes
}

func TestOffloadsCrossWhole(t *testing.T) {
	a, b := joinedLinux(t, Options{})
	if s := a.Stats(); !s.GSO || !s.GRO || !s.Batching {
		t.Skipf("this kernel has no offloads: %+v", s)
	}
	runs := make([]Run, 8)
	for i := range runs {
		runs[i] = Run{make([]byte, 64*100), 100}
	}
	if n, err := a.SendBatch(runs); n != 512 || err != nil {
		t.Fatal(n, err)
	}
	if s := a.Stats(); s.SendCalls != 1 {
		t.Errorf("512 datagrams in 8 runs took %d calls, want 1", s.SendCalls)
	}
	var batch Batch
	if err := b.Recv(&batch); err != nil {
		t.Fatal(err)
	}
	if s := batch.Supers(); len(s) != 8 || s[0].Seg != 100 || len(s[0].Data) != 6400 || batch.Len() != 512 {
		t.Errorf("%d super-packets of %d datagrams", len(s), batch.Len())
	}
	if s := b.Stats(); s.ReceiveCalls != 1 || s.Received != 512 {
		t.Errorf("%+v", s)
	}
	// A super-packet holds at most 64 datagrams and at most 65,507 bytes.
	for _, c := range []struct {
		seg, total int
		want       []int
	}{{64, 130 * 64, []int{4096, 4096, 128}}, {4224, 33*4224 + 1, []int{15 * 4224, 15 * 4224, 3*4224 + 1}}, {40000, 80000, []int{40000, 40000}}} {
		a.Send(make([]byte, c.total), c.seg)
		if err := b.Recv(&batch); err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, s := range batch.Supers() {
			got = append(got, len(s.Data))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d bytes as %d each crossed in super-packets of %v, want %v", c.total, c.seg, got, c.want)
		}
	}
}

// TestForcedOff checks that a port uses no offload and no batches if the options forbid them.
func TestForcedOff(t *testing.T) {
	a, b := joinedLinux(t, Options{GSO: Off, GRO: Off, Batch: Off})
	if s := a.Stats(); s.GSO || s.GRO || s.Batching {
		t.Errorf("%+v", s)
	}
	a.Send(make([]byte, 1000), 100)
	gather(t, b, 10)
	if s := a.Stats(); s.SendCalls != 10 {
		t.Errorf("10 datagrams in %d calls", s.SendCalls)
	}
	if s := b.Stats(); s.ReceiveCalls != 10 {
		t.Errorf("10 datagrams came in %d calls", s.ReceiveCalls)
	}
}

// TestGSOFailsAtRunTime checks that a send continues with single datagrams if the kernel refuses a
// super-packet. To cause the refusal, the test switches off the socket's checksums (udp_send_skb).
func TestGSOFailsAtRunTime(t *testing.T) {
	a, b := joinedLinux(t, Options{})
	if !a.gso.Load() {
		t.Skip("this kernel has no GSO")
	}
	if err := a.control(func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1) }); err != nil {
		t.Fatal(err)
	}
	runs := []Run{{make([]byte, 1), 1}, {make([]byte, 1050), 100}, {make([]byte, 640), 64}}
	if n, err := a.SendBatch(runs); n != 22 || err != nil {
		t.Fatalf("%d of 22 datagrams were sent, %v", n, err)
	}
	sizes := gather(t, b, 22)
	if sizes[0] != 1 || sizes[1] != 100 || sizes[11] != 50 || sizes[12] != 64 || len(sizes) != 22 {
		t.Errorf("sizes %v", sizes)
	}
	if s := a.Stats(); s.GSO || s.GSOGivenUp != 1 || s.Sent != 22 {
		t.Errorf("%+v", s)
	}
	if err := a.SetPeer(b.local); err != nil || !a.Stats().GSO {
		t.Errorf("the port does not try super-packets with a new peer: %v", err)
	}
}

// TestRefusalsAreCounted sends to a peer that is closed. The port must count the ICMP errors, and
// neither Send nor Recv may return an error.
func TestRefusalsAreCounted(t *testing.T) {
	a, b := joinedLinux(t, Options{})
	done := make(chan error, 1)
	go func() {
		var batch Batch
		done <- a.Recv(&batch)
	}()
	b.Close()
	for range 50 {
		if n, err := a.Send(make([]byte, 300), 100); err != nil {
			t.Fatal(n, err)
		}
	}
	if s := a.Stats(); s.Refused == 0 {
		t.Errorf("no refusal was counted: %+v", s)
	}
	select {
	case err := <-done:
		t.Fatalf("Recv ended: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	c := openLinux(t, Options{Local: b.local}) // a new port opens at the peer's address
	if err := c.SetPeer(a.local); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c.Send([]byte("back"), 4)
		a.Send([]byte("seen"), 4)
	}
	gather(t, c, 3)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestOverrunIsCounted sends more than a receiver's buffer holds while nobody reads. The receiver
// must count the dropped messages.
func TestOverrunIsCounted(t *testing.T) {
	a, b := joinedLinux(t, Options{ReceiveBuffer: MaxDatagram})
	for range 100 {
		if _, err := a.Send(make([]byte, 60000), 60000); err != nil {
			t.Fatal(err)
		}
	}
	got := b.Stats().Overrun
	if got == 0 || got > 100 {
		t.Errorf("Overrun = %d of 100", got)
	}
	gather(t, b, 100-int(got))
	b.Close()
	if after := b.Stats().Overrun; after != got {
		t.Errorf("Overrun is %d after Close and %d before", after, got)
	}
}

// TestIdlePortHoldsNoBuffers checks that a Batch has no memory while Recv waits.
func TestIdlePortHoldsNoBuffers(t *testing.T) {
	a, b := joinedLinux(t, Options{})
	a.Send([]byte("x"), 1)
	var batch Batch
	if err := b.Recv(&batch); err != nil {
		t.Fatal(err)
	}
	if batch.block == nil {
		t.Fatal("the Batch holds a datagram but no memory")
	}
	done := true
	if err := b.raw.Control(func(fd uintptr) { done = batch.sys.call(fd) }); err != nil || done {
		t.Fatalf("a receive without a datagram does not wait: %v", err)
	}
	if batch.block != nil || batch.sys.iov[0].Base != nil || batch.supers[0].Data != nil {
		t.Error("the Batch still holds memory")
	}
}

func TestBuffersAreReported(t *testing.T) {
	s := openLinux(t, Options{ReceiveBuffer: 100_000, SendBuffer: 1 << 20}).Stats()
	if s.ReceiveBufferAsked != 100_000 || s.SendBufferAsked != 1<<20 {
		t.Errorf("asked %+v", s)
	}
	if s.ReceiveBuffer < 90_000 || s.ReceiveBuffer > 110_000 || s.SendBuffer < 100_000 {
		t.Errorf("granted %+v", s)
	}
}

// inNamespace moves the test into a new network namespace, and sets the MTU of its loopback
// interface.
func inNamespace(t *testing.T, mtu int) (setMTU func(int)) {
	t.Helper()
	runtime.LockOSThread() // the thread stays locked, and ends with the test's goroutine
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skip("this process may not make a network namespace:", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	request := func(op uint, set func(*unix.Ifreq)) {
		r, err := unix.NewIfreq("lo")
		if err == nil {
			set(r)
			err = unix.IoctlIfreq(fd, op, r)
		}
		if err != nil {
			t.Fatal(os.NewSyscallError("ioctl", err))
		}
	}
	setMTU = func(n int) { request(unix.SIOCSIFMTU, func(r *unix.Ifreq) { r.SetUint32(uint32(n)) }) }
	setMTU(mtu)
	request(unix.SIOCSIFFLAGS, func(r *unix.Ifreq) { r.SetUint16(unix.IFF_UP) })
	return setMTU
}

// TestPathShrinks checks a port on a path with the MTU of ethernet, with and without super-packets.
// When the MTU becomes smaller, MaxDatagram must become smaller too, and datagrams that are too
// long must be counted.
func TestPathShrinks(t *testing.T) {
	setMTU := inNamespace(t, 1500)
	for _, gso := range []Mode{Auto, Off} {
		setMTU(1500)
		a, b := joinedLinux(t, Options{GSO: gso})
		if n := a.MaxDatagram(); n != 1472 {
			t.Fatalf("MaxDatagram is %d at MTU 1500, want 1472", n)
		}
		data := make([]byte, 20*1472)
		if n, err := a.Send(data, 1472); n != 20 || err != nil {
			t.Fatal(n, err)
		}
		gather(t, b, 20)
		if n, err := a.Send(data, 1473); n > 1 || err != nil { // the last datagram is short and may fit
			t.Errorf("%d datagrams that are a byte too long were sent, %v", n, err)
		}
		setMTU(1400)
		n, err := a.Send(data, 1472)
		if n != 0 || err != nil || a.MaxDatagram() != 1372 || a.Stats().TooLong == 0 {
			t.Errorf("after the MTU became smaller: %d datagrams sent, %v, MaxDatagram %d, counters %+v", n, err, a.MaxDatagram(), a.Stats())
		}
		if s := a.Stats(); s.GSO != (gso == Auto) {
			t.Errorf("the port stopped super-packets because of a datagram that is too long: %+v", s)
		}
		if n, err := a.Send(data[:20*1372], 1372); n != 20 || err != nil {
			t.Errorf("%d of 20 datagrams that fit were sent, %v", n, err)
		}
	}
}

// TestNetworkIsAway checks that SetPeer returns an error if no route leads to the peer.
func TestNetworkIsAway(t *testing.T) {
	inNamespace(t, 1500)
	a := openLinux(t, Options{Local: netip.MustParseAddrPort("0.0.0.0:0")})
	err := a.SetPeer(netip.MustParseAddrPort("192.0.2.1:9"))
	if !errors.Is(err, unix.ENETUNREACH) || !strings.Contains(err.Error(), "192.0.2.1:9") {
		t.Errorf("no route: %v", err)
	}
	if n, err := a.Send([]byte("x"), 1); n != 0 || err != nil || a.Stats().NoPeer != 1 {
		t.Errorf("Send after SetPeer failed: %d, %v", n, err)
	}
}

// TestWaiting checks that Waiting reports a datagram of the peer that the port has not received
// yet. Waiting must report no datagram of a stranger.
func TestWaiting(t *testing.T) {
	a, b := joinedLinux(t, Options{})
	stranger := openLinux(t, Options{})
	if b.Waiting() {
		t.Error("a datagram waits that nobody has sent")
	}
	a.Send([]byte("xy"), 1)
	for end := time.Now().Add(10 * time.Second); !b.Waiting() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if !b.Waiting() {
		t.Error("no datagram waits after the peer has sent two")
	}
	if gather(t, b, 2); b.Waiting() {
		t.Error("a datagram waits after the port has received both")
	}
	late := openLinux(t, Options{}) // has the stranger's datagram before it has a peer
	if err := stranger.SetPeer(late.local); err != nil {
		t.Fatal(err)
	}
	stranger.Send([]byte("z"), 1)
	time.Sleep(20 * time.Millisecond)
	if err := late.SetPeer(a.local); err != nil {
		t.Fatal(err)
	}
	if late.Waiting() {
		t.Error("the datagram of a stranger counts as one of the peer")
	}
}
