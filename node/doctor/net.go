package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"ttfabric/node/fabric/spec"
	"ttfabric/node/netem"
	"ttfabric/router/topo"
	"ttfabric/ttlink/transport"
)

// loopback is the address on which the chips of one machine listen.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

func lookLoopback(context.Context, *patient) Finding {
	const wayOut = "'sudo ip link set lo up'"
	a, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return bad(Failure, wayOut, "127.0.0.1 cannot be used: %v", err)
	}
	defer a.Close()
	// The check sends a datagram, because a bind succeeds even if the interface is down.
	a.SetDeadline(time.Now().Add(time.Second))
	if _, err = a.WriteTo([]byte("ttfabric"), a.LocalAddr()); err == nil {
		_, _, err = a.ReadFrom(make([]byte, 16))
	}
	if err != nil {
		return bad(Failure, wayOut, "a datagram to 127.0.0.1 does not arrive: %v", err)
	}
	return ok("127.0.0.1 sends and receives datagrams")
}

// probePort opens a UDP port as a chip does, and returns the features and buffer sizes that
// the kernel gave the port.
func probePort() (transport.Stats, error) {
	p, err := transport.Listen(transport.Options{Local: netip.AddrPortFrom(loopback, 0)})
	if err != nil {
		return transport.Stats{}, err
	}
	defer p.Close()
	return p.Stats(), nil
}

func lookOffload(context.Context, *patient) Finding {
	s, err := probePort()
	switch {
	case err != nil:
		return bad(Failure, "see 'loopback' and 'open files'", "no UDP port can be opened: %v", err)
	case s.GSO && s.GRO:
		return ok("the kernel sends and receives UDP in super-packets (GSO, GRO)")
	}
	return bad(Warning, "use a Linux kernel of version 5.0 or later", "the kernel has no UDP super-packets (GSO %v, GRO %v): links carry only a fifth of the payload per second that they carry with super-packets", s.GSO, s.GRO)
}

func lookBuffers(context.Context, *patient) Finding {
	s, err := probePort()
	if err != nil {
		return bad(Failure, "see 'loopback'", "no UDP port can be opened: %v", err)
	}
	if s.ReceiveBuffer >= s.ReceiveBufferAsked && s.SendBuffer >= s.SendBufferAsked {
		return ok("chips get the buffers that they ask for: %d KiB to receive and %d KiB to send", s.ReceiveBuffer>>10, s.SendBuffer>>10)
	}
	return bad(Warning, fmt.Sprintf("'sudo sysctl -w net.core.rmem_max=%d net.core.wmem_max=%d'; a file in /etc/sysctl.d keeps the setting", s.ReceiveBufferAsked, s.SendBufferAsked),
		"chips get buffers of %d KiB to receive and %d KiB to send, but ask for %d KiB: the kernel will drop frames of bursts, and chips will send these frames again", s.ReceiveBuffer>>10, s.SendBuffer>>10, s.ReceiveBufferAsked>>10)
}

func lookPorts(_ context.Context, p *patient) Finding {
	if p.PortBase == 0 {
		return ok("chips use any free ports; with --port-base, this check tries fixed ports")
	}
	n := p.chips() * spec.ChannelStride
	if last := p.PortBase + n - 1; last > 1<<16-1 {
		return bad(Failure, fmt.Sprintf("choose a --port-base of at most %d, or 0", 1<<16-n), "%s need the UDP ports %d to %d, but the last UDP port is 65535", topo.Count(p.chips(), "chip"), p.PortBase, last)
	}
	var taken []string
	for i, c := range p.Topology.Chips {
		for _, port := range p.Topology.Ports(c.Node) {
			at := p.PortBase + i*spec.ChannelStride + int(port.Local.Channel)
			l, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: at})
			if err != nil {
				taken = append(taken, strconv.Itoa(at))
				continue
			}
			l.Close()
		}
	}
	if len(taken) > 0 {
		return bad(Failure, fmt.Sprintf("'ss -ulpn sport = :%s' shows which program has the port; choose another --port-base, or 0 for any free ports", taken[0]), "UDP port %s cannot be opened", join(taken))
	}
	f := strings.Fields(readSys("/proc/sys/net/ipv4/ip_local_port_range"))
	if len(f) == 2 {
		lo, _ := strconv.Atoi(f[0])
		hi, _ := strconv.Atoi(f[1])
		if p.PortBase <= hi && p.PortBase+n > lo {
			return bad(Warning, fmt.Sprintf("choose a --port-base below %d", lo-n), "UDP ports %d to %d are free now, but the system may give ports %d to %d to any program", p.PortBase, p.PortBase+n-1, lo, hi)
		}
	}
	return ok("UDP ports %d to %d are free", p.PortBase, p.PortBase+n-1)
}

