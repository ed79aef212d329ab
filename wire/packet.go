package wire

import (
	"encoding/binary"
	"errors"
)

// Sizes of a fabric packet's parts, in bytes.
const (
	ExtensionLen = 40   // length of ttfabric's own fields, which come before tt-metal's header
	MaxPayload   = 4096 // length of the longest payload of one packet
	MaxHops      = 67   // largest number of actions of a source route: the largest route_buffer of tt-metal's HybridMeshPacketHeader
	MaxPacket    = MaxPacketHeader + MaxPayload

	// MaxPacketHeader is the largest length of all that comes before the payload of a packet, in bytes.
	MaxPacketHeader = ExtensionLen + 128 + membersLen

	baseLen      = 44 // tt-metal's base header: command union, size, send type, source channel
	meshTailLen  = 17 // the 2D header's other fields: 4 bytes before the route_buffer, 13 bytes after it
	minPacketLen = ExtensionLen + 80
)

// routeSizes lists the lengths of route_buffer in tt-metal's 2D headers, in bytes. The
// corresponding headers have 80, 96, 112 and 128 bytes (HybridMeshPacketHeaderT).
var (
	routeSizes     = [4]int{19, 35, 51, 67}
	routeSizeKnown = [256]bool{19: true, 35: true, 51: true, 67: true}
)

// PacketType is the type of a packet. The receiving chip handles each type differently.
type PacketType uint8

// The types of packet.
const (
	PacketRequest    PacketType = 1 // a NoC command for the destination
	PacketReply      PacketType = 2 // payload: the data of a read; the field ID is the id of the request
	PacketCompletion PacketType = 3 // payload: Completion
	PacketDropReport PacketType = 4 // payload: DropReport
	PacketProbe      PacketType = 5 // no command; only asks for a completion
	PacketLinkState  PacketType = 6 // payload: one or more LinkStates; only from a chip to its neighbour
)

// String returns the type's name, such as "request".
func (t PacketType) String() string {
	switch t {
	case PacketRequest:
		return "request"
	case PacketReply:
		return "reply"
	case PacketCompletion:
		return "completion"
	case PacketDropReport:
		return "drop"
	case PacketProbe:
		return "probe"
	case PacketLinkState:
		return "linkstate"
	}
	return "unknown"
}

// Offsets within a packet. tt-metal's header follows the extension.
const (
	poType      = 0
	poVC        = 1 // virtual channel in the low nibble, routing plane in the high
	poTTL       = 2
	poLength    = 4 // length of the whole packet
	poExtLen    = 6
	poRouteSize = 7 // length of route_buffer
	poSrcMesh   = 8
	poSrcChip   = 10
	poFlowEpoch = 12
	poFlowSeq   = 16
	poFlowBase  = 20
	poID        = 24
	poEpoch     = 32
	poFlags     = 36           // flag byte, see packetUp to packetPosted; a reserved byte follows
	poGroup     = 38           // number of the multicast group; 0: unicast
	poCommand   = ExtensionLen // tt-metal's union NocCommandFields
	poSize      = ExtensionLen + 40
	poSendType  = ExtensionLen + 42
	poSrcChan   = ExtensionLen + 43
	poHop       = ExtensionLen + 44
	poBranchE   = ExtensionLen + 46
	poBranchW   = ExtensionLen + 47
	poRoute     = ExtensionLen + 48
)

// Bits of a packet's flag byte.
const (
	packetUp     = 1 << 0 // the route still has a crossing towards the root of the tree of meshes
	packetTrace  = 1 << 1 // each chip on the route records the packet
	packetDetour = 1 << 2 // the route through the present mesh leads round a fault
	packetKnown  = 1 << 3 // the source has had an answer from every destination in this flow epoch
	packetOther  = 1 << 4 // the packet takes the other direction round rings, and belongs to a separate flow

	packetMembers = 1 << 5 // a multicast to a set of members, which follows tt-metal's header
	packetPosted  = 1 << 6 // the source wants no completion for this request

	packetFlags = packetUp | packetTrace | packetDetour | packetKnown | packetOther | packetMembers | packetPosted
)

