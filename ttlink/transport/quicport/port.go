// Package quicport provides a port over QUIC. The two ends of a cable share one QUIC connection,
// which carries the link's datagrams in DATAGRAM frames (RFC 9221).
//
// QUIC does not retransmit DATAGRAM frames, so only the link retransmits. The port opens and
// accepts no streams. The port does not use 0-RTT, because an attacker could replay 0-RTT data. In
// the TLS 1.3 handshake, each end shows a certificate whose URI names the end's chip and fabric.
// Each end accepts only the certificate of the chip to which the cable should lead (see package
// pki).
//
// The lower end of a cable (wire.PortID.Less) is the dialer, and the higher end is the acceptor.
// The acceptor accepts connections only from its peer's address. A new connection replaces the old
// one, because the peer may have restarted. While there is no connection, the dialer dials again at
// growing intervals. In TLS 1.3, the dialer's handshake ends before the acceptor has checked the
// dialer's certificate. The dialer therefore sends empty DATAGRAM frames until the acceptor shows
// that it has accepted the certificate. The acceptor answers with an empty DATAGRAM frame.
//
// quic-go sends packets of at most 1452 bytes, and its congestion control delays packets. quic-go
// does not detect that a path has become narrower, but path.go does.
//
// quic-go passes several packets to the kernel at once only if the packets have full length. The
// port could pad packets to full length, which would double the speed of traffic in one direction.
// Padded packets have no room for acknowledgements, so traffic in both directions would cost 1.5
// times as much. The port therefore does not pad packets.
//
// The content of a DATAGRAM frame begins with the length of each datagram of the link, in two
// bytes, little-endian. One or more datagrams of this length follow. The last datagram may be
// shorter. If the two bytes are zero, the DATAGRAM frame is a probe of the path (see path.go).
package quicport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"ttfabric/ttlink/transport"
	"ttfabric/ttlink/transport/pki"
)

// ALPN is the name and version of the application protocol, which the TLS handshake checks (RFC
// 7301).
const ALPN = "ttfabric/1"

// Limits of a port.
const (
	SendQueue    = 256 << 10               // largest number of bytes that wait to be sent; Send refuses datagrams beyond this
	ReceiveQueue = transport.DefaultBuffer // largest number of bytes that wait for Recv; the port drops datagrams beyond this

	maxPacket        = 1452                  // largest QUIC packet in bytes; quic-go's limit
	minPacket        = 1200                  // packet size that every path must carry for QUIC, in bytes (RFC 9000 §14)
	guessedOverhead  = 48                    // bytes of a QUIC packet around a datagram, as assumed before a connection gives the number
	handshakeTimeout = 3 * time.Second       // time without a packet from the peer after which a handshake fails; a handshake takes at most twice this time
	idleTimeout      = 5 * time.Second       // time without a packet from the peer after which a connection ends
	keepAlive        = 2 * time.Second       // time after which an idle connection sends a packet
	retryMin         = 20 * time.Millisecond // time between the first two dials; the time doubles after each dial
	retryMax         = time.Second           // longest time between two dials
	askEvery         = 50 * time.Millisecond // interval between the empty DATAGRAM frames that the dialer sends after the handshake
	closeLinger      = 20 * time.Millisecond // longest time for which Close waits until the waiting datagrams are sent
	lookEvery        = 256                   // number of sent DATAGRAM frames after which the port asks quic-go for the largest size again
)

// Codes with which an end closes a connection.
const (
	codeClosed   = 0 // the port was closed
	codeReplaced = 1 // a new connection replaced this connection
	codeMoved    = 2 // the peer has another address now
	codeNarrow   = 3 // the path drops long packets
)

// Options holds the settings of a port.
type Options struct {
	Local  netip.AddrPort // address of the port; port 0: any free port
	Cable  transport.Cable
	Chip   *pki.Chip         // the identity of this end, and the authority that this end trusts
	KeyLog *transport.KeyLog // gets the secrets of each connection; nil: the secrets are not logged
}

// port implements transport.Keyed.
type port struct {
	o     Options
	dials bool
	local netip.AddrPort
	sock  *socket
	tr    *quic.Transport
	ln    *quic.Listener // nil at the dialer
	want  pki.Identity
	ctx   context.Context
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu      sync.Mutex
	peer    netip.AddrPort // address of the peer; zero before SetPeer
	route   int            // size of the largest packet that this machine's route to the peer takes, in bytes
	conn    *quic.Conn     // nil: there is no connection
	gso     bool
	careful bool // the next handshake uses small packets, because the last one with large packets had no answer, or a connection has shown that the path is narrow
	sure    bool // the path is narrow for certain: small packets got through, and large packets did not
	refused string
	backoff time.Duration // time before the next dial
	abort   func()        // cancels the handshake that is under way; nil before the first handshake
	closed  bool
	wake    chan struct{} // wakes the dialer's goroutine

	ready  atomic.Bool
	echoes atomic.Bool  // a goroutine is sending the acceptor's empty DATAGRAM frame
	path   atomic.Int64 // size of the largest datagram that the connection takes, in bytes; 0 before the first connection
	out    queue
	in     queue
	probes prober
	line   sync.Mutex // held while a goroutine passes datagrams of the link to quic-go
	counts counters
}

