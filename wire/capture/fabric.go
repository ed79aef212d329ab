package capture

import (
	"encoding/binary"

	"github.com/google/gopacket"

	"ttfabric/wire"
)

// Fabric is the layer of one fabric packet.
type Fabric struct {
	base
	Packet  wire.Packet
	Length  int   // length of the whole packet, in bytes
	Partial bool  // the capture has the header of the packet, but not the whole payload
	Pieces  int   // number of frames that carried the packet; 0 if Partial
	Fault   error // [wire.ErrPacket] or [wire.ErrCommand]; nil: the packet is valid

	Completion   *wire.Completion // content of a valid completion; nil for all other packets
	Drop         *wire.DropReport
	LinkStates   []wire.LinkState
	PayloadFault string // the malformed payload: "completion", "drop report" or "link state"; "": the payload is valid
}

// LayerType implements [gopacket.Layer].
func (*Fabric) LayerType() gopacket.LayerType { return LayerTypeFabric }

// CanDecode implements [gopacket.DecodingLayer].
func (*Fabric) CanDecode() gopacket.LayerClass { return LayerTypeFabric }

// NextLayerType implements [gopacket.DecodingLayer]. The next layer is the packet's payload, whose
// meaning only the user of the fabric knows.
func (*Fabric) NextLayerType() gopacket.LayerType { return gopacket.LayerTypePayload }

// DecodeFromBytes implements [gopacket.DecodingLayer]. DecodeFromBytes always returns nil, and
// describes faults of the packet in the fields Fault and PayloadFault.
func (p *Fabric) DecodeFromBytes(data []byte, _ gopacket.DecodeFeedback) error {
	*p = Fabric{Length: len(data), Pieces: 1}
	if p.Packet, p.Fault = wire.DecodePacket(data); p.Fault != nil {
		p.base = base{data, nil}
		return nil
	}
	p.base = base{data[:p.headLen()], p.Packet.Payload}
	switch p.Packet.Type {
	case wire.PacketCompletion:
		if c, err := wire.DecodeCompletion(p.Packet.Payload, nil); err == nil {
			p.Completion = &c
		} else {
			p.PayloadFault = "completion"
		}
	case wire.PacketDropReport:
		if d, err := wire.DecodeDropReport(p.Packet.Payload); err == nil {
			p.Drop = &d
		} else {
			p.PayloadFault = "drop report"
		}
	case wire.PacketLinkState:
		if s, err := wire.DecodeLinkStates(p.Packet.Payload, nil); err == nil {
			p.LinkStates = s
		} else {
			p.PayloadFault = "link state"
		}
	}
	return nil
}

// lengthAt is the offset of the length field in a packet, in bytes.
const lengthAt = 4

// partial decodes the header of a packet from the packet's first bytes b. If b does not contain a
// whole, valid header, partial returns nil.
func partial(b []byte) *Fabric {
	if !wire.PacketView(b).HeadWhole() {
		return nil
	}
	n := int(binary.LittleEndian.Uint16(b[lengthAt:]))
	if n < len(b) || n > wire.MaxPacket {
		return nil
	}
	// wire.DecodePacket decodes only whole packets. partial therefore adds zeros for the missing
	// bytes.
	p := &Fabric{Length: n, Partial: true}
	var err error
	if p.Packet, err = wire.DecodePacket(append(b[:len(b):len(b)], make([]byte, n-len(b))...)); err != nil {
		return nil
	}
	head := p.headLen()
	p.Packet.Payload = nil
	p.base = base{b[:head], b[head:]}
	return p
}

// headLen returns the length of the header of the packet, in bytes.
func (p *Fabric) headLen() int {
	if p.Packet.Type.Control() {
		return wire.ControlHeadLen
	}
	return p.Length - len(p.Packet.Payload)
}

// Fields returns the fields of the packet. The package documentation lists the names.
func (p *Fabric) Fields() []Field {
	var f fields
	switch p.Fault {
	case nil:
	case wire.ErrCommand:
		f.text("ttfabric.fault", "command")
		return f
	default:
		f.text("ttfabric.fault", "packet")
		return f
	}
	f.flag("ttfabric.partial", p.Partial)
	if !p.Partial {
		f.num("ttfabric.pieces", uint64(p.Pieces))
	}
	p.headFields(&f)
	p.commandFields(&f)
	if !p.Partial {
		p.payloadFields(&f)
	}
	return f
}

