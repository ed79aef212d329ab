package quicport

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/quic-go/quic-go"

	"ttfabric/ttlink/transport"
)

// bundleHeader is the length of the header before the link's datagrams in a DATAGRAM frame, in
// bytes.
const bundleHeader = 2

var errForeign = errors.New("the address is not the peer's")

// config returns the configuration of a connection. If "careful" is true, the first packets are
// small (minPacket). Otherwise the first packets are as large as this machine's route to the peer
// takes, from minPacket to maxPacket.
func (p *port) config(careful bool) *quic.Config {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &quic.Config{EnableDatagrams: true, MaxIncomingStreams: -1, MaxIncomingUniStreams: -1,
		HandshakeIdleTimeout: handshakeTimeout, MaxIdleTimeout: idleTimeout, KeepAlivePeriod: keepAlive, InitialPacketSize: minPacket}
	if !careful && p.route >= minPacket {
		c.InitialPacketSize = uint16(p.route)
		c.DisablePathMTUDiscovery = p.route == maxPacket
	}
	return c
}

// admit accepts or refuses a handshake at the acceptor by the dialer's address, and chooses the
// connection's configuration.
func (p *port) admit(info *quic.ClientInfo) (*quic.Config, error) {
	p.mu.Lock()
	peer, route := p.peer, p.route
	p.mu.Unlock()
	if addrOf(info.RemoteAddr) != peer || !peer.IsValid() {
		p.counts.strangers.Add(1)
		return nil, errForeign
	}
	return p.config(p.sock.initial.Load() < int64(route)), nil // if the dialer's first packet was small, the acceptor's first packets are small too
}

func addrOf(a net.Addr) netip.AddrPort {
	u, ok := a.(*net.UDPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	x := u.AddrPort()
	return netip.AddrPortFrom(x.Addr().Unmap(), x.Port())
}

// accept puts each connection from the peer into use until the port is closed.
func (p *port) accept() {
	for {
		c, err := p.ln.Accept(p.ctx)
		if err != nil {
			if p.ctx.Err() != nil || errors.Is(err, quic.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
				return
			}
			p.counts.failed.Add(1)
			continue
		}
		p.adopt(c)
	}
}

// dial makes a connection when p.wake fires, if there is a peer and no connection.
func (p *port) dial() {
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.wake:
		}
		p.mu.Lock()
		peer, idle := p.peer, p.conn == nil && p.peer.IsValid() && !p.closed
		p.mu.Unlock()
		if idle && !p.try(peer) {
			p.later()
		}
	}
}

// The method "later" wakes dial after the time p.backoff, and doubles the time for the next call.
func (p *port) later() {
	p.mu.Lock()
	wait := p.backoff
	p.backoff = min(2*wait, retryMax)
	p.mu.Unlock()
	time.AfterFunc(wait, func() { nudge(p.wake) })
}

// try dials, and returns true if a handshake has succeeded. If nobody answers a handshake, the path
// may be narrower than this machine knows, or the peer may be absent. Until the path is known to be
// narrow, the next tries therefore use small packets and large packets in turn. When a handshake
// with small packets succeeds, try makes one more handshake with large packets. The reason is that
// a connection with smaller packets than before would end the link's session.
func (p *port) try(peer netip.AddrPort) bool {
	careful, sure := p.begins(peer)
	c, err := p.handshake(peer, careful)
	switch {
	case err == nil && careful && !sure:
		c.CloseWithError(codeReplaced, "another handshake with larger packets follows")
		if c, err = p.handshake(peer, false); err == nil {
			careful = false
		} else {
			sure = unanswered(err)
		}
	case unanswered(err):
		careful = !careful || sure
	}
	p.mu.Lock()
	if p.peer == peer {
		p.careful, p.sure = careful, careful && sure
	}
	p.mu.Unlock()
	if err != nil {
		p.counts.failed.Add(1)
		p.judge(err)
		return false
	}
	p.adopt(c)
	return true
}

