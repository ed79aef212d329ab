package transport

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Trouble is what an error of a UDP socket says about the path to a peer. An error about an earlier
// datagram, which an ICMP message reported, may appear at any later call (udp(7)).
type Trouble int

// Kinds of trouble.
const (
	NoTrouble Trouble = iota // the error does not come from the network
	NoSocket                 // no process has the peer's socket
	NoHost                   // no route leads to the peer's host
	Barred                   // the network, or this machine's packet filter, refused a datagram
	TooLong                  // a datagram is too long for the path
)

// TroubleOf returns the trouble that an error reports. The error is a unix.Errno, or wraps one.
func TroubleOf(err error) Trouble {
	var e unix.Errno
	if !errors.As(err, &e) {
		return NoTrouble
	}
	return troubleOf(e)
}

// troubleOf is TroubleOf without an allocation.
func troubleOf(e unix.Errno) Trouble {
	switch e {
	case unix.ECONNREFUSED:
		return NoSocket
	case unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EHOSTDOWN, unix.ENETDOWN:
		return NoHost
	case unix.ENONET, unix.EPROTO, unix.ENOPROTOOPT, unix.EOPNOTSUPP, unix.EACCES, unix.ETIMEDOUT:
		return Barred
	case unix.EMSGSIZE:
		return TooLong
	}
	return NoTrouble
}

// Refusal reports whether the trouble is a refusal, as [Port.Refusals] counts them.
func (t Trouble) Refusal() bool { return t == NoSocket || t == NoHost }
