package quicport

import (
	"errors"
	"net"
	"runtime"
	"sync/atomic"
	"syscall"

	"golang.org/x/net/ipv4"
)

// socket is a UDP socket that yields the processor before it reads each batch of packets. One
// goroutine of quic-go reads packets, and a second one puts their DATAGRAM frames into a queue of
// 128. A goroutine of the port empties the queue. On one processor, a goroutine may run for a long
// time, so the queue would overflow. The yield lets the other goroutines run before more packets
// are read, and these packets wait in the kernel's buffer.
//
// The socket is not connected. On Linux, the socket nevertheless learns which datagrams a host refused
// (see icmp_linux.go). The socket hides such an error from quic-go, because quic-go would close its
// connections at the error.
type socket struct {
	*net.UDPConn
	batch   *ipv4.PacketConn
	initial atomic.Int64  // size of the last received Initial packet, in bytes; such packets begin a connection
	tooLong chan struct{} // signals that the kernel refused a packet because of its length
	icmp    icmp
}

func newSocket(c *net.UDPConn) *socket {
	s := &socket{UDPConn: c, batch: ipv4.NewPacketConn(c), tooLong: make(chan struct{}, 1)}
	s.icmp.init(c)
	return s
}

// maxTries is the largest number of calls that send the same packets. A call may report the error of an
// earlier packet and send nothing (udp(7)). WriteMsgUDP then calls again.
const maxTries = 4

// WriteMsgUDP sends packets, and signals s.tooLong if the kernel refuses a packet because of its
// length. quic-go calls WriteMsgUDP, but ignores the error of packets that are too long. If this machine's
// network or packet filter refuses packets, WriteMsgUDP reports these packets as sent. At the error,
// quic-go would close its connection.
func (s *socket) WriteMsgUDP(b, oob []byte, to *net.UDPAddr) (n, oobn int, err error) {
	for range maxTries {
		n, oobn, err = s.UDPConn.WriteMsgUDP(b, oob, to)
		if err == nil || !s.icmp.take(err) || errors.Is(err, syscall.EMSGSIZE) {
			break
		}
	}
	switch {
	case err == nil:
	case errors.Is(err, syscall.EMSGSIZE):
		nudge(s.tooLong)
	case s.icmp.refuses(err, to):
		return len(b), len(oob), nil
	}
	return n, oobn, err
}

// nudge sends a value to a channel with room for one value. If the channel is full, nudge does
// nothing.
func nudge(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// ReadBatch reads packets from the socket, over IPv4 or IPv6. quic-go calls this method.
func (s *socket) ReadBatch(ms []ipv4.Message, flags int) (int, error) {
	runtime.Gosched()
	n, err := s.batch.ReadBatch(ms, flags)
	for err != nil && s.icmp.take(err) {
		n, err = s.batch.ReadBatch(ms, flags)
	}
	s.icmp.heard(ms[:max(n, 0)])
	for i := range max(n, 0) {
		if m := &ms[i]; m.N > 0 && m.Buffers[0][0]&0xf0 == 0xc0 { // an Initial packet of version 1 (RFC 9000 §17.2.2)
			s.initial.Store(int64(m.N))
		}
	}
	return n, err
}
