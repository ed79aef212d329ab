// Package quicport is a port over QUIC. A connection between the two ends of a cable carries each
// datagram of the link in a DATAGRAM frame (RFC 9221).
//
// QUIC does not send lost DATAGRAM frames again. The link is therefore the only layer that
// retransmits. The port opens and accepts no streams. The port does not use 0-RTT, because an
// attacker could replay 0-RTT data. Both ends show a certificate of TLS 1.3 whose URI names chip
// and fabric. Each end accepts only the neighbour to which the cable should lead; see package pki.
//
// The lower end of a cable (wire.PortID.Less) dials. The other end accepts connections, only from
// its peer's address. A later connection replaces the earlier connection, since the peer may have
// restarted. Whenever there is no connection, the dialer tries again, at growing intervals. With a
// DATAGRAM frame without content, the dialer asks whether the acceptor has accepted the dialer's
// certificate. A DATAGRAM frame without content from the acceptor is the answer. The dialer must
// ask because in TLS 1.3 the client's handshake ends before the server has checked the certificate.
//
// quic-go sends no packet of more than 1452 bytes, and paces and delays packets as its congestion
// control demands. quic-go does not notice when a path becomes narrower. path.go notices.
//
// quic-go hands packets to the kernel together only if the packets have full length. A link's frame
// is shorter. Filling frames up to full length, with super-packets at the receiver, would double
// the speed in one direction. But full frames leave no room for acknowledgements. Acknowledgements
// would then take separate packets, and traffic in both directions would cost half as much again.
// For that reason the port does not fill frames up.
//
// The content of a DATAGRAM frame begins with two bytes, little-endian, that give the length of
// each datagram of the link. As many datagrams follow as fit. The last datagram may be shorter. If
// the two bytes are zero, the frame is a question about the path, or the answer to such a question.
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

// ALPN is the application protocol, with its version (RFC 7301).
const ALPN = "ttfabric/1"

// Limits of a port.
const (
	SendQueue    = 256 << 10               // bytes that may wait to be sent; the port refuses further datagrams
	ReceiveQueue = transport.DefaultBuffer // bytes that may wait to be received; the port drops further datagrams

	maxPacket        = 1452                  // largest QUIC packet in bytes; quic-go's limit
	minPacket        = 1200                  // packet size that every path of QUIC carries, in bytes (RFC 9000 §14)
	guessedOverhead  = 48                    // assumed number of bytes around a datagram, until a connection states the number
	handshakeTimeout = 3 * time.Second       // silence after which a handshake fails; a handshake takes at most twice that
	idleTimeout      = 5 * time.Second       // silence after which a connection ends
	keepAlive        = 2 * time.Second       // time after which an idle connection sends a packet
	retryMin         = 20 * time.Millisecond // time between the first two dials; doubles
	retryMax         = time.Second           // longest time between two dials
	askEvery         = 50 * time.Millisecond // interval of the dialer's questions whether the acceptor has accepted the dialer's certificate
	closeLinger      = 20 * time.Millisecond // how long Close waits until accepted datagrams have left
	lookEvery        = 256                   // datagrams between two looks at the path
)

// Codes with which an end closes a connection.
const (
	codeClosed   = 0 // the port was closed
	codeReplaced = 1 // a later connection replaced it
	codeMoved    = 2 // the peer is at another address
	codeNarrow   = 3 // long packets no longer get through
)

// Options holds the settings of a port.
type Options struct {
	Local  netip.AddrPort // address of the port; port 0: any free port
	Cable  transport.Cable
	Chip   *pki.Chip         // the identity of this end, and the authority that this end trusts
	KeyLog *transport.KeyLog // gets the secrets of each connection; nil: the port does not keep secrets
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
	peer    netip.AddrPort // zero: nobody has named the peer yet
	route   int            // largest packet on the path to the peer, in bytes, as far as this machine knows
	conn    *quic.Conn     // nil: there is no connection
	gso     bool
	careful bool // the next connection begins with small packets, because large packets did not get through
	sure    bool // careful is certain: small packets got through and large packets did not
	refused string
	backoff time.Duration // time before the next dial
	abort   func()        // ends the handshake under way; nil: there has been no handshake
	closed  bool
	wake    chan struct{} // the dialer has something to do

	ready  atomic.Bool
	echoes atomic.Bool  // an answer to a question waits to be sent
	path   atomic.Int64 // size of the largest datagram, in bytes
	out    queue
	in     queue
	probes prober
	line   sync.Mutex // held while a goroutine gives a datagram of the link to quic-go
	counts counters
}

