package noc

// SoftReset is the offset of the soft reset register of a tile's processors (tt-umd,
// TENSIX_SOFT_RESET_ADDR and SOFT_RESET_*). Tensix tiles and Wormhole ethernet tiles have this
// register. A set bit holds a processor in reset. The register can be read and written.
//
// At the start, all processors of a Tensix tile are in reset, and the processor of an ethernet tile
// runs. [Memory.Unreset] takes the processors of a tile out of reset. Kernels run on the tile's
// first processor: BRISC of a Tensix tile, or the only processor of an ethernet tile. The other
// bits only hold their values. A processor that comes out of reset begins anew. Therefore a kernel
// that the reset has stopped does not continue.
const SoftReset = 0xFFB121B0

// DebugBus is the offset of the control register of the debug bus (tt-umd,
// RISCV_DEBUG_REG_DBG_BUS_CNTL_REG). Each Tensix tile has this register. The register holds what a
// host has last stored, and 0 before the first store. The emulator has no debug bus. Hosts use the
// register to find out whether stores to registers work.
const DebugBus = 0xFFB12054

// Bits of the soft reset register.
const (
	ResetFirst      = 1 << 11                                    // the first processor
	softResetTensix = ResetFirst | 1<<12 | 1<<13 | 1<<14 | 1<<18 // BRISC, TRISC 0 to 2, NCRISC
)

// resets are the soft reset registers and the debug bus registers of a chip's tiles.
type resets struct {
	values map[int32]uint32 // values of the written soft reset registers, by index into Memory.list
	bus    map[int32]uint32 // values of the written debug bus registers, by index into Memory.list
	news   []Tile           // tiles whose first processor stores have put into reset since the last TakeResets
}

// storeReset stores v into the soft reset register of tile i.
func (m *Memory) storeReset(i int32, v uint32) {
	if v&^m.resetOf(i)&ResetFirst != 0 {
		m.reset.news = append(m.reset.news, m.list[i])
	}
	if m.reset.values == nil {
		m.reset.values = map[int32]uint32{}
	}
	m.reset.values[i] = v
}

// storeDebugBus stores v into the debug bus register of tile i.
func (m *Memory) storeDebugBus(i int32, v uint32) {
	if m.reset.bus == nil {
		m.reset.bus = map[int32]uint32{}
	}
	m.reset.bus[i] = v
}

// resetOf returns the soft reset register of tile i.
func (m *Memory) resetOf(i int32) uint32 {
	if v, ok := m.reset.values[i]; ok {
		return v
	}
	if m.list[i].Kind == Tensix {
		return softResetTensix
	}
	return 0
}

// HasResets reports whether TakeResets would return a tile.
func (m *Memory) HasResets() bool { return len(m.reset.news) > 0 }

// TakeResets returns the tiles whose running first processor a store has put into reset since the
// last call of TakeResets. The tiles may have come out of reset again.
func (m *Memory) TakeResets() []Tile {
	news := m.reset.news
	m.reset.news = nil
	return news
}

// Held reports whether a store holds the first processor of the tile at the coordinate (x, y) in
// reset. The reset at the chip's start does not count.
func (m *Memory) Held(x, y uint8) bool {
	if t := m.tile(x, y); t != nil {
		v, ok := m.reset.values[int32(m.at[place(t.X, t.Y)])-1]
		return ok && v&ResetFirst != 0
	}
	return false
}

// Unreset takes all processors of the tile at the coordinate (x, y) out of the reset at the chip's
// start, as a host does before it starts a program. If a store holds the first processor in reset,
// Unreset returns false and does nothing.
func (m *Memory) Unreset(x, y uint8) bool {
	t := m.tile(x, y)
	if t == nil || m.Held(x, y) {
		return false
	}
	if i := int32(m.at[place(t.X, t.Y)]) - 1; t.Kind == Tensix && m.resetOf(i)&ResetFirst != 0 {
		m.storeReset(i, 0)
	}
	return true
}
