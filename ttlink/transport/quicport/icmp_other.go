//go:build !linux

package quicport

import (
	"net"
	"net/netip"
	"sync/atomic"

	"golang.org/x/net/ipv4"
)

// icmp has counts that stay 0, because this operating system reports no errors of an unconnected
// socket.
type icmp struct{ refused, unreachable, refusals atomic.Uint64 }

func (*icmp) init(*net.UDPConn) {}

func (*icmp) aim(netip.AddrPort) {}

func (*icmp) sent(int) {}

func (*icmp) heard([]ipv4.Message) {}

// take always returns false: no error of a call is about another datagram.
func (*icmp) take(error) bool { return false }

// refuses always returns false: quic-go handles the errors.
func (*icmp) refuses(error, *net.UDPAddr) bool { return false }
