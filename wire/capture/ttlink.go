package capture

import (
	"encoding/binary"
	"errors"

	"github.com/google/gopacket"

	"ttfabric/wire"
)

// The layers' types. gopacket leaves numbers from 1000 on to its users.
var (
	LayerTypeTTLink = gopacket.RegisterLayerType(5454, gopacket.LayerTypeMetadata{Name: "TTLink", Decoder: gopacket.DecodeFunc(decodeTTLink)})
	LayerTypeFabric = gopacket.RegisterLayerType(5455, gopacket.LayerTypeMetadata{Name: "TTFabric", Decoder: gopacket.DecodeFunc(decodeFabric)})
)

// headLen is the length of a frame before its payload, in bytes.
const headLen = wire.EnvelopeLen + wire.HeaderLen

// IsTTLink reports whether a UDP payload looks like frames of ours. IsTTLink looks for the magic,
// our version, and an existing kind.
func IsTTLink(b []byte) bool {
	f, ok := wire.PeekFrame(b)
	return ok && len(b) >= wire.FrameOverhead && version(b) == wire.Version && f.Kind >= wire.KindData && f.Kind <= wire.KindClose
}

// version returns the high nibble of a frame's third byte.
func version(b []byte) byte { return b[2] >> 4 }

// base holds a layer's own bytes and the bytes of the layer's payload. The package does not use the
// base of gopacket's package layers, which would cost each chip's process several mebibytes.
type base struct{ Contents, Payload []byte }

// LayerContents implements [gopacket.Layer].
func (b *base) LayerContents() []byte { return b.Contents }

// LayerPayload implements [gopacket.Layer].
func (b *base) LayerPayload() []byte { return b.Payload }

// TTLink is one TT-link frame, or the rest of a datagram that is not a frame.
type TTLink struct {
	base
	Frame  wire.Frame   // fields of the frame; Head and Whole tell which fields are set
	Head   bool         // the envelope and the header were captured
	Whole  bool         // the frame was captured to its end
	CRC    uint32       // checksum of a whole frame, as received
	Fault  error        // a [wire.FrameFault], [wire.ErrHello] or [wire.ErrUpdate]; nil: a good frame
	Hello  *wire.Hello  // content of a good hello; else nil
	Update *wire.Update // content of a good update; else nil
	rest   int          // number of bytes after the payload of a frame that was cut off
}

// LayerType implements [gopacket.Layer].
func (*TTLink) LayerType() gopacket.LayerType { return LayerTypeTTLink }

// CanDecode implements [gopacket.DecodingLayer].
func (*TTLink) CanDecode() gopacket.LayerClass { return LayerTypeTTLink }

// NextLayerType implements [gopacket.DecodingLayer]: a fabric packet if the frame holds a whole
// packet.
func (t *TTLink) NextLayerType() gopacket.LayerType {
	if t.holdsPacket() {
		return LayerTypeFabric
	}
	return gopacket.LayerTypeZero
}

// DecodeFromBytes implements [gopacket.DecodingLayer]. DecodeFromBytes takes the first frame of
// data. [TTLink.Len] tells where the next frame begins. DecodeFromBytes never fails. The field
// Fault tells what is wrong.
func (t *TTLink) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	*t = TTLink{}
	n, err := wire.FrameLen(data)
	if err != nil {
		t.Fault = err
		t.Frame, t.Head = wire.PeekFrame(data)
		t.base = base{data, nil}
		if len(data) >= headLen && t.Head {
			n := min(len(data), headLen+int(binary.LittleEndian.Uint16(data[10:])))
			t.base = base{data[:headLen], data[headLen:n]}
			t.Frame.Payload, t.rest = t.Payload, len(data)-n
			df.SetTruncated()
		}
		return nil
	}
	b := data[:n:n]
	t.Head, t.Whole, t.CRC = true, true, binary.LittleEndian.Uint32(b[n-wire.TrailerLen:])
	if t.Frame, t.Fault = wire.DecodeFrame(b); t.Fault != nil {
		t.Frame, _ = wire.PeekFrame(b)
	}
	t.base = base{b, t.Frame.Payload}
	if t.Fault == nil {
		t.decodePayload()
	}
	return nil
}

// decodePayload reads the payload of a good frame that is not a piece of a packet.
func (t *TTLink) decodePayload() {
	switch t.Frame.Kind {
	case wire.KindHello:
		if h, err := wire.DecodeHello(t.Frame.Payload); err == nil {
			t.Hello = &h
		} else {
			t.Fault = err
		}
	case wire.KindUpdate:
		if u, err := wire.DecodeUpdate(t.Frame.Payload); err == nil {
			t.Update = &u
		} else {
			t.Fault = err
		}
	}
}

// Len returns the number of the datagram's bytes that the layer stands for.
func (t *TTLink) Len() int {
	if t.Whole {
		return len(t.Contents)
	}
	return len(t.Contents) + len(t.Payload) + t.rest
}

// Offset returns the offset of a data frame's piece in its packet, in bytes.
func (t *TTLink) Offset() int { return int(t.Frame.Dest % wire.SlotStride) }

