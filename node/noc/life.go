package noc

import (
	"encoding/binary"

	"ttfabric/wire"
)

// The life register shows the chip's incarnation: 8 bytes, little endian, that differ after each
// start. The register lies among the registers of the chip's first ethernet tile, beyond the
// tile's L1. The register can only be read whole, and cannot be written. A chip's memory is lost
// when the chip restarts. If a program reads another value than before, it therefore knows that
// its earlier writes to the chip are lost. The register is our own; the hardware has no such
// register.
const (
	lifeOffset = 0xFFBF0000
	LifeSize   = 8 // length of the life register, in bytes
)

// LifeRegister returns the address of the life register. For an unknown architecture, LifeRegister
// returns false.
func LifeRegister(a wire.Arch) (wire.NocAddr, bool) {
	l, ok := layouts[a]
	if !ok {
		return 0, false
	}
	return wire.NewNocAddr(l.eth[0][0], l.eth[0][1], lifeOffset), true
}

// life is the life register, as a window.
type life [LifeSize]byte

// Load reads the whole register. The outcome for a part of the register is
// [wire.OutcomeBadAddress].
func (l *life) Load(_ uint64, b []byte) wire.Outcome {
	if len(b) != LifeSize {
		return wire.OutcomeBadAddress
	}
	copy(b, l[:])
	return wire.OutcomeDone
}

// Store refuses every write with [wire.OutcomeBadAddress].
func (l *life) Store(uint64, []byte) wire.Outcome { return wire.OutcomeBadAddress }

// SetLife sets the value of the life register.
func (m *Memory) SetLife(i wire.Incarnation) {
	binary.LittleEndian.PutUint64(m.life[:], uint64(i))
}