// begins updates p.route, because the route may have changed, and returns p.careful and p.sure.
func (p *port) begins(peer netip.AddrPort) (careful, sure bool) {
	route, err := transport.Route(p.local, peer)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && p.peer == peer {
		p.route = min(route, maxPacket)
	}
	return p.careful, p.sure
}

func (p *port) handshake(peer netip.AddrPort, careful bool) (*quic.Conn, error) {
	ctx, cancel := context.WithTimeout(p.ctx, 2*handshakeTimeout)
	defer cancel()
	p.mu.Lock()
	p.abort = cancel
	if p.peer != peer {
		cancel()
	}
	p.mu.Unlock()
	return p.tr.Dial(ctx, net.UDPAddrFromAddrPort(peer), p.tls(), p.config(careful))
}

// unanswered reports whether a handshake failed because the peer did not answer in time.
func unanswered(err error) bool {
	var late *quic.HandshakeTimeoutError
	var idle *quic.IdleTimeoutError
	return errors.As(err, &late) || errors.As(err, &idle) || errors.Is(err, context.DeadlineExceeded)
}

// judge reports a refusal if err says that the peer refused the TLS handshake, usually because of
// this end's certificate.
func (p *port) judge(err error) {
	var t *quic.TransportError
	if errors.As(err, &t) && t.Remote && t.ErrorCode.IsCryptoError() {
		p.counts.refusedByIt.Add(1)
		p.refuse(fmt.Sprintf("%s is refused by its peer: %s; the peer's log has the reason", p.o.Cable.From, t.ErrorCode))
	}
}

// adopt puts a new connection into use and closes the old one, if the peer still has the address.
func (p *port) adopt(c *quic.Conn) {
	p.mu.Lock()
	if p.closed || addrOf(c.RemoteAddr()) != p.peer {
		p.mu.Unlock()
		c.CloseWithError(codeMoved, "the peer has another address")
		return
	}
	old := p.conn
	if old != nil {
		p.ready.Store(false)
	}
	p.conn, p.gso = c, c.ConnectionState().GSO
	p.out.clear() // the waiting datagrams were for the old connection; the link sends their frames again
	p.path.Store(int64(largest(c)))
	p.wg.Go(func() { p.receive(c) })
	p.wg.Go(func() { p.watch(c) })
	if p.dials {
		p.wg.Go(func() { p.ask(c) })
	}
	p.mu.Unlock()
	if old != nil {
		old.CloseWithError(codeReplaced, "replaced by a new connection")
	}
	if !p.dials {
		p.proved(c)
	}
}

// proved makes the port ready if it uses the connection c, because both ends have accepted each
// other's certificates.
func (p *port) proved(c *quic.Conn) {
	p.mu.Lock()
	first := p.conn == c && !p.closed && !p.ready.Swap(true)
	if first {
		p.refused, p.backoff = "", retryMin
		p.counts.keyings.Add(1)
	}
	p.mu.Unlock()
	if first {
		p.o.Cable.Tell(transport.Notice{Ready: true})
	}
}

// ask sends empty DATAGRAM frames until the port is ready, or until the connection has ended or has
// been replaced.
func (p *port) ask(c *quic.Conn) {
	t := time.NewTicker(askEvery)
	defer t.Stop()
	for !p.ready.Load() && p.is(c) && c.SendDatagram(nil) == nil {
		select {
		case <-c.Context().Done():
		case <-t.C:
		}
	}
}

func (p *port) is(c *quic.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conn == c
}

// receive handles the DATAGRAM frames of a connection until the connection ends.
func (p *port) receive(c *quic.Conn) {
	for {
		d, err := c.ReceiveDatagram(context.Background())
		if err != nil {
			p.lost(c, err)
			return
		}
		if p.dials && !p.ready.Load() {
			p.proved(c)
		}
		if len(d) == 0 {
			if !p.dials && p.echoes.CompareAndSwap(false, true) {
				p.wg.Go(func() { // SendDatagram may wait, and the receiving goroutine must not wait
					c.SendDatagram(nil)
					p.echoes.Store(false)
				})
			}
			continue
		}
		if !p.is(c) {
			continue
		}
		if kind, n, ok := decodeProbe(d); ok {
			p.probed(c, kind, n)
			continue
		}
		b, seg, ok := unbundle(d)
		if !ok {
			p.counts.malformed.Add(1)
		} else if !p.in.add(b, seg) {
			p.counts.overrun.Add(uint64((len(b) + seg - 1) / seg))
		}
	}
}