// EpochMixed is the epoch of a packet whose route mixes several tables, or leads to silent cables.
const EpochMixed = 0

// Packet is the content of a fabric packet. In a decoded packet, Route and Payload share the
// decoded bytes.
type Packet struct {
	Type     PacketType
	VC       VC
	Plane    Plane
	TTL      uint16 // number of hops that the packet may still take (Spec §7.2)
	Src, Dst FabricNodeID
	Trace    bool // each chip on the route records the packet
	Up       bool // a crossing towards the root of the tree of meshes lies ahead; the packet uses upward virtual channels in the present mesh
	Detour   bool // the route through the present mesh leads round a fault; the packet uses detour virtual channels there
	Other    bool // the packet takes the other of two equally long routes round a ring, and belongs to a separate flow; for unicast only

	Lives            // requests and probes: the lives of the destination that may perform requests of FlowEpoch
	FlowEpoch uint32 // epoch of the packet's flow
	FlowSeq   uint32 // number of the packet in its flow epoch, from 0
	FlowBase  uint32 // lowest FlowSeq of a request whose fate the source does not know yet
	ID        uint64 // id of the request or probe, unique at its source; a reply has the id of its request
	Epoch     uint32 // table epoch of the tables that gave the packet its route, or EpochMixed

	Posted bool // requests: the source wants no completion

	Group   uint16  // requests, probes and completions: number of the multicast group at its source; 0: unicast
	Trunk   Trunk   // axis of a multicast's trunk; TrunkNone: unicast, or a multicast to Members of a mesh that the packet has not entered yet
	Ranges  Ranges  // multicast by ranges: the part of the tree that lies ahead of the packet
	Members Members // multicast to a set of chips of mesh Dst.Mesh: the chips ahead of the packet; empty: unicast, or multicast by ranges

	Command Command
	Hop     uint16 // index in Route of the next router's action
	Route   []byte // actions of the routers after the source, at most MaxHops; the last action delivers the packet; empty in decoded control packets, see [PacketView.AppendActions]
	Payload []byte // at most MaxPayload bytes, in control packets at most MaxControlData bytes
}

// ErrPacket is the error for bytes that are not a valid fabric packet.
var ErrPacket = errors.New("packet: malformed")

// HeaderLenFor returns the number of bytes before the payload in a packet without members whose
// route has n actions. If n is above [MaxHops], HeaderLenFor returns false.
func HeaderLenFor(n int) (int, bool) {
	for _, s := range routeSizes {
		if n <= s {
			return ExtensionLen + baseLen + meshTailLen + s, true
		}
	}
	return 0, false
}

// Len returns the length of the encoded packet in bytes, or 0 if the route or the payload is too
// long. For a control packet with an invalid action in its route, Len returns 0 too.
func (p *Packet) Len() int {
	if p.Type.Control() {
		if !p.controlFits() {
			return 0
		}
		return ControlLen
	}
	h, ok := HeaderLenFor(len(p.Route))
	if !ok || len(p.Payload) > MaxPayload {
		return 0
	}
	if p.Members.Any() {
		h += membersLen
	}
	return h + len(p.Payload)
}

// Append appends the encoded packet to b. Append panics if [Packet.Len] is 0.
func (p *Packet) Append(b []byte) []byte {
	n := p.Len()
	if n == 0 {
		panic("wire: packet cannot be expressed")
	}
	start := len(b)
	if cap(b)-start < n {
		b = append(b, make([]byte, n)...)
	} else {
		b = b[:start+n]
	}
	o := b[start:]
	if p.Type.Control() {
		p.putControl(o)
	} else {
		p.putData(o)
	}
	le := binary.LittleEndian
	o[poType] = byte(p.Type)
	o[poVC] = byte(p.VC) | byte(p.Plane)<<4
	le.PutUint16(o[poTTL:], p.TTL)
	le.PutUint16(o[poLength:], uint16(n))
	le.PutUint16(o[poSrcMesh:], uint16(p.Src.Mesh))
	le.PutUint16(o[poSrcChip:], uint16(p.Src.Chip))
	le.PutUint32(o[poEpoch:], p.Epoch)
	o[poFlags] = byte(bit(p.Up)*packetUp | bit(p.Trace)*packetTrace | bit(p.Detour)*packetDetour | bit(p.Known)*packetKnown | bit(p.Other)*packetOther |
		bit(p.Members.Any())*packetMembers | bit(p.Posted)*packetPosted)
	le.PutUint16(o[poGroup:], p.Group)
	return b
}

