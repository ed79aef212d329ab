package quicport

import (
	"net"
	"runtime"
	"sync/atomic"

	"golang.org/x/net/ipv4"
)

// socket is a UDP socket that gives way before each batch that is read. On
// one processor quic-go's goroutines would else each run through all that
// there is: the third in the row, who takes datagrams out, would find 128 of
// them and the rest dropped. So what has come waits in the kernel's buffer instead.
type socket struct {
	*net.UDPConn
	batch   *ipv4.PacketConn
	initial atomic.Int64 // bytes of the last packet that began a connection
}

func newSocket(c *net.UDPConn) *socket { return &socket{UDPConn: c, batch: ipv4.NewPacketConn(c)} }

// ReadBatch reads messages, for both families, as quic-go looks for it.
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
