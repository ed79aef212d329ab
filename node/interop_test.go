package node_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"ttfabric/membership"
	"ttfabric/node"
	"ttfabric/node/chip"
	"ttfabric/node/session"
	"ttfabric/node/session/linear"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
)

// fixed is a membership with one other member, which never changes.
type fixed struct{ m membership.Member }

func (f fixed) Notify() <-chan struct{}     { return nil }
func (f fixed) View() []membership.Member   { return []membership.Member{f.m} }
func (f fixed) Events() []membership.Event  { return nil }
func (f fixed) UpdateMeta(membership.Meta)  {}
func (f fixed) Addr() netip.AddrPort        { return netip.AddrPort{} }
func (f fixed) Close(_ time.Duration) error { return nil }

// foreign is a process that runs the other implementation of the protocol, testdata/peer.py.
type foreign struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// startForeign starts the other implementation. The process inherits the sockets, as its descriptors from
// 3 on.
func startForeign(t *testing.T, sockets []*os.File, args ...string) *foreign {
	t.Helper()
	cmd := exec.Command("python3", append([]string{"testdata/peer.py"}, args...)...)
	cmd.ExtraFiles = sockets
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if complaints.Len() > 0 {
			t.Errorf("the other implementation wrote to stderr:\n%s", &complaints)
		}
	})
	return &foreign{cmd, in, bufio.NewScanner(out)}
}

func (f *foreign) says(t *testing.T, want string) {
	t.Helper()
	late := time.AfterFunc(patience, func() { f.cmd.Process.Kill() })
	defer late.Stop()
	if !f.out.Scan() || f.out.Text() != want {
		t.Fatalf("the other implementation says %q; want %q", f.out.Text(), want)
	}
}

// socketFor opens a UDP socket of loopback for another process, and returns the socket and its port. This process
// keeps the socket open until the end of the test, so nobody else can take the port between two processes.
func socketFor(t *testing.T) (*os.File, uint16) {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.File()
	c.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, uint16(c.LocalAddr().(*net.UDPAddr).Port)
}

// TestOtherImplementation runs a chip beside a chip of another implementation, which was written in
// Python from the documentation of package wire. The two chips exchange every command in both
// directions, with loss, and after a restart. Gossip tells our chip the life of the first process of
// the other implementation, but not that of the second process.
func TestOtherImplementation(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("the other implementation needs python3")
	}
	for _, loss := range []string{"0", "0.05"} {
		t.Run("loss "+loss, func(t *testing.T) { besideForeign(t, loss) })
	}
	t.Run("links stay up", linksToForeign)
}

// besideForeign makes both implementations send every command to each other. The links go down only
// after a long silence, because the Python interpreter may have to wait for a core.
func besideForeign(t *testing.T, loss string) {
	slow := ttlink.ProfileCrowded
	slow.DeadTraffic, slow.DeadIdle = 4*time.Second, 5*time.Second
	n, sockets, args := nextToForeign(t, slow, loss)
	f := startForeign(t, sockets, append(args, fmt.Sprint(uint64(foreignLife)))...)
	f.says(t, "up")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s := session.New(n)
	if err := s.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	weAsk(ctx, t, s)
	theyAsk(t, f)
	writesOverTheCable(ctx, t, s, f)
	// Kill the other implementation, and start a new process of it.
	f.cmd.Process.Kill()
	f.cmd.Wait()
	f = startForeign(t, sockets, args...)
	f.says(t, "up")
	if err := s.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	weAsk(ctx, t, s)
	theyAsk(t, f)
	writesOverTheCable(ctx, t, s, f)
	f.in.Close() // the other implementation sends close frames and ends
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		st, _ := n.Status()
		if st.PortsUp == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the links stay up after the other implementation has closed them")
		}
	}
}

// foreignLife is the incarnation of the other implementation that gossip tells our chip.
const foreignLife wire.Incarnation = 0xFEED0000DECAF001