// putData writes into o the fields of p that a control packet lacks, or has at other offsets.
func (p *Packet) putData(o []byte) {
	head := len(o) - len(p.Payload)
	clear(o[:head])
	le := binary.LittleEndian
	metal := head // end of tt-metal's header
	if p.Members.Any() {
		metal -= membersLen
		p.Members.put(o[metal:])
	}
	size := metal - ExtensionLen - baseLen - meshTailLen
	o[poExtLen] = ExtensionLen
	o[poRouteSize] = byte(size)
	le.PutUint32(o[poFlowEpoch:], p.FlowEpoch)
	le.PutUint32(o[poFlowSeq:], p.FlowSeq)
	le.PutUint32(o[poFlowBase:], p.FlowBase)
	le.PutUint64(o[poID:], p.ID)
	p.Command.put(o[poCommand : poCommand+commandLen])
	le.PutUint16(o[poSize:], p.Command.Size)
	o[poSendType] = byte(p.Command.Type)
	le.PutUint16(o[poHop:], p.Hop)
	copy(o[poRoute:poRoute+size], p.Route)
	le.PutUint16(o[poRoute+size:], uint16(p.Dst.Chip))
	le.PutUint16(o[poRoute+size+2:], uint16(p.Dst.Mesh))
	if o[metal-1] = byte(p.Trunk); p.Trunk != TrunkNone {
		p.Ranges.put(o[metal-rangesEnd:])
	} else if p.Group == 0 {
		le.PutUint32(o[metal-rangesEnd:], uint32(p.Life))
	}
	copy(o[head:], p.Payload)
}

// DecodePacket decodes b, which must be exactly one packet. The error is [ErrPacket] or
// [ErrCommand].
func DecodePacket(b []byte) (Packet, error) {
	v, err := ViewPacket(b)
	if err != nil {
		return Packet{}, err
	}
	le := binary.LittleEndian
	p := Packet{
		Type: v.Type(), VC: v.VC(), Plane: v.Plane(), TTL: v.TTL(), Src: v.Src(), Dst: v.Dst(),
		Lives:   Lives{Known: v.Known()},
		Epoch:   v.Epoch(),
		Up:      v.Up(),
		Detour:  v.Detour(),
		Other:   v.Other(),
		Posted:  v.Posted(),
		Trace:   v.Traced(),
		Group:   v.Group(),
		Trunk:   v.Trunk(),
		Hop:     v.Hop(),
		Payload: b[v.headLen():][:v.PayloadLen()],
	}
	if v.control() {
		p.Command = Command{Type: NocNone, Size: uint16(len(p.Payload))}
		return p, nil
	}
	p.FlowEpoch, p.FlowSeq, p.FlowBase, p.ID = le.Uint32(b[poFlowEpoch:]), le.Uint32(b[poFlowSeq:]), le.Uint32(b[poFlowBase:]), v.ID()
	switch {
	case v.HasMembers():
		p.Members = v.Members()
	case p.Trunk != TrunkNone:
		p.Ranges = v.Ranges()
	case p.Type != PacketReply:
		p.Life = Life(le.Uint32(b[v.metalEnd()-rangesEnd:]))
	}
	route := b[poRoute : poRoute+int(b[poRouteSize])]
	for len(route) > 0 && route[len(route)-1] == 0 {
		route = route[:len(route)-1]
	}
	p.Route = route
	if p.Command, err = decodeCommand(NocSendType(b[poSendType]), le.Uint16(b[poSize:]), b[poCommand:poCommand+commandLen]); err != nil {
		return Packet{}, err
	}
	if p.Command.Type != NocRead && int(p.Command.Size) != len(p.Payload) {
		return Packet{}, ErrPacket
	}
	return p, nil
}

