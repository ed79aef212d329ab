package transport

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// receiver is the state for the receiving system call. A Batch keeps the receiver for the next
// receive.
type receiver struct {
	owner   *udp
	iov     [batchMessages]unix.Iovec
	msgs    [batchMessages]mmsghdr
	names   [batchMessages]unix.RawSockaddrInet6
	control [batchMessages]coalesced
	polls   bool // if no message is there, the call fails with EAGAIN, and the goroutine does not sleep
	vain    vain // polling in vain by Recv
	n       int  // messages that the last call received
	errno   syscall.Errno
	call    func(fd uintptr) bool
}

// coalesced has the memory layout of the control message that comes with a received super-packet.
// The control message states the size of each datagram (UDP_GRO, udp(7)).
type coalesced struct {
	hdr  unix.Cmsghdr
	size int32
	_    [4]byte
}

// init prepares the system call that receives from u into b. The function r.call borrows memory for
// b just before the system call, and returns the memory to the pool if no message is there. A port
// that waits therefore needs no memory.
func (r *receiver) init(u *udp, b *Batch) {
	r.owner = u
	want := batchMessages
	if u.opts.Batch == Off {
		want = 1
	}
	for i := range r.msgs {
		h := &r.msgs[i].hdr
		h.Iov = &r.iov[i]
		h.SetIovlen(1)
		h.Name = (*byte)(unsafe.Pointer(&r.names[i]))
		h.Control = (*byte)(unsafe.Pointer(&r.control[i]))
	}
	r.call = func(fd uintptr) bool {
		b.borrow()
		for i := range want {
			r.iov[i].Base = &b.block[i][0]
			r.iov[i].SetLen(messageBytes)
			r.msgs[i].hdr.Namelen = unix.SizeofSockaddrInet6
			r.msgs[i].hdr.SetControllen(int(unsafe.Sizeof(r.control[i])))
		}
		// RawSyscall does not tell the Go runtime about the call. The runtime does not have to know
		// about a call that never waits. Syscall would wake the runtime's monitor thread, and the
		// waking takes half as long as a round trip.
		var n uintptr
		var e syscall.Errno
		if want == 1 {
			n, _, e = unix.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&r.msgs[0].hdr)), unix.MSG_DONTWAIT)
			r.msgs[0].len, n = uint32(n), 1
		} else {
			n, _, e = unix.RawSyscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&r.msgs[0])), uintptr(want), unix.MSG_DONTWAIT, 0, 0)
		}
		if e == unix.EAGAIN && !r.polls {
			r.drop(b)
			return false
		}
		r.n, r.errno = int(n), e
		return true
	}
}

// drop empties b and returns the memory of b to the pool.
func (r *receiver) drop(b *Batch) {
	for i := range r.iov {
		r.iov[i].Base = nil
	}
	b.Reset()
}

// Recv implements [Port].
func (u *udp) Recv(b *Batch) error {
	r := &b.sys
	if r.owner != u {
		r.init(u, b)
	}
	for b.n = 0; b.n == 0; {
		if err := u.await(b); err != nil {
			r.drop(b)
			if errors.Is(err, net.ErrClosed) {
				return net.ErrClosed
			}
			return fmt.Errorf("UDP port %s cannot receive: %w", u.local, err)
		}
		u.counts.receiveCalls.Add(1)
		switch {
		case r.errno == 0:
			u.collect(b)
		case r.errno == unix.EINTR, u.soften(r.errno):
		default:
			r.drop(b)
			return fmt.Errorf("UDP port %s cannot receive: %w", u.local, r.errno)
		}
	}
	return nil
}

const (
	pollShare = 32                   // polling in vain may take this share of the time: 1/32
	pollSpare = 2 * time.Millisecond // largest time of polling in vain that a port may save up
)

// await makes receiving system calls until a call has received messages or failed. await polls the
// socket for the time b.Poll, and then lets the goroutine sleep. If the Go runtime has several
// processors, await does not poll, because a pause would wake up a thread of another processor.
func (u *udp) await(b *Batch) error {
	r := &b.sys
	if b.Poll > 0 && runtime.GOMAXPROCS(0) == 1 {
		if err := u.poll(b); err != nil || r.errno != unix.EAGAIN {
			return err
		}
	}
	return u.raw.Read(r.call)
}