func (p *Fabric) headFields(f *fields) {
	x := &p.Packet
	f.num("ttfabric.type", uint64(x.Type))
	f.num("ttfabric.vc", uint64(x.VC))
	f.num("ttfabric.plane", uint64(x.Plane))
	f.num("ttfabric.ttl", uint64(x.TTL))
	f.num("ttfabric.length", uint64(p.Length))
	f.num("ttfabric.route_size", uint64(p.Contents[routeSizeAt]))
	f.text("ttfabric.src", x.Src.String())
	f.num("ttfabric.src_mesh", uint64(x.Src.Mesh))
	f.num("ttfabric.src_chip", uint64(x.Src.Chip))
	f.text("ttfabric.dst", x.Dst.String())
	f.num("ttfabric.dst_mesh", uint64(x.Dst.Mesh))
	f.num("ttfabric.dst_chip", uint64(x.Dst.Chip))
	control := x.Type.Control()
	if !control {
		f.num("ttfabric.flow_epoch", uint64(x.FlowEpoch))
		f.num("ttfabric.flow_seq", uint64(x.FlowSeq))
		f.num("ttfabric.flow_base", uint64(x.FlowBase))
		f.hex("ttfabric.id", 16, x.ID)
	}
	f.hex("ttfabric.epoch", 8, uint64(x.Epoch))
	f.flag("ttfabric.up", x.Up)
	f.flag("ttfabric.trace", x.Trace)
	f.flag("ttfabric.detour", x.Detour)
	if !control {
		f.flag("ttfabric.known", x.Known)
	}
	f.flag("ttfabric.other", x.Other)
	if !control {
		f.flag("ttfabric.posted", x.Posted)
	}
	f.num("ttfabric.group", uint64(x.Group))
	if !control {
		f.num("ttfabric.trunk", uint64(x.Trunk))
	}
	switch {
	case x.Members.Any():
		f.text("ttfabric.mcast.members", x.Members.String())
	case x.Trunk != wire.TrunkNone:
		rangeFields(f, "ttfabric.mcast", &x.Ranges)
	case x.Type == wire.PacketRequest || x.Type == wire.PacketProbe:
		f.hex("ttfabric.life", 8, uint64(x.Life))
	}
	f.num("ttfabric.hop", uint64(x.Hop))
	route := x.Route
	if control {
		route = wire.PacketView(p.Contents).AppendActions(nil)
	}
	f.text("ttfabric.route", RouteString(route))
}

// routeSizeAt is the offset in a packet of the byte with the route_buffer's length, in bytes.
const routeSizeAt = 7

// RouteString returns one letter for each action of a route: E, W, N, S or Z, or "?" for a byte
// that names no direction.
func RouteString(route []byte) string {
	out := make([]byte, len(route))
	for i, b := range route {
		out[i] = '?'
		for d := range wire.Direction(wire.NumSides) {
			if b == wire.RouteBit(d) {
				out[i] = d.String()[0]
			}
		}
	}
	return string(out)
}

func rangeFields(f *fields, name string, r *wire.Ranges) {
	for _, n := range r.Hops {
		f.num(name+".hops", uint64(n))
	}
	for _, n := range r.Skip {
		f.num(name+".skip", uint64(n))
	}
}

