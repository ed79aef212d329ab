package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ttfabric/membership"
	"ttfabric/node"
	"ttfabric/node/chip"
	"ttfabric/node/session"
	"ttfabric/router"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
)

// static is a membership of all chips of a machine, which know each other from the start.
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

// startChip starts one chip of a machine whose chips all know each other's ports. The ports of chip
// k are the 16 port numbers from base+16·k on.
func startChip(machine string, slots router.SlotProfile, self, base int) (*node.Node, error) {
	m, err := topo.Named(machine)
	if err != nil {
		return nil, err
	}
	var view []membership.Member
	for k, c := range m.Chips {
		member := membership.Member{Addr: netip.MustParseAddr("127.0.0.1"), Meta: membership.Meta{Node: c.Node}}
		for ch := range member.Meta.Ports {
			member.Meta.Ports[ch] = uint16(base + 16*k + ch)
		}
		view = append(view, member)
	}
	profile := ttlink.ProfileCrowded
	return node.Start(context.Background(), node.Config{Node: m.Chips[self].Node, Topology: m, Incarnation: wire.Incarnation(time.Now().UnixNano()),
		Behaviour: chip.Behaviour{Slots: slots, Profile: profile}, PortBase: uint16(base + 16*self),
		Port: func(a netip.AddrPort) (transport.Port, error) { return transport.Listen(transport.Options{Local: a}) },
		Join: func(context.Context, membership.Meta) (node.Membership, error) {
			return &static{view, make(chan struct{})}, nil
		}})
}

// farChip runs a chip in a process of its own until standard input ends.
func farChip(task string) error {
	var machine, slots string
	var chip, base int
	if _, err := fmt.Sscan(task, &machine, &slots, &chip, &base); err != nil {
		return err
	}
	i := slices.IndexFunc(router.SlotProfiles, func(s router.SlotProfile) bool { return s.Name == slots })
	if i < 0 {
		return fmt.Errorf("slots %q are not known", slots)
	}
	node.ConfigureProcess()
	n, err := startChip(machine, router.SlotProfiles[i], chip, base)
	if err != nil {
		return err
	}
	defer n.Close()
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	return nil
}

// portBase returns the first number of a range of UDP ports that are probably free.
func portBase() int { return 20000 + 256*(os.Getpid()%80) + 16*int(time.Now().UnixNano()/1000%8) }

// withChips starts the chips of a fabric. Chip 0 runs in this process, and each other chip runs in
// a process of its own. Then withChips calls f with a session on chip 0.
func withChips(machine string, slots router.SlotProfile, chips int, f func(ctx context.Context, s *session.Session) error) error {
	defer node.ConfigureProcess()()
	base := portBase()
	for k := 1; k < chips; k++ {
		o, err := spawn("chip", fmt.Sprintf("%s %s %d %d", machine, slots.Name, k, base))
		if err != nil {
			return err
		}
		defer o.end()
		if _, err := o.ask(""); err != nil {
			return err
		}
	}
	return nearChip(machine, slots, base, f)
}

// nearChip starts chip 0 in this process, waits for the other chips, and calls f with a session on chip 0.
func nearChip(machine string, slots router.SlotProfile, base int, f func(ctx context.Context, s *session.Session) error) error {
	n, err := startChip(machine, slots, 0, base)
	if err != nil {
		return err
	}
	defer n.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := session.New(n)
	if err := s.Ready(ctx); err != nil {
		return err
	}
	return f(ctx, s)
}

// writes returns the number of timed writes of the given size.
func writes(size int) int {
	if size > 1<<16 {
		return 400
	}
	return 3000
}

