package wire

import (
	"encoding/binary"
	"errors"
)

// Sizes of a fabric packet's parts, in bytes.
const (
	ExtensionLen = 40   // length of our own fields, which come before tt-metal's header
	MaxPayload   = 4096 // largest payload of one packet, in bytes
	MaxHops      = 67   // longest source route: the largest route_buffer of tt-metal's HybridMeshPacketHeader
	MaxPacket    = ExtensionLen + 128 + MaxPayload

	baseLen      = 44 // tt-metal's base header: command union, size, send type, source channel
	meshTailLen  = 17 // the 2D header's fields except the route: 4 bytes before it, 13 behind it
	minPacketLen = ExtensionLen + 80
)

// routeSizes lists the lengths of route_buffer for which tt-metal builds headers. The whole headers
// have 80, 96, 112 and 128 bytes (HybridMeshPacketHeaderT).
var (
	routeSizes     = [4]int{19, 35, 51, 67}
	routeSizeKnown = [256]bool{19: true, 35: true, 51: true, 67: true}
)

// PacketType says which layer of the chip a packet is for.
type PacketType uint8

// The types of packet.
const (
	PacketRequest    PacketType = 1 // a NoC command for the destination
	PacketReply      PacketType = 2 // data of a read; the field ID is the id of the request
	PacketCompletion PacketType = 3 // payload: Completion
	PacketDropReport PacketType = 4 // payload: DropReport
	PacketProbe      PacketType = 5 // a request that only asks for a completion
	PacketLinkState  PacketType = 6 // payload: LinkStates; only for a neighbour
)

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
	poFlags     = 36           // bits, see packetUp and the next ones; a reserved byte follows
	poGroup     = 38           // multicast group, 0 for unicast
	poCommand   = ExtensionLen // union NocCommandFields
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
	packetUp     = 1 << 0 // a crossing towards the root remains
	packetTrace  = 1 << 1 // each chip that the packet passes notes it
	packetDetour = 1 << 2 // the route through this mesh leads round a fault
	packetKnown  = 1 << 3 // all destinations have answered in this flow epoch
	packetOther  = 1 << 4 // the other direction round rings; the packet belongs to a separate flow

	packetFlags = packetUp | packetTrace | packetDetour | packetKnown | packetOther
)

// Route action of one hop: tt-metal's 2D encoding. One byte per hop has one of its low four bits
// set, by direction (fabric_common.h). The direction that a packet came from means: deliver here.
// An action of 0 is a no-op.
const (
	RouteEast  = 1
	RouteWest  = 2
	RouteNorth = 4
	RouteSouth = 8
)

// RouteBit returns the action byte that forwards in direction d.
func RouteBit(d Direction) byte { return 1 << d }

// Packet is a fabric packet's content. In a decoded packet, Route and Payload are views into the
// decoded bytes.
type Packet struct {
	Type     PacketType
	VC       VC
	Plane    Plane
	TTL      uint16 // hops that the packet may still take (Spec §7.2)
	Src, Dst FabricNodeID
	Trace    bool // each chip on the route notes the packet
	Up       bool // a crossing towards the root of the tree of meshes lies ahead; decides which virtual channels the packet uses until the next mesh
	Detour   bool // the route through this mesh leads round a fault; also decides the virtual channels
	Other    bool // takes the other of two equally long routes round a ring, in a flow of its own; for unicast only

	Known     bool   // for requests and probes: all destinations have answered in this flow epoch. A destination that does not know the epoch has restarted
	FlowEpoch uint32 // flow epoch of the flow from Src to Dst on Plane; packets with Other have a flow of their own
	FlowSeq   uint32 // number of this packet in the flow, from 0
	FlowBase  uint32 // lowest number whose fate the source doesn't know yet
	ID        uint64 // id of the request, unique at its source
	Epoch     uint32 // hash of the routing tables that the source used

	Group  uint16 // number of the multicast group at its source; 0: unicast. For requests, probes and completions
	Trunk  Trunk  // axis of a multicast's trunk; TrunkNone: unicast
	Ranges Ranges // chips ahead of a multicast

	Command Command
	Hop     uint16 // index into Route of the next router's action
	Route   []byte // actions of the routers after the source, the last one delivers; at most MaxHops
	Payload []byte // at most MaxPayload bytes
}

// ErrPacket is returned for bytes that are not a fabric packet.
var ErrPacket = errors.New("packet: malformed")

// HeaderLenFor returns the number of bytes before the payload of a packet with a route of n hops.
// If no header has room for the route, HeaderLenFor returns false.
func HeaderLenFor(n int) (int, bool) {
	for _, s := range routeSizes {
		if n <= s {
			return ExtensionLen + baseLen + meshTailLen + s, true
		}
	}
	return 0, false
}