func (p *Fabric) commandFields(f *fields) {
	c := &p.Packet.Command
	if p.Packet.Type.Control() {
		return
	}
	f.num("ttfabric.send_type", uint64(c.Type))
	f.num("ttfabric.size", uint64(c.Size))
	switch c.Type {
	case wire.NocNone:
		return
	case wire.NocScatterWrite:
		f.num("ttfabric.chunks", uint64(c.Chunks))
		for i := range c.Chunks {
			f.hex("ttfabric.scatter.addr", 16, uint64(c.Scatter[i]))
			f.num("ttfabric.scatter.size", uint64(c.Sizes[i]))
		}
		return
	case wire.NocMulticastWrite, wire.NocMulticastInc:
		x, y := c.Addr.First()
		f.hex("ttfabric.addr.offset", 9, c.Addr.Offset())
		f.num("ttfabric.rect.x", uint64(x))
		f.num("ttfabric.rect.y", uint64(y))
		f.num("ttfabric.rect.columns", uint64(c.Addr.X()-x+1))
		f.num("ttfabric.rect.rows", uint64(c.Addr.Y()-y+1))
		if c.Type == wire.NocMulticastInc {
			f.num("ttfabric.value", uint64(c.Value))
		}
		return
	}
	f.hex("ttfabric.addr", 16, uint64(c.Addr))
	f.num("ttfabric.addr.x", uint64(c.Addr.X()))
	f.num("ttfabric.addr.y", uint64(c.Addr.Y()))
	f.hex("ttfabric.addr.offset", 9, c.Addr.Offset())
	if c.Type == wire.NocFusedInc {
		f.hex("ttfabric.sem", 16, uint64(c.Sem))
	}
	switch c.Type {
	case wire.NocInlineWrite, wire.NocAtomicInc, wire.NocFusedInc:
		f.num("ttfabric.value", uint64(c.Value))
	}
	switch c.Type {
	case wire.NocAtomicInc, wire.NocFusedInc:
		f.flag("ttfabric.flush", c.Flush)
	}
}

func (p *Fabric) payloadFields(f *fields) {
	f.num("ttfabric.data_len", uint64(len(p.Payload)))
	if p.PayloadFault != "" {
		f.text("ttfabric.payload_fault", p.PayloadFault)
	}
	if c := p.Completion; c != nil {
		f.num("ttfabric.completion.flow_epoch", uint64(c.FlowEpoch))
		f.num("ttfabric.completion.from", uint64(c.First))
		f.num("ttfabric.completion.next", uint64(c.Next))
		f.num("ttfabric.completion.count", uint64(len(c.Exceptions)))
		for _, e := range c.Exceptions {
			f.num("ttfabric.completion.first", uint64(e.First))
			f.num("ttfabric.completion.number", uint64(e.Count))
			f.num("ttfabric.completion.outcome", uint64(e.Outcome))
		}
	}
	if p.Drop != nil {
		p.dropFields(f)
	}
	for _, s := range p.LinkStates {
		f.num("ttfabric.linkstate.mesh", uint64(s.Node.Mesh))
		f.num("ttfabric.linkstate.chip", uint64(s.Node.Chip))
		f.num("ttfabric.linkstate.version", uint64(s.Version))
		f.hex("ttfabric.linkstate.out", 4, uint64(s.Out))
		f.hex("ttfabric.linkstate.silent", 4, uint64(s.Silent))
	}
}

func (p *Fabric) dropFields(f *fields) {
	d := p.Drop
	f.num("ttfabric.drop.dst_mesh", uint64(d.Dst.Mesh))
	f.num("ttfabric.drop.dst_chip", uint64(d.Dst.Chip))
	f.num("ttfabric.drop.flow_epoch", uint64(d.FlowEpoch))
	f.num("ttfabric.drop.flow_seq", uint64(d.FlowSeq))
	f.num("ttfabric.drop.plane", uint64(d.Plane))
	f.flag("ttfabric.drop.other", d.Other)
	f.flag("ttfabric.drop.open", d.Open)
	f.num("ttfabric.drop.reason", uint64(d.Reason))
	f.num("ttfabric.drop.channel", uint64(d.Channel))
	f.num("ttfabric.drop.type", uint64(d.Type))
	f.hex("ttfabric.drop.id", 16, d.ID)
	if d.Group == 0 {
		return
	}
	f.num("ttfabric.drop.group", uint64(d.Group))
	f.num("ttfabric.drop.trunk", uint64(d.Trunk))
	if d.Members.Any() {
		f.text("ttfabric.drop.members", d.Members.String())
		return
	}
	f.num("ttfabric.drop.direction", uint64(d.Dir))
	rangeFields(f, "ttfabric.drop", &d.Ranges)
}

// decodeFabric adds a layer for data, which is one packet without a frame around it.
func decodeFabric(data []byte, p gopacket.PacketBuilder) error {
	f := &Fabric{}
	if err := f.DecodeFromBytes(data, p); err != nil {
		return err
	}
	p.AddLayer(f)
	return nil
}
