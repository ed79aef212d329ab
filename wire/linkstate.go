package wire

import "encoding/binary"

// LinkState says which ports of a chip routes must avoid, as the chip itself reports. A port in
// Silent hears nothing from its peer, but there is no evidence that the cable or the peer has
// failed. The peer may merely be late. If every route to a chip crosses a silent port, packets to
// that chip wait. A port is in one of the two maps at most.
//
// Of two link states of one chip, the link state with the higher version (wrapping) is valid. Two
// incarnations of a chip may have sent different link states with the same version. All chips then
// take the link state with the higher number in the field Out. If these numbers are equal, all
// chips take the link state with the higher number in the field Silent. A chip may receive a
// different link state about itself that an earlier incarnation sent. If the version of this link
// state is not lower than the version of the chip's own, the chip sends its own link state with the
// next version.
type LinkState struct {
	Node    FabricNodeID
	Version uint32 // counted up at each change; 0: no port has been out of service or silent since the start
	Out     uint16 // ports out of service: bit k stands for channel k
	Silent  uint16 // ports that hear nothing from their peers: bit k stands for channel k
}

// Avoided returns the ports that routes must avoid: bit k stands for channel k.
func (s *LinkState) Avoided() uint16 { return s.Out | s.Silent }

// Newer reports whether s replaces t, another link state of the same chip.
func (s *LinkState) Newer(t *LinkState) bool {
	d := int32(s.Version - t.Version)
	return d > 0 || d == 0 && (s.Out > t.Out || s.Out == t.Out && s.Silent > t.Silent)
}

// Limits of the payload of a [PacketLinkState].
const (
	linkStateLen  = 12                            // length of one link state, in bytes
	MaxLinkStates = MaxControlData / linkStateLen // largest number of link states in one packet: 4
)

// DecodeLinkStates reads the payload b of a [PacketLinkState], and appends the link states to buf.
// The error is [ErrControl].
func DecodeLinkStates(b []byte, buf []LinkState) ([]LinkState, error) {
	if len(b) == 0 || len(b)%linkStateLen != 0 || len(b) > MaxLinkStates*linkStateLen {
		return buf, ErrControl
	}
	for words := AppendLinkStates(nil, b); len(words) > 0; words = words[1:] {
		if !words[0].Node.Valid() || words[0].Out&words[0].Silent != 0 {
			return buf, ErrControl
		}
		buf = append(buf, words[0])
	}
	return buf, nil
}

// AppendLinkStates appends to buf the link states that b holds, without checking their content.
// AppendLinkStates leaves out an incomplete link state at the end.
func AppendLinkStates(buf []LinkState, b []byte) []LinkState {
	le := binary.LittleEndian
	for ; len(b) >= linkStateLen; b = b[linkStateLen:] {
		buf = append(buf, LinkState{FabricNodeID{MeshID(le.Uint16(b)), ChipID(le.Uint16(b[2:]))}, le.Uint32(b[4:]), le.Uint16(b[8:]), le.Uint16(b[10:])})
	}
	return buf
}

// Append appends the encoded link state to b.
func (s *LinkState) Append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint16(b, uint16(s.Node.Mesh))
	b = le.AppendUint16(b, uint16(s.Node.Chip))
	b = le.AppendUint32(b, s.Version)
	b = le.AppendUint16(b, s.Out)
	return le.AppendUint16(b, s.Silent)
}
