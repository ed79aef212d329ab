// Package netem impairs cables in the kernel: it programs Linux's netem
// (tc-netem(8)) through netlink, one cable at a time, though all ports of a
// chip send through one interface.
//
// # What it makes
//
// On the interface that leads to the peer, an htb qdisc with the handle
// [Marker] ("tt") becomes the root. What no filter names goes through its
// direct queue as before. Each impaired cable has a class whose minor number is
// its UDP source port, two u32 filters (IPv4, IPv6) by that port and, where the
// socket has one, its source address, and below the class the qdiscs that do
// the work:
//
//	htb 7474: root
//	├── default: all other traffic
//	├── 7474:1                       only if the interface had a qdisc of its own: a copy of it
//	└── 7474:4268 (port 17000)
//	    └── tbf                      splits super-packets into datagrams, limits nothing
//	        └── netem                delay, jitter, loss, duplicates, corruption, rate
//	            └── netem            reordering, where there is delay or rate as well
//
// # What is remembered, and where
//
// The kernel holds all of it: the handle says that the tree is ours, the class
// which cable it is for, the qdisc what is in force, and the copy at 7474:1 —
// same kind, options and handle — which qdisc was there before. So any later
// process can show, change and reset it; there is no file that could be lost or
// be wrong, and an interface that goes takes its tree with it. A qdisc whose
// description is not enough to make it anew (one with classes, filters or
// children of its own) is not replaced: [Host.Set] refuses, and changes nothing.
//
// # Super-packets
//
// A port hands the kernel up to 64 datagrams as one super-packet (UDP GSO), and
// qdiscs see it as one packet: netem would lose or double all at once. The tbf
// above netem splits what is larger than one datagram of the interface, so that
// each datagram has dice of its own. It is there only where dice are thrown:
// delay and rate alone leave super-packets whole. Two or more frames that
// together are shorter than one full datagram still go as one.
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
	// DefaultLimit is how many packets wait for their time where no rate is set.
	// netem's own 1000 (tc-netem(8)) hold 100 ms of no more than 120 Mbit/s.
	DefaultLimit = 100_000
	// frameForLimit turns [fault.Options.Queue] into netem's limit, which counts packets, in bytes.
	frameForLimit = 1500
	// maxSplit is the longest datagram that is not split, in bytes with its headers:
	// longer than the longest frame (wire.MaxFrame) in IPv6, UDP and a MAC header.
	maxSplit = 8400
)

// Errors that [Host.Set] and [Probe] report, wrapped.
var (
	ErrMissing = errors.New("the kernel lacks it")
	ErrRights  = errors.New("no right to change this network")
)

// MissingError names a kernel module that is not there. It matches [ErrMissing].
type MissingError struct{ Module string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("this machine's kernel has no %s: try 'modprobe %s' as root (RHEL and Fedora have it in the package kernel-modules-extra), or leave out --backend kernel: the chips impair their cables themselves, with the same flags", e.Module, e.Module)
}

// Is makes it match [ErrMissing].
func (e *MissingError) Is(target error) bool { return target == ErrMissing }

// Source is where one direction of a cable leaves a machine: a UDP socket, and the machine that it sends to.
type Source struct {
	Local netip.AddrPort // an unspecified address stands for any
	Peer  netip.Addr     // leads to the interface
}

// State is what is done to one direction of a cable.
type State struct {
	Interface string
	Source    netip.AddrPort // an unspecified address stands for any
	Options   fault.Options
	Split     bool    // super-packets are split into datagrams
	Seed      *uint64 // of the dice, where the kernel tells (Linux 6.6); nil: it drew one
	Counters  Counters
}

// Counters are those of the kernel's qdisc since it was made. What it corrupts, doubles and reorders it does not count.
type Counters struct {
	Packets, Bytes uint64 // passed on
	Drops          uint64 // lost on purpose, or for want of room
	Waiting        uint64 // that wait for their time
}
