//go:build linux

package netem

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"ttfabric/ttlink/fault"
)

// inNamespace moves the test's thread into a new network namespace, and sets the loopback interface
// up.
func inNamespace(t *testing.T) *Host {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread and its namespace end with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("needs root, to make a network namespace: %v", err)
	}
	h, err := Open("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	lo, err := h.h.LinkByName("lo")
	if err == nil {
		err = h.h.LinkSetUp(lo)
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// tc runs tc(8) in the test's namespace. The child process inherits the namespace from the thread.
func tc(t *testing.T, args string) string {
	t.Helper()
	out, err := exec.Command("tc", strings.Fields(args)...).CombinedOutput()
	if err != nil {
		t.Fatalf("tc %s: %v: %s", args, err, out)
	}
	return string(out)
}

func needTC(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("tc"); err != nil {
		t.Skip("needs the command tc of iproute2")
	}
}

func src(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// split returns a chain of one tbf, which does not need netem.
func split() []qdisc { return []qdisc{{kind: "tbf", options: splitOptions(2000)}} }

// TestOnePortOnly checks that a class gets exactly the packets that its port sends, over IPv4 and
// IPv6.
func TestOnePortOnly(t *testing.T) {
	h := inNamespace(t)
	for _, from := range []string{"0.0.0.0:17001", "127.0.0.1:17002", "[::1]:17003"} {
		if err := h.grow(loopback, "lo", src(from), split()); err != nil {
			t.Fatal(err)
		}
	}
	send := func(from, to string) {
		t.Helper()
		s, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(src(from)), net.UDPAddrFromAddrPort(src(to)))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Write(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	counts := func() (n [3]uint64) {
		t.Helper()
		for i := range n {
			got, err := h.below(loopback, 17001+uint16(i))
			if err != nil || len(got) != 1 {
				t.Fatalf("%v, %v", got, err)
			}
			n[i] = got[0].counters.Packets
		}
		return n
	}
	for _, x := range []struct {
		from, to string
		want     [3]uint64 // packets that the send adds to each class
	}{
		{"127.0.0.1:17001", "127.0.0.1:9", [3]uint64{1, 0, 0}},
		{"127.0.0.2:17001", "127.0.0.1:9", [3]uint64{1, 0, 0}},
		{"[::1]:17001", "[::1]:9", [3]uint64{1, 0, 0}},
		{"127.0.0.1:17002", "127.0.0.1:9", [3]uint64{0, 1, 0}},
		{"127.0.0.2:17002", "127.0.0.1:9", [3]uint64{}}, // datagram from another address
		{"[::1]:17002", "[::1]:9", [3]uint64{}},         // datagram of another address family
		{"[::1]:17003", "[::1]:9", [3]uint64{0, 0, 1}},
		{"127.0.0.1:17003", "127.0.0.1:9", [3]uint64{}},
		{"127.0.0.1:17004", "127.0.0.1:17001", [3]uint64{}}, // the impaired port is the destination, and not the source
	} {
		before := counts()
		send(x.from, x.to)
		got := counts()
		for i := range got {
			got[i] -= before[i]
		}
		if got != x.want {
			t.Errorf("from %s to %s: %v packets in the classes, want %v", x.from, x.to, got, x.want)
		}
	}
	states, err := h.States()
	if err != nil || len(states) != 3 || states[1].Source != src("127.0.0.1:17002") || states[2].Source != src("[::1]:17003") || states[0].Interface != "lo" {
		t.Errorf("%+v, %v", states, err)
	}
}

// TestPutBack impairs ports of an interface that has a qdisc already, and removes the impairments
// through another Host. The earlier qdisc must then be restored exactly.
func TestPutBack(t *testing.T) {
	prio := append(u32s(3), 1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1)                         // struct tc_prio_qopt
	slow := appendAttr(nil, 1, slices.Concat(rateSpec(125000), rateSpec(0), u32s(16250, 1<<20, 0))) // TCA_TBF_PARMS of 1 Mbit/s
	for _, was := range []qdisc{{}, {kind: "pfifo", options: u32s(77)}, {kind: "bfifo", options: u32s(12345)}, {kind: "tbf", handle: 5 << 16, options: slow},
		{kind: "pfifo_fast", handle: 10 << 16}, {kind: "prio", options: prio}, {kind: "fq"}, {kind: "fq_codel"}, {kind: "codel"}, {kind: "cake"}, {kind: "sfq", options: u32s(1514, 10, 127, 1024, 100)},
		{kind: "pie"}, {kind: "netem", options: (&stage{limit: 9, latency: time.Millisecond, loss: .01}).encode()}} {
		t.Run("beside "+was.kind, func(t *testing.T) {
			h := inNamespace(t)
			if was.kind != "" {
				was.index, was.parent = loopback, netlink.HANDLE_ROOT
				if err := h.make(unix.NLM_F_CREATE|unix.NLM_F_EXCL, was); errors.Is(err, ErrMissing) {
					t.Skip(err)
				} else if err != nil {
					t.Fatal(err)
				}
			}
			list := func() string {
				t.Helper()
				qs, err := h.qdiscs(loopback)
				if err != nil {
					t.Fatal(err)
				}
				out := ""
				for _, q := range qs {
					out += fmt.Sprintf("%s %x at %x: %x\n", q.kind, q.handle, q.parent, q.options)
				}
				return out
			}
			before := list()
			for _, port := range []string{"127.0.0.1:17001", "127.0.0.1:17002"} {
				if err := h.grow(loopback, "lo", src(port), split()); err != nil {
					t.Fatal(err)
				}
			}
			if during := list(); !strings.Contains(during, "htb 74740000 at ffffffff") || was.kind != "" && !strings.Contains(during, "at 74740001") {
				t.Errorf("%s", during)
			}
			again, err := Open("")
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			states, err := again.States()
			if err != nil || len(states) != 2 {
				t.Fatalf("%+v, %v", states, err)
			}
			if err := again.Reset(states[0]); err != nil {
				t.Fatal(err)
			}
			if left, err := h.States(); err != nil || len(left) != 1 || left[0].Source.Port() != 17002 {
				t.Errorf("%+v, %v", left, err)
			}
			if err := again.Reset(states[1]); err != nil {
				t.Fatal(err)
			}
			if after := list(); after != before {
				t.Errorf("before: %safter: %s", before, after)
			}
			if err := again.Reset(); err != nil {
				t.Errorf("a reset without impairments failed: %v", err)
			}
		})
	}
}

// TestRefusesWhatCannotBePutBack checks that grow refuses to replace a qdisc with classes or with
// other qdiscs below it.
func TestRefusesWhatCannotBePutBack(t *testing.T) {
	needTC(t)
	for _, cmds := range []string{"qdisc add dev lo root handle 1: htb default 1", "qdisc add dev lo root handle 1: tbf rate 1mbit burst 10kb latency 50ms\nqdisc add dev lo parent 1:1 handle 2: pfifo"} {
		h := inNamespace(t)
		for cmd := range strings.SplitSeq(cmds, "\n") {
			tc(t, cmd)
		}
		before := tc(t, "qdisc show dev lo")
		err := h.grow(loopback, "lo", src("127.0.0.1:17001"), split())
		if err == nil || !strings.Contains(err.Error(), "could not be restored exactly") {
			t.Errorf("%s: %v", cmds, err)
		}
		if after := tc(t, "qdisc show dev lo"); after != before {
			t.Errorf("before: %safter: %s", before, after)
		}
	}
}

// TestRefusesWhatItsDescriptionDoesNotTell checks that grow refuses to replace a qdisc whose copy
// would differ from the original.
func TestRefusesWhatItsDescriptionDoesNotTell(t *testing.T) {
	h := inNamespace(t)
	if err := h.make(unix.NLM_F_CREATE, qdisc{index: loopback, parent: netlink.HANDLE_ROOT, kind: "tbf", options: splitOptions(3000)}); err != nil {
		t.Fatal(err)
	}
	before, err := h.qdiscs(loopback)
	if err != nil {
		t.Fatal(err)
	}
	err = h.grow(loopback, "lo", src("127.0.0.1:17001"), split())
	if err == nil || !strings.Contains(err.Error(), "gives another qdisc") {
		t.Errorf("%v", err)
	}
	if after, err := h.qdiscs(loopback); err != nil || len(after) != len(before) || root(after).handle != root(before).handle {
		t.Errorf("before: %+v, after: %+v, %v", before, after, err)
	}
}

// TestFailureChangesNothing checks that a failing grow leaves the interface unchanged. Here the
// kernel lacks a kind of qdisc.
func TestFailureChangesNothing(t *testing.T) {
	needTC(t)
	h := inNamespace(t)
	tc(t, "qdisc add dev lo root handle 9: pfifo limit 77")
	before := tc(t, "qdisc show dev lo")
	err := h.grow(loopback, "lo", src("127.0.0.1:17001"), []qdisc{split()[0], {kind: "nonesuch"}})
	var missing *MissingError
	if !errors.As(err, &missing) || missing.Module != "sch_nonesuch" || !errors.Is(err, ErrMissing) {
		t.Errorf("%v", err)
	}
	if after := tc(t, "qdisc show dev lo"); after != before {
		t.Errorf("before: %safter: %s", before, after)
	}
	// The failure must not remove the impairment of another cable.
	if err := h.grow(loopback, "lo", src("127.0.0.1:17002"), split()); err != nil {
		t.Fatal(err)
	}
	if err := h.grow(loopback, "lo", src("127.0.0.1:17001"), []qdisc{{kind: "nonesuch"}}); err == nil {
		t.Error("a qdisc that does not exist was made")
	}
	if left, err := h.States(); err != nil || len(left) != 1 || left[0].Source.Port() != 17002 {
		t.Errorf("%+v, %v", left, err)
	}
}

// TestSplit sends a super-packet of ten datagrams, and checks that the tbf passes on ten packets.
func TestSplit(t *testing.T) {
	h := inNamespace(t)
	if err := h.grow(loopback, "lo", src("127.0.0.1:17001"), split()); err != nil {
		t.Fatal(err)
	}
	to, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(src("127.0.0.1:17009")))
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	from, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(src("127.0.0.1:17001")), net.UDPAddrFromAddrPort(src("127.0.0.1:17009")))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	raw, err := from.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, 1400) })
	if err != nil {
		t.Skipf("the kernel has no UDP GSO: %v", err)
	}
	if _, err := from.Write(make([]byte, 14000)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1<<16)
	for i := range 10 {
		to.SetReadDeadline(time.Now().Add(30 * time.Second))
		if n, err := to.Read(b); err != nil || n != 1400 {
			t.Fatalf("datagram %d: %d bytes, %v", i, n, err)
		}
	}
	got, err := h.below(loopback, 17001)
	if err != nil || len(got) != 1 || got[0].counters.Packets != 10 || got[0].counters.Drops != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestNetem sets impairments in the kernel, and reads them back. The test is skipped if the kernel
