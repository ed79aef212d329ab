package quicport

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"ttfabric/ttlink/transport"
)

// icmp counts the datagrams to the peer that a host or the network refused. The kernel reports errors
// of an unconnected socket only with the option IP_RECVERR. The kernel then puts the errors into a
// queue of the socket, with the destinations of the datagrams (ip(7)). The queue takes room of the
// receive buffer. The next call of the socket fails, with the error of a datagram in the queue.
type icmp struct {
	raw  syscall.RawConn                // nil: the kernel reports no errors
	peer atomic.Pointer[netip.AddrPort] // address whose errors count, without a zone; nil before the first call of aim

	refused     atomic.Uint64 // see transport.Stats
	unreachable atomic.Uint64 // see transport.Stats
	refusals    atomic.Uint64 // see transport.Port
	stands      atomic.Bool   // a datagram was refused, and no datagram of the peer has come since
}

// init asks the kernel for errors. If the kernel has no such option, the counts stay 0.
func (i *icmp) init(c *net.UDPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	asked := false
	_ = raw.Control(func(fd uintptr) {
		v4 := unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVERR, 1)
		v6 := unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1)
		asked = v4 == nil || v6 == nil
	})
	if asked {
		i.raw = raw
	}
}

// aim makes icmp count only the errors of datagrams to the peer.
func (i *icmp) aim(peer netip.AddrPort) {
	peer = netip.AddrPortFrom(peer.Addr().WithZone(""), peer.Port())
	i.peer.Store(&peer)
	i.stands.Store(false)
}

// If the last refusal still stands, sent counts n more datagrams as refused.
func (i *icmp) sent(n int) {
	if i.stands.Load() {
		i.refusals.Add(uint64(n))
	}
}

// heard ends a refusal if one of the messages comes from the peer.
func (i *icmp) heard(ms []ipv4.Message) {
	if !i.stands.Load() {
		return
	}
	for k := range ms {
		a := addrOf(ms[k].Addr)
		if p := i.peer.Load(); p != nil && netip.AddrPortFrom(a.Addr().WithZone(""), a.Port()) == *p {
			i.stands.Store(false)
		}
	}
}

// take reports whether err, the error of a call of the socket, is an error of the network. If so, take
// empties the queue of errors, and counts the errors of datagrams to the peer.
func (i *icmp) take(err error) bool {
	if i.raw == nil || transport.TroubleOf(err) == transport.NoTrouble {
		return false
	}
	_ = i.raw.Control(func(fd uintptr) {
		var control [256]byte
		for {
			_, n, _, to, err := unix.Recvmsg(int(fd), nil, control[:], unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
			if err != nil {
				return // the queue is empty
			}
			if p := i.peer.Load(); p != nil && addrOfSockaddr(to) == *p {
				i.count(reported(control[:n]))
			}
		}
	})
	return true
}

// refuses reports whether the error err of a send says that this machine refuses datagrams to the
// address. If the address is the peer's, refuses counts the error.
func (i *icmp) refuses(err error, to *net.UDPAddr) bool {
	t := transport.TroubleOf(err)
	filtered := errors.Is(err, unix.EPERM) // by the packet filter
	if t == transport.NoTrouble && !filtered {
		return false
	}
	a := addrOf(to)
	if p := i.peer.Load(); p == nil || netip.AddrPortFrom(a.Addr().WithZone(""), a.Port()) != *p {
		return true
	}
	if filtered {
		i.unreachable.Add(1)
	} else {
		i.countTrouble(t)
	}
	return true
}

// count counts an error of a datagram to the peer.
func (i *icmp) count(e unix.Errno) {
	i.countTrouble(transport.TroubleOf(e))
}

func (i *icmp) countTrouble(t transport.Trouble) {
	switch t {
	case transport.NoSocket:
		i.refused.Add(1)
	case transport.NoHost, transport.Barred:
		i.unreachable.Add(1)
	}
	if t.Refusal() {
		i.refusals.Add(1)
		i.stands.Store(true)
	}
}

// reported returns the error in the control data of a message from the queue of errors. If the control
// data has no error, reported returns 0.
func reported(control []byte) unix.Errno {
	list, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0
	}
	for _, m := range list {
		v4 := m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_RECVERR
		v6 := m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_RECVERR
		if (v4 || v6) && len(m.Data) >= int(unsafe.Sizeof(unix.SockExtendedErr{})) {
			return unix.Errno((*unix.SockExtendedErr)(unsafe.Pointer(&m.Data[0])).Errno)
		}
	}
	return 0
}

// addrOfSockaddr returns a socket's address without the zone, or a zero value if a is no address of IP.
func addrOfSockaddr(a unix.Sockaddr) netip.AddrPort {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	return netip.AddrPort{}
}
