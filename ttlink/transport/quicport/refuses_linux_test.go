package quicport

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRefuses checks which errors of a call count, and which errors the port keeps from quic-go.
func TestRefuses(t *testing.T) {
	peer, other := net.UDPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7}, net.UDPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 7}
	for _, x := range []struct {
		err                            error
		hides                          bool
		refused, unreachable, refusals uint64
	}{
		{unix.ENETUNREACH, true, 0, 1, 1},
		{unix.ECONNREFUSED, true, 1, 0, 1},
		{unix.EACCES, true, 0, 1, 0},
		{unix.EPERM, true, 0, 1, 0},
		{unix.EBADF, false, 0, 0, 0},
		{net.ErrClosed, false, 0, 0, 0},
	} {
		var i icmp
		i.aim(netip.MustParseAddrPort("10.0.0.1:7"))
		err := fmt.Errorf("write udp: %w", x.err)
		if got := i.refuses(err, &other); got != x.hides {
			t.Errorf("%v, to another address: %v, want %v", x.err, got, x.hides)
		}
		if n := i.refused.Load() + i.unreachable.Load() + i.refusals.Load(); n != 0 {
			t.Errorf("%v, to another address: counted", x.err)
		}
		if got := i.refuses(err, &peer); got != x.hides {
			t.Errorf("%v: %v, want %v", x.err, got, x.hides)
		}
		if a, b, c := i.refused.Load(), i.unreachable.Load(), i.refusals.Load(); a != x.refused || b != x.unreachable || c != x.refusals {
			t.Errorf("%v: %d refused, %d unreachable, %d refusals; want %d, %d, %d", x.err, a, b, c, x.refused, x.unreachable, x.refusals)
		}
	}
}
