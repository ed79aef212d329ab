// Package transport provides the datagram pipe of an ethernet port. The pipe carries the link's
// datagrams between the two ends of a cable. The pipe does not know the format of frames.
//
// The kernel's work per datagram limits the speed of UDP. Segmentation offload (GSO for sending,
// GRO for receiving) reduces this work, because the kernel then handles many datagrams of equal
// size at once. Such a group of datagrams is called a super-packet. [Port.Send] therefore takes a
// run of equal datagrams in one buffer, and a [Batch] holds super-packets of received datagrams. If
// the kernel has no offloads, a port moves several single datagrams per system call, or one.
//
// A pipe loses a datagram if the network loses the datagram, or if a buffer is full. A pipe also
// loses a datagram if nobody receives at the peer's address, or if the datagram is too long for the
// path. The pipe counts the losses that it notices, and the link above the pipe repairs all losses.
// The pipe returns an error only for a problem that a person must solve.
//
// Every transport, and every wrapper around a transport, implements [Port]. Package transporttest
// is the test suite that each transport must pass.
package transport

import (
	"fmt"
	"net/netip"
)

// Limits of a port.
const (
	// MaxDatagram is the largest datagram that any port sends or receives, in bytes. UDP over IPv4
	// carries no longer payload (RFC 768, RFC 791).
	MaxDatagram = 65507
	// MaxSegments is the largest number of datagrams that a port sends in one super-packet. Linux
	// before 6.9 accepts no more datagrams in a super-packet (UDP_MAX_SEGMENTS in linux/udp.h).
	MaxSegments = 64
	// DefaultBuffer is the size that a UDP port requests for each of its socket buffers, in bytes.
	// Linux's default of 208 KiB holds less than one window of a link's frames.
	DefaultBuffer = 4 << 20

	ipv4Overhead = 20 + 8 // bytes of the IPv4 and UDP headers (RFC 791, RFC 768)
	ipv6Overhead = 40 + 8 // bytes of the IPv6 and UDP headers (RFC 8200, RFC 768)
)

// Run holds consecutive datagrams in one buffer. Each datagram has Seg bytes. The last datagram may
// be shorter.
type Run struct {
	Data []byte
	Seg  int // length of each datagram in bytes; positive
}

// datagrams returns the number of datagrams in the run. If the run has bytes and Seg is below 1,
// datagrams panics.
func (r Run) datagrams() int {
	if len(r.Data) == 0 {
		return 0
	}
	if r.Seg <= 0 {
		panic(fmt.Sprintf("transport: %d bytes to be sent in datagrams of %d bytes", len(r.Data), r.Seg))
	}
	return (len(r.Data) + r.Seg - 1) / r.Seg
}

// countDatagrams returns the number of datagrams in all runs.
func countDatagrams(runs []Run) int {
	n := 0
	for _, r := range runs {
		n += r.datagrams()
	}
	return n
}

