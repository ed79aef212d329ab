package transport

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// unknownMTU is the MTU that a port assumes if it cannot find the MTU of an interface. The value is
// the MTU of ethernet, in bytes (RFC 894).
const unknownMTU = 1500

// bind opens a UDP socket for IPv4 only or IPv6 only, depending on the address "local". A socket
// for both would report the addresses of IPv4 peers as IPv6 addresses. The error names the address
// and, for common causes, a remedy.
func bind(local netip.AddrPort) (*net.UDPConn, error) {
	network := "udp4"
	if local.Addr().Is6() {
		network = "udp6"
	}
	conn, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(local))
	switch {
	case err == nil:
		return conn, nil
	case errors.Is(err, syscall.EADDRINUSE) && local.Port() == 0:
		return nil, fmt.Errorf("UDP port %s: this machine has no free port left; widen net.ipv4.ip_local_port_range or stop other programs: %w", local, err)
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("UDP port %s is taken by another process; choose another --port-base, or stop that process: %w", local, err)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return nil, fmt.Errorf("UDP port %s is reserved for privileged users; choose a --port-base from 1024: %w", local, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("UDP port %s: this machine has no such address; choose an address of this machine: %w", local, err)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return nil, fmt.Errorf("UDP port %s: this process has reached the limit of open files; raise the limit with 'ulimit -n': %w", local, err)
	}
	return nil, fmt.Errorf("UDP port %s cannot be opened: %w", local, err)
}

// localAddr returns the address to which the socket is bound.
func localAddr(conn *net.UDPConn) netip.AddrPort {
	a := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// broadcast stands for all machines of the local network (RFC 919).
var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// checkPeer checks that a port at the address "local" can have a peer at the address "peer".
// checkPeer returns peer, with an IPv4-mapped IPv6 address replaced by the IPv4 address. The error
// says why the peer's address cannot be used.
func checkPeer(local, peer netip.AddrPort) (netip.AddrPort, error) {
	peer = netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port())
	switch {
	case !peer.IsValid(), peer.Port() == 0, peer.Addr().IsUnspecified(), peer.Addr().IsMulticast(), peer.Addr() == broadcast:
		return peer, fmt.Errorf("UDP port %s: peer %s: want the address and port of one machine", local, peer)
	case peer.Addr().Is6() != local.Addr().Is6():
		return peer, fmt.Errorf("UDP port %s cannot reach %s: one address is IPv4 and the other IPv6; let both chips listen on IPv4, or both on IPv6", local, peer)
	}
	return peer, nil
}

// payloadOf returns the size of the largest UDP datagram that fits into an IP packet of mtu bytes,
// or 1 if none fits. The address a decides between IPv4 and IPv6.
func payloadOf(mtu int, a netip.Addr) int {
	overhead := ipv4Overhead
	if a.Is6() {
		overhead = ipv6Overhead
	}
	return max(1, min(mtu-overhead, MaxDatagram))
}

// interfaceMTU returns the MTU in bytes of the interface whose network contains the address a. For
// a wildcard address, interfaceMTU returns the smallest MTU of all interfaces that are up, except
// loopback. If there is no such interface, interfaceMTU returns unknownMTU.
func interfaceMTU(a netip.Addr) int {
	ifs, err := net.Interfaces()
	if err != nil {
		return unknownMTU
	}
	least := 0
	for _, i := range ifs {
		if i.Flags&net.FlagUp == 0 || i.MTU <= 0 {
			continue
		}
		if a.IsUnspecified() {
			if i.Flags&net.FlagLoopback == 0 && (least == 0 || i.MTU < least) {
				least = i.MTU
			}
			continue
		}
		addrs, _ := i.Addrs()
		for _, n := range addrs {
			if n, ok := n.(*net.IPNet); ok && n.Contains(a.AsSlice()) {
				return i.MTU
			}
		}
	}
	if least == 0 {
		return unknownMTU
	}
	return least
}

// Bind opens a UDP socket for a transport that reads and writes the socket itself. The error names
// the address and, for common causes, a remedy.
func Bind(local netip.AddrPort) (*net.UDPConn, error) {
	if !local.IsValid() {
		return nil, fmt.Errorf("UDP port: no local address: name one, such as 127.0.0.1:0")
	}
	return bind(netip.AddrPortFrom(local.Addr().Unmap(), local.Port()))
}

// Route returns the size of the largest UDP datagram, in bytes, that this machine can send from a
// local address to a peer without fragmentation. The error says why this machine cannot send to the
// peer.
func Route(local, peer netip.AddrPort) (int, error) {
	p, err := Listen(Options{Local: netip.AddrPortFrom(local.Addr(), 0)})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	if err := p.SetPeer(peer); err != nil {
		return 0, err
	}
	return p.MaxDatagram(), nil
}
