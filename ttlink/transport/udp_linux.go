package transport

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// udp is a port on its own UDP socket. The Go runtime's poller does the waiting. An idle port
// therefore costs no thread. The port itself makes the system calls.
type udp struct {
	conn  *net.UDPConn
	raw   syscall.RawConn
	opts  Options
	local netip.AddrPort
	gro   bool
	asks  bool // the kernel knows UDP_SEGMENT, and the options allow it
	bufs  struct{ receive, send int }

	conf sync.Mutex // held by SetPeer and Close
	last uint32     // the kernel's drop counter at Close
	peer atomic.Pointer[peer]
	path atomic.Int64 // size of the largest datagram in bytes; 0 while unknown
	gso  atomic.Bool  // asks is set, and super-packets have not failed on this path

	tx     sender
	counts counters
}

// peer is the address of the other end in the form in which the kernel writes it into a message's
// name.
type peer struct {
	addr netip.AddrPort
	ip   [16]byte // an IPv4 address takes the first four bytes
	port uint16   // port number in network order
}

// counters holds the counters of [Stats].
type counters struct {
	sent, sentBytes, sendCalls, received, receivedBytes, receiveCalls    atomic.Uint64
	full, noPeer, tooLong, foreign, truncated, refused, unreachable, gso atomic.Uint64
}

// Listen opens a UDP port. The error names the address and a remedy. If the port is taken,
// errors.Is finds syscall.EADDRINUSE.
func Listen(o Options) (Port, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	conn, err := bind(o.Local)
	if err != nil {
		return nil, err
	}
	u := &udp{conn: conn, opts: o, local: localAddr(conn)}
	if u.raw, err = conn.SyscallConn(); err == nil {
		err = u.control(u.setup)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("UDP port %s cannot be set up: %w", o.Local, err)
	}
	u.tx.init(u)
	return u, nil
}

// control runs f on the socket's descriptor.
func (u *udp) control(f func(fd int) error) error {
	var err error
	if e := u.raw.Control(func(fd uintptr) { err = f(int(fd)) }); e != nil {
		return e
	}
	return err
}

// setup asks the kernel for buffers and offloads, and uses what the kernel grants.
func (u *udp) setup(fd int) error {
	for _, b := range []struct {
		force, plain, want int
		got                *int
	}{
		{unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, u.opts.ReceiveBuffer, &u.bufs.receive},
		{unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, u.opts.SendBuffer, &u.bufs.send},
	} {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, b.force, b.want) != nil { // needs CAP_NET_ADMIN
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, b.plain, b.want); err != nil { // grants up to net.core.rmem_max
				return err
			}
		}
		n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, b.plain)
		if err != nil {
			return err
		}
		*b.got = n / 2 // the kernel doubles the size for its own use (socket(7))
	}
	// Never fragment, and let the kernel learn the path's MTU. A datagram that is too long then
	// fails here with EMSGSIZE instead of being lost on the way (ip(7)). A kernel without the
	// option fragments datagrams; the port works there too.
	if u.local.Addr().Is6() {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO)
	} else {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
	}
	if u.opts.GSO == Auto { // zero leaves segmentation to each message (udp(7))
		u.asks = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 0) == nil
		u.gso.Store(u.asks)
	}
	if u.opts.GRO == Auto {
		u.gro = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1) == nil
	}
	if !takesBatches(fd) {
		u.opts.Batch = Off
	}
	return nil
}

// takesBatches tries the calls that move several messages, without any message. A sandbox's filter
// may refuse calls that the kernel has.
func takesBatches(fd int) bool {
	for _, call := range []uintptr{unix.SYS_SENDMMSG, unix.SYS_RECVMMSG} {
		if _, _, e := unix.Syscall6(call, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0); e == unix.ENOSYS || e == unix.EPERM || e == unix.EACCES {
			return false
		}
	}
	return true
}

// SetPeer implements [Port]. SetPeer connects the socket. The kernel then drops the datagrams of
// other senders, looks up the route once, and reports the route's MTU.
func (u *udp) SetPeer(a netip.AddrPort) error {
	a, err := checkPeer(u.local, a)
	if err != nil {
		return err
	}
	to, err := sockaddr(a)
	if err != nil {
		return fmt.Errorf("UDP port %s: peer %s: %w", u.local, a, err)
	}
	p := &peer{addr: a, port: htons(a.Port())}
	copy(p.ip[:], a.Addr().AsSlice())
	u.conf.Lock()
	defer u.conf.Unlock()
	// The peer is stored first. Otherwise datagrams that it sends meanwhile would count as foreign.
	old := u.peer.Swap(p)
	err = u.control(func(fd int) error {
		if old != nil && u.opts.Local.Port() != 0 && u.opts.Local.Addr().IsUnspecified() {
			// The first connect chose a source address for the wildcard. Give that address back,
			// since the new peer may be reached from another address. A port that was bound by
			// number stays.
			none := unix.RawSockaddr{Family: unix.AF_UNSPEC}
			_, _, _ = unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&none)), unsafe.Sizeof(none))
		}
		return unix.Connect(fd, to)
	})
	if err != nil {
		u.peer.Store(old)
		if errors.Is(err, net.ErrClosed) {
			return net.ErrClosed
		}
		return fmt.Errorf("UDP port %s cannot reach %s; look at the machine's addresses and routes: %w", u.local, a, err)
	}
	u.gso.Store(u.asks) // the other path may carry super-packets
	u.measurePath()
	return nil
}