// poll looks for messages, with pauses, until the time b.Poll is over. If no message has come,
// r.errno is EAGAIN. Polling is in vain if the peer waits for this processor core. So poll does
// nothing if polling has been in vain for 1/pollShare of the time.
func (u *udp) poll(b *Batch) error {
	r := &b.sys
	begin := time.Now()
	r.errno = unix.EAGAIN
	if !r.vain.allows(begin) {
		return nil
	}
	r.polls = true
	defer func() { r.polls = false }()
	for {
		if err := u.raw.Read(r.call); err != nil || r.errno != unix.EAGAIN {
			return err
		}
		took := time.Since(begin)
		if took > b.Poll || !u.lull.pass() {
			r.vain.spare -= took
			return nil
		}
	}
}

// vain limits polling in vain to 1/pollShare of the time.
type vain struct {
	spare time.Duration // time for which the port may still poll in vain; negative after too much polling
	at    time.Time     // when spare was last increased
}

// allows reports whether the port may poll at the time now.
func (v *vain) allows(now time.Time) bool {
	v.spare, v.at = min(pollSpare, v.spare+now.Sub(v.at)/pollShare), now
	return v.spare > 0
}

// collect puts the received messages of the peer into b. collect drops empty messages, truncated
// messages, and the messages of other senders. Other senders' messages may have come before the
// port connected the socket, or while the port had another peer.
func (u *udp) collect(b *Batch) {
	r, p := &b.sys, u.peer.Load()
	var kept, bytes, foreign uint64
	for i := range r.n {
		m := &r.msgs[i]
		size, seg := int(m.len), int(m.len)
		if c := &r.control[i]; m.hdr.Controllen > 0 && c.hdr.Level == unix.IPPROTO_UDP && c.hdr.Type == unix.UDP_GRO && c.size > 0 {
			seg = int(c.size)
		}
		n := uint64(1)
		if size > seg {
			n = uint64((size + seg - 1) / seg)
		}
		switch {
		case p == nil || !p.sent(&r.names[i]):
			foreign += n
		case m.hdr.Flags&unix.MSG_TRUNC != 0:
			u.counts.truncated.Add(1)
		default:
			kept += n
			if size == 0 { // links send no empty datagrams
				break
			}
			bytes += uint64(size)
			b.supers[b.n] = Super{Data: b.block[i][:size:size], Seg: seg, From: p.addr}
			b.n++
		}
	}
	u.counts.received.Add(kept)
	u.counts.receivedBytes.Add(bytes)
	if foreign > 0 {
		u.counts.foreign.Add(foreign)
	}
}

// sent reports whether n, the sender's address of a received message, is the peer's address.
func (p *peer) sent(n *unix.RawSockaddrInet6) bool {
	if n.Port != p.port {
		return false
	}
	if p.addr.Addr().Is4() {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(n)) // family, port and address are at the same offsets (ip(7), ipv6(7))
		return v4.Family == unix.AF_INET && v4.Addr == [4]byte(p.ip[:4])
	}
	return n.Family == unix.AF_INET6 && n.Addr == p.ip
}

// peek is the state for a look at the first message that waits.
type peek struct {
	buf  [1]byte
	name unix.RawSockaddrInet6
	size uint32 // length of name
	n    int    // bytes that the call has returned; -1: no message waits
	call func(fd uintptr)
}

// Waiting reports whether the next message that Recv will receive has come, is from the peer, and is not empty. Only
// one goroutine at a time may call Waiting.
func (u *udp) Waiting() bool {
	k, p := &u.peek, u.peer.Load()
	if k.call == nil {
		k.call = func(fd uintptr) {
			k.size = unix.SizeofSockaddrInet6
			n, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&k.buf[0])), uintptr(len(k.buf)), unix.MSG_PEEK|unix.MSG_DONTWAIT,
				uintptr(unsafe.Pointer(&k.name)), uintptr(unsafe.Pointer(&k.size)))
			if k.n = int(n); e != 0 {
				k.n = -1
			}
		}
	}
	return p != nil && u.raw.Control(k.call) == nil && k.n > 0 && p.sent(&k.name)
}
