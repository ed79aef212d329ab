package noc

import (
	"fmt"
	"slices"

	"ttfabric/wire"
)

// Harvested is a chip's harvesting mask, which says which Tensix tiles are switched off. On
// Wormhole, bit i is the i-th row with Tensix tiles, from 0 at the north. On Blackhole, bit i is the
// i-th column with Tensix tiles, from 0 at the west. A cluster descriptor calls the mask harvest_mask
// (tt-umd, CoordinateManager; wormhole_N300.yaml says the same in a comment).
type Harvested uint16

// MaxHarvested returns the mask with all bits that an architecture knows. For an unknown
// architecture, MaxHarvested returns 0.
func MaxHarvested(a wire.Arch) Harvested {
	l := layouts[a]
	return 1<<len(*l.lines()) - 1
}

// Harvest switches off the Tensix tiles of a mask. Each of these tiles then refuses every command to
// its memory with [wire.OutcomeHarvested], and takes no NoC multicast. Harvest also gives the other
// Tensix tiles their translated coordinates. The caller must call Harvest before any command and
// before MapRegisters and Map. Harvest refuses a mask with bits above [MaxHarvested].
func (m *Memory) Harvest(h Harvested) error {
	if h&^MaxHarvested(m.arch) != 0 {
		return fmt.Errorf("harvesting mask %d: want at most %d on %s", h, MaxHarvested(m.arch), m.arch)
	}
	m.harvested = h
	l := layouts[m.arch]
	for i := range m.list {
		t := &m.list[i]
		if t.Kind == Tensix {
			t.Harvested = l.harvested(t, h)
			t.Size = l.l1
			if t.Harvested {
				t.Size = 0
			}
		}
	}
	m.placeTiles()
	return nil
}

// lines returns the rows or columns for which the bits of a mask stand.
func (l *layout) lines() *[]uint8 {
	if l.byColumn {
		return &l.tensixX
	}
	return &l.tensixY
}

// harvested reports whether the mask h switches off the Tensix tile t.
func (l *layout) harvested(t *Tile, h Harvested) bool {
	at := t.Y
	if l.byColumn {
		at = t.X
	}
	return h>>slices.Index(*l.lines(), at)&1 != 0
}

// closed returns the columns and rows that take no NoC multicast: bit x for column x, bit y for row
// y. A column or row is closed if it has no working Tensix tile.
func (l *layout) closed(h Harvested) (cols, rows uint32) {
	cols, rows = 1<<l.width-1, 1<<l.height-1
	for _, x := range l.tensixX {
		cols &^= 1 << x
	}
	for _, y := range l.tensixY {
		rows &^= 1 << y
	}
	for i, at := range *l.lines() {
		switch bit := uint32(h>>i&1) << at; {
		case l.byColumn:
			cols |= bit
		default:
			rows |= bit
		}
	}
	return cols, rows
}

// Shared returns the columns and the rows of the Tensix tiles that work under all given masks, in the
// coordinates of NoC 0, sorted. There is such a tile at each crossing of a column and a row.
func Shared(a wire.Arch, masks ...Harvested) (xs, ys []uint8) {
	l := layouts[a]
	var all Harvested
	for _, h := range masks {
		all |= h
	}
	xs, ys = slices.Clone(l.tensixX), slices.Clone(l.tensixY)
	lines := &ys
	if l.byColumn {
		lines = &xs
	}
	kept := (*lines)[:0]
	for i, at := range *lines {
		if all>>i&1 == 0 {
			kept = append(kept, at)
		}
	}
	*lines = kept
	return xs, ys
}

// Where the translated coordinates begin (tt-umd, wormhole_implementation.hpp and
// blackhole_implementation.hpp, *_translated_coordinate_start_*).
const (
	wormholeTensixX = 18
	wormholeTensixY = 18
	wormholeEthX    = 18
	wormholeEthY    = 16
	blackholeEthX   = 20
	blackholeEthY   = 25
	blackholeDRAMX  = 17
	blackholeDRAMY  = 12
)

// translated returns the translated coordinates of a tile under the mask h. Wormhole numbers the
// working rows of Tensix tiles without gaps, and then the harvested rows. Wormhole's DRAM tiles have
// the coordinates of NoC 0 (tt-umd, wormhole_coordinate_manager.cpp).
//
// The translated coordinates of Blackhole's Tensix tiles lie in the range of NoC 0's coordinates.
// One pair of numbers would therefore name two tiles. Here these tiles have the coordinates of NoC
// 0 in both systems. On a Blackhole chip without harvested columns, the coordinates of both systems
// are equal on hardware, too.
func (l *layout) translated(t *Tile, h Harvested) (x, y uint8) {
	switch {
	case l.byColumn && t.Kind == Ethernet:
		return blackholeEthX + uint8(slices.Index(l.eth, xy{t.X, t.Y})), blackholeEthY
	case l.byColumn && t.Kind == DRAM:
		half := len(l.dram) / 2 // the west column has the first half of the banks, the east column the second half
		bank := t.number
		return blackholeDRAMX + uint8(bank/half), blackholeDRAMY + uint8(bank%half*len(l.dram[0])+t.stop)
	case t.Kind == Ethernet:
		x = wormholeEthX + uint8(slices.Index(l.tensixX, t.X)) // the columns of ethernet tiles are those of Tensix tiles
		if t.Y != 0 {
			return x, wormholeEthY + 1
		}
		return x, wormholeEthY
	case t.Kind == Tensix && !l.byColumn:
		row, before, working := slices.Index(l.tensixY, t.Y), 0, 0
		for i := range l.tensixY {
			off := h>>i&1 != 0
			if !off {
				working++
			}
			if i < row && off == t.Harvested {
				before++
			}
		}
		if t.Harvested {
			before += working
		}
		return wormholeTensixX + uint8(slices.Index(l.tensixX, t.X)), wormholeTensixY + uint8(before)
	}
	return t.X, t.Y
}

// Translate sets whether the chip translates NoC coordinates. A new memory translates them. If "on"
// is false, commands to a tile's translated coordinates have the outcome
// [wire.OutcomeUntranslated], and the NIU registers show that the chip does not translate
// coordinates. The caller must call Translate before the first command.
func (m *Memory) Translate(on bool) {
	m.untranslated = !on
	m.placeTiles()
}

// absent returns the outcome of a command to the coordinate (x, y), if no tile has this coordinate.
func (m *Memory) absent(x, y uint8) wire.Outcome {
	l := layouts[m.arch]
	for i := range m.list {
		if tx, ty := l.translated(&m.list[i], m.harvested); m.untranslated && m.tile(x, y) == nil && tx == x && ty == y {
			return wire.OutcomeUntranslated
		}
	}
	return wire.OutcomeBadAddress
}

// placeTiles enters every tile under its coordinates of NoC 0 and, if the chip translates
// coordinates, under its translated coordinates.
func (m *Memory) placeTiles() {
	clear(m.at[:])
	l := layouts[m.arch]
	for i := range m.list {
		t := &m.list[i]
		x, y := l.translated(t, m.harvested)
		if !m.untranslated {
			m.at[place(x, y)] = int16(i + 1)
		}
		m.at[place(t.X, t.Y)] = int16(i + 1)
	}
}