// leastMTU is the smallest MTU in bytes that IPv6 allows for an interface (RFC 8200 §5).
const leastMTU = 1280

func lookInterfaces(context.Context, *patient) Finding {
	is, err := net.Interfaces()
	if err != nil {
		return bad(Warning, "", "interfaces cannot be listed: %v", err)
	}
	var all, narrow []string
	for _, i := range is {
		if i.Flags&net.FlagUp == 0 || strings.HasPrefix(i.Name, "veth") { // a veth interface belongs to a container and has the MTU of the container's bridge
			continue
		}
		all = append(all, fmt.Sprintf("%s %d", i.Name, i.MTU))
		if i.MTU < leastMTU {
			narrow = append(narrow, fmt.Sprintf("%s %d", i.Name, i.MTU))
		}
	}
	if len(narrow) > 0 {
		return bad(Warning, "'ip link set DEV mtu N' sets a larger MTU", "these interfaces have an MTU below %d, the smallest MTU of IPv6: %s; links over such an interface have short frames and are slow", leastMTU, join(narrow))
	}
	return ok("MTUs of the interfaces: %s; frames are as long as each path allows", join(all))
}

// uplink returns the name and the MTU, in bytes, of the interface of the default route
// (/proc/net/route). If there is no default route, uplink returns "" and 0.
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

func lookConntrack(context.Context, *patient) Finding {
	count, err := strconv.Atoi(readSys("/proc/sys/net/netfilter/nf_conntrack_count"))
	most, err2 := strconv.Atoi(readSys("/proc/sys/net/netfilter/nf_conntrack_max"))
	if err != nil || err2 != nil {
		return ok("this machine's packet filter tracks no connections")
	}
	if most > 0 && count*10 > most*8 {
		return bad(Warning, fmt.Sprintf("'sudo sysctl -w net.netfilter.nf_conntrack_max=%d'", 4*most), "the table of tracked connections has %d of %d entries: when the table is full, the kernel drops packets between containers", count, most)
	}
	return ok("the table of tracked connections has %d of %d entries", count, most)
}

func lookNetem(context.Context, *patient) Finding {
	const wayOut = "only 'ttfabric netem --backend kernel' needs kernel netem; to get kernel netem, install linux-modules-extra-$(uname -r) on Ubuntu or kernel-modules-extra on Fedora and RHEL, run 'modprobe sch_netem' on Debian, or use 'scripts/netem-vm' on any machine"
	err := netem.Probe()
	switch missing := (*netem.MissingError)(nil); {
	case err == nil:
		return ok("the kernel has netem; a test in a new network namespace succeeded")
	case errors.As(err, &missing):
		return bad(Warning, wayOut, "the kernel has no %s", missing.Module)
	case !errors.Is(err, netem.ErrRights):
		return bad(Warning, wayOut, "netem cannot be tested: %v", err)
	}
	// This user may not make a network namespace. The check therefore only looks at the
	// list of the kernel's modules.
	release := strings.TrimSpace(readSys("/proc/sys/kernel/osrelease"))
	for _, list := range []string{"modules.builtin", "modules.dep"} {
		if strings.Contains(readSys("/lib/modules/"+release+"/"+list), "/sch_netem.ko") {
			return ok("the kernel's %s lists sch_netem; netem was not tried, because a test needs root", list)
		}
	}
	return bad(Warning, wayOut, "/lib/modules/%s has no sch_netem; netem was not tried, because a test needs root", release)
}

// readSys returns the text of a file in /proc or /sys, without leading and trailing white
// space. If the file cannot be read, readSys returns "".
func readSys(path string) string {
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}
