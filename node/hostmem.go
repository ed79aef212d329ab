package node

import (
	"errors"

	"ttfabric/node/firmware"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// MaxHostMemory is the largest memory that a chip makes for hosts, in bytes: the addresses that a request can
// name.
const MaxHostMemory = firmware.HostSize

// stepTransfers is the number of bytes that one step moves to and from host memory. Other work of the chip
// then comes first. Our own choice.
const stepTransfers = 1 << 20

// Lender is the memory of a host that a chip uses. The node calls both methods under its lock.
type Lender interface {
	// Size returns the number of bytes that the chip may use, from address 0 on.
	Size() uint64
	// Transfer performs a read or a write. If Transfer has performed it, "ended" is true. Otherwise the
	// lender later calls [Node.Transferred]. Transfer must not block, and must not call the node.
	Transfer(t firmware.Transfer) (data []byte, o wire.Outcome, ended bool)
}

// ErrLent is the error of a host that lends memory to a chip that uses another host's memory.
var ErrLent = errors.New("the chip already uses the memory of another host")

// hosts is what the node keeps for hosts.
type hosts struct {
	lender Lender        // nil: no host lends the chip memory
	tiles  []*mappedTile // tiles whose L1 hosts have mapped
	looks  *clock        // wakes the goroutine that looks at these tiles; nil: there are none
}

// HostMemory returns the size of the memory that the chip makes for hosts, in bytes. If HostMemory returns
// 0, the chip makes none.
func (n *Node) HostMemory() int64 { return min(n.cfg.HostMemory, MaxHostMemory) }

// Lend lends the chip the memory of a host until [Node.EndLend]. If the chip uses another host's memory,
// Lend returns [ErrLent].
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

// EndLend ends the effect of [Node.Lend]. The requests of the firmware's queues that use the memory end as
// refused.
func (n *Node) EndLend(l Lender) {
	n.step(asked, func(now mono.Time) {
		if n.hosts.lender == l {
			n.hosts.lender = nil
			n.chip.Lend(now, 0)
		}
	})
}

// Transferred tells the chip how a transfer ended that [Lender].Transfer has begun. The data of a read
// belong to the chip.
func (n *Node) Transferred(l Lender, id uint64, o wire.Outcome, data []byte) {
	n.step(asked, func(now mono.Time) {
		if n.hosts.lender == l {
			n.chip.HandleTransfer(now, id, o, data)
		}
	})
}

// transfer moves bytes to and from host memory, at most about stepTransfers in one step. The argument
// "moved" is the number of bytes that the step has moved so far. transfer reports whether the chip must run
// again.
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
