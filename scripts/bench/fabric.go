package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"ttfabric/membership"
	"ttfabric/node"
	"ttfabric/node/session"
	"ttfabric/router"
	"ttfabric/router/topo"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
)

// static is a membership of two chips that know each other from the start.
type static struct {
	view   []membership.Member
	notify chan struct{}
}

func (s *static) Notify() <-chan struct{}    { return s.notify }
func (s *static) View() []membership.Member  { return s.view }
func (s *static) Events() []membership.Event { return nil }
func (s *static) UpdateMeta(membership.Meta) {}
func (s *static) Addr() netip.AddrPort       { return netip.AddrPort{} }
func (s *static) Close(time.Duration) error  { return nil }

// startChip starts one chip of an n300; swap tells the other process our metadata and returns its.
func startChip(chip int, swap func(mine []byte) ([]byte, error)) (*node.Node, error) {
	m, err := topo.Named("n300")
	if err != nil {
		return nil, err
	}
	return node.Start(context.Background(), node.Config{Node: m.Chips[chip].Node, Topology: m, Incarnation: wire.Incarnation(time.Now().UnixNano()), Slots: router.SlotFast,
		Port: func(a netip.AddrPort) (transport.Port, error) { return transport.Listen(transport.Options{Local: a}) },
		Join: func(_ context.Context, meta membership.Meta) (node.Membership, error) {
			b, err := swap(meta.Append(nil))
			if err != nil {
				return nil, err
			}
			other, err := membership.DecodeMeta(b)
			return &static{[]membership.Member{{Addr: netip.MustParseAddr("127.0.0.1"), Meta: other}}, make(chan struct{})}, err
		}})
}

func farSession() error {
	in := bufio.NewScanner(os.Stdin)
	n, err := startChip(1, func(mine []byte) ([]byte, error) {
		fmt.Println(hex.EncodeToString(mine))
		if !in.Scan() {
			return nil, io.EOF
		}
		return hex.DecodeString(in.Text())
	})
	if err != nil {
		return err
	}
	defer n.Close()
	for in.Scan() {
	}
	return nil
}

// writes is the number of timed writes of a size.
func writes(size int) int {
	if size > 1<<16 {
		return 200
	}
	return 3000
}

var writeSizes = []int{4096, 1 << 20}

// sessions times session writes over one hop, and TCP requests of the same size that are answered by one byte.
func sessions(round int, r *rand.Rand) ([]result, error) {
	var rs []result
	for _, size := range writeSizes {
		for _, k := range r.Perm(2) {
			name, f := "session write", sessionWrites
			if k == 1 {
				name, f = "tcp request", tcpRequests
			}
			us, err := f(size)
			if err != nil {
				return nil, err
			}
			rs = append(rs, result{fmt.Sprintf("write of %d B over one hop", size), name, "µs", round, us})
		}
	}
	return rs, nil
}

func sessionWrites(size int) (float64, error) {
	o, err := spawn("session", "")
	if err != nil {
		return 0, err
	}
	defer o.end()
	n, err := startChip(0, func(mine []byte) ([]byte, error) {
		theirs, err := o.ask("")
		if err != nil {
			return nil, err
		}
		if _, err := fmt.Fprintln(o.in, hex.EncodeToString(mine)); err != nil {
			return nil, err
		}
		return hex.DecodeString(theirs)
	})
	if err != nil {
		return 0, err
	}
	defer n.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := session.New(n)
	if err := s.Ready(ctx); err != nil {
		return 0, err
	}
	data := make([]byte, size)
	dst, at := wire.FabricNodeID{Chip: 1}, wire.NewNocAddr(0, 0, 0)
	begin := time.Now()
	for range writes(size) {
		if err := s.Write(ctx, dst, at, data); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(begin).Microseconds()) / float64(writes(size)), nil
}

func tcpRequests(size int) (float64, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	exe, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(exe, "-far", "tcp-answer", "-task", fmt.Sprintf("%s %d", l.Addr(), size))
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	c, err := l.Accept()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	data, one := make([]byte, size), make([]byte, 1)
	begin := time.Now()
	for range writes(size) {
		if _, err := c.Write(data); err != nil {
			return 0, err
		}
		if _, err := io.ReadFull(c, one); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(begin).Microseconds()) / float64(writes(size)), nil
}

// tcpAnswer is the far end of tcpRequests.
func tcpAnswer(task string) error {
	addr, n, _ := strings.Cut(task, " ")
	size, err := strconv.Atoi(n)
	if err != nil {
		return err
	}
	c, err := net.Dial("tcp4", addr)
	if err != nil {
		return err
	}
	b := make([]byte, size)
	for {
		if _, err := io.ReadFull(c, b); err != nil {
			return nil
		}
		c.Write(b[:1])
	}
}

// idleTime is how long the idle fabric is watched.
const idleTime = 20 * time.Second

// idle is the cost of 32 chips that do nothing.
func idle(ttfabric string) ([]result, error) {
	name := fmt.Sprintf("bench-%d", os.Getpid())
	up := exec.Command(ttfabric, "up", "mesh:4x8", "-d", "--name", name)
	up.Stderr = os.Stderr
	defer exec.Command(ttfabric, "down", "--name", name).Run()
	if err := up.Run(); err != nil {
		return nil, err
	}
	time.Sleep(10 * time.Second)
	a, n, err := cpuTicks(name)
	if err != nil {
		return nil, err
	}
	time.Sleep(idleTime)
	b, m, err := cpuTicks(name)
	if err != nil {
		return nil, err
	}
	if n != 32 || m != 32 {
		return nil, fmt.Errorf("%d and %d of 32 chips were running", n, m)
	}
	const ticksPerSecond = 100 // USER_HZ on every Linux that Go runs on
	pss, err := pssKiB(name)
	return []result{
		{"idle CPU of 32 chips in sum", "up mesh:4x8", "% of a core", 0, float64(b-a) / ticksPerSecond / idleTime.Seconds() * 100},
		{"idle memory (PSS) per chip", "up mesh:4x8", "MiB", 0, float64(pss) / 1024 / 32},
	}, err
}

// processes are the chips of a fabric.
func processes(name string) ([]string, error) {
	ents, err := os.ReadDir("/proc")
	var out []string
	for _, e := range ents {
		b, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if a := strings.Split(string(b), "\x00"); len(a) > 4 && a[1] == "node" && strings.HasSuffix(a[3], "/"+name) {
			out = append(out, e.Name())
		}
	}
	return out, err
}

func cpuTicks(name string) (sum uint64, n int, err error) {
	ps, err := processes(name)
	for _, p := range ps {
		b, err := os.ReadFile("/proc/" + p + "/stat")
		if err != nil {
			return 0, 0, err
		}
		f := strings.Fields(string(b)[strings.LastIndexByte(string(b), ')')+1:])
		if len(f) < 13 {
			return 0, 0, errors.New("/proc/PID/stat is short")
		}
		u, _ := strconv.ParseUint(f[11], 10, 64)
		s, _ := strconv.ParseUint(f[12], 10, 64)
		sum += u + s
	}
	return sum, len(ps), err
}

func pssKiB(name string) (sum uint64, err error) {
	ps, err := processes(name)
	for _, p := range ps {
		b, err := os.ReadFile("/proc/" + p + "/smaps_rollup")
		if err != nil {
			return 0, err
		}
		for _, l := range strings.Split(string(b), "\n") {
			var k uint64
			if _, err := fmt.Sscanf(l, "Pss: %d kB", &k); err == nil {
				sum += k
			}
		}
	}
	return sum, err
}
