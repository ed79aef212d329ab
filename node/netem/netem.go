// Package netem impairs cables in the kernel. The package programs Linux's netem (tc-netem(8))
// through netlink. All ports of a chip send through one interface, but the package impairs each
// cable separately.
//
// # What it makes
//
// The package works on the interface that leads to the peer. There, an htb qdisc with the handle
// [Marker] ("tt") becomes the root. Traffic that no filter names goes through the htb's direct
// queue as before. Each impaired cable has a class. The class's minor number is the cable's UDP
// source port. Two u32 filters (IPv4, IPv6) lead packets into the class. The filters select by the
// source port. If the socket has a source address, the filters also select by that address. Below
// the class are the qdiscs that impair:
//
//	htb 7474: root
//	├── default: all other traffic
//	├── 7474:1                       only if the interface had a qdisc of its own: a copy of it
//	└── 7474:4268 (port 17000)
//	    └── tbf                      splits super-packets into datagrams, limits nothing
//	        └── netem                delay, jitter, loss, duplicates, corruption, rate
//	            └── netem            reordering, if there is delay or rate as well
//
// # Where the state is kept
//
// The kernel holds all state. The handle says that the tree is ours. The class says which cable it
// is for. The qdisc says which impairment is in force. The copy at 7474:1 shows the earlier qdisc:
// same kind, options and handle. Any later process can therefore show, change and reset the
// impairments. There is no file that could be lost or be wrong. When an interface disappears, its
// tree disappears too. Some qdiscs cannot be made again from their description, such as qdiscs with
// classes, filters or children of their own. [Host.Set] refuses to replace such a qdisc, and
// changes nothing.
//
// # Super-packets
//
// A port hands the kernel up to 64 datagrams as one super-packet (UDP GSO). Qdiscs treat a
// super-packet as one packet. netem would therefore lose or double all its datagrams at once. The
// tbf above netem splits packets that are larger than one datagram of the interface. For that
// reason each datagram has its own random outcome. The tbf exists only if netem uses random
// numbers. With delay and rate alone, super-packets stay whole. Two or more frames that together
// are shorter than one full datagram still pass as one packet.
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
	// DefaultLimit is how many packets may wait in netem if no rate is set. netem's own limit of
	// 1000 (tc-netem(8)) holds 100 ms of at most 120 Mbit/s.
	DefaultLimit = 100_000
	// frameForLimit converts [fault.Options.Queue] into netem's limit, which counts packets. The
	// constant is the assumed size of a packet, in bytes.
	frameForLimit = 1500
	// maxSplit is the longest datagram that the tbf does not split, in bytes including headers.
	// maxSplit is longer than the longest frame (wire.MaxFrame) in IPv6, UDP and a MAC header.
	maxSplit = 8400
)

// Errors that [Host.Set] and [Probe] return, wrapped.
var (
	ErrMissing = errors.New("the kernel lacks it")
	ErrRights  = errors.New("no right to change this network")
)

// MissingError names a missing kernel module. A MissingError matches [ErrMissing].
type MissingError struct{ Module string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("this machine's kernel has no %s: try 'modprobe %s' as root (RHEL and Fedora have it in the package kernel-modules-extra), or leave out --backend kernel: the chips impair their cables themselves, with the same flags", e.Module, e.Module)
}

// Is makes a MissingError match [ErrMissing].
func (e *MissingError) Is(target error) bool { return target == ErrMissing }

// Source names one direction of a cable: the UDP socket that sends, and the machine to which the
// socket sends.
type Source struct {
	Local netip.AddrPort // the socket's address; an unspecified address stands for any address
	Peer  netip.Addr     // the peer's address, which determines the interface
}

// State is the impairment of one direction of a cable.
type State struct {
	Interface string
	Source    netip.AddrPort // the socket's address; an unspecified address stands for any address
	Options   fault.Options
	Split     bool    // the kernel splits super-packets into datagrams
	Seed      *uint64 // seed of the random numbers, if the kernel reports the seed (Linux 6.6); nil: the kernel drew the seed
	Counters  Counters
}

// Counters are the counters of the kernel's qdisc since the qdisc was made. The kernel does not
// count the packets that it corrupts, doubles and reorders.
type Counters struct {
	Packets, Bytes uint64 // packets that the qdisc passed on, and their bytes
	Drops          uint64 // packets that the qdisc lost on purpose, or because it had no room
	Waiting        uint64 // packets that wait in the qdisc
}
