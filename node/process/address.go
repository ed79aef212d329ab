package process

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"ttfabric/node/fabric/spec"
	"ttfabric/wire"
)

// listenAddr returns the address that arg, the value of --listen, names. If arg is an address,
// listenAddr returns arg. If arg is an interface, listenAddr returns an address of the interface
// that is not link-local, if possible an IPv4 address. If arg is a network, listenAddr returns this
// machine's address in the network. If arg is "", listenAddr returns the address from which this
// machine sends to a seed, see [seedList.local].
func listenAddr(ctx context.Context, arg string, list seedList) (netip.Addr, error) {
	if arg == "" {
		return list.local(ctx)
	}
	if a, err := netip.ParseAddr(arg); err == nil {
		return a.Unmap(), nil
	}
	if p, err := netip.ParsePrefix(arg); err == nil {
		return addressWithin(p)
	}
	i, err := net.InterfaceByName(arg)
	if err != nil {
		return netip.Addr{}, spec.Usagef("--listen %q: want an IP address, an interface or a network of this machine; 'ip addr' lists addresses, interfaces and networks", arg)
	}
	as, err := i.Addrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("--listen %s: %w", arg, err)
	}
	var found netip.Addr
	for _, a := range as {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && !p.Addr().IsLinkLocalUnicast() && (!found.IsValid() || p.Addr().Is4() && !found.Is4()) {
			found = p.Addr()
		}
	}
	if !found.IsValid() {
		return found, spec.Usagef("--listen %s: the interface has no IP address except link-local addresses; choose an interface that has another address", arg)
	}
	return found, nil
}

// addressWithin returns the first address of this machine that is in the network p.
func addressWithin(p netip.Prefix) (netip.Addr, error) {
	as, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("--listen %s: %w", p, err)
	}
	for _, a := range as {
		if at, err := netip.ParsePrefix(a.String()); err == nil && p.Contains(at.Addr().Unmap()) {
			return at.Addr().Unmap(), nil
		}
	}
	return netip.Addr{}, spec.Usagef("--listen %s: this machine has no address in this network; 'ip addr' lists the machine's addresses", p)
}

// seed is a host on which another chip may run. A chip joins the gossip through its seeds.
type seed struct {
	mesh int // mesh of the chip that runs on the host; -1: the user named no chip
	host string
	port uint16
}

type seedList []seed

// Limits of the seeds.
const (
	lookupTime    = 2 * time.Second // longest time to look up the name of a seed's host
	lookupTries   = 15              // number of attempts to look up the names of hosts at start; a name may be unknown until the host's chip has started
	maxSeedByName = 64              // largest number of addresses that a chip uses of one host
)

// parseSeeds parses seeds of the form [CHIP/]HOST[:PORT].
func parseSeeds(args []string) (seedList, error) {
	var out seedList
	for _, a := range args {
		s, text := seed{mesh: -1, port: DefaultGossipPort}, a
		if chip, rest, ok := strings.Cut(a, "/"); ok {
			n, err := wire.ParseFabricNodeID(chip)
			if err != nil {
				return nil, spec.Usagef("--seeds %q: %w", a, err)
			}
			s.mesh, text = int(n.Mesh), rest
		}
		s.host = strings.Trim(text, "[]")
		if host, port, err := net.SplitHostPort(text); err == nil {
			p, err := strconv.ParseUint(port, 10, 16)
			if err != nil || p == 0 {
				return nil, spec.Usagef("--seeds %q: want a port of 1 to 65535", a)
			}
			s.host, s.port = host, uint16(p)
		}
		if s.host == "" {
			return nil, spec.Usagef("--seeds %q: want HOST, HOST:PORT or CHIP/HOST:PORT", a)
		}
		out = append(out, s)
	}
	if len(out) > spec.MaxSeeds {
		return nil, spec.Usagef("--seeds: %d seeds are too many; want at most %d seeds; a few seeds are enough", len(out), spec.MaxSeeds)
	}
	return out, nil
}

// lookup returns the IP addresses of a seed's host.
func (s *seed) lookup(ctx context.Context) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(s.host); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	as, err := net.DefaultResolver.LookupNetIP(ctx, "ip", s.host)
	for i := range as {
		as[i] = as[i].Unmap()
	}
	return as[:min(len(as), maxSeedByName)], err
}

// addresses returns the present addresses of the seeds for gossip pool p, as HOST:PORT. addresses
// leaves out self, the address of chip id itself. For the pool of a mesh, addresses also leaves out
// the seeds of other meshes.
func (l seedList) addresses(ctx context.Context, p pool, id wire.FabricNodeID, self netip.AddrPort) []string {
	var out []string
	for _, s := range l {
		if p == meshPool && s.mesh >= 0 && s.mesh != int(id.Mesh) {
			continue
		}
		as, _ := s.lookup(ctx) // a name that is unknown now may be known at the next call
		for _, a := range as {
			if at := netip.AddrPortFrom(a, s.port); at != self {
				out = append(out, netip.AddrPortFrom(a, s.port+uint16(p)).String())
			}
		}
	}
	return out
}

// local returns the address from which this machine sends to the first seed whose host has
// a known address. If there are no seeds, local returns loopback.
func (l seedList) local(ctx context.Context) (netip.Addr, error) {
	if len(l) == 0 {
		return loopback, nil
	}
	var last error
	for range lookupTries {
		for _, s := range l {
			as, err := s.lookup(ctx)
			if err != nil {
				last = err
				continue
			}
			for _, a := range as {
				// Dial sends no datagram. The kernel only chooses the local address of the socket.
				c, err := net.Dial("udp", netip.AddrPortFrom(a, s.port).String())
				if err != nil {
					last = err
					continue
				}
				at := c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
				c.Close()
				return at, nil
			}
		}
		select {
		case <-ctx.Done():
			return netip.Addr{}, ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return netip.Addr{}, fmt.Errorf("no host of --seeds has a known address, so this machine cannot find out its own address towards the seeds; name this machine's own address with --listen: %w", last)
}
