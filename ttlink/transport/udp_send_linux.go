package transport

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	maxMessages = 64 // largest number of messages in one send call; a message is a single datagram or a super-packet
	maxSupers   = 8  // largest number of super-packets in one send call, up to half a MiB; measurements showed no gain from more
	maxStrikes  = 3  // consecutive errors after which the port gives up a message
)

// sender holds the state for sending system calls. The method "fill" cuts runs into messages, and
// the method "flush" passes the messages to the kernel.
type sender struct {
	mu      sync.Mutex
	u       *udp
	one     [1]Run // the runs of a call of Send, which sends one run only
	iov     [maxMessages]unix.Iovec
	msgs    [maxMessages]mmsghdr
	what    [maxMessages]content
	control [maxSupers]segmentSize
	n       int // number of messages that fill made
	first   int // index of the first message that the kernel has not taken
	done    int // messages that the last system call sent
	errno   syscall.Errno
	call    func(fd uintptr) bool
}

// position is a place in a slice of runs: the index of a run, and a byte offset in its data.
type position struct{ run, off int }

// content describes the datagrams of one message.
type content struct {
	at        position
	datagrams int
	bytes     int
	seg       int // bytes of the message's longest datagram
}

// segmentSize has the memory layout of the control message that makes the kernel cut a message into
// datagrams. The control message states the size of each datagram (UDP_SEGMENT, udp(7)).
type segmentSize struct {
	hdr  unix.Cmsghdr
	size uint16
	_    [6]byte
}

// verdict is the result of flush.
type verdict uint8

const (
	flushed verdict = iota // the kernel sent or refused every message: continue with the next messages
	full                   // the socket's send buffer is full: stop
	recut                  // the path refused a super-packet: cut the remaining messages again, into single datagrams
)

func (s *sender) init(u *udp) {
	s.u = u
	for i := range s.control {
		h := &s.control[i].hdr
		h.Level, h.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
		h.SetLen(unix.CmsgLen(2))
	}
	for i := range s.msgs {
		s.msgs[i].hdr.Iov = &s.iov[i]
		s.msgs[i].hdr.SetIovlen(1)
	}
	s.call = func(fd uintptr) bool { // the calls are raw calls, because they never wait (see receiver.init)
		if one := &s.iov[s.first]; s.n-s.first == 1 && s.msgs[s.first].hdr.Controllen == 0 { // for a single datagram, sendto makes a round trip 5 % shorter
			_, _, s.errno = unix.RawSyscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(one.Base)), uintptr(one.Len), unix.MSG_DONTWAIT, 0, 0)
			s.done = 1
			return true
		}
		if s.u.opts.Batch == Off { // one message at a time
			_, _, s.errno = unix.RawSyscall(unix.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&s.msgs[s.first].hdr)), unix.MSG_DONTWAIT)
			s.done = 1
			return true
		}
		n, _, e := unix.RawSyscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&s.msgs[s.first])), uintptr(s.n-s.first), unix.MSG_DONTWAIT, 0, 0)
		s.done, s.errno = int(n), e
		return true // true: do not wait if the buffer is full, because the link sends again
	}
}

// Send implements [Port].
func (u *udp) Send(data []byte, seg int) (int, error) {
	s := &u.tx
	s.mu.Lock()
	defer s.mu.Unlock()
	s.one[0] = Run{data, seg}
	n, err := s.send(s.one[:])
	s.one[0] = Run{}
	return n, err
}

// SendBatch implements [Port].
func (u *udp) SendBatch(runs []Run) (int, error) {
	u.tx.mu.Lock()
	defer u.tx.mu.Unlock()
	return u.tx.send(runs)
}

// send sends the runs and returns the number of datagrams that the kernel accepted. The caller
// holds s.mu.
func (s *sender) send(runs []Run) (int, error) {
	total, sent := countDatagrams(runs), 0
	if s.u.peer.Load() == nil {
		if s.u.raw.Control(func(uintptr) {}) != nil {
			return 0, net.ErrClosed
		}
		s.u.counts.noPeer.Add(uint64(total))
		return 0, nil
	}
	for at := (position{}); ; {
		at = s.fill(runs, at)
		if s.n == 0 {
			return sent, nil
		}
		n, v, err := s.flush()
		sent += n
		if v == recut {
			at = s.what[s.first].at
		}
		left := 0
		if v == full {
			left = s.left(runs, at)
		}
		s.forget()
		if err != nil || v == full {
			s.u.counts.full.Add(uint64(left))
			return sent, err
		}
	}
}

