package transport

import (
	"errors"
	"net"
	"net/netip"
	"testing"
)

// A port that never had a peer returns net.ErrClosed from Send after Close, as a port with a peer
// does.
func TestSendAfterCloseWithoutPeer(t *testing.T) {
	p, err := Listen(Options{Local: netip.MustParseAddrPort("127.0.0.1:0")})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := p.Send([]byte("x"), 1); n != 0 || err != nil {
		t.Errorf("Send without a peer: %d, %v", n, err)
	}
	p.Close()
	if n, err := p.Send([]byte("x"), 1); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("Send after Close: %d, %v, want net.ErrClosed", n, err)
	}
}