// Len returns the packet's length on the wire in bytes, or 0 if its route or payload is too long.
func (p *Packet) Len() int {
	h, ok := HeaderLenFor(len(p.Route))
	if !ok || len(p.Payload) > MaxPayload {
		return 0
	}
	return h + len(p.Payload)
}

// Append appends the packet. The caller checks [Packet.Len] first. If Len is 0, Append panics.
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
	head := n - len(p.Payload)
	clear(o[:head])
	le := binary.LittleEndian
	size := head - ExtensionLen - baseLen - meshTailLen
	o[poType] = byte(p.Type)
	o[poVC] = byte(p.VC) | byte(p.Plane)<<4
	le.PutUint16(o[poTTL:], p.TTL)
	le.PutUint16(o[poLength:], uint16(n))
	o[poExtLen] = ExtensionLen
	o[poRouteSize] = byte(size)
	le.PutUint16(o[poSrcMesh:], uint16(p.Src.Mesh))
	le.PutUint16(o[poSrcChip:], uint16(p.Src.Chip))
	le.PutUint32(o[poFlowEpoch:], p.FlowEpoch)
	le.PutUint32(o[poFlowSeq:], p.FlowSeq)
	le.PutUint32(o[poFlowBase:], p.FlowBase)
	le.PutUint64(o[poID:], p.ID)
	le.PutUint32(o[poEpoch:], p.Epoch)
	o[poFlags] = byte(bit(p.Up)*packetUp | bit(p.Trace)*packetTrace | bit(p.Detour)*packetDetour | bit(p.Known)*packetKnown | bit(p.Other)*packetOther)
	le.PutUint16(o[poGroup:], p.Group)
	p.Command.put(o[poCommand : poCommand+commandLen])
	le.PutUint16(o[poSize:], p.Command.Size)
	o[poSendType] = byte(p.Command.Type)
	le.PutUint16(o[poHop:], p.Hop)
	copy(o[poRoute:poRoute+size], p.Route)
	le.PutUint16(o[poRoute+size:], uint16(p.Dst.Chip))
	le.PutUint16(o[poRoute+size+2:], uint16(p.Dst.Mesh))
	if o[head-1] = byte(p.Trunk); p.Trunk != TrunkNone {
		p.Ranges.put(o[head-rangesEnd:])
	}
	copy(o[head:], p.Payload)
	return b
}