// fill cuts the runs into messages, from the position "at" on, until the runs end or one system
// call takes no more messages. fill returns the position at which the next call of fill must
// continue.
func (s *sender) fill(runs []Run, at position) position {
	s.n, s.first = 0, 0
	gso, limit, supers := s.u.gso.Load(), maxMessages, 0
	if s.u.opts.Batch == Off {
		limit = 1
	}
	for s.n < limit && at.run < len(runs) {
		r := &runs[at.run]
		rest := r.Data[at.off:]
		if len(rest) == 0 {
			at = position{at.run + 1, 0}
			continue
		}
		size, segs := min(len(rest), r.Seg), 1
		if most := min(MaxSegments, MaxDatagram/r.Seg); gso && size < len(rest) && most > 1 {
			if supers == maxSupers {
				break
			}
			size = min(len(rest), most*r.Seg)
			segs = (size + r.Seg - 1) / r.Seg
			s.control[supers].size = uint16(r.Seg)
			s.put(rest[:size], &s.control[supers])
			supers++
		} else {
			s.put(rest[:size], nil)
		}
		s.what[s.n-1] = content{at: at, datagrams: segs, bytes: size, seg: min(size, r.Seg)}
		at.off += size
	}
	return at
}

// put adds a message with the bytes d. If c is not nil, the kernel cuts the message into datagrams
// as c says.
func (s *sender) put(d []byte, c *segmentSize) {
	s.iov[s.n].Base = &d[0]
	s.iov[s.n].SetLen(len(d))
	h := &s.msgs[s.n].hdr
	if c == nil {
		h.Control = nil
		h.SetControllen(0)
	} else {
		h.Control = (*byte)(unsafe.Pointer(c))
		h.SetControllen(unix.CmsgSpace(2))
	}
	s.n++
}

// flush passes the messages to the kernel. The result "sent" is the number of datagrams that the
// kernel accepted. The result v says how send must continue.
func (s *sender) flush() (sent int, v verdict, err error) {
	c := &s.u.counts
	for strikes := 0; s.first < s.n; {
		if err := s.u.raw.Write(s.call); err != nil {
			if errors.Is(err, net.ErrClosed) {
				err = net.ErrClosed
			}
			return sent, flushed, err
		}
		c.sendCalls.Add(1)
		if s.errno == 0 && s.done > 0 {
			n, bytes := 0, 0
			for _, w := range s.what[s.first : s.first+s.done] {
				n, bytes = n+w.datagrams, bytes+w.bytes
			}
			c.sent.Add(uint64(n))
			c.sentBytes.Add(uint64(bytes))
			sent, s.first, strikes = sent+n, s.first+s.done, 0
			continue
		}
		at := s.first
		if v, err := s.failed(); err != nil || v != flushed {
			return sent, v, err
		}
		// If the error belongs to an earlier datagram, the next try sends this message. If the
		// error belongs to this message, flush skips the message after maxStrikes errors.
		if strikes++; strikes == maxStrikes {
			s.first = at + 1
		}
		if s.first != at {
			strikes = 0
		}
	}
	return sent, flushed, nil
}

// failed handles the error of the last system call, which belongs to the first remaining message.
// failed skips the message if the kernel would refuse another try, or if another try would be
// wrong.
func (s *sender) failed() (verdict, error) {
	u, w := s.u, &s.what[s.first]
	super := w.datagrams > 1
	switch e := s.errno; {
	case e == unix.EINTR:
		return flushed, nil
	case e == unix.EAGAIN, e == unix.ENOBUFS, e == unix.ENOMEM:
		return full, nil
	case e == unix.EMSGSIZE, super && (e == unix.EINVAL || e == unix.EIO || e == unix.EOPNOTSUPP):
		// Linux returns EMSGSIZE if the datagrams are too long for the path's MTU. Before version
		// 6.14, Linux returned EINVAL for a super-packet of such datagrams. Linux also returns
		// EINVAL or EIO if the route or the device cannot do segmentation.
		u.measurePath()
		if w.seg > u.MaxDatagram() {
			u.counts.tooLong.Add(uint64(w.datagrams))
			s.first++
		} else if e != unix.EMSGSIZE {
			u.gso.Store(false)
			u.counts.gso.Add(1)
			return recut, nil
		}
		return flushed, nil
	case e == unix.EPERM: // a packet filter dropped the message; another try would distort a filter rule that drops at random
		u.counts.unreachable.Add(1)
		s.first++
		return flushed, nil
	case u.soften(e):
		return flushed, nil
	default:
		return flushed, fmt.Errorf("UDP port %s cannot send: %w", u.local, e)
	}
}

// left returns the number of datagrams that the kernel has not accepted. The kernel has not
// accepted the datagrams in the remaining messages, and the datagrams of the runs from the position
// "at" on.
func (s *sender) left(runs []Run, at position) int {
	n := 0
	for _, w := range s.what[s.first:s.n] {
		n += w.datagrams
	}
	for i := at.run; i < len(runs); i++ {
		n += Run{runs[i].Data[at.off:], runs[i].Seg}.datagrams()
		at.off = 0
	}
	return n
}

// forget drops the references from the messages to the caller's memory.
func (s *sender) forget() {
	for i := range s.n {
		s.iov[i].Base = nil
	}
}