// nextToForeign starts our chip, and returns the sockets and the arguments for the process of the other
// implementation.
func nextToForeign(t *testing.T, profile ttlink.Profile, loss string) (n *node.Node, sockets []*os.File, args []string) {
	t.Helper()
	m, err := topo.Named("mesh:1x2")
	if err != nil {
		t.Fatal(err)
	}
	theirs := membership.Member{Addr: netip.MustParseAddr("127.0.0.1")}
	theirs.Meta.Node, theirs.Meta.Incarnation = wire.FabricNodeID{Chip: 1}, foreignLife
	for ch := 4; ch <= 5; ch++ {
		f, port := socketFor(t)
		sockets, theirs.Meta.Ports[ch] = append(sockets, f), port
	}
	var ours membership.Meta
	n, err = node.Start(context.Background(), node.Config{Topology: m, Incarnation: 0x1234567890ABCDEF, Behaviour: chip.Behaviour{Profile: profile},
		Port: func(a netip.AddrPort) (transport.Port, error) {
			return transport.Listen(transport.Options{Local: a})
		},
		Join: func(_ context.Context, meta membership.Meta) (node.Membership, error) {
			ours = meta
			return fixed{theirs}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n, sockets, []string{fmt.Sprint(uint32(m.Hash())), "fd3", "fd4", fmt.Sprint(ours.Ports[0]), fmt.Sprint(ours.Ports[1]), loss}
}

// linksToForeign checks that no link goes down under load, with the link profile of chips that
// share cores. The test measures how long this process and the interpreter wait for a core. The
// test does not judge a period with a long wait.
func linksToForeign(t *testing.T) {
	const wanted, most = 3, 50
	profile := ttlink.ProfileCrowded
	n, sockets, args := nextToForeign(t, profile, "0")
	f := startForeign(t, sockets, args...)
	f.says(t, "up")
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	s, ns, worst := session.New(n), []*node.Node{n}, standstill(t)
	big, got := bytes.Repeat([]byte("foreign"), 10_000), make([]byte, 70_000)
	judged, tries := 0, 0
	for ; judged < wanted && tries < most; tries++ {
		for st, _ := n.Status(); st.PortsUp < len(st.Ports); st, _ = n.Status() {
			if time.Sleep(time.Millisecond); ctx.Err() != nil {
				t.Fatal("a link stays down")
			}
		}
		worst()
		before, waited, err := retrains(ns), f.waited(t), error(nil)
		for plane := range wire.Plane(2) {
			err = errors.Join(err, s.Write(ctx, chipID(1), wire.NewNocAddr(1, 1, 0), big, session.OnPlane(plane)),
				s.Read(ctx, chipID(1), wire.NewNocAddr(1, 1, 0), got, session.OnPlane(plane)))
		}
		down, stood, waited := retrains(ns)-before, worst(), f.waited(t)-waited
		if stood < profile.DeadTraffic/hands && waited < profile.DeadTraffic/2 {
			if judged++; down != 0 || err != nil || !bytes.Equal(got, big) {
				t.Fatalf("links went down %d times, and commands ended with %v, although this process never stood still for longer than %v and the interpreter waited for a core only %v", down, err, stood, waited)
			}
		}
	}
	t.Logf("%d of %d stretches judged", judged, tries)
}

// waited returns the total time for which the other implementation could run but had no core
// (proc(5), /proc/PID/schedstat).
func (f *foreign) waited(t *testing.T) time.Duration {
	t.Helper()
	var ran, waited time.Duration
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", f.cmd.Process.Pid))
	if err == nil {
		_, err = fmt.Sscan(string(b), &ran, &waited)
	}
	if err != nil {
		t.Skip("this kernel does not say how long processes wait:", err)
	}
	return waited
}

// weAsk sends every command from our chip to the chip of the other implementation.
func weAsk(ctx context.Context, t *testing.T, s *session.Session) {
	t.Helper()
	to := wire.FabricNodeID{Chip: 1}
	at := func(x, y uint8, off uint64) wire.NocAddr { return wire.NewNocAddr(x, y, off) }
	expect := func(a wire.NocAddr, want []byte) {
		t.Helper()
		got := make([]byte, len(want))
		if err := s.Read(ctx, to, a, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("at %s: %.40x, %v; want %.40x", a, got, err, want)
		}
	}
	for plane := range wire.Plane(2) {
		big := make([]byte, 100_000)
		for i := range big {
			big[i] = byte(i*7 + i>>8 + int(plane))
		}
		if err := s.Write(ctx, to, at(1, 1, 4096), big, session.OnPlane(plane)); err != nil {
			t.Fatal(err)
		}
		expect(at(1, 1, 4096), big)
	}
	err := errors.Join(
		s.InlineWrite(ctx, to, at(2, 1, 0), 0x11223344),
		s.AtomicInc(ctx, to, at(2, 1, 0), 1, true),
		s.WriteInc(ctx, to, at(2, 2, 8), []byte("fused"), at(2, 2, 64), 7, false),
		s.ScatterWrite(ctx, to, []session.Chunk{{Addr: at(3, 3, 0), Data: []byte("ab")}, {Addr: at(3, 3, 64), Data: []byte("cde")}}))
	if err != nil {
		t.Fatal(err)
	}
	// OtherWay takes the other direction round a ring. This mesh has no ring, but OtherWay still
	// uses a flow of its own.
	mark := make([]byte, 4)
	err = errors.Join(
		s.Write(ctx, to, at(3, 4, 0), []byte("back"), session.OtherWay()),
		s.AtomicInc(ctx, to, at(3, 4, 0), 1, false, session.OtherWay(), session.OnPlane(1)),
		s.Read(ctx, to, at(3, 4, 0), mark, session.OtherWay()))
	if err != nil || string(mark) != "cack" {
		t.Errorf("the other way round: %q, %v", mark, err)
	}
	expect(at(2, 1, 0), []byte{0x45, 0x33, 0x22, 0x11})
	expect(at(2, 2, 8), []byte("fused"))
	expect(at(3, 3, 64), []byte("cde"))
	east := session.Line(wire.East, 1, 1)
	err = errors.Join(
		s.MulticastWrite(ctx, east, at(4, 4, 0), []byte("multicast"), session.OnPlane(1)),
		s.MulticastInc(ctx, east, at(4, 4, 16), 3, true),
		s.MulticastInc(ctx, east, at(4, 4, 16), 4, false))
	if err != nil {
		t.Fatal(err)
	}
	expect(at(4, 4, 0), []byte("multicast"))
	expect(at(4, 4, 16), []byte{7, 0, 0, 0})
	ls, err := linear.Connect(s.Sender(ctx), linear.To{Dir: wire.East}, linear.To{Dir: wire.East, Plane: 1})
	if err == nil {
		err = errors.Join(linear.SparseMulticastWrite(ls[:1], []byte("members"), at(4, 5, 0), 1), linear.SparseMulticastAtomicInc(ls, at(4, 5, 16), 2, false, 1))
	}
	for range 100 {
		err = errors.Join(err, s.AtomicInc(ctx, to, at(4, 5, 32), 1, false, session.Posted()))
	}
	if err = errors.Join(err, s.Flush(ctx, to)); err != nil {
		t.Fatal(err)
	}
	expect(at(4, 5, 0), []byte("members"))
	expect(at(4, 5, 16), []byte{4, 0, 0, 0})
	expect(at(4, 5, 32), []byte{100, 0, 0, 0})
	rect := func(x0, y0, x1, y1 uint8, off uint64) wire.NocAddr {
		a, ok := wire.NewNocRect(x0, y0, x1, y1, off)
		if !ok {
			t.Fatal("no rectangle")
		}
		return a
	}
	// Column 5 and row 6 have no Tensix tile.
	err = errors.Join(
		s.Write(ctx, to, rect(4, 5, 7, 7, 0x200), []byte("in every tile")),
		s.AtomicInc(ctx, to, rect(3, 5, 8, 7, 0x240), 5, false),
		s.AtomicInc(ctx, to, rect(4, 5, 4, 5, 0x240), 6, true, session.OnPlane(1)),
		s.MulticastWrite(ctx, east, rect(1, 8, 2, 8, 0x280), []byte("both ways")))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []uint8{3, 4, 6, 7} {
		for _, y := range []uint8{5, 7, 8} {
			text, sum := make([]byte, 13), []byte{5, 0, 0, 0}
			if x != 3 && y != 8 {
				copy(text, "in every tile")
			}
			if x == 4 && y == 5 {
				sum[0] = 11
			}
			if y == 8 {
				sum[0] = 0
			}
			expect(at(x, y, 0x200), text)
			expect(at(x, y, 0x240), sum)
		}
	}
	expect(at(2, 8, 0x280), []byte("both ways"))
	var refused *session.RefusedError
	if err := s.Write(ctx, to, rect(1, 0, 9, 0, 0), []byte("x")); !errors.As(err, &refused) || refused.Outcome != wire.OutcomeBadAddress {
		t.Errorf("a NoC multicast to no Tensix tile: %v", err)
	}
	if err := s.AtomicInc(ctx, to, rect(1, 1, 2, 2, 2), 1, false); !errors.As(err, &refused) || refused.Outcome != wire.OutcomeMisaligned {
		t.Errorf("a NoC multicast increment beside a word: %v", err)
	}
	if err := s.Write(ctx, to, at(60, 60, 0), []byte("x")); !errors.As(err, &refused) || refused.Outcome != wire.OutcomeBadAddress {
		t.Errorf("a write to no tile: %v", err)
	}
	if err := s.AtomicInc(ctx, to, at(2, 1, 2), 1, false); !errors.As(err, &refused) || refused.Outcome != wire.OutcomeMisaligned {
		t.Errorf("an increment beside a word: %v", err)
	}
}

// writesOverTheCable sends L1 writes and MMIO writes both ways over the cable of our channel 0, whose ethernet tile is
// 9-0. The tile at the other end is 7-0.
func writesOverTheCable(ctx context.Context, t *testing.T, s *session.Session, f *foreign) {
	t.Helper()
	const txq = 0xFFB90000
	us, them := wire.FabricNodeID{}, wire.FabricNodeID{Chip: 1}
	data := make([]byte, 4000)
	for i := range data {
		data[i] = byte(i*11 + i>>8)
	}
	words := func(v ...uint32) (b []byte) {
		for _, x := range v {
			b = binary.LittleEndian.AppendUint32(b, x)
		}
		return b
	}
	store := func(off uint64, b []byte) {
		t.Helper()
		for {
			err := s.Write(ctx, us, wire.NewNocAddr(9, 0, off), b)
			var refused *session.RefusedError
			switch {
			case err == nil:
				return
			case !errors.As(err, &refused) || refused.Outcome != wire.OutcomeAgain:
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond) // the queue is busy
		}
	}
	arrives := func(n wire.FabricNodeID, a wire.NocAddr, want []byte) {
		t.Helper()
		got := make([]byte, len(want))
		for !bytes.Equal(got, want) {
			if err := s.Read(ctx, n, a, got); err != nil {
				t.Fatalf("at %s of chip %s: %.40x, want %.40x: %v", a, n, got, want, err)
			}
		}
	}
	store(0x20000, data)
	for q := range uint32(2) {
		store(txq+uint64(q)*0x1000+0x14, words(0x20000+q*16, uint32(len(data))-16, 0x28000+q*0x2000))
		store(txq+uint64(q)*0x1000+0x04, words(2))
		arrives(them, wire.NewNocAddr(7, 0, 0x28000+uint64(q)*0x2000), data[q*16:][:len(data)-16])
	}
	store(txq+0x44, words(5)) // the other chip has no registers, and takes the MMIO write nevertheless
	store(txq+0x1C, words(0xFFB9200C))
	store(txq+0x04, words(4))

	for q := range 2 {
		ask := fmt.Sprintf("l1write 4 %d %#x %x", q, 0x30000+q*0x2000, data)
		if _, err := fmt.Fprintln(f.in, ask); err != nil {
			t.Fatal(err)
		}
		f.says(t, ask+" sent")
		arrives(us, wire.NewNocAddr(9, 0, 0x30000+uint64(q)*0x2000), data)
	}
	for _, v := range []uint32{0x1234, 0x2345} { // START of our receive buffer
		ask := fmt.Sprintf("mmio 4 0 0xffb9200c %#x", v)
		if _, err := fmt.Fprintln(f.in, ask); err != nil {
			t.Fatal(err)
		}
		f.says(t, ask+" sent")
		arrives(us, wire.NewNocAddr(9, 0, 0xFFB9200C), words(v))
	}
}

// theyAsk sends commands from the chip of the other implementation to our chip.
func theyAsk(t *testing.T, f *foreign) {
	t.Helper()
	data := strings.Repeat("0123456789abcdef", 512) // 4 KiB
	ends := []struct{ ask, end string }{
		{"write 1 1 0x1000 " + data, "done"},
		{"read 1 1 0x1000 4096", "done " + data},
		{"write 1 2 0 00000000", "done"},
		{"inc 1 2 0 5", "done"},
		{"inc 1 2 0 6", "done"},
		{"read 1 2 0 4", "done 0b000000"},
		{"write 60 60 0 00", "bad address"},
		{"inc 1 2 2 1", "misaligned"},
		{"owrite 1 4 0 01020304", "done"},
		{"owrite 60 60 0 00", "bad address"},
		{"owrite 1 4 4 05", "done"},
		{"read 1 4 0 5", "done 0102030405"},
		{"mwrite 1 3 0 00000000", "done"},
		{"minc 1 3 0 9", "done"},
		{"minc 1 3 2 1", "misaligned"},
		{"read 1 3 0 4", "done 09000000"},
		{"nwrite 4 4 4 2 0x300 6e6f63", "done"},
		{"read 4 5 0x300 3", "done 6e6f63"},
		{"read 7 4 0x300 3", "done 6e6f63"},
		{"read 8 4 0x300 3", "done 000000"},
		{"read 4 7 0x300 3", "done 000000"},
		{"nwrite 1 8 1 1 0x310 00000000", "done"},
		{"ninc 1 8 2 1 0x310 7", "done"},
		{"ninc 1 8 1 1 0x310 2", "done"},
		{"read 1 8 0x310 4", "done 09000000"},
		{"ninc 1 1 2 2 2 1", "misaligned"},
		{"nwrite 1 0 9 1 0 00", "bad address"},
		{"nwrite 1 1 1 1 0x177000 00", "bad address"},
		{"swrite 1 5 0 616263", "done"},
		{"swrite 60 60 0 61", "bad address"},
		{"read 1 5 0 3", "done 616263"},
	}
	for _, e := range ends {
		if _, err := fmt.Fprintln(f.in, e.ask); err != nil {
			t.Fatal(err)
		}
		f.says(t, e.ask+" "+e.end)
	}
}