type counters struct {
	sent, sentBytes, received, receivedBytes  atomic.Uint64
	full, noPeer, tooLong, overrun, strangers atomic.Uint64
	unkeyed, keyings, wrongPeer, refusedByIt  atomic.Uint64
	failed, malformed                         atomic.Uint64
}

// Listen opens a port. If the socket cannot be opened, the error names the address and, for common
// causes, a remedy.
func Listen(o Options) (transport.Port, error) {
	c := &o.Cable
	switch {
	case o.Chip == nil:
		return nil, errors.New("QUIC port without a certificate: 'ttfabric pki make' makes certificates")
	case !c.From.Valid() || !c.To.Valid() || c.From == c.To:
		return nil, fmt.Errorf("QUIC port of a cable from %v to %v: want two ports", c.From, c.To)
	case o.Chip.Self != pki.Identity{Fabric: c.Fabric, Chip: c.From.Node}:
		return nil, fmt.Errorf("QUIC port %v of fabric %q: the certificate belongs to %s", c.From, c.Fabric, o.Chip.Self)
	}
	sock, err := transport.Bind(o.Local)
	if err != nil {
		return nil, err
	}
	local := sock.LocalAddr().(*net.UDPAddr).AddrPort()
	if c.Tell == nil {
		c.Tell = func(transport.Notice) {}
	}
	p := &port{o: o, backoff: retryMin, dials: c.From.Less(c.To), sock: newSocket(sock), local: netip.AddrPortFrom(local.Addr().Unmap(), local.Port()),
		want: pki.Identity{Fabric: c.Fabric, Chip: c.To.Node}, wake: make(chan struct{}, 1)}
	p.tr = &quic.Transport{Conn: p.sock}
	p.in.init(ReceiveQueue)
	p.out.init(SendQueue)
	p.probes.init()
	p.ctx, p.stop = context.WithCancel(context.Background())
	// After a restart of this chip, the peer may still use the connection to the earlier
	// incarnation. A stateless reset tells the peer that the connection has ended (RFC 9000 §10.3).
	// The reset needs a key that every incarnation of the chip knows.
	secret, err := o.Chip.Secret("stateless reset of " + c.From.String())
	if err == nil {
		p.tr.StatelessResetKey = (*quic.StatelessResetKey)(&secret)
		if !p.dials {
			p.tr.ConnContext = p.attend
			p.ln, err = p.tr.Listen(p.tls(), &quic.Config{GetConfigForClient: p.admit})
		}
	}
	if err != nil {
		sock.Close()
		return nil, fmt.Errorf("QUIC port %s cannot be set up: %w", o.Local, err)
	}
	if p.dials {
		p.wg.Go(p.dial)
	} else {
		p.wg.Go(p.accept)
	}
	p.wg.Go(p.drain)
	return p, nil
}

// tls returns the TLS configuration for the dialer and the acceptor. The method "verify" checks the
// peer's certificate. The standard check of crypto/tls is off, because it checks host names.
func (p *port) tls() *tls.Config {
	c := &tls.Config{Certificates: []tls.Certificate{p.o.Chip.Pair}, MinVersion: tls.VersionTLS13, NextProtos: []string{ALPN},
		ClientAuth: tls.RequireAnyClientCert, InsecureSkipVerify: true, VerifyConnection: p.verify, SessionTicketsDisabled: true}
	if p.o.KeyLog != nil {
		c.KeyLogWriter = p.o.KeyLog
	}
	return c
}

// attend makes judge learn why a connection at the acceptor ended. The dialer may have refused the
// acceptor's certificate, and only the connection's context shows this refusal.
func (p *port) attend(ctx context.Context, _ *quic.ClientInfo) (context.Context, error) {
	context.AfterFunc(ctx, func() { p.judge(context.Cause(ctx)) })
	return ctx, nil
}

// verify refuses a peer whose certificate does not name the chip to which the cable should lead.
func (p *port) verify(s tls.ConnectionState) error {
	err := p.o.Chip.Check(s.PeerCertificates, p.want, time.Now())
	if err != nil {
		p.counts.wrongPeer.Add(1)
		p.refuse(fmt.Sprintf("the peer of %s is refused: %v", p.o.Cable.From, err))
	}
	return err
}

// refuse reports the reason why one end refuses the other, if the reason is not the last reported
// one.
func (p *port) refuse(why string) {
	p.mu.Lock()
	told := p.refused == why || p.closed
	p.refused = why
	p.mu.Unlock()
	if !told {
		p.o.Cable.Tell(transport.Notice{Refused: why})
	}
}

// Ready implements transport.Keyed.
func (p *port) Ready() bool { return p.ready.Load() }

