package wire

import "encoding/binary"

// PeekFrame reads the fields of a frame of which only the first bytes are known, to show these
// fields to people. PeekFrame checks only magic and length. The field Payload holds the known bytes
// of the payload.
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

// HeadWhole reports whether a view of the first bytes of a packet holds the packet's headers, so
// that their fields can be read. HeadWhole checks nothing else.
func (v PacketView) HeadWhole() bool { return len(v) >= minPacketLen && len(v) >= v.headLen() }

// SendType returns the packet's NoC command.
func (v PacketView) SendType() NocSendType { return NocSendType(v[poSendType]) }

// PayloadLen returns the number of bytes of payload that the packet's fields give. A value below 0
// means that the fields contradict each other.
func (v PacketView) PayloadLen() int {
	return int(binary.LittleEndian.Uint16(v[poLength:])) - v.headLen()
}
