// Package netem impairs cables in the kernel. The package programs Linux's netem (tc-netem(8))
// through netlink, one cable at a time, although all ports of a chip send through one interface.
//
// # What it makes
//
// On the interface that leads to the peer, an htb qdisc with the handle [Marker] ("tt") becomes the
// root. Traffic that no filter names goes through the htb's direct queue as before. Each impaired
// cable has a class. Its minor number is the cable's UDP source port. Two u32 filters (IPv4, IPv6)
// select by that port and, where the socket has one, by its source address. Below the class are the
// qdiscs that impair:
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
// The kernel holds all state. The handle says that the tree is ours, the class says which cable it
// is for, and the qdisc says what is in force. The copy at 7474:1 shows the earlier qdisc: same
// kind, options and handle. So any later process can show, change and reset the impairments. There
// is no file that could be lost or be wrong. An interface that disappears takes its tree with it.
// Some qdiscs cannot be made anew from their description, such as those with classes, filters or
// children of their own. [Host.Set] refuses to replace such a qdisc, and changes nothing.
//
// # Super-packets
//
// A port hands the kernel up to 64 datagrams as one super-packet (UDP GSO). Qdiscs treat it as one
// packet, so netem would lose or double all its datagrams at once. The tbf above netem splits
// packets that are larger than one datagram of the interface. So each datagram has its own random
// outcome. The tbf exists only where netem uses random numbers: with delay and rate alone,
// super-packets stay whole. Two or more frames that together are shorter than one full datagram
// still pass as one.
package netem

import (
	"errors"
	"fmt"
	"net/netip"

	"ttfabric/ttlink/fault"
)

// Marker is the major number of the root qdisc's handle: "tt" in ASCII.
const Marker = 0x7474

// Limits.
const (
	// DefaultLimit is how many packets may wait in netem if no rate is set. netem's own limit of
	// 1000 (tc-netem(8)) holds 100 ms of at most 120 Mbit/s.
	DefaultLimit = 100_000
	// frameForLimit converts [fault.Options.Queue] into netem's limit, which counts packets. The
	// constant is the assumed size of a packet, in bytes.
	frameForLimit = 1500
	// maxSplit is the longest datagram that is not split, in bytes including headers. The limit is
	// longer than the longest frame (wire.MaxFrame) in IPv6, UDP and a MAC header.
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

// Source is where one direction of a cable leaves a machine: a UDP socket, and the machine to which
// it sends.
type Source struct {
	Local netip.AddrPort // an unspecified address stands for any
	Peer  netip.Addr     // determines the interface
}

// State is the impairment of one direction of a cable.
type State struct {
	Interface string
	Source    netip.AddrPort // an unspecified address stands for any
	Options   fault.Options
	Split     bool    // the kernel splits super-packets into datagrams
	Seed      *uint64 // seed of the random numbers, where the kernel reports it (Linux 6.6); nil: the kernel drew one
	Counters  Counters
}

// Counters are those of the kernel's qdisc since it was made. The kernel does not count the packets
// that it corrupts, doubles and reorders.
type Counters struct {
	Packets, Bytes uint64 // passed on
	Drops          uint64 // lost on purpose, or because there was no room
	Waiting        uint64 // packets that wait in the qdisc
}