// Port is the datagram pipe of one ethernet port. Several goroutines may call the methods of a Port
// at the same time.
type Port interface {
	// Send sends data as consecutive datagrams of seg bytes each. The last datagram may be shorter.
	// The caller may change data as soon as Send has returned. Send returns the number of datagrams
	// that the port accepted. The port refuses datagrams if its buffer is full, or if the peer is
	// unknown or unreachable. The port also refuses a datagram that is too long for the path. The
	// port then increases a counter, and Send returns no error. After Close, Send returns
	// net.ErrClosed. If data is not empty and seg is below 1, Send panics.
	Send(data []byte, seg int) (int, error)
	// SendBatch sends several runs in order. Each run is sent as by Send, but SendBatch may need
	// fewer system calls than one call of Send for each run.
	SendBatch(runs []Run) (int, error)
	// Recv empties b, waits for at least one datagram from the peer, and puts the received
	// datagrams into b. After Close, Recv returns net.ErrClosed.
	Recv(b *Batch) error
	// SetPeer sets the address of the other end. The port sends all datagrams to this address, and
	// receives only datagrams from this address. A caller calls SetPeer again when the peer has
	// another address. Before the first call of SetPeer the port receives nothing, and drops and
	// counts the datagrams that callers send.
	SetPeer(addr netip.AddrPort) error
	// LocalAddr returns this end's address.
	LocalAddr() netip.AddrPort
	// MaxDatagram returns the size of the largest datagram, in bytes, that the path to the peer
	// takes without fragmentation, as far as the port knows. Before SetPeer, MaxDatagram returns
	// the limit of the local interface. The size may change later. The size is at most the constant
	// [MaxDatagram].
	MaxDatagram() int
	// Refusals returns how many datagrams a host has refused so far. A host refuses datagrams if no
	// process has the peer's socket, or if no route leads to the peer's host. A transport that
	// never learns of refusals returns 0.
	Refusals() uint64
	// Stats returns the port's counters. Stats also works after Close.
	Stats() Stats
	// Close closes the port and makes a waiting Recv return. A second Close does nothing.
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

// Stats holds a port's counters since the port was opened, and the properties of the port's socket.
// For a UDP port, the kernel counts Overrun, and counts a super-packet as one message. The port
// counts everything else.
type Stats struct {
	Sent, SentBytes, SendCalls            uint64 // datagrams that the port sent, their bytes, and the system calls for sending
	Received, ReceivedBytes, ReceiveCalls uint64 // datagrams received from the peer, their bytes, and the system calls for receiving
	SendFull                              uint64 // datagrams not sent because the socket's send buffer was full
	NoPeer                                uint64 // datagrams not sent because the port had no peer
	TooLong                               uint64 // datagrams not sent because they are too long for the path
	Foreign                               uint64 // datagrams that the port dropped because the sender was not the peer; on Linux, the kernel drops most such datagrams before the port sees them
	Truncated                             uint64 // messages dropped because they were longer than the memory that Recv had for one message
	Refused                               uint64 // times that the peer's machine reported that no socket is open at the peer's address
	Unreachable                           uint64 // times that the network, or this machine's routes or packet filter, refused a datagram
	Overrun                               uint64 // messages dropped because the socket's receive buffer was full
	GSOGivenUp                            uint64 // times that the port stopped sending super-packets because the path refused one
	GSO, GRO, Batching                    bool   // whether the port uses super-packets for sending, super-packets for receiving, and several messages per system call
	ReceiveBuffer, ReceiveBufferAsked     int    // bytes of the receive buffer that the kernel granted, and bytes that the port asked for
	SendBuffer, SendBufferAsked           int    // bytes of the send buffer that the kernel granted, and bytes that the port asked for
	Largest                               int    // size of the largest datagram that the path takes now, in bytes
	Auth                                  AuthStats
}

// Mode says whether a port uses a feature of the kernel.
type Mode uint8

// The modes of a feature.
const (
	Auto Mode = iota // the port uses the feature if the kernel has it
	Off              // the port never uses the feature
)

// Options holds the settings of a UDP port. A caller must set Local. For every other field, the
// zero value is the best choice.
type Options struct {
	Local         netip.AddrPort // address of the port; port 0: any free port
	GSO, GRO      Mode           // super-packets for sending and for receiving
	Batch         Mode           // several messages per system call
	ReceiveBuffer int            // bytes of the receive buffer to ask for; 0: [DefaultBuffer]
	SendBuffer    int            // bytes of the send buffer to ask for; 0: [DefaultBuffer]
	MTU           int            // longest IP packet that the port assumes for the path, in bytes; 0: the kernel's value
}

// The method "within" returns the smaller of mtu and o.MTU, in bytes. If o.MTU is 0, within returns
// mtu.
func (o *Options) within(mtu int) int {
	if o.MTU > 0 {
		return min(mtu, o.MTU)
	}
	return mtu
}

// complete sets the buffer sizes that are 0 to their defaults. If Local is missing or a buffer is
// too small, complete returns an error.
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
		return fmt.Errorf("UDP port %s: socket buffers of %d and %d bytes: want at least %d, the size of the largest datagram",
			o.Local, o.ReceiveBuffer, o.SendBuffer, MaxDatagram)
	}
	o.Local = netip.AddrPortFrom(o.Local.Addr().Unmap(), o.Local.Port())
	return nil
}
