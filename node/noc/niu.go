package noc

import (
	"encoding/binary"
	"math/bits"

	"ttfabric/wire"
)

// Every tile has a network interface unit (NIU) for each of the two NoCs. The tile's address space
// has the registers of both NIUs, and for a Tensix tile or a Wormhole ethernet tile the soft reset
// register of its processors. A harvested tile has these registers too.
//
// Offsets of the NIU registers of NoC 0 and of NoC 1 in a tile, in bytes (tt-umd,
// wormhole_implementation.hpp and blackhole_implementation.hpp, NOC0_CONTROL_REG_ADDR_BASE_MAP). The
// three tiles of a Wormhole DRAM bank have different offsets, and each tile shows the registers of all
// three tiles. The NIU registers of Blackhole's DRAM tiles are left out, because tt-umd's offset for
// these registers is the offset of a byte of DRAM. The offset for Blackhole's ARC and PCIe tiles,
// 0xFFFFFFFFFF000000, has more than 36 bits. Here the registers of these tiles are at the low 36 bits of
// this offset. Blackhole's security and L2CPU tiles are left out. For tiles without memory, tt-umd has
// no other offset for NoC 1. Here these tiles have the registers of NoC 0 only. The ARC tile also shows
// the registers of its two NIUs among the peripherals of the ARC processor (tt-umd, ARC_APB_NIU_0_OFFSET
// and NIU_CFG_NOC1_ARC_ADDR).
const (
	niuBase        = 0xFFB20000
	niuBaseOne     = 0xFFB30000
	niuDRAMBase    = 0x100080000
	niuDRAMBaseOne = 0x100088000
	niuDRAMStep    = 0x10000     // distance from one tile of a bank to the next
	niuBareBase    = 0xFFFB20000 // NoC 0, ARC and PCIe tiles of Wormhole
	niuRouterBase  = 0xFF000000  // NoC 0, router tiles of Blackhole
	niuHighBase    = 0xFFF000000 // NoC 0, ARC and PCIe tiles of Blackhole
	niuARC         = 0x50000     // NoC 0, offset from the ARC processor's peripherals
	niuARCOne      = 0x58000
	niuLen         = 0x400 // length of the window of an NIU's registers (tt-isa-documentation, BlackholeA0/NoC/MemoryMap.md)
)

// Offsets of an NIU's registers from the first register, in bytes (tt-isa-documentation,
// NoC/MemoryMap.md; tt-umd, NOC_NODE_ID_OFFSET and NOC_ID_TRANSLATED_OFFSET). All these registers
// can only be read. A load of any other register has the outcome [wire.OutcomeBadAddress].
const (
	wormholeNodeID   = 0x2C
	blackholeNodeID  = 0x44
	niuConfig        = 0x100 // NIU_CFG_0
	maskOfColumns    = 0x108 // ROUTER_CFG_1: bit x: the tiles of column x take no multicast
	maskOfRows       = 0x110 // ROUTER_CFG_3: bit y: the tiles of row y take no multicast
	wormholeLogical  = 0x138 // NOC_ID_LOGICAL: translated coordinates; without translation, those of NoC 0
	blackholeLogical = 0x148
)

// Bits of NIU registers (tt-isa-documentation, BlackholeA0/NoC/MemoryMap.md).
const (
	nodeWidthBit      = 12      // NOC_NODE_ID: number of columns of the NoC, 7 bits
	nodeHeightBit     = 19      // NOC_NODE_ID: number of rows of the NoC, 7 bits
	nodeColumnsFirst  = 1 << 28 // NOC_NODE_ID: packets move along x first; set on NoC 0 only
	configClockOff    = 1 << 12 // NIU_CFG_0: the tile's clock is off, because the tile is harvested
	configTranslation = 1 << 14 // NIU_CFG_0: the NIU translates coordinates
)

// Peripherals returns the offset of the ARC processor's peripherals (APB) in the ARC tile (tt-umd,
// get_arc_apb_noc_base_address). For an unknown architecture, Peripherals returns false.
func Peripherals(a wire.Arch) (uint64, bool) {
	switch a {
	case wire.Wormhole:
		return 0x880000000, true
	case wire.Blackhole:
		return 0x80000000, true
	}
	return 0, false
}

// Numbers of the windows that each tile has from the start, in span.regs. The numbers are below 0.
const (
	niuZero int32 = -1 - iota
	niuOne
	resetWord
	debugWord
)