// DecodePacket reads the one packet that b holds. The error is [ErrPacket] or [ErrCommand].
func DecodePacket(b []byte) (Packet, error) {
	v, err := ViewPacket(b)
	if err != nil {
		return Packet{}, err
	}
	le := binary.LittleEndian
	p := Packet{
		Type: v.Type(), VC: v.VC(), Plane: v.Plane(), TTL: v.TTL(), Src: v.Src(), Dst: v.Dst(),
		Known:     v.Known(),
		FlowEpoch: le.Uint32(b[poFlowEpoch:]),
		FlowSeq:   le.Uint32(b[poFlowSeq:]),
		FlowBase:  le.Uint32(b[poFlowBase:]),
		ID:        le.Uint64(b[poID:]),
		Epoch:     le.Uint32(b[poEpoch:]),
		Up:        v.Up(),
		Detour:    v.Detour(),
		Other:     v.Other(),
		Trace:     v.Traced(),
		Group:     v.Group(),
		Trunk:     v.Trunk(),
		Hop:       v.Hop(),
		Payload:   b[v.headLen():],
	}
	if p.Trunk != TrunkNone {
		p.Ranges = v.Ranges()
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

// ViewPacket checks the fields that a router relies on: lengths, types, addresses. The error is
// [ErrPacket].
func ViewPacket(b []byte) (PacketView, error) {
	if len(b) < minPacketLen || len(b) > MaxPacket {
		return nil, ErrPacket
	}
	v := PacketView(b)
	le := binary.LittleEndian
	if !routeSizeKnown[b[poRouteSize]] || b[poExtLen] != ExtensionLen || int(le.Uint16(b[poLength:])) != len(b) || v.headLen() > len(b) ||
		v.Type() < PacketRequest || v.Type() > PacketLinkState || v.VC() >= NumVCs || !v.Src().Valid() || !v.Dst().Valid() ||
		le.Uint16(b[poFlags:])&^packetFlags != 0 || len(b)-v.headLen() > MaxPayload || !v.groupOK() {
		return nil, ErrPacket
	}
	return v, nil
}

func (v PacketView) headLen() int {
	return ExtensionLen + baseLen + meshTailLen + int(v[poRouteSize])
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

// Dst returns the chip that the packet is for.
func (v PacketView) Dst() FabricNodeID {
	le := binary.LittleEndian
	o := poRoute + int(v[poRouteSize])
	return FabricNodeID{MeshID(le.Uint16(v[o+2:])), ChipID(le.Uint16(v[o:]))}
}

// Flow returns the flow epoch and the packet's number in the flow.
func (v PacketView) Flow() (epoch, seq uint32) {
	return binary.LittleEndian.Uint32(v[poFlowEpoch:]), binary.LittleEndian.Uint32(v[poFlowSeq:])
}

// ID returns the request's number at its source.
func (v PacketView) ID() uint64 { return binary.LittleEndian.Uint64(v[poID:]) }

// Hop returns the index of the next router's action.
func (v PacketView) Hop() uint16 { return binary.LittleEndian.Uint16(v[poHop:]) }

// Up reports whether a crossing towards the root of the tree of meshes lies ahead of the packet.
func (v PacketView) Up() bool { return v[poFlags]&packetUp != 0 }

// Detour reports whether the packet's route through this mesh leads round a fault.
func (v PacketView) Detour() bool { return v[poFlags]&packetDetour != 0 }

// Other reports whether the packet takes the other direction round rings when both directions are
// equally long.
func (v PacketView) Other() bool { return v[poFlags]&packetOther != 0 }

// Known reports whether all destinations have answered in the packet's flow epoch. If so, a
// destination that does not know the epoch has restarted.
func (v PacketView) Known() bool { return v[poFlags]&packetKnown != 0 }

// Epoch returns the table epoch: the hash of the tables by which the packet was last routed.
func (v PacketView) Epoch() uint32 { return binary.LittleEndian.Uint32(v[poEpoch:]) }

// SetEpoch writes the table epoch of the tables that gave the packet its new route.
func (v PacketView) SetEpoch(e uint32) { binary.LittleEndian.PutUint32(v[poEpoch:], e) }

// Extend raises the TTL to at least n.
func (v PacketView) Extend(n uint16) {
	if v.TTL() < n {
		binary.LittleEndian.PutUint16(v[poTTL:], n)
	}
}

// Traced reports whether each chip on the route notes the packet.
func (v PacketView) Traced() bool { return v[poFlags]&packetTrace != 0 }

// SetVC moves the packet to another virtual channel.
func (v PacketView) SetVC(c VC) { v[poVC] = v[poVC]&^0xF | byte(c) }

// Reroute gives the packet a new source route, as the entry node of a mesh does (Spec §2.2). The
// parameter actions holds the actions of the routers from this router on. If the header has no room
// for these actions, Reroute reports false and changes nothing.
func (v PacketView) Reroute(actions []byte, up, detour bool) bool {
	r := v[poRoute:][:v[poRouteSize]]
	if len(actions) > len(r) {
		return false
	}
	clear(r[copy(r, actions):])
	v[poFlags] = v[poFlags]&^(packetUp|packetDetour) | byte(bit(up)*packetUp|bit(detour)*packetDetour)
	binary.LittleEndian.PutUint16(v[poHop:], 0)
	return true
}

// Action returns the route byte of the next router, or 0 past the route's end.
func (v PacketView) Action() byte {
	if h := int(v.Hop()); h < int(v[poRouteSize]) {
		return v[poRoute+h]
	}
	return 0
}

// Advance consumes the action of this router and one hop of the TTL. If the TTL is used up, Advance
// reports false and changes nothing. At the route's end the hop index stops, so that it never wraps
// round to an action that was already consumed.
func (v PacketView) Advance() bool {
	le := binary.LittleEndian
	ttl := v.TTL()
	if ttl == 0 {
		return false
	}
	le.PutUint16(v[poTTL:], ttl-1)
	if h := v.Hop(); h < uint16(v[poRouteSize]) {
		le.PutUint16(v[poHop:], h+1)
	}
	return true
}

// AppendRoute appends the route bytes of a path given by its directions. The source leaves by the
// first direction, which is not encoded. Each following router forwards by the next direction. The
// last byte names the side that the packet comes in by, which means deliver (tt-metal,
// encode_2d_unicast).
func AppendRoute(b []byte, path []Direction) []byte {
	if len(path) == 0 {
		return b
	}
	for _, d := range path[1:] {
		b = append(b, RouteBit(d))
	}
	return append(b, RouteBit(path[len(path)-1].Opposite()))
}