// sockaddr returns an address in the form that the system call takes.
func sockaddr(a netip.AddrPort) (unix.Sockaddr, error) {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}, nil
	}
	s := &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	if zone := a.Addr().Zone(); zone != "" {
		if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
			s.ZoneId = uint32(n)
		} else if i, err := net.InterfaceByName(zone); err == nil {
			s.ZoneId = uint32(i.Index)
		} else {
			return nil, fmt.Errorf("zone %q: %w", zone, err)
		}
	}
	return s, nil
}

// measurePath asks the kernel for the MTU of the path to the peer. Until a router on the path
// reports a smaller MTU, the MTU is the interface's MTU.
func (u *udp) measurePath() {
	level, opt := unix.IPPROTO_IP, unix.IP_MTU
	if u.local.Addr().Is6() {
		level, opt = unix.IPPROTO_IPV6, unix.IPV6_MTU
	}
	_ = u.control(func(fd int) error {
		mtu, err := unix.GetsockoptInt(fd, level, opt)
		if err == nil {
			u.path.Store(int64(payloadOf(u.opts.within(mtu), u.local.Addr())))
		}
		return err
	})
}

// LocalAddr implements [Port].
func (u *udp) LocalAddr() netip.AddrPort { return u.local }

// MaxDatagram implements [Port].
func (u *udp) MaxDatagram() int {
	if n := u.path.Load(); n > 0 {
		return int(n)
	}
	return payloadOf(u.opts.within(interfaceMTU(u.local.Addr())), u.local.Addr())
}

// Close implements [Port].
func (u *udp) Close() error {
	u.conf.Lock()
	defer u.conf.Unlock()
	u.last = u.dropped()
	if err := u.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("UDP port %s: close: %w", u.local, err)
	}
	return nil
}

// dropped returns the kernel's count of messages for which the receive buffer had no room
// (SO_MEMINFO, Linux 4.12). Asking for the count on demand costs nothing on the path of the
// packets. SO_RXQ_OVFL would cost a word per message.
func (u *udp) dropped() uint32 {
	n := u.last
	_ = u.control(func(fd int) error {
		var info [unix.SK_MEMINFO_VARS]uint32
		size := uint32(unsafe.Sizeof(info))
		_, _, e := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
			uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
		if e == 0 && size == uint32(unsafe.Sizeof(info)) {
			n = info[unix.SK_MEMINFO_DROPS]
		}
		return nil
	})
	return n
}

// Stats implements [Port].
func (u *udp) Stats() Stats {
	u.conf.Lock()
	drops := u.dropped()
	u.conf.Unlock()
	c := &u.counts
	return Stats{
		Sent: c.sent.Load(), SentBytes: c.sentBytes.Load(), SendCalls: c.sendCalls.Load(),
		Received: c.received.Load(), ReceivedBytes: c.receivedBytes.Load(), ReceiveCalls: c.receiveCalls.Load(),
		SendFull: c.full.Load(), NoPeer: c.noPeer.Load(), TooLong: c.tooLong.Load(), Foreign: c.foreign.Load(),
		Truncated: c.truncated.Load(), Refused: c.refused.Load(), Unreachable: c.unreachable.Load(), Overrun: uint64(drops),
		GSOGivenUp: c.gso.Load(), GSO: u.gso.Load(), GRO: u.gro, Batching: u.opts.Batch == Auto,
		ReceiveBuffer: u.bufs.receive, ReceiveBufferAsked: u.opts.ReceiveBuffer,
		SendBuffer: u.bufs.send, SendBufferAsked: u.opts.SendBuffer, Largest: u.MaxDatagram(),
	}
}

// soften handles an error of a send or a receive. soften counts errors of the network and returns
// true for them, since the link repairs the loss. ICMP errors of earlier datagrams may appear at
// any later call (udp(7)).
func (u *udp) soften(e syscall.Errno) bool {
	switch e {
	case unix.ECONNREFUSED:
		u.counts.refused.Add(1)
	case unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EHOSTDOWN, unix.ENETDOWN, unix.ENONET, unix.EPROTO, unix.ENOPROTOOPT,
		unix.EOPNOTSUPP, unix.EACCES, unix.ETIMEDOUT:
		u.counts.unreachable.Add(1)
	case unix.EMSGSIZE:
		u.measurePath()
	default:
		return false
	}
	return true
}

// mmsghdr is struct mmsghdr of sendmmsg(2) and recvmmsg(2).
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
}

// htons returns a port in network order.
func htons(p uint16) uint16 {
	b := [2]byte{byte(p >> 8), byte(p)}
	return *(*uint16)(unsafe.Pointer(&b))
}