// holdsPacket reports whether the frame holds a whole packet.
func (t *TTLink) holdsPacket() bool {
	return t.Fault == nil && t.Frame.Kind == wire.KindData && t.Offset() == 0 && t.Frame.Flags&wire.FlagEnd != 0
}

// startsPacket reports whether the frame is a packet's first piece, whole or cut off.
func (t *TTLink) startsPacket() bool {
	return t.Head && (t.Fault == nil || t.Fault == wire.FaultShort) && version(t.Contents) == wire.Version && t.Frame.Kind == wire.KindData && t.Offset() == 0
}

// FaultWord returns the fault in the words of ttlink.fault, or "" for a good frame.
func (t *TTLink) FaultWord() string {
	var f wire.FrameFault
	switch {
	case t.Fault == nil:
		return ""
	case errors.As(t.Fault, &f):
		return f.Error()[len("frame: "):]
	case t.Fault == wire.ErrHello:
		return "hello"
	}
	return "update"
}

// Fields returns the frame's fields with their names.
func (t *TTLink) Fields() []Field {
	var f fields
	if t.Head {
		t.headFields(&f)
	}
	if t.Whole {
		f.hex("ttlink.crc", 8, uint64(t.CRC))
		f.flag("ttlink.crc.good", wire.Checksum(t.Contents[:len(t.Contents)-wire.TrailerLen]) == t.CRC)
	}
	switch {
	case t.Fault != nil:
		f.text("ttlink.fault", t.FaultWord())
	case t.Frame.Kind == wire.KindData:
		f.num("ttlink.slot", uint64(t.Frame.Dest/wire.SlotStride))
		f.num("ttlink.offset", uint64(t.Offset()))
	case t.Hello != nil:
		t.helloFields(&f)
	case t.Update != nil:
		for _, g := range t.Update.Grants[:len(t.Payload)/4] {
			f.num("ttlink.grant", uint64(g))
		}
	}
	return f
}

func (t *TTLink) headFields(f *fields) {
	x := &t.Frame
	f.num("ttlink.version", uint64(version(t.Contents)))
	f.num("ttlink.channel", uint64(x.Channel))
	f.num("ttlink.padded", uint64(x.Padded))
	f.hex("ttlink.session", 8, uint64(x.Session))
	f.num("ttlink.kind", uint64(x.Kind))
	f.num("ttlink.vc", uint64(x.VC))
	f.hex("ttlink.flags", 2, uint64(x.Flags))
	f.flag("ttlink.flags.end", x.Flags&wire.FlagEnd != 0)
	f.flag("ttlink.flags.nack", x.Flags&wire.FlagNACK != 0)
	f.flag("ttlink.flags.solicit", x.Flags&wire.FlagSolicit != 0)
	f.num("ttlink.length", uint64(binary.LittleEndian.Uint16(t.Contents[10:])))
	f.hex("ttlink.dest", 8, uint64(x.Dest))
	f.num("ttlink.seq", uint64(x.TxSeq))
	f.num("ttlink.ack", uint64(x.RxSeq))
}

func (t *TTLink) helloFields(f *fields) {
	h, vcs := t.Hello, wire.BasicVCs
	if len(t.Payload) == wire.FullHelloLen {
		vcs = wire.NumVCs
	}
	for _, g := range h.Grants[:vcs] {
		f.num("ttlink.grant", uint64(g))
	}
	f.flag("ttlink.hello.up", h.Up)
	f.flag("ttlink.hello.want", h.WantAnswer)
	for _, e := range []struct {
		name string
		port wire.PortID
	}{{"from", h.From}, {"expected", h.Expected}} {
		f.num("ttlink.hello."+e.name+"_mesh", uint64(e.port.Node.Mesh))
		f.num("ttlink.hello."+e.name+"_chip", uint64(e.port.Node.Chip))
		f.num("ttlink.hello."+e.name+"_channel", uint64(e.port.Channel))
	}
	f.num("ttlink.hello.echo_training", uint64(h.EchoTraining))
	f.hex("ttlink.hello.incarnation", 16, uint64(h.Incarnation))
	f.hex("ttlink.hello.echo_incarnation", 16, uint64(h.EchoIncarnation))
	f.hex("ttlink.hello.stamp", 16, h.Stamp)
	f.hex("ttlink.hello.echo_stamp", 16, h.EchoStamp)
	f.num("ttlink.hello.training", uint64(h.Training))
	f.num("ttlink.hello.max_payload", uint64(h.MaxPayload))
	f.num("ttlink.hello.via", uint64(h.Via))
	f.hex("ttlink.hello.fabric", 8, uint64(h.Fabric))
	for _, s := range h.Slots[:vcs] {
		f.num("ttlink.hello.slots", uint64(s))
	}
}

// decodeTTLink adds a layer for each frame of a datagram, and for each packet that lies whole in
// one frame.
func decodeTTLink(data []byte, p gopacket.PacketBuilder) error {
	var d Decoder
	for _, l := range d.datagram(nil, data) {
		p.AddLayer(l)
	}
	return nil
}
