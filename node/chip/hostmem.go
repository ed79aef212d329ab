package chip

import (
	"fmt"
	"maps"
	"slices"

	"ttfabric/node/firmware"
	"ttfabric/node/noc"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// HostWindow is the length of the PCIe tile's address window to host memory, in bytes. The window
// begins at 0x8_0000_0000 (BDMS, "Addressing").
const HostWindow = firmware.HostSize

// Limits of the transfers to and from host memory that are under way. If a transfer would exceed a
// limit, the part that asked for the transfer tries again later, the firmware after
// [firmware.TransferPause]. Our own choices.
const (
	MaxTransfers     = 256
	MaxTransferBytes = 256 << 10 // total length of these transfers, in bytes
)

// transferOf names the part of the chip that started a transfer.
type transferOf uint8

const (
	ofFirmware transferOf = iota
	ofRequests            // requests that wait, see waiting.go
	ofKernels
)

// openTransfer is a transfer that has not ended.
type openTransfer struct {
	by transferOf
	id uint64 // number that "by" has given the transfer
	n  int    // length in bytes
}

// hostMemory is the memory of a host that the chip may use.
//
// Invariants: bytes is the sum of the lengths in open, and at most MaxTransferBytes; a transfer in
// out is also in open.
type hostMemory struct {
	size  uint64                  // bytes that the chip may use, from address 0 of the window on; 0: no host lets the chip use its memory
	last  uint64                  // number of the last transfer
	out   []firmware.Transfer     // transfers that wait for PollTransfer, oldest first
	open  map[uint64]openTransfer // transfers that have not ended, by number
	bytes int                     // sum of the lengths of the transfers in open
	ended []endedTransfer         // ended transfers that the chip has not reported yet
}

// endedTransfer is a transfer that has ended.
type endedTransfer struct {
	openTransfer
	outcome wire.Outcome
	data    []byte
}

// start starts a transfer for "by", which has given the transfer the number t.ID. A transfer that
// reaches beyond the host's memory ends at once as refused. If the limits leave no room for the
// transfer now, start returns false.
func (h *hostMemory) start(by transferOf, t firmware.Transfer) bool {
	o := openTransfer{by, t.ID, max(t.Len, len(t.Data))}
	switch {
	case h.size == 0:
		h.ended = append(h.ended, endedTransfer{o, wire.OutcomeNoHost, nil})
		return true
	case t.Addr > h.size || uint64(o.n) > h.size-t.Addr:
		h.ended = append(h.ended, endedTransfer{o, wire.OutcomeBadAddress, nil})
		return true
	case len(h.open) >= MaxTransfers || h.bytes+o.n > MaxTransferBytes:
		return false
	}
	if h.open == nil {
		h.open = map[uint64]openTransfer{}
	}
	h.last++
	t.ID = h.last
	h.open[t.ID] = o
	h.bytes += o.n
	h.out = append(h.out, t)
	return true
}

// Lend lets the chip use n bytes of a host's memory. Lend ends all transfers under way with
// [wire.OutcomeHostGone]. If n is 0, the host has gone.
func (c *machine) Lend(now mono.Time, n uint64) {
	h := &c.lent
	for _, id := range slices.Sorted(maps.Keys(h.open)) {
		h.ended = append(h.ended, endedTransfer{h.open[id], wire.OutcomeHostGone, nil})
	}
	h.size, h.out, h.open, h.bytes = min(n, HostWindow), nil, nil, 0
}

// HandleTransfer handles the end of a transfer that PollTransfer returned.
func (c *machine) HandleTransfer(now mono.Time, id uint64, o wire.Outcome, b []byte) {
	h := &c.lent
	t, ok := h.open[id]
	if !ok {
		return
	}
	delete(h.open, id)
	h.bytes -= t.n
	h.ended = append(h.ended, endedTransfer{t, o, b})
}

// endTransfers hands each ended transfer to the part of the chip that started the transfer.
// endTransfers returns true if at least one transfer had ended.
func (c *machine) endTransfers(now mono.Time) bool {
	h := &c.lent
	if len(h.ended) == 0 {
		return false
	}
	for _, e := range h.ended {
		switch e.by {
		case ofFirmware:
			c.firmware.TransferDone(now, e.id, e.outcome, e.data)
		case ofRequests:
			c.waiting.moved(&e)
		case ofKernels:
			c.kernels.TransferDone(now, e.id, e.outcome, e.data)
		}
	}
	clear(h.ended)
	h.ended = h.ended[:0]
	return true
}

// HasTransfer reports whether a read or a write of host memory waits for PollTransfer.
func (c *machine) HasTransfer() bool { return len(c.lent.out) > 0 }

// PollTransfer returns the next read or write of host memory that the host must perform.
func (c *machine) PollTransfer() (firmware.Transfer, bool) {
	h := &c.lent
	if len(h.out) == 0 {
		return firmware.Transfer{}, false
	}
	t := h.out[0]
	h.out = h.out[1:]
	return t, true
}

// HandleStore stores bytes into the L1 of an ethernet tile. A host has stored these bytes into the
// host's mapping of the L1.
func (c *machine) HandleStore(now mono.Time, ch wire.Channel, off uint64, b []byte) wire.Outcome {
	x, y, ok := noc.EthernetTile(c.cfg.Topology.Arch, ch)
	if t, _ := c.memory.TileAt(x, y); !ok || off > t.Size || uint64(len(b)) > t.Size-off {
		return wire.OutcomeBadAddress
	}
	return (*firmwareHost)(c).Store(now, wire.NewNocAddr(x, y, off), b)
}

// check returns an error if the transfers' lengths are inconsistent.
func (h *hostMemory) check() error {
	sum := 0
	for _, t := range h.open {
		sum += t.n
	}
	if sum != h.bytes || sum > MaxTransferBytes || len(h.open) > MaxTransfers || len(h.out) > len(h.open) {
		return fmt.Errorf("transfers of host memory: %d are open, %d wait, and move %d bytes; the chip counted %d bytes", len(h.open), len(h.out), sum, h.bytes)
	}
	return nil
}
