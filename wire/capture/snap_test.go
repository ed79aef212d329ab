package capture

import (
	"testing"

	"ttfabric/wire"
)

// TestDefaultSnapLen encodes packets with the longest headers. DefaultSnapLen must hold all bytes before the payload.
func TestDefaultSnapLen(t *testing.T) {
	long, ok := wire.HeaderLenFor(wire.MaxHops)
	if !ok {
		t.Fatal("no header for the longest route")
	}
	p := wire.Packet{Type: wire.PacketRequest, Route: make([]byte, wire.MaxHops), Payload: make([]byte, 10)}
	p.Members.Add(3)
	most := p.Len() - len(p.Payload)
	if most <= long || most > wire.MaxPacketHeader {
		t.Errorf("a packet has %d bytes before its payload, %d without members; MaxPacketHeader is %d", most, long, wire.MaxPacketHeader)
	}
	if head := MaxOverhead + wire.EnvelopeLen + wire.HeaderLen; DefaultSnapLen < head+wire.MaxPacketHeader || DefaultSnapLen >= head+wire.MaxPacketHeader+32 {
		t.Errorf("DefaultSnapLen is %d; the headers have up to %d bytes", DefaultSnapLen, head+wire.MaxPacketHeader)
	}
}
