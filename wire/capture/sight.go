package capture

import (
	"ttfabric/wire"
)

// Sight is one datagram as it passed a port, with the facts that earlier datagrams tell about it.
type Sight struct {
	Port, Peer wire.PortID // port where the datagram was captured, and port at the other end of the cable
	Dir        Direction
	Data       []byte // the datagram, or its first bytes
	Length     int    // length of the whole datagram, in bytes
	Fault      bool   // a fault was injected into the datagram

	Frame         wire.Frame      // valid if IsFrame
	IsFrame       bool            // the datagram looks like a frame
	Head          wire.PacketView // header of the packet that the frame is a piece of; nil if unknown
	Retransmitted bool            // a data frame with this number or a later number was seen before
}

// Limits of the memory that one capture takes in a chip, in bytes of datagrams that wait to be
// read. If a datagram finds no room, the chip leaves the datagram out of the capture and counts it.
const (
	DefaultBuffer = 16 << 20 // default limit
	MaxBuffer     = 1 << 30
)

// MaxTracks is the largest number of directions of sessions that a [Tracker] follows. Beyond this
// limit, the Tracker forgets all of them.
const MaxTracks = 1024

// Tracker follows the frames of a capture. The zero value is ready for use.
type Tracker struct{ dirs map[trackKey]*track }

type trackKey struct {
	port    wire.PortID
	dir     Direction
	session wire.SessionID
	channel wire.Channel
}

// track is one direction of a session at one port.
type track struct {
	any     bool
	highest wire.Seq
	headSeq wire.Seq // number of the first piece of the packet of head
	dest    uint32   // destination address of the slot of the packet of head
	head    []byte   // header of the packet whose pieces are coming; empty: unknown
}

// maxHead is the longest header of a packet, in bytes.
const maxHead = wire.MaxPacket - wire.MaxPayload

// Look fills in the fields of s that follow from the datagram and from earlier datagrams.
func (t *Tracker) Look(s *Sight) {
	s.Head, s.Retransmitted = nil, false
	s.Frame, s.IsFrame = wire.PeekFrame(s.Data)
	if s.IsFrame = s.IsFrame && IsTTLink(s.Data) || s.IsFrame && len(s.Data) < s.Length && version(s.Data) == wire.Version; !s.IsFrame || s.Frame.Kind != wire.KindData {
		return
	}
	f := &s.Frame
	k := trackKey{s.Port, s.Dir, f.Session, f.Channel}
	x := t.dirs[k]
	if x == nil {
		if t.dirs == nil || len(t.dirs) >= MaxTracks {
			t.dirs = map[trackKey]*track{}
		}
		x = &track{}
		t.dirs[k] = x
	}
	if s.Retransmitted = x.any && !x.highest.Before(f.TxSeq); !s.Retransmitted {
		x.any, x.highest = true, f.TxSeq
	}
	x.follow(s)
}

// follow finds the header of the packet that a piece belongs to.
func (x *track) follow(s *Sight) {
	f := &s.Frame
	slot := f.Dest / wire.SlotStride
	if f.Dest%wire.SlotStride == 0 {
		x.head, x.headSeq, x.dest = x.head[:0], f.TxSeq, slot
		if v := wire.PacketView(f.Payload); v.HeadWhole() {
			x.head = append(x.head, v[:min(len(v), maxHead)]...)
		}
	} else if d := f.TxSeq.Sub(x.headSeq); slot != x.dest || d <= 0 || d > wire.MaxPacket/wire.PadUnit {
		return
	}
	if len(x.head) > 0 {
		s.Head = x.head
	}
}