// PacketView is an encoded packet that a router reads and changes in place.
type PacketView []byte

// ViewPacket checks the fields of b that a router uses, such as lengths, types and addresses, and
// returns b as a view. The error is [ErrPacket].
func ViewPacket(b []byte) (PacketView, error) {
	v, err := ViewHead(b)
	if err != nil || int(binary.LittleEndian.Uint16(b[poLength:])) != len(b) || len(b)-v.headLen() > MaxPayload {
		return nil, ErrPacket
	}
	return v, nil
}

// ViewHead makes the checks of [ViewPacket] that concern the header, and returns b as a view. The
// payload in b may be incomplete, because b is the first piece of a packet. A control packet is always
// one piece. The error is [ErrPacket].
func ViewHead(b []byte) (PacketView, error) {
	if len(b) < ControlLen || len(b) > MaxPacket {
		return nil, ErrPacket
	}
	v := PacketView(b)
	if v.control() {
		if !v.controlOK() {
			return nil, ErrPacket
		}
	} else if len(b) < minPacketLen || !routeSizeKnown[b[poRouteSize]] || b[poExtLen] != ExtensionLen || v.headLen() > len(b) ||
		v.Type() < PacketRequest || v.Type() > PacketLinkState {
		return nil, ErrPacket
	}
	if v.VC() >= NumVCs || !v.Src().Valid() || !v.Dst().Valid() || binary.LittleEndian.Uint16(b[poFlags:])&^packetFlags != 0 || !v.groupOK() {
		return nil, ErrPacket
	}
	return v, nil
}

// metalEnd returns the offset of the end of tt-metal's header, which control packets do not have.
func (v PacketView) metalEnd() int {
	return ExtensionLen + baseLen + meshTailLen + int(v[poRouteSize])
}

// headLen returns the number of bytes before the payload.
func (v PacketView) headLen() int {
	switch {
	case v.control():
		return ControlHeadLen
	case v.HasMembers():
		return v.metalEnd() + membersLen
	}
	return v.metalEnd()
}

// Type returns the type of the packet.
func (v PacketView) Type() PacketType { return PacketType(v[poType]) }

// VC returns the packet's virtual channel.
func (v PacketView) VC() VC { return VC(v[poVC] & 0xF) }

// Plane returns the packet's routing plane.
func (v PacketView) Plane() Plane { return Plane(v[poVC] >> 4) }

// TTL returns the number of hops that the packet may still take.
func (v PacketView) TTL() uint16 { return binary.LittleEndian.Uint16(v[poTTL:]) }

// Src returns the chip that injected the packet.
func (v PacketView) Src() FabricNodeID {
	le := binary.LittleEndian
	return FabricNodeID{MeshID(le.Uint16(v[poSrcMesh:])), ChipID(le.Uint16(v[poSrcChip:]))}
}

// Dst returns the packet's destination. For a multicast by ranges, Dst is the source. For a
// multicast to a set of members, Dst is a chip of the members' mesh.
func (v PacketView) Dst() FabricNodeID {
	le := binary.LittleEndian
	o := coDst
	if !v.control() {
		o = poRoute + int(v[poRouteSize])
	}
	return FabricNodeID{MeshID(le.Uint16(v[o+2:])), ChipID(le.Uint16(v[o:]))}
}

// Flow returns the packet's flow epoch and flow seq, which control packets do not have.
func (v PacketView) Flow() (epoch, seq uint32) {
	if v.control() {
		return 0, 0
	}
	return binary.LittleEndian.Uint32(v[poFlowEpoch:]), binary.LittleEndian.Uint32(v[poFlowSeq:])
}