// sessions measures how fast a session writes over one hop and over two hops. For comparison,
// sessions also measures a plain UDP ping-pong, a TCP request that one byte answers, and a TCP
// stream with writes of 64 KiB. If the path "credits" of a C program is not empty, sessions also
// measures a sender with the credits of slots spec.
func sessions(round int, r *rand.Rand, credits string) ([]result, error) {
	var rs []result
	add := func(bench, kind, unit string, v float64) { rs = append(rs, figure(bench, kind, unit, round, v)) }
	jobs := []func() error{
		func() error {
			return withChips("n300", router.SlotFast, 2, func(ctx context.Context, s *session.Session) error {
				g, err := blocks(ctx, s, 1)
				add("blocks of 1 MiB", "session, 1 hop", "Gb/s", g)
				return err
			})
		},
		func() error {
			return withChips("n300", router.SlotSpec, 2, func(ctx context.Context, s *session.Session) error {
				g, err := blocks(ctx, s, 1)
				add("blocks of 1 MiB", "session, 1 hop, slots spec", "Gb/s", g)
				return err
			})
		},
		func() error {
			return withChips("mesh:1x3", router.SlotFast, 3, func(ctx context.Context, s *session.Session) error {
				g, err := blocks(ctx, s, 2)
				add("blocks of 1 MiB", "session, 2 hops", "Gb/s", g)
				return err
			})
		},
		func() error {
			g, err := goodput("tcp", 64<<10, time.Second)
			add("blocks of 1 MiB", "tcp, writes of 64 KiB", "Gb/s", g)
			return err
		},
	}
	for _, p := range []struct {
		kind string
		poll time.Duration
	}{{"udp-c, 16 credits, sleeps", 0}, {"udp-c, 16 credits, polls", 100 * time.Microsecond}} {
		if credits != "" {
			jobs = append(jobs, func() error {
				g, err := creditsC(credits, p.poll)
				add("blocks of 1 MiB", p.kind, "Gb/s", g)
				return err
			})
		}
	}
	for _, s := range seats() {
		for _, job := range singleWrites(s.name, add) {
			jobs = append(jobs, func() error { return s.sit(job) })
		}
	}
	for _, i := range r.Perm(len(jobs)) {
		if err := jobs[i](); err != nil {
			return nil, err
		}
	}
	return rs, nil
}

// creditsC runs the C program credits with the credits of slots spec for one second. The frames have
// the length of a link's frames with 4 KiB of data, and 14 frames fit into one super-packet. Each end
// polls its socket for the time "poll" before it sleeps. The result is in Gb/s.
func creditsC(program string, poll time.Duration) (g float64, err error) {
	cmd := exec.Command(program, fmt.Sprint(router.SlotSpec.Receiver[wire.VCData]), "14", "4224", fmt.Sprint(poll.Microseconds()), "1000")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil {
		_, err = fmt.Sscan(string(out), &g)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", program, err)
	}
	return g * 8 / 1e9, nil
}

