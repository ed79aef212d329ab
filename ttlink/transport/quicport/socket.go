package quicport

import (
	"errors"
	"net"
	"runtime"
	"sync/atomic"
	"syscall"

	"golang.org/x/net/ipv4"
)

// socket is a UDP socket that yields the processor before it reads each batch. On one processor,
// each of quic-go's goroutines would otherwise run until it has nothing left to do. The third of
// these goroutines takes datagrams out. The third goroutine would find 128 datagrams, and quic-go would have dropped
// the rest. With the yield, received datagrams wait in the kernel's buffer instead.
type socket struct {
	*net.UDPConn
	batch   *ipv4.PacketConn
	initial atomic.Int64  // size of the last packet that began a connection, in bytes
	tooLong chan struct{} // signals that the kernel refused a packet for its length
}

func newSocket(c *net.UDPConn) *socket {
	return &socket{UDPConn: c, batch: ipv4.NewPacketConn(c), tooLong: make(chan struct{}, 1)}
}

// WriteMsgUDP writes packets. quic-go looks for this method. quic-go does not report packets that
// are too long for the interface.
func (s *socket) WriteMsgUDP(b, oob []byte, to *net.UDPAddr) (n, oobn int, err error) {
	n, oobn, err = s.UDPConn.WriteMsgUDP(b, oob, to)
	if err != nil && errors.Is(err, syscall.EMSGSIZE) {
		nudge(s.tooLong)
	}
	return n, oobn, err
}

// nudge wakes the reader of a channel with room for one value.
func nudge(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// ReadBatch reads messages, for both address families. quic-go looks for this method.
func (s *socket) ReadBatch(ms []ipv4.Message, flags int) (int, error) {
	runtime.Gosched()
	n, err := s.batch.ReadBatch(ms, flags)
	for i := range max(n, 0) {
		if m := &ms[i]; m.N > 0 && m.Buffers[0][0]&0xf0 == 0xc0 { // an Initial packet of version 1 (RFC 9000 §17.2.2)
			s.initial.Store(int64(m.N))
		}
	}
	return n, err
}
