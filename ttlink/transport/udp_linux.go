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

// udp is a port on a UDP socket. The port makes its own system calls, but waits in the Go runtime's
// poller. A port that waits therefore needs no thread.
type udp struct {
	conn  *net.UDPConn
	raw   syscall.RawConn
	opts  Options
	local netip.AddrPort
	gro   bool
	asks  bool // the kernel knows UDP_SEGMENT, and the options allow super-packets for sending
	bufs  struct{ receive, send int }

	conf sync.Mutex // held by SetPeer and Close
	last uint32     // the kernel's count of dropped messages when Close was called
	peer atomic.Pointer[peer]
	path atomic.Int64 // size of the largest datagram that the path takes, in bytes; 0 before SetPeer
	gso  atomic.Bool  // the port sends super-packets: asks is true, and the present path has not refused any

	tx     sender
	peek   peek
	lull   lull
	counts counters
}

// peer is the address of the other end. The fields ip and port have the form of the sender's
// address in a received message, so that the port can compare the two quickly.
type peer struct {
	addr netip.AddrPort
	ip   [16]byte // an IPv4 address takes the first four bytes
	port uint16   // port number in network order
}

// counters holds the counters of [Stats].
type counters struct {
	sent, sentBytes, sendCalls, received, receivedBytes, receiveCalls    atomic.Uint64
	full, noPeer, tooLong, foreign, truncated, refused, unreachable, gso atomic.Uint64

	refusals atomic.Uint64 // datagrams that a host, or the lack of a route to the host, has refused
}

// Listen opens a UDP port. The error names the address and, for common causes, a remedy. If another
// socket uses the address, the error matches syscall.EADDRINUSE.
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

// control calls f with the socket's file descriptor, and returns the error of f.
func (u *udp) control(f func(fd int) error) error {
	var err error
	if e := u.raw.Control(func(fd uintptr) { err = f(int(fd)) }); e != nil {
		return e
	}
	return err
}

// setup asks the kernel for buffer sizes and offloads, and notes what the kernel grants.
func (u *udp) setup(fd int) error {
	for _, b := range []struct {
		force, plain, want int
		got                *int
	}{
		{unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, u.opts.ReceiveBuffer, &u.bufs.receive},
		{unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, u.opts.SendBuffer, &u.bufs.send},
	} {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, b.force, b.want) != nil { // needs CAP_NET_ADMIN
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, b.plain, b.want); err != nil { // the kernel limits the size to net.core.rmem_max or net.core.wmem_max
				return err
			}
		}
		n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, b.plain)
		if err != nil {
			return err
		}
		*b.got = n / 2 // the kernel reports twice the size, because it adds room for its own data (socket(7))
	}
	// The option makes the kernel learn the path's MTU, and send datagrams without fragmentation.
	// If a datagram is too long for the path, the send then fails with EMSGSIZE (ip(7)). A kernel
	// without the option fragments datagrams, and the port works there too.
	if u.local.Addr().Is6() {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO)
	} else {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
	}
	if u.opts.GSO == Auto { // value 0: each message sets its own segment size (udp(7))
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

// takesBatches reports whether the process may call sendmmsg and recvmmsg. takesBatches tries both
// calls with 0 messages, because a sandbox may refuse system calls that the kernel has.
func takesBatches(fd int) bool {
	for _, call := range []uintptr{unix.SYS_SENDMMSG, unix.SYS_RECVMMSG} {
		if _, _, e := unix.Syscall6(call, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0); e == unix.ENOSYS || e == unix.EPERM || e == unix.EACCES {
			return false
		}
	}
	return true
}

// SetPeer implements [Port]. SetPeer connects the socket to the peer. On a connected socket, the
// kernel drops the datagrams of other senders, looks up the route only once, and reports the
// route's MTU.
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
	// SetPeer stores the peer before it connects the socket, so that datagrams of the new peer
	// count as the peer's from the first one on.
	old := u.peer.Swap(p)
	err = u.control(func(fd int) error {
		if old != nil && u.opts.Local.Port() != 0 && u.opts.Local.Addr().IsUnspecified() {
			// The first connect of a socket on a wildcard address chose a source address. This call
			// removes the choice, because the route to the new peer may need another source
			// address. The socket keeps its port number, because the options named the number.
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
		return fmt.Errorf("UDP port %s cannot reach %s; check the machine's addresses and routes: %w", u.local, a, err)
	}
	u.gso.Store(u.asks) // the path to the new peer may carry super-packets
	u.measurePath()
	return nil
}

// sockaddr returns an address in the form that the connect system call takes. If the zone of an
// IPv6 address names no interface, sockaddr returns an error.
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

// measurePath asks the kernel for the MTU of the path to the peer, and stores the size of the
// largest datagram. The kernel assumes the MTU of the local interface until a router on the path
// reports a smaller MTU.
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
	u.lull.close()
	if err := u.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("UDP port %s: close: %w", u.local, err)
	}
	return nil
}

// dropped asks the kernel for the number of messages that the kernel dropped because the receive
// buffer was full (SO_MEMINFO, Linux 4.12). The alternative, SO_RXQ_OVFL, would add control data to
// every received message. If the kernel gives no number, dropped returns u.last.
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

// soften reports whether the error e of a send or a receive is an error of the network. soften also
// counts such an error. For EMSGSIZE, soften measures the path instead. The port ignores errors of
// the network, because the link sends lost frames again. See [Trouble].
func (u *udp) soften(e syscall.Errno) bool {
	t := troubleOf(e)
	switch t {
	case NoSocket:
		u.counts.refused.Add(1)
	case NoHost, Barred:
		u.counts.unreachable.Add(1)
	case TooLong:
		u.measurePath()
	default:
		return false
	}
	if t.Refusal() {
		u.counts.refusals.Add(1)
	}
	return true
}

// Refusals implements [Port].
func (u *udp) Refusals() uint64 { return u.counts.refusals.Load() }

// mmsghdr has the memory layout of struct mmsghdr, which sendmmsg(2) and recvmmsg(2) take.
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
}

// htons returns a port number in network byte order.
func htons(p uint16) uint16 {
	b := [2]byte{byte(p >> 8), byte(p)}
	return *(*uint16)(unsafe.Pointer(&b))
}
