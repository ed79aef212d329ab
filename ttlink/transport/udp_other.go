//go:build !linux

package transport

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"
)

// receiver is the state for system calls in a Batch. On this operating system the state is empty,
// because the port sends and receives through package net.
type receiver struct{}

// udp is a port on a UDP socket that sends or receives one datagram per system call, without
// offloads. The socket stays unconnected, so the port itself drops the datagrams of senders other
// than the peer.
type udp struct {
	conn  *net.UDPConn
	opts  Options
	local netip.AddrPort
	peer  atomic.Pointer[netip.AddrPort]
	path  atomic.Int64

	sent, sentBytes, received, receivedBytes, calls, waits atomic.Uint64
	noPeer, tooLong, foreign, refused, unreachable         atomic.Uint64
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
	_ = conn.SetReadBuffer(o.ReceiveBuffer) // the operating system does not report the size that it grants
	_ = conn.SetWriteBuffer(o.SendBuffer)
	u := &udp{conn: conn, opts: o, local: localAddr(conn)}
	u.path.Store(int64(payloadOf(u.opts.within(interfaceMTU(u.local.Addr())), u.local.Addr())))
	return u, nil
}

// Send implements [Port].
func (u *udp) Send(data []byte, seg int) (int, error) {
	total, n := Run{data, seg}.datagrams(), 0
	to := u.peer.Load()
	if to == nil {
		if err := u.conn.SetWriteDeadline(time.Time{}); err != nil {
			return 0, net.ErrClosed
		}
		u.noPeer.Add(uint64(total))
		return 0, nil
	}
	for len(data) > 0 {
		d := data[:min(seg, len(data))]
		data = data[len(d):]
		u.calls.Add(1)
		switch _, err := u.conn.WriteToUDPAddrPort(d, *to); {
		case err == nil:
			n++
			u.sent.Add(1)
			u.sentBytes.Add(uint64(len(d)))
		case errors.Is(err, net.ErrClosed):
			return n, net.ErrClosed
		case errors.Is(err, syscall.EMSGSIZE):
			u.tooLong.Add(1)
			u.path.Store(min(u.path.Load(), int64(max(1, len(d)-1))))
		default: // the error may belong to an earlier datagram, or the network is down; the link sends lost frames again
			u.soften(err)
		}
	}
	return n, nil
}

// soften counts an error of the network as Refused or Unreachable.
func (u *udp) soften(err error) {
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) {
		u.refused.Add(1)
	} else {
		u.unreachable.Add(1)
	}
}

// SendBatch implements [Port].
func (u *udp) SendBatch(runs []Run) (int, error) { return SendEach(u, runs) }

// Recv implements [Port].
func (u *udp) Recv(b *Batch) error {
	b.Reset()
	b.borrow()
	for strikes := 0; ; {
		n, from, err := u.conn.ReadFromUDPAddrPort(b.block[0][:])
		u.waits.Add(1)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				b.Reset()
				return net.ErrClosed
			}
			u.soften(err)                            // the error may belong to a datagram that was sent earlier
			if strikes++; strikes == maxReadErrors { // the socket itself has probably failed
				b.Reset()
				return fmt.Errorf("UDP port %s cannot receive: %w", u.local, err)
			}
			continue
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		if p := u.peer.Load(); p == nil || *p != from {
			u.foreign.Add(1)
			continue
		}
		u.received.Add(1)
		u.receivedBytes.Add(uint64(n))
		if n == 0 { // links send no empty datagrams
			continue
		}
		b.supers[0], b.n = Super{Data: b.block[0][:n:n], Seg: n, From: from}, 1
		return nil
	}
}

// maxReadErrors is the number of read errors within one call of Recv after which Recv returns an
// error. Recv only counts the earlier errors.
const maxReadErrors = 100

// SetPeer implements [Port]. SetPeer assumes that the path to the peer has the MTU of the local
// interface.
func (u *udp) SetPeer(a netip.AddrPort) error {
	a, err := checkPeer(u.local, a)
	if err != nil {
		return err
	}
	u.peer.Store(&a)
	mtu := interfaceMTU(u.local.Addr())
	if a.Addr().IsLoopback() {
		mtu = interfaceMTU(a.Addr())
	}
	u.path.Store(int64(payloadOf(u.opts.within(mtu), a.Addr())))
	return nil
}

// LocalAddr implements [Port].
func (u *udp) LocalAddr() netip.AddrPort { return u.local }

// MaxDatagram implements [Port].
func (u *udp) MaxDatagram() int { return int(u.path.Load()) }

// Stats implements [Port].
func (u *udp) Stats() Stats {
	return Stats{
		Sent: u.sent.Load(), SentBytes: u.sentBytes.Load(), SendCalls: u.calls.Load(),
		Received: u.received.Load(), ReceivedBytes: u.receivedBytes.Load(), ReceiveCalls: u.waits.Load(),
		NoPeer: u.noPeer.Load(), TooLong: u.tooLong.Load(), Foreign: u.foreign.Load(),
		Refused: u.refused.Load(), Unreachable: u.unreachable.Load(), Largest: u.MaxDatagram(),
		ReceiveBufferAsked: u.opts.ReceiveBuffer, SendBufferAsked: u.opts.SendBuffer,
	}
}

// Refusals implements [Port].
func (u *udp) Refusals() uint64 { return u.refused.Load() + u.unreachable.Load() }

// Close implements [Port].
func (u *udp) Close() error {
	if err := u.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("UDP port %s: close: %w", u.local, err)
	}
	return nil
}
