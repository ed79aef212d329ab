package wire

import "encoding/binary"

// PeekFrame reads the fields of a frame from the frame's first bytes b. Tools use PeekFrame to show
// cut-off frames to people. PeekFrame returns false if b is shorter than envelope and header, or has
// a wrong magic. PeekFrame checks nothing else. The result's Payload is all of b after the header,
// which may include padding and checksum.
func PeekFrame(b []byte) (Frame, bool) {
	if len(b) < offPayload || b[offMagic] != 'T' || b[offMagic+1] != 'T' {
		return Frame{}, false
	}
	return Frame{
		Channel: Channel(b[offVersion] & 0xF),
		Session: SessionID(binary.LittleEndian.Uint32(b[offSession:])),
		Kind:    Kind(b[offKind] & 0xF),
		VC:      VC(b[offKind] >> 4),
		Flags:   Flags(b[offFlags]),
		Dest:    binary.LittleEndian.Uint32(b[offDest:]),
		TxSeq:   Seq(binary.LittleEndian.Uint32(b[offTxSeq:])),
		RxSeq:   Seq(binary.LittleEndian.Uint32(b[offRxSeq:])),
		Padded:  int(b[offPad]) * PadUnit,
		Payload: b[offPayload:],
	}, true
}

// HeadWhole reports whether v, the first bytes of a packet, contains all headers of the packet. If
// HeadWhole reports true, the methods that return header fields do not panic. HeadWhole checks no
// field's value.
func (v PacketView) HeadWhole() bool {
	return len(v) >= ControlHeadLen && v.control() || len(v) >= minPacketLen && len(v) >= v.headLen()
}

// SendType returns the kind of the packet's NoC command. Control packets have no command.
func (v PacketView) SendType() NocSendType {
	if v.control() {
		return NocNone
	}
	return NocSendType(v[poSendType])
}

// PayloadLen returns the length of the payload in bytes, computed from the packet's length fields.
// The result is negative if these fields contradict each other.
func (v PacketView) PayloadLen() int {
	if v.control() {
		return int(v[coSize])
	}
	return int(binary.LittleEndian.Uint16(v[poLength:])) - v.headLen()
}

// FlowBase returns the packet's flow base, which control packets do not have.
func (v PacketView) FlowBase() uint32 {
	if v.control() {
		return 0
	}
	return binary.LittleEndian.Uint32(v[poFlowBase:])
}
