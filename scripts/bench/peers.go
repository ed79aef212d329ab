package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/sys/unix"

	"ttfabric/ttlink/transport"
)

// gso is raw UDP without reliability, with segmentation offload or in batches of single datagrams.
type gso struct{ p transport.Port }

func newRaw(m transport.Mode) (conv, error) {
	p, err := transport.Listen(transport.Options{Local: anyPort(), GSO: m, GRO: m})
	return &gso{p}, err
}

func (g *gso) addr() string { return g.p.LocalAddr().String() }
func (g *gso) dial(peer string) error {
	a, err := netip.ParseAddrPort(peer)
	if err != nil {
		return err
	}
	return g.p.SetPeer(a)
}

func (g *gso) pump(size int, d time.Duration) error {
	buf := make([]byte, min(64, transport.MaxDatagram/size)*size)
	for end := time.Now().Add(d); time.Now().Before(end); {
		if _, err := g.p.Send(buf, size); err != nil {
			return err
		}
	}
	return nil
}

func (g *gso) drain() func() uint64 {
	go func() {
		var b transport.Batch
		for g.p.Recv(&b) == nil {
		}
	}()
	return func() uint64 { return g.p.Stats().ReceivedBytes }
}
func (g *gso) echo()                                      {}
func (g *gso) pingpong(int, int) ([]time.Duration, error) { return nil, errors.New("not measured") }
func (g *gso) close()                                     { g.p.Close() }

// stream is a transport that reads and writes bytes: a byte stream or a connected UDP socket.
type stream struct {
	a     string
	rw    io.ReadWriteCloser
	set   func(s *stream, peer string) error
	chunk int // smallest size of a write of pump, in bytes; 0: each write is one message, and pump ignores errors
	got   atomic.Uint64
}

func (s *stream) addr() string           { return s.a }
func (s *stream) dial(peer string) error { return s.set(s, peer) }

func (s *stream) pump(size int, d time.Duration) error {
	buf := make([]byte, max(size, s.chunk))
	for end := time.Now().Add(d); time.Now().Before(end); {
		if _, err := s.rw.Write(buf); err != nil && s.chunk != 0 {
			return err
		}
	}
	return nil
}

func (s *stream) drain() func() uint64 {
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := s.rw.Read(buf)
			s.got.Add(uint64(n))
			if err != nil {
				return
			}
		}
	}()
	return s.got.Load
}

func (s *stream) echo() {
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := s.rw.Read(buf)
			if err != nil {
				return
			}
			s.rw.Write(buf[:n])
		}
	}()
}

// pingTime is the longest time that all pings of a measurement together may take. If a ping is
// lost, the measurement fails at the end of this time.
const pingTime = 20 * time.Second

func (s *stream) pingpong(size, n int) ([]time.Duration, error) {
	if c, ok := s.rw.(interface{ SetReadDeadline(time.Time) error }); ok {
		c.SetReadDeadline(time.Now().Add(pingTime))
	}
	buf, in := make([]byte, size), make([]byte, size)
	out := make([]time.Duration, 0, n)
	for range n {
		begin := time.Now()
		if _, err := s.rw.Write(buf); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(s.rw, in); err != nil {
			return nil, err
		}
		out = append(out, time.Since(begin))
	}
	return out, nil
}

func (s *stream) close() {
	if s.rw != nil {
		s.rw.Close()
	}
}

// newUDP opens a plain net.UDPConn, which sends one datagram with each call.
func newUDP(bool) (conv, error) {
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(anyPort()))
	if err != nil {
		return nil, err
	}
	local := c.LocalAddr().(*net.UDPAddr)
	return &stream{a: local.String(), set: func(s *stream, peer string) error {
		// The connected socket needs the same port again.
		c.Close()
		to, err := net.ResolveUDPAddr("udp4", peer)
		if err != nil {
			return err
		}
		conn, err := net.DialUDP("udp4", local, to)
		if err != nil {
			return err
		}
		conn.SetReadBuffer(transport.DefaultBuffer)
		s.rw = conn
		return nil
	}}, nil
}

// newTCP opens a TCP connection with writes of at least 64 KiB, under the named congestion control.
// If congestion is empty, the connection has the system's own congestion control.
func newTCP(far bool, congestion string) (conv, error) {
	s := &stream{a: "-", chunk: 64 << 10}
	if !far {
		s.set = func(s *stream, peer string) error {
			d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error { return setCongestion(raw, congestion) }}
			c, err := d.Dial("tcp4", peer)
			if err == nil {
				s.rw = c
			}
			return err
		}
		return s, nil
	}
	l, err := net.Listen("tcp4", anyPort().String())
	if err != nil {
		return nil, err
	}
	s.a = l.Addr().String()
	s.set = func(s *stream, _ string) error {
		c, err := l.Accept()
		if err == nil {
			s.rw = c
		}
		return err
	}
	return s, nil
}

// setCongestion sets the named congestion control for a connection that is not yet open. The
// congestion control of the near end governs the data that the near end sends.
func setCongestion(raw syscall.RawConn, name string) error {
	if name == "" {
		return nil
	}
	var err error
	raw.Control(func(fd uintptr) {
		err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
	})
	if err != nil {
		return fmt.Errorf("TCP congestion control %q: %w; load its module or leave the kind out with -kinds", name, err)
	}
	return nil
}

// quicStream is a QUIC stream with its connection.
type quicStream struct {
	*quic.Stream
	conn *quic.Conn
}

func (q *quicStream) Close() error { return q.conn.CloseWithError(0, "") }

func newQUIC(far bool) (conv, error) {
	s := &stream{a: "-", chunk: 64 << 10}
	if !far {
		s.set = func(s *stream, peer string) error {
			c, err := quic.DialAddr(context.Background(), peer, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"bench"}}, nil)
			if err != nil {
				return err
			}
			st, err := c.OpenStreamSync(context.Background())
			s.rw = &quicStream{st, c}
			if err == nil {
				_, err = st.Write([]byte{0}) // the peer learns of a stream only when the stream carries data
			}
			return err
		}
		return s, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1)}
	cert, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	l, err := quic.ListenAddr(anyPort().String(), &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}, NextProtos: []string{"bench"}}, nil)
	if err != nil {
		return nil, err
	}
	s.a = l.Addr().String()
	s.set = func(s *stream, _ string) error {
		c, err := l.Accept(context.Background())
		if err != nil {
			return err
		}
		st, err := c.AcceptStream(context.Background())
		if err != nil {
			return err
		}
		s.rw = &quicStream{st, c}
		_, err = io.ReadFull(st, make([]byte, 1))
		return err
	}
	return s, nil
}
