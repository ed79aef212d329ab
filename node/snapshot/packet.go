package snapshot

import (
	"errors"
	"fmt"

	"ttfabric/wire"
)

// Packet is a packet that waits in a channel, or that is under way.
type Packet struct {
	Type    string            `json:"type"`              // request, probe, reply, completion, drop or linkstate
	Src     wire.FabricNodeID `json:"src"`               // source
	Dst     wire.FabricNodeID `json:"dst"`               // destination; of a multicast by ranges, the source; of a multicast to members, one of the members
	ID      Hex64             `json:"id"`                // id of the request; 0 for control packets
	Seq     uint32            `json:"seq"`               // number of the request in its flow; 0 for control packets
	TTL     uint16            `json:"ttl"`               // hops that the packet may still make
	Bytes   int               `json:"bytes"`             // length of the packet with its payload
	Age     int64             `json:"age_ms"`            // time since the packet entered its channel, in milliseconds; 0 in flight
	Parts   uint8             `json:"parts"`             // of a multicast at the front of its channel: the copies that still have to leave, a bit for each direction, and a bit for this chip; 0: all copies
	Head    []byte            `json:"head"`              // all bytes before the payload; of a control packet, all bytes; see package wire
	Payload []byte            `json:"payload,omitempty"` // payload; only on demand; a control packet has no payload
}

// PacketOf returns the packet with the bytes b. The bytes must be one valid packet. If "payload" is
// false, or if b is a control packet, the result has no payload. Head holds all bytes of a control
// packet.
func PacketOf(b []byte, payload bool) Packet {
	v := wire.PacketView(b)
	_, seq := v.Flow()
	n := len(b) - v.PayloadLen()
	if v.Type().Control() {
		n, payload = len(b), false // a control packet is short
	}
	p := Packet{Type: v.Type().String(), Src: v.Src(), Dst: v.Dst(), ID: Hex64(v.ID()), Seq: seq, TTL: v.TTL(), Bytes: len(b), Head: append([]byte(nil), b[:n]...)}
	if payload {
		p.Payload = append([]byte(nil), b[n:]...)
	}
	return p
}

// Raw returns the bytes of the packet. If the packet was written without its payload, the payload is
// zeros. Raw returns an error if the bytes are no packet, or if another field of p contradicts them.
func (p *Packet) Raw() ([]byte, error) {
	if p.Bytes < 0 || p.Bytes > wire.MaxPacket || len(p.Head) > p.Bytes {
		return nil, fmt.Errorf("bytes: %d with a head of %d bytes: want at least the head, and at most %d", p.Bytes, len(p.Head), wire.MaxPacket)
	}
	if len(p.Payload) > 0 && len(p.Payload) != p.Bytes-len(p.Head) {
		return nil, fmt.Errorf("payload: %d bytes, but head and bytes leave %d", len(p.Payload), p.Bytes-len(p.Head))
	}
	b := make([]byte, p.Bytes)
	copy(b[copy(b, p.Head):], p.Payload)
	v, err := wire.ViewPacket(b)
	if err != nil {
		return nil, fmt.Errorf("head: %w", err)
	}
	q := PacketOf(b, len(p.Payload) > 0)
	switch {
	case len(q.Head) != len(p.Head):
		return nil, fmt.Errorf("head: %d bytes, but the headers of this packet have %d", len(p.Head), len(q.Head))
	case q.Type != p.Type:
		return nil, fmt.Errorf("type: %q, but the head says %q", p.Type, q.Type)
	case q.Src != p.Src:
		return nil, fmt.Errorf("src: %s, but the head says %s", p.Src, q.Src)
	case q.Dst != p.Dst:
		return nil, fmt.Errorf("dst: %s, but the head says %s", p.Dst, q.Dst)
	case q.ID != p.ID:
		return nil, fmt.Errorf("id: %016x, but the head says %016x", uint64(p.ID), uint64(q.ID))
	case q.Seq != p.Seq:
		return nil, fmt.Errorf("seq: %d, but the head says %d", p.Seq, q.Seq)
	case q.TTL != p.TTL:
		return nil, fmt.Errorf("ttl: %d, but the head says %d", p.TTL, q.TTL)
	case p.Age < 0:
		return nil, errors.New("age_ms: below 0")
	case p.Parts != 0 && v.Trunk() == wire.TrunkNone:
		return nil, errors.New("parts: only a multicast has parts")
	case p.Parts > MaxParts:
		return nil, fmt.Errorf("parts: %d: want at most %d", p.Parts, MaxParts)
	}
	return b, nil
}

// MaxParts is the largest value of Parts of a [Packet]: a bit for each direction, and a bit for the
// chip itself.
const MaxParts = wire.PartHere<<1 - 1
