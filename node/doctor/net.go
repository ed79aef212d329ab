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

// loopback is where the chips of one machine listen.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

func lookLoopback(context.Context, *patient) Finding {
	const wayOut = "'sudo ip link set lo up'"
	a, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return bad(Failure, wayOut, "127.0.0.1 cannot be used: %v", err)
	}
	defer a.Close()
	// A socket can be bound while the interface is down: only a datagram tells.
	a.SetDeadline(time.Now().Add(time.Second))
	if _, err = a.WriteTo([]byte("ttfabric"), a.LocalAddr()); err == nil {
		_, _, err = a.ReadFrom(make([]byte, 16))
	}
	if err != nil {
		return bad(Failure, wayOut, "a datagram to 127.0.0.1 does not arrive: %v", err)
	}
	return ok("127.0.0.1 takes and gives datagrams")
}

// probePort opens a UDP port as a chip does, and returns what the kernel granted the port.
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
	return bad(Warning, "a kernel of at least 5.0", "no UDP super-packets (GSO %v, GRO %v): links have a fifth of the goodput", s.GSO, s.GRO)
}

func lookBuffers(context.Context, *patient) Finding {
	s, err := probePort()
	if err != nil {
		return bad(Failure, "see 'loopback'", "no UDP port can be opened: %v", err)
	}
	if s.ReceiveBuffer >= s.ReceiveBufferAsked && s.SendBuffer >= s.SendBufferAsked {
		return ok("%d KiB to receive and %d to send, as chips ask for", s.ReceiveBuffer>>10, s.SendBuffer>>10)
	}
	return bad(Warning, fmt.Sprintf("'sudo sysctl -w net.core.rmem_max=%d net.core.wmem_max=%d', and a file in /etc/sysctl.d to keep it", s.ReceiveBufferAsked, s.SendBufferAsked),
		"%d KiB to receive and %d to send, where chips ask for %d: bursts are lost and sent again", s.ReceiveBuffer>>10, s.SendBuffer>>10, s.ReceiveBufferAsked>>10)
}

func lookPorts(_ context.Context, p *patient) Finding {
	if p.PortBase == 0 {
		return ok("any free ports; --port-base asks for certain ports")
	}
	n := p.chips() * spec.ChannelStride
	if last := p.PortBase + n - 1; last > 1<<16-1 {
		return bad(Failure, fmt.Sprintf("--port-base %d at most, or 0", 1<<16-n), "%s take the UDP ports %d to %d; the last port is 65535", topo.Count(p.chips(), "chip"), p.PortBase, last)
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
		return bad(Failure, fmt.Sprintf("'ss -ulpn sport = :%s' says whose it is; choose another --port-base, or 0 for any free ports", taken[0]), "UDP port %s cannot be opened", join(taken))
	}
	f := strings.Fields(readSys("/proc/sys/net/ipv4/ip_local_port_range"))
	if len(f) == 2 {
		lo, _ := strconv.Atoi(f[0])
		hi, _ := strconv.Atoi(f[1])
		if p.PortBase <= hi && p.PortBase+n > lo {
			return bad(Warning, fmt.Sprintf("a --port-base below %d", lo-n), "UDP ports %d to %d are free now, but the system gives ports of %d to %d to whoever asks", p.PortBase, p.PortBase+n-1, lo, hi)
		}
	}
	return ok("UDP ports %d to %d are free", p.PortBase, p.PortBase+n-1)
}

// leastMTU is the MTU in bytes that IPv6 wants of every interface (RFC 8200 §5).
const leastMTU = 1280

func lookInterfaces(context.Context, *patient) Finding {
	is, err := net.Interfaces()
	if err != nil {
		return bad(Warning, "", "interfaces cannot be listed: %v", err)
	}
	var all, narrow []string
	for _, i := range is {
		if i.Flags&net.FlagUp == 0 || strings.HasPrefix(i.Name, "veth") { // the interface of a container, whose MTU is that of its bridge
			continue
		}
		all = append(all, fmt.Sprintf("%s %d", i.Name, i.MTU))
		if i.MTU < leastMTU {
			narrow = append(narrow, fmt.Sprintf("%s %d", i.Name, i.MTU))
		}
	}
	if len(narrow) > 0 {
		return bad(Warning, "'ip link set DEV mtu N'", "MTU below the %d that IPv6 wants: %s; frames there are short, and links slow", leastMTU, join(narrow))
	}
	return ok("MTU: %s; frames are as long as each path takes", join(all))
}

// uplink is the interface of the default route and its MTU in bytes (/proc/net/route); "" and 0 where there is none.
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
		return ok("the packet filter tracks no connections here")
	}
	if most > 0 && count*10 > most*8 {
		return bad(Warning, fmt.Sprintf("'sudo sysctl -w net.netfilter.nf_conntrack_max=%d'", 4*most), "%d of %d connections are tracked: when the table is full, packets between containers are dropped", count, most)
	}
	return ok("%d of %d connections tracked", count, most)
}

func lookNetem(context.Context, *patient) Finding {
	const wayOut = "'ttfabric netem' does all of it in user space; for '--backend kernel': linux-modules-extra-$(uname -r) on Ubuntu, kernel-modules-extra on Fedora and RHEL, 'modprobe sch_netem' on Debian, 'scripts/netem-vm' anywhere"
	err := netem.Probe()
	switch missing := (*netem.MissingError)(nil); {
	case err == nil:
		return ok("the kernel has netem: a network namespace of the doctor's own took one")
	case errors.As(err, &missing):
		return bad(Warning, wayOut, "the kernel has no %s", missing.Module)
	case !errors.Is(err, netem.ErrRights):
		return bad(Warning, wayOut, "netem cannot be tried: %v", err)
	}
	// Without the right to make a network namespace, the list of the kernel's modules has to do.
	release := strings.TrimSpace(readSys("/proc/sys/kernel/osrelease"))
	for _, list := range []string{"modules.builtin", "modules.dep"} {
		if strings.Contains(readSys("/lib/modules/"+release+"/"+list), "/sch_netem.ko") {
			return ok("the kernel's %s has sch_netem; not tried, as that needs root", list)
		}
	}
	return bad(Warning, wayOut, "no sch_netem is in /lib/modules/%s; not tried, as that needs root", release)
}

// readSys is the text of a file of the kernel, without white space around the text; "" where there is no such file.
func readSys(path string) string {
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}
