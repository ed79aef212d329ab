// Package netem makes the Linux kernel impair the datagrams of cables. The package configures netem
// (tc-netem(8)) through netlink. All ports of a chip send through one network interface, but the
// package impairs each cable separately.
//
// # The tree of qdiscs
//
// A qdisc is a queueing discipline of a network interface. The package works on the interface that
// leads to the peer. The package makes an htb qdisc with the handle [Marker] ("tt") the root of the
// interface's qdiscs. Traffic that matches no filter passes through htb without a limit. Each
// impaired cable has a class below htb. The class's minor number is the UDP source port of the
// cable. Two u32 filters, for IPv4 and IPv6, lead packets with this source port into the class. If
// the socket is bound to an address, one filter also matches this source address, and the other
// filter is left out. Below the class are the qdiscs that impair the packets:
//
//	htb 7474: root
//	├── default: all other traffic
//	├── 7474:1                       copy of the interface's earlier qdisc, if the interface had one
//	└── 7474:4268 (port 17000)
//	    └── tbf                      splits super-packets into datagrams, limits nothing
//	        └── netem                delay, jitter, loss, duplicates, corruption, rate
//	            └── netem            reordering, if there is delay or rate as well
//
// # Where the state is kept
//
// The kernel holds all state, and the package writes no files. The handle of the root shows that
// this package made the tree. The number of a class shows the cable, and the qdiscs below the class
// show the impairment. The qdisc at 7474:1 has the kind, options and handle of the interface's
// earlier qdisc. Any later process can therefore show, change and remove the impairments. When an
// interface disappears, its tree disappears too. The package cannot make some qdiscs again, such as
// qdiscs with classes, filters or children of their own. If the interface has such a qdisc,
// [Host.Set] returns an error and changes nothing.
//
// # Super-packets
//
// A port hands the kernel up to 64 datagrams as one super-packet (UDP GSO). A qdisc treats a
// super-packet as one packet. netem would therefore lose or double all datagrams of a super-packet
// at once. For this reason, a tbf qdisc above netem splits each super-packet that is longer than
// the interface's largest packet, or longer than 8400 bytes. A shorter super-packet still passes as
// one packet. If a fixed delay is the only impairment, there is no tbf, and all super-packets stay
// whole.
package netem

import (
	"errors"
	"fmt"
	"net/netip"

	"ttfabric/ttlink/fault"
)

// Marker is the major number of the root qdisc's handle: "tt" in ASCII.
const Marker = 0x7474

// Limits of the kernel's queues and packets.
const (
	// DefaultLimit is the number of packets that may wait in netem if no rate is set. netem's own
	// default, 1000 (tc-netem(8)), is too small. With a delay of 100 ms and packets of 1500 bytes,
	// a queue of 1000 packets allows at most 120 Mbit/s.
	DefaultLimit = 100_000
	// frameForLimit is the assumed size of a packet, in bytes. The package divides
	// [fault.Options.Queue], in bytes, by this size. The result is netem's limit, in packets.
	frameForLimit = 1500
	// maxSplit is the largest length of a packet that the tbf leaves whole, in bytes with headers.
	// The longest frame (wire.MaxFrame) with headers of UDP, IPv6 and ethernet is shorter.
	maxSplit = 8400
)

// Errors of [Host.Set] and [Probe], for errors.Is.
var (
	ErrMissing = errors.New("the kernel lacks a module")
	ErrRights  = errors.New("no right to change this network")
)

// MissingError is the error if the kernel lacks a module. A MissingError matches [ErrMissing].
type MissingError struct{ Module string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("this machine's kernel has no module %s. Try 'modprobe %s' as root; RHEL and Fedora have the module in the package kernel-modules-extra. Or leave out --backend kernel: the chips then impair their cables themselves, with the same flags", e.Module, e.Module)
}

// Is makes a MissingError match [ErrMissing].
func (e *MissingError) Is(target error) bool { return target == ErrMissing }

// Source names one direction of a cable: the UDP socket that sends, and the IP address to which the
// socket sends.
type Source struct {
	Local netip.AddrPort // the socket's address and port; an unspecified address stands for any address
	Peer  netip.Addr     // the peer's address; the route to it determines the network interface
}

// State is the impairment of one direction of a cable.
type State struct {
	Interface string
	Source    netip.AddrPort // the socket's address and port; an unspecified address stands for any address
	Options   fault.Options
	Split     bool    // whether the kernel splits super-packets into datagrams
	Seed      *uint64 // seed of the random numbers, as the kernel reports it (since Linux 6.6); nil: the kernel reports no seed
	Counters  Counters
}

// Counters are the counters of an impairment's netem qdiscs since the qdiscs were made. The kernel
// does not count the packets that it corrupts, doubles and reorders.
type Counters struct {
	Packets, Bytes uint64 // packets that the qdiscs passed on, and the bytes of these packets
	Drops          uint64 // packets that the qdiscs dropped because of the impairment or a full queue
	Waiting        uint64 // packets that wait in the qdiscs
}