// ID returns the id of the request or probe, which is unique at its source. For a reply, ID returns
// the id of its request. Control packets have no id.
func (v PacketView) ID() uint64 {
	if v.control() {
		return 0
	}
	return binary.LittleEndian.Uint64(v[poID:])
}

// Hop returns the index in the route of the next router's action.
func (v PacketView) Hop() uint16 {
	if v.control() {
		return uint16(v[coHop])
	}
	return binary.LittleEndian.Uint16(v[poHop:])
}

// Up reports whether a crossing towards the root of the tree of meshes lies ahead of the packet.
func (v PacketView) Up() bool { return v[poFlags]&packetUp != 0 }

// Detour reports whether the packet's route through the present mesh leads round a fault.
func (v PacketView) Detour() bool { return v[poFlags]&packetDetour != 0 }

// Other reports whether the packet takes the other of two equally long routes round a ring.
func (v PacketView) Other() bool { return v[poFlags]&packetOther != 0 }

// Known reports whether the source has had an answer from every destination in the packet's flow
// epoch. A destination that does not know the epoch of such a packet has restarted.
func (v PacketView) Known() bool { return v[poFlags]&packetKnown != 0 }

// Epoch returns the table epoch of the tables that gave the packet its present route.
func (v PacketView) Epoch() uint32 { return binary.LittleEndian.Uint32(v[poEpoch:]) }

// SetEpoch overwrites the packet's table epoch with e.
func (v PacketView) SetEpoch(e uint32) { binary.LittleEndian.PutUint32(v[poEpoch:], e) }

// Extend sets the TTL to n if the TTL is below n.
func (v PacketView) Extend(n uint16) {
	if v.TTL() < n {
		binary.LittleEndian.PutUint16(v[poTTL:], n)
	}
}

// Traced reports whether each chip on the route records the packet.
func (v PacketView) Traced() bool { return v[poFlags]&packetTrace != 0 }

// SetVC overwrites the packet's virtual channel with c.
func (v PacketView) SetVC(c VC) { v[poVC] = v[poVC]&^0xF | byte(c) }

// Reroute gives the packet a new route, which begins at hop 0. The entry node of a mesh reroutes
// each packet from another mesh (Spec §2.2). The first of the actions is for the entry node. The
// parameters up and detour replace the packet's fields Up and Detour. If the route_buffer has no
// room for the actions, Reroute returns false and changes nothing.
func (v PacketView) Reroute(actions []byte, up, detour bool) bool {
	r := v[coRoute:][:controlRoute]
	most := MaxHops
	if !v.control() {
		r = v[poRoute:][:v[poRouteSize]]
		most = len(r)
	}
	if len(actions) > most {
		return false
	}
	clear(r)
	if v.control() {
		putActions(r, actions)
		v[poRouteSize], v[coHop] = controlSize(actions), 0
	} else {
		copy(r, actions)
		binary.LittleEndian.PutUint16(v[poHop:], 0)
	}
	v[poFlags] = v[poFlags]&^(packetUp|packetDetour) | byte(bit(up)*packetUp|bit(detour)*packetDetour)
	return true
}

// Action returns the action of the next router, or 0 if the hop index is past the end of the route.
func (v PacketView) Action() byte {
	h := int(v.Hop())
	switch {
	case h >= int(v.actions()):
		return 0
	case v.control():
		return v.controlAction(h)
	}
	return v[poRoute+h]
}

// Advance subtracts 1 from the TTL and adds 1 to the hop index. If the TTL is 0, Advance returns
// false and changes nothing. The hop index stops at the end of the route_buffer. If the hop index
// wrapped instead, routers would use the first actions again.
func (v PacketView) Advance() bool {
	le := binary.LittleEndian
	ttl := v.TTL()
	if ttl == 0 {
		return false
	}
	le.PutUint16(v[poTTL:], ttl-1)
	switch h := v.Hop(); {
	case h >= uint16(v.actions()):
	case v.control():
		v[coHop]++
	default:
		le.PutUint16(v[poHop:], h+1)
	}
	return true
}
