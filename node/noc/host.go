package noc

import (
	"slices"
	"time"

	"ttfabric/wire"
)

// The window to host memory. On a Wormhole, the PCIe tile passes requests to addresses of this window on
// to the host (tt-isa-documentation, WormholeB0/PCIExpressTile, "NoC to Host").
const (
	HostBase = 0x8_0000_0000 // offset of the window in the PCIe tile
	HostSize = 1 << 32       // length of the window, in bytes
)

// HostWait is the longest time that a request to host memory may wait at the chip. Then the request ends
// with [wire.OutcomeHostGone]. Our own choice.
const HostWait = 10 * time.Second

// HostOffset returns the address in host memory that a NoC address names. If the NoC address is not in
// the window to host memory, HostOffset returns false. The memory itself refuses addresses in the window:
// the chip performs these requests.
func (m *Memory) HostOffset(a wire.NocAddr) (uint64, bool) {
	off := a.Offset() - HostBase // far above HostSize if the offset is below HostBase
	if off >= HostSize || m.arch != wire.Wormhole {
		return 0, false
	}
	t := m.tileOf(a)
	return off, t != nil && t.Kind == PCIe
}

// HostPart is a part of a command that lies in host memory.
type HostPart struct {
	Addr uint64 // address in host memory
	From int    // offset of the part's first byte in the payload
	Len  int    // bytes
}

// Hosted reports whether any part of a command lies in host memory.
func (m *Memory) Hosted(c *wire.Command) bool {
	hosted := func(a wire.NocAddr) bool { _, ok := m.HostOffset(a); return ok }
	switch c.Type {
	case wire.NocUnicastWrite, wire.NocInlineWrite, wire.NocAtomicInc, wire.NocRead:
		return hosted(c.Addr)
	case wire.NocFusedInc:
		return hosted(c.Addr) || hosted(c.Sem)
	case wire.NocScatterWrite:
		return slices.ContainsFunc(c.Scatter[:min(int(c.Chunks), wire.MaxScatter)], hosted)
	}
	return false
}

// HostParts lists the parts of a command that lie in host memory. The command must have such a part, see
// [Memory.Hosted]. The argument n is the length of the payload, or of the read.
//
// On hardware, inline writes reach only Tensix and ethernet tiles, and atomics reach only their L1
// (tt-isa-documentation, WormholeB0/NoC/Alignment.md). HostParts therefore returns
// [wire.OutcomeBadCommand] for an inline write and an increment. A fused command may write to host
// memory and then increment a word of L1: the caller performs the increment. If the increment would be
// refused, HostParts returns the outcome. HostParts returns [wire.OutcomeBadCommand] for a scatter write
// of which a chunk is not in host memory.
func (m *Memory) HostParts(c *wire.Command, n int) ([]HostPart, wire.Outcome) {
	at, hosted := m.HostOffset(c.Addr)
	switch c.Type {
	case wire.NocRead, wire.NocUnicastWrite:
		return []HostPart{{at, 0, n}}, wire.OutcomeDone
	case wire.NocFusedInc:
		if _, sem := m.HostOffset(c.Sem); sem || !hosted {
			break
		}
		switch s, o := m.findWord(c.Sem); {
		case o != wire.OutcomeDone:
			return nil, o
		case s.regs != 0:
			return nil, wire.OutcomeBadCommand
		case !m.fits([]span{s}):
			return nil, wire.OutcomeNoMemory
		}
		return []HostPart{{at, 0, n}}, wire.OutcomeDone
	case wire.NocScatterWrite:
		return m.hostChunks(c, n)
	}
	return nil, wire.OutcomeBadCommand
}

// hostChunks lists the chunks of a scatter write to host memory.
func (m *Memory) hostChunks(c *wire.Command, n int) (list []HostPart, o wire.Outcome) {
	if c.Chunks < 2 || c.Chunks > wire.MaxScatter {
		return nil, wire.OutcomeBadCommand
	}
	from := 0
	for i := range int(c.Chunks) {
		size := n - from
		if i < int(c.Chunks)-1 {
			size = int(c.Sizes[i])
		}
		at, hosted := m.HostOffset(c.Scatter[i])
		if !hosted || size < 0 || from+size > n {
			return nil, wire.OutcomeBadCommand
		}
		list = append(list, HostPart{at, from, size})
		from += size
	}
	return list, wire.OutcomeDone
}
