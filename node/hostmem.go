package node

import (
	"errors"

	"ttfabric/node/firmware"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// MaxHostMemory is the largest size of the memory that a node provides for hosts, in bytes. A
// request cannot name higher addresses.
const MaxHostMemory = firmware.HostSize

// stepTransfers is the number of bytes after which a step moves no more bytes to or from host
// memory. The chip then does other work before the next transfer. Our own choice.
const stepTransfers = 1 << 20

// Lender is the memory of a host that a chip uses. The node calls both methods under its lock.
type Lender interface {
	// Size returns the number of bytes that the chip may use, from address 0 on.
	Size() uint64
	// Transfer either performs the read or write t, and returns "ended" as true. Or Transfer only
	// begins t, and returns "ended" as false. In this case, the lender calls [Node.Transferred] at
	// the end of t. Transfer must not block, and must not call the node.
	Transfer(t firmware.Transfer) (data []byte, o wire.Outcome, ended bool)
}

// ErrLent is the error of [Node.Lend] if the chip already uses the memory of another host.
var ErrLent = errors.New("the chip already uses the memory of another host")

// hosts is the state that the node keeps for hosts.
type hosts struct {
	lender Lender        // memory that the chip uses; nil: none
	tiles  []*mappedTile // ethernet tiles whose L1 a host has mapped
	looks  *clock        // wakes the goroutine that looks at these tiles; nil: no tile is mapped
}

// HostMemory returns the size of the memory that the node provides for hosts, in bytes. 0 means
// that the node provides no memory.
func (n *Node) HostMemory() int64 { return min(n.cfg.HostMemory, MaxHostMemory) }

// Lend lets the chip use the memory of a host until [Node.EndLend]. If the chip already uses
// another host's memory, Lend returns [ErrLent].
func (n *Node) Lend(l Lender) error {
	var err error
	closed := n.order(func(now mono.Time) {
		if n.hosts.lender != nil {
			err = ErrLent
			return
		}
		n.hosts.lender = l
		n.chip.Lend(now, l.Size())
	})
	return errors.Join(closed, err)
}

// EndLend ends the effect of [Node.Lend]. If a request in the firmware's queues uses the memory,
// the request ends as refused.
func (n *Node) EndLend(l Lender) {
	n.step(asked, func(now mono.Time) {
		if n.hosts.lender == l {
			n.hosts.lender = nil
			n.chip.Lend(now, 0)
		}
	})
}

// Transferred reports to the chip the end of a transfer that [Lender].Transfer has begun. After a
// read, "data" holds the bytes that were read. The chip keeps "data", so the caller must not change
// "data".
func (n *Node) Transferred(l Lender, id uint64, o wire.Outcome, data []byte) {
	n.step(asked, func(now mono.Time) {
		if n.hosts.lender == l {
			n.chip.HandleTransfer(now, id, o, data)
		}
	})
}

// transfer performs transfers to and from host memory, until the step has moved stepTransfers
// bytes. The argument "moved" counts the bytes that the step has moved. transfer returns true if a
// transfer has ended, so that the chip must run again.
func (n *Node) transfer(now mono.Time, moved *int) (again bool) {
	for *moved < stepTransfers && n.chip.HasTransfer() && n.hosts.lender != nil {
		t, _ := n.chip.PollTransfer()
		*moved += max(t.Len, len(t.Data))
		if b, o, ended := n.hosts.lender.Transfer(t); ended {
			n.chip.HandleTransfer(now, t.ID, o, b)
			again = true
		}
	}
	return again
}