// Send implements transport.Port.
func (p *port) Send(data []byte, seg int) (int, error) {
	if seg <= 0 && len(data) > 0 {
		panic(fmt.Sprintf("quicport: %d bytes to be sent in datagrams of %d bytes", len(data), seg))
	}
	total := 0
	if len(data) > 0 {
		total = (len(data) + seg - 1) / seg
	}
	p.mu.Lock()
	closed, known := p.closed, p.peer.IsValid()
	p.mu.Unlock()
	c := &p.counts
	if !closed {
		p.sock.icmp.sent(total)
	}
	switch {
	case closed:
		return 0, net.ErrClosed
	case !known:
		c.noPeer.Add(uint64(total))
		return 0, nil
	case !p.ready.Load():
		c.unkeyed.Add(uint64(total))
		return 0, nil
	case min(seg, len(data)) > p.MaxDatagram():
		c.tooLong.Add(uint64(total))
		return 0, nil
	}
	n, bytes := p.out.put(data, seg)
	c.sent.Add(uint64(n))
	c.sentBytes.Add(uint64(bytes))
	c.full.Add(uint64(total - n))
	return n, nil
}

// SendBatch implements transport.Port.
func (p *port) SendBatch(runs []transport.Run) (int, error) { return transport.SendEach(p, runs) }

// Recv implements transport.Port.
func (p *port) Recv(b *transport.Batch) error {
	p.mu.Lock()
	from := p.peer
	p.mu.Unlock()
	n, bytes, ok := p.in.batch(b, from)
	if !ok {
		return net.ErrClosed
	}
	p.counts.received.Add(uint64(n))
	p.counts.receivedBytes.Add(uint64(bytes))
	return nil
}

// SetPeer implements transport.Port. If the address is new, SetPeer ends the connection, and the
// ends must make a new one.
func (p *port) SetPeer(a netip.AddrPort) error {
	a = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	route, err := transport.Route(p.local, a)
	if err != nil {
		return err
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return net.ErrClosed
	}
	p.route = min(route, maxPacket)
	if a == p.peer {
		p.mu.Unlock()
		return nil
	}
	old := p.conn
	p.sock.icmp.aim(a)
	p.peer, p.conn, p.refused, p.backoff = a, nil, "", retryMin
	p.careful, p.sure = false, false
	if p.abort != nil {
		p.abort() // cancels the handshake with the previous address
	}
	p.ready.Store(false)
	p.in.clear()
	p.out.clear()
	p.mu.Unlock()
	if old != nil {
		old.CloseWithError(codeMoved, "the peer has another address")
	}
	nudge(p.wake)
	return nil
}

// LocalAddr implements transport.Port.
func (p *port) LocalAddr() netip.AddrPort { return p.local }

// MaxDatagram implements transport.Port.
func (p *port) MaxDatagram() int {
	if n := p.path.Load(); n > 0 {
		return int(n)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.route > 0 {
		return max(1, p.route-guessedOverhead)
	}
	return minPacket - guessedOverhead
}

// Refusals implements transport.Port. Linux reports refusals; on other systems Refusals returns 0.
// After a refusal, QUIC sends packets at growing intervals. Therefore Refusals also counts the datagrams
// that callers send between a refusal and the peer's next packet.
func (p *port) Refusals() uint64 { return p.sock.icmp.refusals.Load() }

// Stats implements transport.Port.
func (p *port) Stats() transport.Stats {
	c := &p.counts
	p.mu.Lock()
	gso := p.gso
	p.mu.Unlock()
	return transport.Stats{Sent: c.sent.Load(), SentBytes: c.sentBytes.Load(), Received: c.received.Load(), ReceivedBytes: c.receivedBytes.Load(),
		SendFull: c.full.Load(), NoPeer: c.noPeer.Load(), TooLong: c.tooLong.Load(), Overrun: c.overrun.Load(),
		Refused: p.sock.icmp.refused.Load(), Unreachable: p.sock.icmp.unreachable.Load(),
		GSO: gso, Batching: true, ReceiveBuffer: ReceiveQueue, ReceiveBufferAsked: ReceiveQueue, SendBuffer: SendQueue, SendBufferAsked: SendQueue,
		Largest: p.MaxDatagram(),
		Auth: transport.AuthStats{Malformed: c.malformed.Load(), Keyings: c.keyings.Load(), Unkeyed: c.unkeyed.Load(), WrongPeer: c.wrongPeer.Load(),
			RefusedByIt: c.refusedByIt.Load(), Failed: c.failed.Load(), Strangers: c.strangers.Load()}}
}

// Close implements transport.Port. Before it closes the port, Close sends the waiting datagrams, as
// far as closeLinger suffices.
func (p *port) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	conn := p.conn
	p.mu.Unlock()
	if conn != nil {
		p.out.empty(closeLinger)
	}
	p.ready.Store(false)
	p.in.close()
	p.out.close()
	if conn != nil {
		conn.CloseWithError(codeClosed, "closed")
	}
	p.stop()
	if p.ln != nil {
		p.ln.Close()
	}
	err := p.tr.Close()
	p.wg.Wait()
	if cerr := p.sock.Close(); err == nil {
		err = cerr
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("QUIC port %s: close: %w", p.local, err)
	}
	return nil
}
