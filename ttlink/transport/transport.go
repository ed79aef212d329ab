// Package transport provides the datagram pipe of an ethernet port. The pipe carries the link's
// datagrams and does not know the format of frames.
//
// The kernel's work per datagram limits the speed of UDP. Only segmentation offload moves many
// datagrams per pass (GSO for sending, GRO for receiving), and only datagrams of equal size. For
// that reason [Port.Send] takes a run of equal datagrams in one buffer, and a [Batch] holds such
// runs of received datagrams. Without the offloads the same calls use batches of single datagrams,
// or one datagram per system call.
//
// A pipe loses datagrams if a buffer is full, if a peer is dead, or if a datagram is longer than
// the path takes. Only the pipe's counters show such losses. The link above the pipe repairs all
// such losses. The pipe returns errors only for problems that a person must know about.
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
	// MaxDatagram is the largest datagram of any port, in bytes. A UDP datagram over IPv4 carries
	// no more (RFC 768, RFC 791).
	MaxDatagram = 65507
	// MaxSegments is the largest number of datagrams in one super-packet: UDP_MAX_SEGMENTS
	// (linux/udp.h) before Linux 6.9. Later versions have twice as many.
	MaxSegments = 64
	// DefaultBuffer is the size that a UDP port requests for each of its socket buffers, in bytes.
	// Linux's default of 208 KiB holds less than a window.
	DefaultBuffer = 4 << 20

	ipv4Overhead = 20 + 8 // bytes of headers before the payload (RFC 791, RFC 768)
	ipv6Overhead = 40 + 8 // bytes of headers before the payload (RFC 8200, RFC 768)
)

// Run holds consecutive datagrams in one buffer. Each datagram has Seg bytes. The last datagram may
// be shorter.
type Run struct {
	Data []byte
	Seg  int // length of each datagram in bytes; positive
}

// datagrams returns how many datagrams the run holds.
func (r Run) datagrams() int {
	if len(r.Data) == 0 {
		return 0
	}
	if r.Seg <= 0 {
		panic(fmt.Sprintf("transport: %d bytes to be sent in datagrams of %d bytes", len(r.Data), r.Seg))
	}
	return (len(r.Data) + r.Seg - 1) / r.Seg
}

// countDatagrams returns how many datagrams the runs hold together.
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
	// Send sends data as consecutive datagrams of seg bytes each. The last datagram may be shorter.
	// Send sends in place and keeps no reference to data. Send returns how many datagrams the port
	// took. A full buffer, an unknown or dead peer, or a path that is too narrow gives a smaller
	// number. The port then increases a counter and returns no error. After Close, Send returns
	// net.ErrClosed. A seg below 1 is a bug of the caller, and Send panics.
	Send(data []byte, seg int) (int, error)
	// SendBatch sends several runs in order, as if by Send, with as few system calls as possible.
	SendBatch(runs []Run) (int, error)
	// Recv waits for at least one datagram from the peer and fills b. Recv first discards the
	// earlier content of b. After Close, Recv returns net.ErrClosed.
	Recv(b *Batch) error
	// SetPeer names the other end. From then on the port receives only the peer's datagrams, and
	// sends to the peer. A caller may call SetPeer again when the peer has moved. Before the first
	// call the port receives nothing. The port then drops and counts the datagrams that a caller
	// sends.
	SetPeer(addr netip.AddrPort) error
	// LocalAddr returns this end's address.
	LocalAddr() netip.AddrPort
	// MaxDatagram returns the largest datagram, in bytes, that the path to the peer is known to
	// take without fragmentation. Before SetPeer, MaxDatagram returns the limit of the local
	// interface. The size may become smaller later. The size is never beyond the constant
	// [MaxDatagram].
	MaxDatagram() int
	// Stats returns the port's counters. Stats also works after Close.
	Stats() Stats
	// Close ends the port, and makes Recv return. Closing again does nothing.
	Close() error
}

// SendEach is SendBatch for a port without a system call for several runs. SendEach calls Send for
// each run, up to the first error.
func SendEach(p Port, runs []Run) (int, error) {
	n := 0
	for _, r := range runs {
		k, err := p.Send(r.Data, r.Seg)
		n += k
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// Stats holds a port's counters since its start, and what the port found out about its socket. The
// kernel counts only Overrun. The kernel counts a super-packet as one message.
type Stats struct {
	Sent, SentBytes, SendCalls            uint64 // datagrams that the port took, their bytes, and system calls
	Received, ReceivedBytes, ReceiveCalls uint64 // datagrams from the peer, their bytes, system calls
	SendFull                              uint64 // datagrams that a full socket buffer did not take
	NoPeer                                uint64 // datagrams not sent because the port had no peer
	TooLong                               uint64 // datagrams not sent because they are too long for the path
	Foreign                               uint64 // datagrams of senders other than the peer, dropped
	Truncated                             uint64 // messages longer than the receive buffer, dropped
	Refused                               uint64 // times that the peer's machine reported that nobody listens there
	Unreachable                           uint64 // times that the network, or this machine's route or packet filter, refused a datagram
	Overrun                               uint64 // messages dropped because the receive buffer was full
	GSOGivenUp                            uint64 // times that a path turned out not to carry super-packets
	GSO, GRO, Batching                    bool   // whether the port uses super-packets for sending, super-packets for receiving, and several messages per system call
	ReceiveBuffer, ReceiveBufferAsked     int    // bytes of the receive buffer that the kernel granted, and bytes that the port asked for
	SendBuffer, SendBufferAsked           int    // bytes of the send buffer that the kernel granted, and bytes that the port asked for
	Largest                               int    // the largest datagram that the path takes now, in bytes
	Auth                                  AuthStats
}

// Mode says whether the port uses a feature.
type Mode uint8

// The modes of a feature.
const (
	Auto Mode = iota // the port uses the feature if the kernel has it
	Off              // the port never uses the feature
)

// Options holds the settings of a UDP port. For each field but Local, the zero value is the best
// choice.
type Options struct {
	Local         netip.AddrPort // address of the port; port 0: any free port
	GSO, GRO      Mode           // super-packets for sending and for receiving
	Batch         Mode           // several messages per system call
	ReceiveBuffer int            // bytes of the receive buffer to ask for; 0: [DefaultBuffer]
	SendBuffer    int            // bytes of the send buffer to ask for; 0: [DefaultBuffer]
	MTU           int            // longest IP packet that the port assumes for the path, in bytes; 0: the kernel's value
}

// within returns the MTU of a path, limited by the MTU in the options.
func (o *Options) within(mtu int) int {
	if o.MTU > 0 {
		return min(mtu, o.MTU)
	}
	return mtu
}

// complete fills in defaults. If the options cannot be used, complete returns an error.
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