// lost handles the end of a connection. If the connection was in use, the dialer dials again.
func (p *port) lost(c *quic.Conn, err error) {
	p.mu.Lock()
	ours := p.conn == c
	if ours {
		p.conn = nil
		p.ready.Store(false)
		p.out.clear()
	}
	p.mu.Unlock()
	if ours {
		p.judge(err)
		if p.dials {
			var closed *quic.ApplicationError
			if errors.As(err, &closed) && closed.ErrorCode == codeNarrow { // this end or the peer has found that the path is narrow
				p.mu.Lock()
				p.careful, p.sure = true, false
				p.mu.Unlock()
			}
			p.later()
		}
	}
}

// drain sends the datagrams that wait in p.out, until the port is closed.
func (p *port) drain() {
	var frame []byte
	for n := 0; ; {
		r, ok := p.out.take()
		if !ok {
			return
		}
		p.mu.Lock()
		c := p.conn
		p.mu.Unlock()
		if c == nil {
			continue
		}
		for b := r.data; len(b) > 0; {
			size := bundle(len(b), r.seg, p.MaxDatagram())
			frame = append(binary.LittleEndian.AppendUint16(frame[:0], uint16(min(r.seg, size))), b[:size]...)
			b = b[size:]
			p.line.Lock()
			err := c.SendDatagram(frame)
			p.line.Unlock()
			var long *quic.DatagramTooLargeError
			if errors.As(err, &long) {
				p.counts.tooLong.Add(1)
				p.look(c)
			} else if err != nil {
				break // the connection has ended
			}
			if isLong(len(frame)) {
				nudge(p.probes.sent)
			}
			if n++; n%lookEvery == 0 {
				p.look(c)
			}
		}
	}
}

// bundle returns the number of bytes that the next DATAGRAM frame carries, of a run with left
// remaining bytes. A DATAGRAM frame carries whole datagrams of seg bytes, up to largest bytes, but
// at least one datagram.
func bundle(left, seg, largest int) int {
	return min(left, max(1, largest/seg)*seg)
}

// unbundle returns the datagrams in a DATAGRAM frame and their length seg. The last datagram may be
// shorter. If the frame is malformed, ok is false.
func unbundle(d []byte) (b []byte, seg int, ok bool) {
	if len(d) < bundleHeader+1 {
		return nil, 0, false
	}
	seg = int(binary.LittleEndian.Uint16(d))
	return d[bundleHeader:], seg, seg > 0 && seg <= len(d)-bundleHeader
}

// look asks the connection for the largest datagram that it takes now, and stores the size. If the
// size has grown and the port is ready, look also calls Cable.Tell.
func (p *port) look(c *quic.Conn) {
	n := int64(largest(c))
	if old := p.path.Swap(n); n > old && p.ready.Load() {
		p.o.Cable.Tell(transport.Notice{Ready: true})
	}
}

// tooLarge is the content of a DATAGRAM frame that every connection refuses because of its length.
var tooLarge [1 << 16]byte

// largest returns the size of the largest datagram that a connection takes, in bytes. quic-go gives
// the size only in the error for a datagram that is too long. If the connection returns another
// error, largest returns a guess.
func largest(c *quic.Conn) int {
	var long *quic.DatagramTooLargeError
	if errors.As(c.SendDatagram(tooLarge[:]), &long) {
		return int(max(1, min(long.MaxDatagramPayloadSize-bundleHeader, transport.MaxDatagram)))
	}
	return minPacket - guessedOverhead
}
