package capture

import (
	"encoding/binary"
	"errors"

	"github.com/google/gopacket"

	"ttfabric/wire"
)

// The types of the two layers. gopacket reserves numbers from 1000 on for its users.
var (
	LayerTypeTTLink = gopacket.RegisterLayerType(5454, gopacket.LayerTypeMetadata{Name: "TTLink", Decoder: gopacket.DecodeFunc(decodeTTLink)})
	LayerTypeFabric = gopacket.RegisterLayerType(5455, gopacket.LayerTypeMetadata{Name: "TTFabric", Decoder: gopacket.DecodeFunc(decodeFabric)})
)

// headLen is the length of the envelope and the header of a frame, in bytes.
const headLen = wire.EnvelopeLen + wire.HeaderLen

// IsTTLink reports whether a UDP payload looks like TT-link frames of ttfabric. The payload must
// have at least [wire.FrameOverhead] bytes. IsTTLink also checks the magic, the version and the kind
// of the first frame.
func IsTTLink(b []byte) bool {
	f, ok := wire.PeekFrame(b)
	return ok && len(b) >= wire.FrameOverhead && version(b) == wire.Version && f.Kind.Valid()
}

// version returns the version of the frame b.
func version(b []byte) byte { return b[2] >> 4 }

// base holds a layer's own bytes and the bytes of the layer's payload. The package does not use the
// type BaseLayer of gopacket's package layers, because that package would cost each chip's process
// several mebibytes.
type base struct{ Contents, Payload []byte }

// LayerContents implements [gopacket.Layer].
func (b *base) LayerContents() []byte { return b.Contents }

// LayerPayload implements [gopacket.Layer].
func (b *base) LayerPayload() []byte { return b.Payload }

// TTLink is the layer of one TT-link frame, or of bytes at the end of a datagram that are not a
// whole frame.
type TTLink struct {
	base
	Frame  wire.Frame   // fields of the frame; set if Head is true
	Head   bool         // the capture has the envelope and the header of the frame
	Whole  bool         // the capture has the frame up to its end
	CRC    uint32       // checksum in the frame; set if Whole is true
	Fault  error        // a [wire.FrameFault], [wire.ErrHello] or [wire.ErrUpdate]; nil: the frame is valid
	Hello  *wire.Hello  // content of a valid hello; nil for all other frames
	Update *wire.Update // content of a valid update; nil for all other frames
	rest   int          // number of captured bytes after the payload of a frame that was cut off
}

// LayerType implements [gopacket.Layer].
func (*TTLink) LayerType() gopacket.LayerType { return LayerTypeTTLink }

// CanDecode implements [gopacket.DecodingLayer].
func (*TTLink) CanDecode() gopacket.LayerClass { return LayerTypeTTLink }

// NextLayerType implements [gopacket.DecodingLayer]. If the frame holds a whole packet, the next
// layer is [Fabric].
func (t *TTLink) NextLayerType() gopacket.LayerType {
	if t.holdsPacket() {
		return LayerTypeFabric
	}
	return gopacket.LayerTypeZero
}

// DecodeFromBytes implements [gopacket.DecodingLayer]. DecodeFromBytes decodes the first frame of
// data. The next frame begins [TTLink.Len] bytes later. DecodeFromBytes always returns nil, and
// describes faults of the frame in the field Fault.
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

// decodePayload decodes the payload of a valid frame, if the frame is a hello or an update.
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

// Len returns the number of bytes of the datagram that belong to the layer.
func (t *TTLink) Len() int {
	if t.Whole {
		return len(t.Contents)
	}
	return len(t.Contents) + len(t.Payload) + t.rest
}

// Offset returns the offset in its packet of the piece that a data frame carries, in bytes.
func (t *TTLink) Offset() int {
	_, offset := t.Frame.Slot()
	return offset
}

// holdsPacket reports whether the frame is valid and holds a whole packet.
func (t *TTLink) holdsPacket() bool {
	return t.Fault == nil && t.Frame.Kind == wire.KindData && t.Offset() == 0 && t.Frame.Flags&wire.FlagEnd != 0
}

// startsPacket reports whether the frame has the first piece of a packet. The capture may have cut
// the frame off.
func (t *TTLink) startsPacket() bool {
	return t.Head && (t.Fault == nil || t.Fault == wire.FaultShort) && version(t.Contents) == wire.Version && t.Frame.Kind == wire.KindData && t.Offset() == 0
}

// FaultWord returns the value of the field ttlink.fault, or "" for a valid frame.
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

// Fields returns the fields of the frame. The package documentation lists the names.
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
		slot, _ := t.Frame.Slot()
		f.num("ttlink.slot", uint64(slot))
		f.num("ttlink.offset", uint64(t.Offset()))
	case t.Frame.Kind == wire.KindWrite, t.Frame.Kind == wire.KindMMIO:
		f.num("ttlink.queue", uint64(t.Frame.VC))
		if t.Frame.Kind == wire.KindMMIO && len(t.Payload) == wire.RegisterLen {
			f.hex("ttlink.value", 8, uint64(binary.LittleEndian.Uint32(t.Payload)))
		}
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

// decodeTTLink adds a layer for each frame of a datagram, and a layer for each packet that one
// frame holds completely. For a packet of several pieces, decodeTTLink adds a layer with only the
// packet's header after the first piece.
func decodeTTLink(data []byte, p gopacket.PacketBuilder) error {
	var d Decoder
	for _, l := range d.datagram(nil, data) {
		p.AddLayer(l)
	}
	return nil
}
