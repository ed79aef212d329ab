package noc

import (
	"encoding/binary"

	"ttfabric/wire"
)

// The life register shows the chip's incarnation: 8 bytes, little endian, that differ after each
// start. The register lies among the registers of the chip's first ethernet tile, beyond the tile's
// L1. The register can only be read whole, and cannot be written. Memory does not outlast its chip.
// So a program that reads another value than before knows that its earlier writes to this chip are
// gone. The register is our own: the hardware has none.
const (
	lifeOffset = 0xFFBF0000
	LifeSize   = 8 // bytes
)

// LifeRegister is the address of the life register. LifeRegister reports false for an unknown
// architecture.
func LifeRegister(a wire.Arch) (wire.NocAddr, bool) {
	l, ok := layouts[a]
	if !ok {
		return 0, false
	}
	return wire.NewNocAddr(l.eth[0][0], l.eth[0][1], lifeOffset), true
}

// SetLife sets the value of the life register.
func (m *Memory) SetLife(i wire.Incarnation) {
	binary.LittleEndian.PutUint64(m.life[:], uint64(i))
}

// isLife reports whether n bytes at a are the life register.
func (m *Memory) isLife(a wire.NocAddr, n int) bool { return a == m.lifeAt && n == LifeSize }
