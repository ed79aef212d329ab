// Package transport is a port as an opaque datagram pipe. The pipe carries what the link gives it
// and does not know the format of frames.
//
// The kernel's work per datagram is what limits UDP. Only segmentation offload moves many datagrams
// per pass (GSO for sending, GRO for receiving), and only datagrams of equal size. So [Port.Send]
// takes a run of equal datagrams in one buffer, and a [Batch] holds such runs of received
// datagrams. Without the offloads the same calls use batches of single datagrams, or one datagram
// per system call.
//
// A pipe loses datagrams: a buffer is full, a peer is dead, or a datagram is longer than the path
// takes. Only the pipe's counters show that. The link above repairs all such losses. The pipe
// returns errors only for what a person must know.
//
// Another transport, or a wrapper around a transport, implements [Port]. Package transporttest is
// the test suite that each transport passes.
package transport

import (
	"fmt"
	"net/netip"
)

// Limits of a port.
const (
	// MaxDatagram is the largest datagram of any port, in bytes: what a UDP datagram carries over
	// IPv4 (RFC 768, RFC 791).
	MaxDatagram = 65507
	// MaxSegments is the largest number of datagrams in one super-packet: UDP_MAX_SEGMENTS
	// (linux/udp.h) before Linux 6.9. Later versions have twice as many.
	MaxSegments = 64
	// DefaultBuffer is the size that a UDP port requests for each of its socket buffers, in bytes.
	// Linux's default of 208 KiB holds less than a window.
	DefaultBuffer = 4 << 20

	ipv4Overhead = 20 + 8 // bytes of headers before the payload (RFC 791, RFC 768)
	ipv6Overhead = 40 + 8 // the same (RFC 8200)
)

// Run is consecutive datagrams in one buffer: Seg bytes each. The last may be shorter.
type Run struct {
	Data []byte
	Seg  int // bytes; positive
}

// datagrams is how many the run holds.
func (r Run) datagrams() int {
	if len(r.Data) == 0 {
		return 0
	}
	if r.Seg <= 0 {
		panic(fmt.Sprintf("transport: %d bytes to be sent in datagrams of %d bytes", len(r.Data), r.Seg))
	}
	return (len(r.Data) + r.Seg - 1) / r.Seg
}

// countDatagrams is how many the runs hold together.
func countDatagrams(runs []Run) int {
	n := 0
	for _, r := range runs {
		n += r.datagrams()
	}
	return n
}

// Port is one ethernet port's datagram pipe. Several goroutines may call its methods at the same
// time.
type Port interface {
	// Send sends data as consecutive datagrams of seg bytes each; the last may be shorter. Send
	// sends in place and keeps no reference to data. Send returns how many datagrams were taken. A
	// full buffer, an unknown or dead peer, or a path that is too narrow gives a smaller number and
	// a counter, but no error. After Close it returns net.ErrClosed. A seg below 1 is a bug of the
	// caller and panics.
	Send(data []byte, seg int) (int, error)
	// SendBatch sends several runs in order, as if by Send, with as few system calls as possible.
	SendBatch(runs []Run) (int, error)
	// Recv waits for at least one datagram from the peer and fills b. Recv discards what b held
	// before. After Close it returns net.ErrClosed.
	Recv(b *Batch) error
	// SetPeer names the other end. From then on the port receives only the peer's datagrams, and
	// sends to the peer. SetPeer may be called again when the peer has moved. Before the first call
	// the port receives nothing, and drops and counts what is sent.
	SetPeer(addr netip.AddrPort) error
	// LocalAddr is this end's address.
	LocalAddr() netip.AddrPort
	// MaxDatagram is the largest datagram, in bytes, that the path to the peer is known to take
	// without fragmentation. Before SetPeer it is the limit of the local interface. The size may
	// become smaller later. The size is never beyond the constant [MaxDatagram].
	MaxDatagram() int
	// Stats returns the port's counters; also after Close.
	Stats() Stats
	// Close ends the port, and Recv with it. Closing again does nothing.
	Close() error
}

// Stats are a port's counters since its start, and what the port found out about its socket. Only
// Overrun is counted by the kernel, which counts a super-packet as one message.
type Stats struct {
	Sent, SentBytes, SendCalls            uint64 // datagrams taken, their bytes, system calls
	Received, ReceivedBytes, ReceiveCalls uint64 // datagrams from the peer, their bytes, system calls
	SendFull                              uint64 // datagrams that a full socket buffer did not take
	NoPeer                                uint64 // datagrams not sent because the port had no peer
	TooLong                               uint64 // datagrams not sent because they are too long for the path
	Foreign                               uint64 // datagrams of others than the peer, dropped
	Truncated                             uint64 // messages longer than the receive buffer, dropped
	Refused                               uint64 // times that the peer's machine reported that nobody listens there
	Unreachable                           uint64 // times that the network, or this machine's route or packet filter, refused
	Overrun                               uint64 // messages dropped because the receive buffer was full
	GSOGivenUp                            uint64 // times that a path turned out not to carry super-packets
	GSO, GRO, Batching                    bool   // in use: super-packets out, super-packets in, several messages per system call
	ReceiveBuffer, ReceiveBufferAsked     int    // bytes that the kernel granted, and that it was asked for
	SendBuffer, SendBufferAsked           int    // the same
	Largest                               int    // the largest datagram that the path takes now, in bytes
	Auth                                  AuthStats
}

// Mode says whether a feature is used.
type Mode uint8

// The modes.
const (
	Auto Mode = iota // where the kernel has it
	Off              // never
)

// Options describe a UDP port. For each field but Local, the zero value is the best choice.
type Options struct {
	Local         netip.AddrPort // port 0: any free one
	GSO, GRO      Mode           // super-packets out and in
	Batch         Mode           // several messages per system call
	ReceiveBuffer int            // bytes to ask for; 0: [DefaultBuffer]
	SendBuffer    int            // the same
	MTU           int            // longest IP packet that the port assumes for the path, in bytes; 0: what the kernel reports
}

// within is the MTU of a path, limited by the MTU in the options.
func (o *Options) within(mtu int) int {
	if o.MTU > 0 {
		return min(mtu, o.MTU)
	}
	return mtu
}

// complete fills in defaults. complete returns an error for options that cannot be used.
func (o *Options) complete() error {
	if o.ReceiveBuffer == 0 {
		o.ReceiveBuffer = DefaultBuffer
	}
	if o.SendBuffer == 0 {
		o.SendBuffer = DefaultBuffer
	}
	switch {
	case !o.Local.IsValid():
		return fmt.Errorf("UDP port: no local address: name one, such as 127.0.0.1:0")
	case o.ReceiveBuffer < MaxDatagram, o.SendBuffer < MaxDatagram:
		return fmt.Errorf("UDP port %s: socket buffers of %d and %d bytes: want at least the %d of one datagram",
			o.Local, o.ReceiveBuffer, o.SendBuffer, MaxDatagram)
	}
	o.Local = netip.AddrPortFrom(o.Local.Addr().Unmap(), o.Local.Port())
	return nil
}
