package firmware

import (
	"bytes"
	"encoding/binary"

	"ttfabric/wire"
	"ttfabric/wire/castagnoli"
	"ttfabric/wire/mono"
)

// class is the class of a message. Requests and responses have internal buffers of their own, so that
// responses never wait for requests.
type class uint8

const (
	requests class = iota
	responses
	numClasses
)

// message is a part of a request, or the answer to a part, at one hop.
type message struct {
	class    class
	down     bool   // the message has taken a cable away from the root of the routes, see routes.go
	hops     uint16 // cables that the message has taken since its last pause
	origin   wire.FabricNodeID
	originCh wire.Channel // tile whose host asked
	target   wire.FabricNodeID
	id, part uint32 // request of the origin tile, and part of the request
	addr     wire.NocAddr
	flags    Flags
	want     uint16 // bytes that a read wants
	reason   Reason // of a response: 0, or why the part failed
	data     []byte // data of a write or of a read's response; the owner never changes the bytes

	age    uint32    // in the message's header: time for which the message has waited at all tiles so far, in milliseconds
	at     mono.Time // instant at which the message began to wait on this chip, minus its waiting time on earlier chips; 0: the message has not waited yet
	placed int       // of a message in an out queue: how much of it the link has, see cable.go
	sent   bool      // of a message in an out queue: the link has had all of it in this session, so its number is taken
	table  uint32    // of a message in an out queue: number of the routes by which it came there
	hold   mono.Time // end of the pause of a message that went round in a circle; 0: none
}

// reply returns the answer to a request.
func (m *message) reply(why Reason, data []byte) message {
	return message{class: responses, origin: m.origin, originCh: m.originCh, target: m.target, id: m.id, part: m.part, flags: m.flags, reason: why, data: data}
}

// late reports whether the message has waited for so long that its origin has given the request up.
func (m *message) late(now mono.Time) bool { return !now.Before(m.at.Add(AnswerTimeout)) }

// write reports whether the message belongs to a write request.
func (m *message) write() bool { return m.flags&WrReq != 0 }

// goal returns the chip to which the message goes.
func (m *message) goal() wire.FabricNodeID {
	if m.class == responses {
		return m.origin
	}
	return m.target
}

// Data of at most shortLen bytes travel in the message's header, from offset shortAt on.
const (
	shortAt  = 56
	shortLen = headerSize - shortAt
)

// long returns the length of the data that do not travel in the message's header.
func (m *message) long() int {
	if len(m.data) <= shortLen {
		return 0
	}
	return len(m.data)
}

// encode writes the message's header into the first [headerSize] bytes of b. The number is the message's
// number on its cable.
func (m *message) encode(b []byte, number uint32) {
	le := binary.LittleEndian
	clear(b[:headerSize])
	le.PutUint32(b[4:], number)
	b[8] = byte(m.class)
	if m.down {
		b[9] = 1
	}
	le.PutUint16(b[10:], m.hops)
	le.PutUint16(b[12:], uint16(m.origin.Mesh))
	le.PutUint16(b[14:], uint16(m.origin.Chip))
	le.PutUint16(b[16:], uint16(m.target.Mesh))
	le.PutUint16(b[18:], uint16(m.target.Chip))
	b[20], b[21] = byte(m.originCh), byte(m.reason)
	le.PutUint16(b[22:], uint16(len(m.data)))
	le.PutUint32(b[24:], m.id)
	le.PutUint32(b[28:], m.part)
	le.PutUint64(b[32:], uint64(m.addr))
	le.PutUint32(b[40:], uint32(m.flags))
	le.PutUint16(b[44:], m.want)
	le.PutUint32(b[48:], castagnoli.Checksum(m.data))
	le.PutUint32(b[52:], m.age)
	if m.long() == 0 {
		copy(b[shortAt:headerSize], m.data)
	}
	le.PutUint32(b, castagnoli.Checksum(b[4:headerSize]))
}

// decode returns the message that a header describes, the message's number, and the length n and the
// checksum of its data. If the data are not in the header, the caller must read them from the buffer.
// decode returns false for a header that no firmware wrote.
func decode(b []byte) (m message, number uint32, n int, sum uint32, ok bool) {
	le := binary.LittleEndian
	m = message{class: class(b[8]), down: b[9] != 0, hops: le.Uint16(b[10:]),
		origin:   wire.FabricNodeID{Mesh: wire.MeshID(le.Uint16(b[12:])), Chip: wire.ChipID(le.Uint16(b[14:]))},
		target:   wire.FabricNodeID{Mesh: wire.MeshID(le.Uint16(b[16:])), Chip: wire.ChipID(le.Uint16(b[18:]))},
		originCh: wire.Channel(b[20]), reason: Reason(b[21]), id: le.Uint32(b[24:]), part: le.Uint32(b[28:]),
		addr: wire.NocAddr(le.Uint64(b[32:])), flags: Flags(le.Uint32(b[40:])), want: le.Uint16(b[44:]), age: le.Uint32(b[52:])}
	number, n, sum = le.Uint32(b[4:]), int(le.Uint16(b[22:])), le.Uint32(b[48:])
	if n > 0 && n <= shortLen {
		m.data = bytes.Clone(b[shortAt : shortAt+n])
	}
	ok = le.Uint32(b) == castagnoli.Checksum(b[4:headerSize]) && m.class < numClasses && m.originCh < wire.MaxChannels && n <= BlockSize &&
		m.want <= BlockSize && m.reason < numReasons && m.flags&^requestFlags == 0 && m.origin.Valid() && m.target.Valid()
	return m, number, n, sum, ok
}
