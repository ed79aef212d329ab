package board

import "ttfabric/wire"

// arc holds the values that a host has stored into registers of the ARC processor.
type arc struct {
	scratch [scratchWords]uint32
	boosted bool // a host asked for the clock of a busy chip
	mailbox [mailboxWords]uint32
	queues  []uint32 // Blackhole: words of the message queues
}

// state returns the registers that hosts have written, so that the caller can change them.
func (b *Board) state() *arc {
	if b.arc == nil {
		b.arc = &arc{}
		b.arc.scratch[0] = postCode
	}
	return b.arc
}

// Offsets of registers in the ARC processor's reset unit (tt-umd, wormhole_implementation.hpp,
// ARC_RESET_*, and blackhole_implementation.hpp, SCRATCH_RAM_*).
const (
	resetUnit     = 0x30000 // offset of the unit from the peripherals of the ARC processor
	resetLen      = 0x1000
	scratchBase   = 0x60 // eight scratch registers
	scratchWords  = 8
	refclkLow     = 0xE0 // counter of the reference clock
	refclkHigh    = 0xE4
	miscControl   = 0x100 // a store with bit 16 makes the firmware look at its messages; the bit reads as 0
	tablePointer  = 0x1D0 // Wormhole: address of the telemetry table, in the address space of the ARC processor
	valuesPointer = 0x1D4 // Wormhole: address of the telemetry values
	bootStatus    = 0x408 // Blackhole: the low three bits are 5 if the firmware is ready
	queuePointer  = 0x42C // Blackhole: address of the control block of the message queues
	bhValues      = 0x430 // Blackhole: address of the telemetry values
	bhTable       = 0x434 // Blackhole: address of the telemetry table
)

// fire is the bit of miscControl that raises an interrupt of the firmware.
const fire = 1 << 16

// Values of registers.
const (
	postCode     = 0xC0DE0001 // scratch register 0: the firmware has started (tt-umd, POST_CODE_INIT_DONE)
	firmwareRuns = 5          // bootStatus
)

// Frequencies of the reference clock, in cycles per millisecond.
const (
	refclkWormhole  = 27_000
	refclkBlackhole = 50_000
)

// Addresses in the ARC processor's memory (CSM). The addresses of the telemetry are our own choice,
// except smbus (tt-umd, SMBUS_TELEMETRY_NOC_ADDR) and the words that tt-umd reads at a fixed
// offset.
const (
	csm         = 0x10000000
	csmAlias    = 0x20000000 // tt-umd reads the old telemetry at this second address of the same memory
	csmLen      = 0x80000
	arcToNoC    = 0x800000000 // Wormhole: the ARC tile shows address a of the ARC processor at this offset plus a
	mailboxAt   = 0x783C4     // words for arguments of messages (tt-umd, ARC_CSM_MAILBOX_OFFSET)
	dmaRequest  = 0x784D4     // not 0 during a DMA transfer (tt-umd, ARC_CSM_ARC_PCIE_DMA_REQUEST)
	smbus       = 0x78D60     // telemetry of firmware before 18.4
	table       = 0x76000     // telemetry table
	values      = 0x76400     // telemetry values
	queueBlock  = 0x75000     // Blackhole: control block of the message queues
	queueWords  = 0x75100     // Blackhole: message queues
	mailboxSize = 0x100

	mailboxWords = mailboxSize / 4
)

// The efuses (tt-umd, WORMHOLE_ARC_EFUSE_HARVESTING). In the word efuseRows, bits 0 to 9 are rows
// with bad memory, and bits 10 to 19 are rows with bad logic.
const (
	efuses        = 0x42000 // offset from the peripherals of the ARC processor
	efuseLen      = 0x1000
	efuseRows     = 0x25C
	apbOnWormhole = 0x80000000 // the peripherals in the address space of the ARC processor
)

// wormholeWindows are the windows of registers of a Wormhole ARC tile. Package noc has the NIU
// registers.
var wormholeWindows = []region{
	{arcToNoC + csm, csmLen, (*Board).csmWord, (*Board).csmWritable, (*Board).storeCSM},
	{arcToNoC + csmAlias + smbus, numLegacy * 4, func(b *Board, off uint64) uint32 { return b.legacy(int(off / 4)) }, nil, nil},
	{arcToNoC + apbOnWormhole + resetUnit, resetLen, (*Board).resetWord, (*Board).resetWritable, (*Board).storeReset},
	{arcToNoC + apbOnWormhole + efuses, efuseLen, (*Board).efuseWord, nil, nil},
}

