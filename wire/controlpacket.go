package wire

import (
	"encoding/binary"
	"math/bits"
)

// Sizes of a control packet, in bytes. Control packets are small and have one size (Spec §2.3.2).
// The sizes are our own choices.
const (
	ControlLen     = 96                                // length of every control packet
	ControlHeadLen = 44                                // length of the header
	MaxControlData = ControlLen - ControlHeadLen       // largest payload: 52
	controlRoute   = (MaxHops + perByte - 1) / perByte // length of the route: 17
	perByte        = 4                                 // actions in one byte of the route
)

// controlTypes has a bit for each type of control packet.
const controlTypes uint64 = 1<<PacketCompletion | 1<<PacketDropReport | 1<<PacketLinkState

// Control reports whether packets of type t are control packets, which have the short header.
func (t PacketType) Control() bool { return controlTypes>>t&1 != 0 }

// controlFlags has the bits of the flag byte that a control packet may have.
const controlFlags = packetUp | packetTrace | packetDetour | packetOther

// Offsets within a control packet. The fields before the route, and the fields from the table epoch
// to the group, have the offsets of the other packets.
const (
	coRoute = 12 // two bits for each action: the number of the direction
	coHop   = 29
	coSize  = 30 // length of the payload; a reserved byte follows
	coDst   = 40 // chip, then mesh
)

// control reports whether v is a control packet.
func (v PacketView) control() bool { return PacketType(v[poType]).Control() }

// controlFits reports whether the route and the payload of p fit a control packet.
func (p *Packet) controlFits() bool {
	for i, a := range p.Route {
		if bits.OnesCount8(a) != 1 || a > RouteZ || a == RouteZ && i < len(p.Route)-1 {
			return false
		}
	}
	return len(p.Route) <= MaxHops && len(p.Payload) <= MaxControlData && int(p.Hop) <= len(p.Route)
}

// putControl writes the control packet p into o, which has [ControlLen] bytes.
func (p *Packet) putControl(o []byte) {
	clear(o)
	le := binary.LittleEndian
	o[poExtLen], o[poRouteSize] = ControlHeadLen, controlSize(p.Route)
	putActions(o[coRoute:], p.Route)
	o[coHop], o[coSize] = byte(p.Hop), byte(len(p.Payload))
	le.PutUint16(o[coDst:], uint16(p.Dst.Chip))
	le.PutUint16(o[coDst+2:], uint16(p.Dst.Mesh))
	copy(o[ControlHeadLen:], p.Payload)
}

// lastZ is the bit of the number of actions that says that the last action names direction Z. Two
// bits cannot name a fifth direction. Only the last action can name Z, because a cable in direction
// Z leads to another mesh.
const lastZ = 0x80

// controlSize returns the number of actions with the bit lastZ.
func controlSize(actions []byte) byte {
	n := byte(len(actions))
	if n > 0 && actions[n-1] == RouteZ {
		n |= lastZ
	}
	return n
}

// actions returns the number of actions in the route, or the length of the route_buffer.
func (v PacketView) actions() byte {
	if v.control() {
		return v[poRouteSize] &^ lastZ
	}
	return v[poRouteSize]
}

// putActions writes actions into the route of a control packet, which is zero. An action that names
// direction Z leaves its bits at 0, see lastZ.
func putActions(b, actions []byte) {
	for i, a := range actions {
		if a == RouteZ {
			continue
		}
		b[i/perByte] |= byte(bits.TrailingZeros8(a)) << (i % perByte * 2)
	}
}

// controlOK checks the fields of a control packet that a router uses.
func (v PacketView) controlOK() bool {
	return len(v) == ControlLen && v[poExtLen] == ControlHeadLen && v.actions() <= MaxHops && v[coHop] <= v.actions() && v[poRouteSize] != lastZ &&
		v[coSize] <= MaxControlData && v[coSize+1] == 0 && v[poFlags]&^controlFlags == 0 && v.VC().Class() == ClassControl
}

// controlAction returns action h of a control packet.
func (v PacketView) controlAction(h int) byte {
	if v[poRouteSize]&lastZ != 0 && h == int(v.actions())-1 {
		return RouteZ
	}
	return 1 << (v[coRoute+h/perByte] >> (h % perByte * 2) & 3)
}

// AppendActions appends the actions of the packet's route to b. The actions of packets other than
// control packets end with zeros, up to the length of the route_buffer.
func (v PacketView) AppendActions(b []byte) []byte {
	if !v.control() {
		return append(b, v[poRoute:poRoute+int(v[poRouteSize])]...)
	}
	for h := range int(v.actions()) {
		b = append(b, v.controlAction(h))
	}
	return b
}
