package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/ttlink/transport"
)

func lookLoopback(context.Context, *request) finding {
	const way = "'sudo ip link set lo up'"
	a, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return bad(fails, way, "127.0.0.1 cannot be used: %v", err)
	}
	defer a.Close()
	// A socket can be bound while the interface is down; only a datagram tells.
	a.SetDeadline(time.Now().Add(time.Second))
	if _, err = a.WriteTo([]byte("ttfabric"), a.LocalAddr()); err == nil {
		_, _, err = a.ReadFrom(make([]byte, 16))
	}
	if err != nil {
		return bad(fails, way, "a datagram to 127.0.0.1 does not arrive: %v", err)
	}
	return ok("127.0.0.1 takes and gives datagrams")
}

// probePort opens a port as a chip does, and returns what the kernel granted it.
func probePort() (transport.Stats, error) {
	p, err := transport.Listen(transport.Options{Local: netip.AddrPortFrom(loopback, 0)})
	if err != nil {
		return transport.Stats{}, err
	}
	defer p.Close()
	return p.Stats(), nil
}

func lookOffload(context.Context, *request) finding {
	s, err := probePort()
	switch {
	case err != nil:
		return bad(fails, "see 'loopback' and 'open files'", "no UDP port can be opened: %v", err)
	case s.GSO && s.GRO:
		return ok("the kernel sends and receives UDP in super-packets (GSO, GRO)")
	}
	return bad(warns, "a kernel of at least 5.0", "no UDP super-packets (GSO %v, GRO %v): links have a fifth of the goodput", s.GSO, s.GRO)
}

func lookBuffers(context.Context, *request) finding {
	s, err := probePort()
	if err != nil {
		return bad(fails, "see 'loopback'", "no UDP port can be opened: %v", err)
	}
	if s.ReceiveBuffer >= s.ReceiveBufferAsked && s.SendBuffer >= s.SendBufferAsked {
		return ok("%d KiB to receive and %d to send, as chips ask for", s.ReceiveBuffer>>10, s.SendBuffer>>10)
	}
	return bad(warns, fmt.Sprintf("'sudo sysctl -w net.core.rmem_max=%d net.core.wmem_max=%d', and a file in /etc/sysctl.d to keep it", s.ReceiveBufferAsked, s.SendBufferAsked),
		"%d KiB to receive and %d to send, where chips ask for %d: bursts are lost and sent again", s.ReceiveBuffer>>10, s.SendBuffer>>10, s.ReceiveBufferAsked>>10)
}

func lookPorts(_ context.Context, p *request) finding {
	if p.portBase == 0 {
		return ok("any that are free; --port-base asks for certain ones")
	}
	n := len(p.t.Chips) * spec.ChannelStride
	if last := p.portBase + n - 1; last > 1<<16-1 {
		return bad(fails, fmt.Sprintf("--port-base %d at most, or 0", 1<<16-n), "%s take the UDP ports %d to %d; the last there is is 65535", topo.Count(len(p.t.Chips), "chip"), p.portBase, last)
	}
	var taken []string
	for i, c := range p.t.Chips {
		for _, port := range p.t.Ports(c.Node) {
			at := p.portBase + i*spec.ChannelStride + int(port.Local.Channel)
			l, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: at})
			if err != nil {
				taken = append(taken, strconv.Itoa(at))
				continue
			}
			l.Close()
		}
	}
	if len(taken) > 0 {
		return bad(fails, fmt.Sprintf("'ss -ulpn sport = :%s' says whose it is; choose another --port-base, or 0 for any free ports", taken[0]), "UDP port %s cannot be had", join(taken))
	}
	f := strings.Fields(readSys("/proc/sys/net/ipv4/ip_local_port_range"))
	if len(f) == 2 {
		lo, _ := strconv.Atoi(f[0])
		hi, _ := strconv.Atoi(f[1])
		if p.portBase <= hi && p.portBase+n > lo {
			return bad(warns, fmt.Sprintf("a --port-base below %d", lo-n), "UDP ports %d to %d are free now, but the system gives ports of %d to %d to whoever asks", p.portBase, p.portBase+n-1, lo, hi)
		}
	}
	return ok("UDP ports %d to %d are free", p.portBase, p.portBase+n-1)
}

// defaultMTU is that of ethernet, in bytes, for which frames are made unless a path says less.
const defaultMTU = 1500

// leastMTU is what every link of IPv6 has to have, in bytes (RFC 8200 §5).
const leastMTU = 1280

func lookInterfaces(context.Context, *request) finding {
	is, err := net.Interfaces()
	if err != nil {
		return bad(warns, "", "interfaces cannot be listed: %v", err)
	}
	var all, narrow []string
	for _, i := range is {
		if i.Flags&net.FlagUp == 0 || strings.HasPrefix(i.Name, "veth") { // a container's, which follow their bridge
			continue
		}
		all = append(all, fmt.Sprintf("%s %d", i.Name, i.MTU))
		if i.MTU < leastMTU {
			narrow = append(narrow, fmt.Sprintf("%s %d", i.Name, i.MTU))
		}
	}
	if len(narrow) > 0 {
		return bad(warns, "'ip link set DEV mtu N'", "MTU below the %d that IPv6 wants: %s; frames there are short, and links slow", leastMTU, join(narrow))
	}
	return ok("MTU: %s; frames are as long as each path takes", join(all))
}