// singleWrites returns jobs that measure single writes, one at a time. For comparison, other jobs
// measure a UDP ping-pong and a TCP request.
func singleWrites(seat string, add func(bench, kind, unit string, v float64)) []func() error {
	return []func() error{
		func() error {
			return withChips("n300", router.SlotFast, 2, func(ctx context.Context, s *session.Session) error {
				for _, size := range []int{64, 4096} {
					ds, err := timeWrites(ctx, s, 1, size)
					if err != nil {
						return err
					}
					add(fmt.Sprintf("write of %d B, %s p50", size, seat), "session", "µs", us(ds[len(ds)/2]))
					add(fmt.Sprintf("write of %d B, %s p99", size, seat), "session", "µs", us(ds[len(ds)*99/100]))
				}
				return nil
			})
		},
		func() error {
			p50, p99, err := latency("udp", pings)
			add("write of 64 B, "+seat+" p50", "udp ping-pong", "µs", p50)
			add("write of 64 B, "+seat+" p99", "udp ping-pong", "µs", p99)
			return err
		},
		func() error {
			v, err := tcpRequests(4096)
			add("write of 4096 B, "+seat+" p50", "tcp request (mean)", "µs", v)
			return err
		},
	}
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// timeWrites times writes one by one, and returns the sorted times.
func timeWrites(ctx context.Context, s *session.Session, dst wire.ChipID, size int) ([]time.Duration, error) {
	data := make([]byte, size)
	var ds []time.Duration
	for range writes(size) {
		begin := time.Now()
		if err := s.Write(ctx, wire.FabricNodeID{Chip: dst}, wire.NewNocAddr(0, 0, 0), data); err != nil {
			return nil, err
		}
		ds = append(ds, time.Since(begin))
	}
	slices.Sort(ds)
	return ds, nil
}

// blockWriters is the number of blocks that are under way at once. While a writer waits for the end
// of one block, another block has begun.
const blockWriters = 2

// blockWarmUp is the number of blocks that are written before the measurement. A fabric that has
// just come up still allocates buffers when it needs them.
const blockWarmUp = 50

// blocks writes a fixed number of blocks of 1 MiB, two at once. Then blocks reads the last block of
// each writer back to check the block. The result is the goodput in Gb/s, over a time that includes
// this reading.
func blocks(ctx context.Context, s *session.Session, dst wire.ChipID) (float64, error) {
	to := wire.FabricNodeID{Chip: dst}
	errs := make([]error, blockWriters)
	var wg sync.WaitGroup
	for range blockWarmUp {
		if err := s.Write(ctx, to, wire.NewNocAddr(0, 0, 0), make([]byte, 1<<20)); err != nil {
			return 0, err
		}
	}
	begin := time.Now()
	for w := range blockWriters {
		wg.Go(func() {
			data, back := make([]byte, 1<<20), make([]byte, 1<<20)
			at := wire.NewNocAddr(0, 0, uint64(w)<<20)
			for k := range writes(1 << 20) {
				data[k] = byte(k + w)
				if errs[w] = s.Write(ctx, to, at, data); errs[w] != nil {
					return
				}
			}
			if errs[w] = s.Read(ctx, to, at, back); errs[w] == nil && !bytes.Equal(data, back) {
				errs[w] = errors.New("the data read back differs from the data written")
			}
		})
	}
	wg.Wait()
	sent := float64(blockWriters*writes(1<<20)) * (1 << 20) * 8
	return sent / time.Since(begin).Seconds() / 1e9, errors.Join(errs...)
}

// medianPing returns the median round trip of n pings, one after the other.
func medianPing(ctx context.Context, s *session.Session, dst wire.FabricNodeID, n int, o ...session.Option) (time.Duration, error) {
	var ds []time.Duration
	for range n {
		d, err := s.Ping(ctx, dst, o...)
		if err != nil {
			return 0, err
		}
		ds = append(ds, d)
	}
	slices.Sort(ds)
	return ds[n/2], nil
}

// chainLength is the number of processes that a message passes.
const chainLength = 8

// chains times two messages that pass eight processes and come back, and reports the time per hop.
// One message is a ping through eight chips in a row. The other message is a datagram through eight
// plain UDP forwarders.
func chains(round int, r *rand.Rand) ([]result, error) {
	const hops = 2 * (chainLength - 1)
	var rs []result
	jobs := []func() error{
		func() error {
			return withChips("mesh:1x8", router.SlotFast, chainLength, func(ctx context.Context, s *session.Session) error {
				d, err := medianPing(ctx, s, wire.FabricNodeID{Chip: chainLength - 1}, 2000)
				rs = append(rs, figure("one hop of eight processes", "fabric ping", "µs", round, us(d)/hops))
				return err
			})
		},
		func() error {
			d, err := udpChain()
			rs = append(rs, figure("one hop of eight processes", "udp forwarders", "µs", round, us(d)/hops))
			return err
		},
	}
	for _, i := range r.Perm(len(jobs)) {
		if err := jobs[i](); err != nil {
			return nil, err
		}
	}
	return rs, nil
}

// udpForward passes datagrams on between two neighbours. The last forwarder of a row sends the
// datagrams back.
func udpForward(task string) error {
	var me, last, base int
	if _, err := fmt.Sscan(task, &me, &last, &base); err != nil {
		return err
	}
	at := func(k int) netip.AddrPort {
		return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(base+k))
	}
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at(me)))
	if err != nil {
		return err
	}
	fmt.Println("ready")
	go func() { io.Copy(io.Discard, os.Stdin); c.Close() }()
	buf := make([]byte, 2048)
	for {
		n, from, err := c.ReadFromUDPAddrPort(buf)
		if err != nil {
			return nil
		}
		to := at(me + 1)
		if me == last || from.Port() == to.Port() {
			to = at(me - 1)
		}
		c.WriteToUDPAddrPort(buf[:n], to)
	}
}

func udpChain() (time.Duration, error) {
	base := portBase()
	for k := 1; k < chainLength; k++ {
		o, err := spawn("udp-forward", fmt.Sprintf("%d %d %d", k, chainLength-1, base))
		if err != nil {
			return 0, err
		}
		defer o.end()
		if _, err := o.ask(""); err != nil {
			return 0, err
		}
	}
	c, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: base}, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: base + 1})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	buf, in := make([]byte, 64), make([]byte, 2048)
	var ds []time.Duration
	for range 2000 {
		begin := time.Now()
		c.Write(buf)
		c.SetReadDeadline(begin.Add(time.Second))
		if _, err := c.Read(in); err != nil {
			return 0, err
		}
		ds = append(ds, time.Since(begin))
	}
	slices.Sort(ds)
	return ds[len(ds)/2], nil
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
	cmd := exec.Command(exe, "-far", "tcp-answer", "-task", fmt.Sprintf("%s %d", l.Addr(), size), "-core", strconv.Itoa(sitting.far))
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

// tcpAnswer runs the far end of tcpRequests.
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