// AXI returns the address on the NoC of an address of the ARC processor, as a debugger reads it over JTAG
// (tt-umd, jtag_device.cpp, read_axi). On Wormhole, addresses of the ARC processor begin at offset
// 0x8_0000_0000 of the ARC tile; on Blackhole, at offset 0.
func AXI(a wire.Arch, addr uint32) wire.NocAddr {
	x, y := arcTile(a)
	off := uint64(addr)
	if a == wire.Wormhole {
		off += arcToNoC
	}
	return wire.NewNocAddr(x, y, off)
}

// efuseWord returns a word of the efuses.
func (b *Board) efuseWord(off uint64) uint32 {
	if off == efuseRows {
		return FirmwareMask(b.topology.Arch, b.names().harvested)
	}
	return 0
}

// refclk returns the counter of the reference clock.
func (b *Board) refclk() uint64 {
	perMilli := uint64(refclkWormhole)
	if b.topology.Arch == wire.Blackhole {
		perMilli = refclkBlackhole
	}
	now := uint64(b.live.Now())
	return now/1e6*perMilli + now%1e6*perMilli/1e6
}

// resetWord returns a register of the reset unit.
func (b *Board) resetWord(off uint64) uint32 {
	if i := int(off-scratchBase) / 4; off >= scratchBase && i < scratchWords {
		if b.arc != nil {
			return b.arc.scratch[i]
		}
		if i == 0 {
			return postCode
		}
		return 0
	}
	switch off {
	case refclkLow:
		return uint32(b.refclk())
	case refclkHigh:
		return uint32(b.refclk() >> 32)
	}
	if b.topology.Arch == wire.Blackhole {
		switch off {
		case bootStatus:
			return firmwareRuns
		case queuePointer:
			return csm + queueBlock
		case bhTable:
			return csm + table
		case bhValues:
			return csm + values
		}
		return 0
	}
	switch off {
	case tablePointer:
		return csm + table
	case valuesPointer:
		return csm + values
	}
	return 0
}

// resetWritable reports whether hosts can write a register of the reset unit: the scratch registers and
// miscControl.
func (b *Board) resetWritable(off uint64) bool {
	return off >= scratchBase && off < scratchBase+scratchWords*4 || off == miscControl
}

// storeReset writes a register of the reset unit.
func (b *Board) storeReset(off uint64, v uint32) {
	switch {
	case off != miscControl:
		b.state().scratch[(off-scratchBase)/4] = v
	case v&fire != 0 && b.topology.Arch == wire.Blackhole:
		b.serveQueues()
	case v&fire != 0:
		b.serveScratch()
	}
}

// csmWord returns a word of the ARC processor's memory.
func (b *Board) csmWord(off uint64) uint32 {
	switch {
	case off >= table && off < table+tableLen:
		return b.tableWord(int(off-table) / 4)
	case off >= values && off < values+valuesLen:
		return b.telemetry(int(off-values) / 4)
	case b.topology.Arch == wire.Blackhole:
		return b.queueWord(off)
	case off >= smbus && off < smbus+numLegacy*4:
		return b.legacy(int(off-smbus) / 4)
	case off >= mailboxAt && off < mailboxAt+mailboxSize && b.arc != nil:
		return b.arc.mailbox[(off-mailboxAt)/4]
	}
	return 0 // also dmaRequest: no DMA transfer is under way
}

// csmWritable reports whether hosts can write a word of the ARC processor's memory: on Wormhole the
// arguments of messages, on Blackhole the message queues.
func (b *Board) csmWritable(off uint64) bool {
	if b.topology.Arch == wire.Blackhole {
		return off >= queueWords && off < queueWords+queuesLen
	}
	return off >= mailboxAt && off < mailboxAt+mailboxSize
}

// storeCSM writes a word of the ARC processor's memory.
func (b *Board) storeCSM(off uint64, v uint32) {
	if b.topology.Arch == wire.Blackhole {
		b.queueMemory()[(off-queueWords)/4] = v
		return
	}
	b.state().mailbox[(off-mailboxAt)/4] = v
}
