package reliable

import (
	"errors"
	"fmt"
)

// Virtual channels of a link (RR §4, VC id 0 to 4).
const (
	Adaptive0 uint8 = iota
	Adaptive1
	Ordered0 // dimension-ordered, packets of priority 0
	Ordered1 // dimension-ordered, packets of priority 1
	Fault    // fault-handling, both priorities
	NumVCs   = 5
)

// CopiedKind says which kind of flit the neighbour has copied forward (RR Table 2, 2 bits).
type CopiedKind uint8

const (
	CopiedNone CopiedKind = iota
	CopiedData
	CopiedTail
	numCopied
)

// Slot is what a link carries in one flit time: a flit or none, acknowledgements for the opposite
// direction, and the state of the link (RR Table 2).
type Slot struct {
	Flit
	VC       uint8      // virtual channel of the flit at the receiver, 0 to 4
	Copied   CopiedKind // one flit of channel CopiedVC was copied forward; the receiver invalidates its copy
	CopiedVC uint8      // 0 to 4
	Freed    uint8      // bit v: one flit of channel v was released; the receiver may send one more
	Up       bool       // U/D: the sender regards the link as up
	PE       bool       // the sender has seen a parity error on this link
	User     uint8      // bits USR1 and USR0
}

// stays is the user bit USR0 on a head flit: the packet stays on fault-handling channels (RR §4). The
// paper does not say where the chip keeps this state; the next node cannot derive the state from
// the port and the address.
const stays = 1

// Frames of a slot (RR Table 2).
const (
	FrameBits   = 23 // bits of a frame, without the parity line
	NumFrames   = 4
	frameParity = 1 << FrameBits // the 24th line: odd parity, so that a dead wire is no frame
)

// ErrParity means that the parity line of a frame does not fit the other 23 lines.
var ErrParity = errors.New("the parity of a frame is wrong")

// Encode returns the four frames of the slot, with their parity lines. A field out of its range is
// an error.
func (s *Slot) Encode() (f [NumFrames]uint32, err error) {
	if err := s.check(); err != nil {
		return f, err
	}
	d, p := s.Data, uint32(s.Parity)
	bp := func(i int) uint32 { return p >> i & 3 << 16 } // byte parities i and i+1 in bits 16 and 17
	f[0] = bit(s.PE)<<22 | uint32(s.User&1)<<21 | uint32(s.VC)<<18 | bp(0) | uint32(d&0xffff)
	f[1] = uint32(s.Copied)<<21 | uint32(s.CopiedVC)<<18 | bp(2) | uint32(d>>16&0xffff)
	f[2] = bit(s.Up)<<22 | uint32(s.User>>1)<<21 | uint32(s.Kind)<<18 | bp(4) | uint32(d>>32&0xffff)
	f[3] = uint32(s.Freed)<<18 | bp(6) | uint32(d>>48)
	for i := range f {
		f[i] |= odd(f[i]) << FrameBits
	}
	return f, nil
}

// DecodeSlot decodes four frames. A wrong parity is [ErrParity]; a combination of fields that no
// sender makes is another error. DecodeSlot accepts exactly the outputs of [Slot.Encode].
func DecodeSlot(f [NumFrames]uint32) (Slot, error) {
	for i, v := range f {
		if v >= 2*frameParity {
			return Slot{}, fmt.Errorf("frame %d has more than %d bits", i, FrameBits+1)
		}
		if v>>FrameBits != odd(v&(frameParity-1)) {
			return Slot{}, ErrParity
		}
	}
	field := func(i, low, width int) uint8 { return uint8(f[i] >> low & (1<<width - 1)) }
	s := Slot{
		Flit: Flit{
			Kind:   Kind(field(2, 18, 3)),
			Data:   uint64(f[0]&0xffff) | uint64(f[1]&0xffff)<<16 | uint64(f[2]&0xffff)<<32 | uint64(f[3]&0xffff)<<48,
			Parity: field(0, 16, 2) | field(1, 16, 2)<<2 | field(2, 16, 2)<<4 | field(3, 16, 2)<<6,
		},
		VC:     field(0, 18, 3),
		Copied: CopiedKind(field(1, 21, 2)), CopiedVC: field(1, 18, 3),
		Freed: field(3, 18, 5),
		Up:    field(2, 22, 1) == 1, PE: field(0, 22, 1) == 1,
		User: field(0, 21, 1) | field(2, 21, 1)<<1,
	}
	return s, s.check()
}

// check returns an error if the slot has a field out of its range, or a field without its flit.
func (s *Slot) check() error {
	switch {
	case s.Kind >= numKinds || s.VC >= NumVCs || s.CopiedVC >= NumVCs || s.Copied >= numCopied || s.Freed >= 1<<NumVCs || s.User > 3:
		return fmt.Errorf("a slot of %s with virtual channel %d, copied kind %d of channel %d, freed %#x and user bits %d", s.Kind, s.VC, s.Copied, s.CopiedVC, s.Freed, s.User)
	case s.Copied == CopiedNone && s.CopiedVC != 0:
		return fmt.Errorf("a slot names copied channel %d, but copies nothing", s.CopiedVC)
	case s.Kind <= Control && (s.Data != 0 || s.Parity != 0 || s.VC != 0 || s.User != 0):
		return fmt.Errorf("a slot of %s with data %#x", s.Kind, s.Data)
	case s.Kind == Padding && (s.Copied != CopiedNone || s.Freed != 0 || !s.Up || s.PE):
		return errors.New("a padding slot with acknowledgements or a state of the link; a receiver may lose padding")
	}
	return nil
}

func bit(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
