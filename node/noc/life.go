package noc

import (
	"encoding/binary"

	"ttfabric/wire"
)

// The life register says which life of the chip this is: 8 bytes, little
// endian, that differ after each start. It lies among the registers of the chip's first
// ethernet tile, beyond its L1, can be read whole and not be written. Memory
// does not outlast its chip, so whoever reads another value than before knows
// that what he wrote there is gone. It is ours: the hardware has none.
const (
	lifeOffset = 0xFFBF0000
	LifeSize   = 8 // bytes
)

// LifeRegister is its address; false for an unknown architecture.
func LifeRegister(a wire.Arch) (wire.NocAddr, bool) {
	l, ok := layouts[a]
	if !ok {
		return 0, false
	}
	return wire.NewNocAddr(l.eth[0][0], l.eth[0][1], lifeOffset), true
}

// SetLife sets what the life register shows.
func (m *Memory) SetLife(i wire.Incarnation) {
	binary.LittleEndian.PutUint64(m.life[:], uint64(i))
}

// isLife reports whether n bytes at a are the life register.
func (m *Memory) isLife(a wire.NocAddr, n int) bool { return a == m.lifeAt && n == LifeSize }