// uplink is the interface of the default route with its MTU, "" and 0 where there is none (/proc/net/route).
func uplink() (string, int) {
	for line := range strings.Lines(readSys("/proc/net/route")) {
		if f := strings.Fields(line); len(f) > 7 && f[1] == "00000000" && f[7] == "00000000" {
			if i, err := net.InterfaceByName(f[0]); err == nil {
				return i.Name, i.MTU
			}
		}
	}
	return "", 0
}

func lookConntrack(context.Context, *request) finding {
	count, err := strconv.Atoi(readSys("/proc/sys/net/netfilter/nf_conntrack_count"))
	most, err2 := strconv.Atoi(readSys("/proc/sys/net/netfilter/nf_conntrack_max"))
	if err != nil || err2 != nil {
		return ok("the packet filter tracks no connections here")
	}
	if most > 0 && count*10 > most*8 {
		return bad(warns, fmt.Sprintf("'sudo sysctl -w net.netfilter.nf_conntrack_max=%d'", 4*most), "%d of %d connections are tracked: when the table is full, packets between containers are dropped", count, most)
	}
	return ok("%d of %d connections tracked", count, most)
}

func lookNetem(context.Context, *request) finding {
	const way = "user-space 'ttfabric netem' does all of it without; for '--backend kernel': linux-modules-extra-$(uname -r) on Ubuntu, kernel-modules-extra on Fedora and RHEL, 'modprobe sch_netem' on Debian, 'scripts/netem-vm' anywhere"
	err := tryNetem()
	switch {
	case err == nil:
		return ok("the kernel has sch_netem: a network namespace of the doctor's own took one")
	case errors.Is(err, unix.ENOENT):
		return bad(warns, way, "the kernel has no sch_netem (\"Specified qdisc kind is unknown\")")
	case !errors.Is(err, unix.EPERM):
		return bad(warns, way, "sch_netem cannot be tried: %v", err)
	}
	// Without the right to make a namespace, what is said of the kernel has to do.
	release := strings.TrimSpace(readSys("/proc/sys/kernel/osrelease"))
	for _, list := range []string{"modules.builtin", "modules.dep"} {
		if strings.Contains(readSys("/lib/modules/"+release+"/"+list), "/sch_netem.ko") {
			return ok("the kernel's %s has sch_netem; not tried, for want of root", list)
		}
	}
	return bad(warns, way, "no sch_netem is in /lib/modules/%s; not tried, for want of root", release)
}

// Of rtnetlink(7) and linux/pkt_sched.h.
const (
	tcaKind    = 1
	tcaOptions = 2
	netemQopt  = 24 // bytes of struct tc_netem_qopt
)

// tryNetem puts a netem on the loopback of a network namespace that ends with
// it. The error is unix.ENOENT where the kernel has none, unix.EPERM where one may not try.
func tryNetem() error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its namespace
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- addNetem()
	}()
	return <-done
}

// addNetem sends RTM_NEWQDISC for interface 1, which is loopback in a new namespace.
func addNetem() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	le := binary.NativeEndian
	msg := make([]byte, unix.SizeofNlMsghdr)
	msg = append(msg, make([]byte, 4)...)     // tcmsg: family and padding
	msg = le.AppendUint32(msg, 1)             // interface
	msg = le.AppendUint32(msg, 0)             // handle
	msg = le.AppendUint32(msg, 0xFFFFFFFF)    // parent: TC_H_ROOT
	msg = le.AppendUint32(msg, 0)             // info
	msg = le.AppendUint16(msg, 4+6)           // attribute
	msg = le.AppendUint16(msg, tcaKind)       //
	msg = append(msg, "netem\x00\x00\x00"...) // aligned to 4
	msg = le.AppendUint16(msg, 4+netemQopt)   // attribute
	msg = le.AppendUint16(msg, tcaOptions)    //
	opts := le.AppendUint32(nil, 1000)        // latency, in ticks
	opts = le.AppendUint32(opts, 1000)        // limit, in packets
	msg = append(msg, append(opts, make([]byte, netemQopt-len(opts))...)...)
	le.PutUint32(msg, uint32(len(msg)))
	le.PutUint16(msg[4:], unix.RTM_NEWQDISC)
	le.PutUint16(msg[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	if err := unix.Sendto(fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 || le.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return fmt.Errorf("the kernel answered RTM_NEWQDISC with %d bytes of something else", n)
	}
	if code := int32(le.Uint32(answer[unix.SizeofNlMsghdr:])); code != 0 {
		return syscall.Errno(-code)
	}
	return nil
}

// readSys is a file of the kernel's, "" where there is none.
func readSys(path string) string {
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}
