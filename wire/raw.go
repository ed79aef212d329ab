package wire

import "encoding/binary"

// A raw frame is a frame of compliance mode (Spec §2.1). A raw frame has the envelope, but no TT-link
// header.
const (
	// RawVersion is the version nibble of a raw frame, which has no TT-link header after the
	// envelope.
	RawVersion = 15
	// RawOverhead is the length of a raw frame without its payload, in bytes.
	RawOverhead = EnvelopeLen + TrailerLen
	// MinRaw and MaxRaw are the lengths of the shortest and the longest payload of a raw frame, in
	// bytes. MaxRaw is the payload of a standard Ethernet frame (IEEE 802.3 §3.2.7).
	MinRaw, MaxRaw = 1, 1500
)

// IsRaw reports whether b begins like a raw frame.
func IsRaw(b []byte) bool {
	return len(b) >= EnvelopeLen && b[offMagic] == 'T' && b[offMagic+1] == 'T' && b[offVersion]>>4 == RawVersion
}

// AppendRaw appends a raw frame for the port at channel c of the other end. AppendRaw panics if the
// channel or the length of the payload is out of range.
func AppendRaw(b []byte, c Channel, payload []byte) []byte {
	if c >= MaxChannels || len(payload) < MinRaw || len(payload) > MaxRaw {
		panic("wire: raw frame cannot be expressed")
	}
	start := len(b)
	b = append(b, 'T', 'T', RawVersion<<4|byte(c), 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = append(b, payload...)
	return binary.LittleEndian.AppendUint32(b, Checksum(b[start:]))
}

// DecodeRaw decodes b, which must be exactly one raw frame. The payload lies in b. The error is a
// [FrameFault].
func DecodeRaw(b []byte) (c Channel, payload []byte, err error) {
	if len(b) < RawOverhead {
		return 0, nil, FaultShort
	}
	n := len(b) - TrailerLen
	switch {
	case b[offMagic] != 'T' || b[offMagic+1] != 'T':
		return 0, nil, FaultMagic
	case b[offVersion]>>4 != RawVersion:
		return 0, nil, FaultVersion
	case b[offPad] != 0:
		return 0, nil, FaultReserved
	}
	switch length := binary.LittleEndian.Uint32(b[offSession:]); {
	case length < MinRaw || length > MaxRaw || int(length) < n-EnvelopeLen:
		return 0, nil, FaultLength
	case int(length) > n-EnvelopeLen:
		return 0, nil, FaultShort
	case Checksum(b[:n]) != binary.LittleEndian.Uint32(b[n:]):
		return 0, nil, FaultChecksum
	}
	return Channel(b[offVersion] & 0xF), b[EnvelopeLen:n:n], nil
}