// builtIn returns the windows that the tile t has from the start. A window of length 0 does not
// exist.
func (m *Memory) builtIn(t *Tile) [4]window {
	zero, one := uint64(niuBase), uint64(niuBaseOne)
	reset, debug := uint64(wordSize), uint64(0)
	switch {
	case t.Kind == Tensix:
		debug = wordSize
	case t.Kind == DRAM && m.arch == wire.Blackhole:
		return [4]window{}
	case t.Kind == ARC, t.Kind == PCIe:
		bare := uint64(niuBareBase)
		if m.arch == wire.Blackhole {
			bare = niuHighBase
		}
		if t.Kind == PCIe {
			return [4]window{{off: bare, n: niuLen, regs: niuZero}}
		}
		apb, _ := Peripherals(m.arch)
		return [4]window{{off: bare, n: niuLen, regs: niuZero}, {off: apb + niuARC, n: niuLen, regs: niuZero}, {off: apb + niuARCOne, n: niuLen, regs: niuOne}}
	case t.Kind == Router && m.arch == wire.Blackhole:
		return [4]window{{off: niuRouterBase, n: niuLen, regs: niuZero}}
	case t.Kind == Router:
		return [4]window{{off: niuBase, n: niuLen, regs: niuZero}}
	case t.Kind == DRAM:
		zero, one = niuDRAMBase+niuDRAMStep*uint64(t.stop), niuDRAMBaseOne+niuDRAMStep*uint64(t.stop)
		reset = 0
	case t.Kind == Ethernet && m.arch == wire.Blackhole:
		reset = 0
	}
	return [4]window{{off: zero, n: niuLen, regs: niuZero}, {off: one, n: niuLen, regs: niuOne}, {off: SoftReset, n: reset, regs: resetWord}, {off: DebugBus, n: debug, regs: debugWord}}
}

// owner returns the tile whose registers are at an offset of the tile t. Each tile of a Wormhole DRAM bank shows the
// NIU registers of all tiles of the bank (tt-isa-documentation, WormholeB0/DRAMTile/README.md, "APB Peripherals").
// luwen reads the registers of the third tile in the first tile.
func (m *Memory) owner(t *Tile, off uint64) *Tile {
	if t.Kind != DRAM || m.arch != wire.Wormhole || off < niuDRAMBase {
		return t
	}
	stop := (off - niuDRAMBase) / niuDRAMStep
	for i := range m.list {
		if o := &m.list[i]; o.Kind == DRAM && o.number == t.number && uint64(o.stop) == stop {
			return o
		}
	}
	return t
}

// loadBuiltIn reads a span of a window that each tile has from the start. The span's bank is the
// tile's index in the list of tiles.
func (m *Memory) loadBuiltIn(s span, b []byte) wire.Outcome {
	var words [niuLen]byte // registers are read in full or not at all
	for i := 0; i < s.n; i += wordSize {
		var v uint32
		ok := true
		switch s.regs {
		case resetWord:
			v = m.resetOf(s.bank)
		case debugWord:
			v = m.reset.bus[s.bank]
		default:
			v, ok = m.niuWord(&m.list[s.bank], s.off+uint64(i), s.regs == niuOne)
		}
		if !ok {
			return wire.OutcomeBadAddress
		}
		binary.LittleEndian.PutUint32(words[i:], v)
	}
	copy(b, words[:])
	return wire.OutcomeDone
}

// storeBuiltIn writes a span of a window that each tile has from the start.
func (m *Memory) storeBuiltIn(s span, b []byte) wire.Outcome {
	switch v := binary.LittleEndian.Uint32(b); s.regs {
	case resetWord:
		m.storeReset(s.bank, v)
	case debugWord:
		m.storeDebugBus(s.bank, v)
	default:
		return wire.OutcomeBadCommand // the registers can only be read
	}
	return wire.OutcomeDone
}

// niuWord returns the register at an offset among the registers of one of the tile's NIUs. If there
// is no such register, niuWord returns false.
func (m *Memory) niuWord(t *Tile, off uint64, one bool) (uint32, bool) {
	l := layouts[m.arch]
	nodeID, logical := uint64(wormholeNodeID), uint64(wormholeLogical)
	if m.arch == wire.Blackhole {
		nodeID, logical = blackholeNodeID, blackholeLogical
	}
	cols, rows := l.closed(m.harvested)
	x, y, order := uint32(t.X), uint32(t.Y), uint32(nodeColumnsFirst)
	if one {
		x, y, order = uint32(l.width)-1-x, uint32(l.height)-1-y, 0
		cols, rows = bits.Reverse32(cols)>>(32-l.width), bits.Reverse32(rows)>>(32-l.height)
	}
	switch off {
	case nodeID:
		return x | y<<wire.NocCoordBits | uint32(l.width)<<nodeWidthBit | uint32(l.height)<<nodeHeightBit | order, true
	case niuConfig:
		v := uint32(0)
		if t.Harvested {
			v |= configClockOff
		}
		if !m.untranslated {
			v |= configTranslation
		}
		return v, true
	case maskOfColumns:
		return cols, true
	case maskOfRows:
		return rows, true
	case logical:
		tx, ty := t.X, t.Y
		if !m.untranslated {
			tx, ty = l.translated(t, m.harvested)
		}
		return uint32(tx) | uint32(ty)<<wire.NocCoordBits, true
	}
	return 0, false
}
