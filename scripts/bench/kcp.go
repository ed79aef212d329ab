//go:build !nokcp

package main

import (
	"io"

	"github.com/xtaci/kcp-go/v5"

	"ttfabric/ttlink/transport"
)

const haveKCP = true

// newKCP opens a KCP stream with its fastest options: no delay, wide windows, no forward error
// correction.
func newKCP(far bool) (conv, error) {
	s := &stream{a: "-", chunk: 64 << 10}
	tune := func(c *kcp.UDPSession) *kcp.UDPSession {
		c.SetStreamMode(true)
		c.SetNoDelay(1, 10, 2, 1)
		c.SetWindowSize(1024, 1024)
		c.SetACKNoDelay(true)
		c.SetReadBuffer(transport.DefaultBuffer)
		c.SetWriteBuffer(transport.DefaultBuffer)
		return c
	}
	if !far {
		s.set = func(s *stream, peer string) error {
			c, err := kcp.DialWithOptions(peer, nil, 0, 0)
			if err != nil {
				return err
			}
			s.rw = tune(c)
			_, err = c.Write([]byte{0})
			return err
		}
		return s, nil
	}
	l, err := kcp.ListenWithOptions(anyPort().String(), nil, 0, 0)
	if err != nil {
		return nil, err
	}
	s.a = l.Addr().String()
	s.set = func(s *stream, _ string) error {
		c, err := l.AcceptKCP()
		if err != nil {
			return err
		}
		s.rw = tune(c)
		_, err = io.ReadFull(c, make([]byte, 1))
		return err
	}
	return s, nil
}