// has no netem.
func TestNetem(t *testing.T) {
	if err := Probe(); err != nil {
		t.Skip(err)
	}
	h := inNamespace(t)
	to := netip.MustParseAddr("127.0.0.1")
	seed := uint64(5)
	for i, o := range []fault.Options{
		{Delay: 10 * time.Millisecond},
		{Delay: 10 * time.Millisecond, Loss: .01},
		{Delay: 10 * time.Millisecond, Loss: .01, Reorder: .1},
		{Reorder: .1}, {Rate: 1e6}, {Burst: fault.Burst{ToBad: .01, ToGood: .1, LossBad: 1}}, {Corrupt: .1, Loss: .3}, {Duplicate: .2},
	} {
		if err := h.Set(Source{src("127.0.0.1:17001"), to}, o, &seed); err != nil {
			t.Fatal(err)
		}
		states, err := h.States()
		if err != nil || len(states) != 1 || states[0].Options != o {
			t.Errorf("%d: %+v became %+v, %v", i, o, states, err)
		}
	}
	if err := h.Set(Source{src("127.0.0.1:17001"), to}, fault.Options{}, nil); err != nil {
		t.Fatal(err)
	}
	if states, err := h.States(); err != nil || len(states) != 0 {
		t.Errorf("%+v, %v", states, err)
	}
}

// TestSayWhatIsMissing checks that the error on a kernel without netem names the module and a
// remedy. Probe must leave no threads behind.
func TestSayWhatIsMissing(t *testing.T) {
	err := Probe()
	if errors.Is(err, ErrRights) || err == nil {
		t.Skipf("the kernel has netem, or the process has no rights for a trial: %v", err)
	}
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "modprobe sch_netem") || !strings.Contains(err.Error(), "without") && !strings.Contains(err.Error(), "leave out --backend kernel") {
		t.Error(err)
	}
	threads := func() int {
		tasks, _ := os.ReadDir("/proc/self/task")
		return len(tasks)
	}
	before := threads()
	for range 20 {
		_ = Probe()
	}
	for end := time.Now().Add(30 * time.Second); threads() > before+15; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("20 trials left %d threads behind", threads()-before)
		}
	}
}

// TestOpenRefuses checks that the error for a missing namespace names the namespace.
func TestOpenRefuses(t *testing.T) {
	for _, ns := range []string{"no-such-namespace", "999999999", "/etc/passwd"} {
		if h, err := Open(ns); err == nil || !slices.Contains([]bool{strings.Contains(err.Error(), ns)}, true) {
			t.Errorf("%s: %v, %v", ns, h, err)
		}
	}
}