type counters struct {
	sent, sentBytes, received, receivedBytes  atomic.Uint64
	full, noPeer, tooLong, overrun, strangers atomic.Uint64
	unkeyed, keyings, wrongPeer, refusedByIt  atomic.Uint64
	failed, malformed                         atomic.Uint64
}

// Listen opens a port. The errors name the address and a remedy, like the errors of
// transport.Listen.
func Listen(o Options) (transport.Port, error) {
	c := &o.Cable
	switch {
	case o.Chip == nil:
		return nil, errors.New("QUIC port without a certificate: 'ttfabric pki make' makes them")
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
	// After this chip has restarted at the same address, a stateless reset tells the peer that the
	// peer's connection is gone (RFC 9000 §10.3). The key outlives the process.
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

// tls returns the configuration of both ends. Only verify checks the other end, since the standard
// check is a check of host names.
func (p *port) tls() *tls.Config {
	c := &tls.Config{Certificates: []tls.Certificate{p.o.Chip.Pair}, MinVersion: tls.VersionTLS13, NextProtos: []string{ALPN},
		ClientAuth: tls.RequireAnyClientCert, InsecureSkipVerify: true, VerifyConnection: p.verify, SessionTicketsDisabled: true}
	if p.o.KeyLog != nil {
		c.KeyLogWriter = p.o.KeyLog
	}
	return c
}

// attend watches the acceptor's side of a handshake. The client may refuse the acceptor. Only the
// end of the handshake's context tells that.
func (p *port) attend(ctx context.Context, _ *quic.ClientInfo) (context.Context, error) {
	context.AfterFunc(ctx, func() { p.judge(context.Cause(ctx)) })
	return ctx, nil
}

// verify refuses every peer but the expected neighbour.
func (p *port) verify(s tls.ConnectionState) error {
	err := p.o.Chip.Check(s.PeerCertificates, p.want, time.Now())
	if err != nil {
		p.counts.wrongPeer.Add(1)
		p.refuse(fmt.Sprintf("the peer of %s is refused: %v", p.o.Cable.From, err))
	}
	return err
}

// refuse reports once why this end refuses the peer, or the peer refuses this end.
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

// SetPeer implements transport.Port. A peer at another address must show its certificate again.
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
	p.peer, p.conn, p.refused, p.backoff = a, nil, "", retryMin
	p.careful, p.sure = false, false
	if p.abort != nil {
		p.abort() // ends the handshake with the previous peer
	}
	p.ready.Store(false)
	p.in.clear()
	p.out.clear()
	p.mu.Unlock()
	if old != nil {
		old.CloseWithError(codeMoved, "the peer is elsewhere")
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

// Stats implements transport.Port.
func (p *port) Stats() transport.Stats {
	c := &p.counts
	p.mu.Lock()
	gso := p.gso
	p.mu.Unlock()
	return transport.Stats{Sent: c.sent.Load(), SentBytes: c.sentBytes.Load(), Received: c.received.Load(), ReceivedBytes: c.receivedBytes.Load(),
		SendFull: c.full.Load(), NoPeer: c.noPeer.Load(), TooLong: c.tooLong.Load(), Overrun: c.overrun.Load(),
		GSO: gso, Batching: true, ReceiveBuffer: ReceiveQueue, ReceiveBufferAsked: ReceiveQueue, SendBuffer: SendQueue, SendBufferAsked: SendQueue,
		Largest: p.MaxDatagram(),
		Auth: transport.AuthStats{Malformed: c.malformed.Load(), Keyings: c.keyings.Load(), Unkeyed: c.unkeyed.Load(), WrongPeer: c.wrongPeer.Load(),
			RefusedByIt: c.refusedByIt.Load(), Failed: c.failed.Load(), Strangers: c.strangers.Load()}}
}

// Close implements transport.Port. Close waits for a moment until accepted datagrams have left.
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
