package capture

import (
	"ttfabric/wire"
)

// Sight is one datagram as it passed a port, with what earlier datagrams tell about it.
type Sight struct {
	Port, Peer wire.PortID // where it was captured, and the other end of that port's cable
	Dir        Direction
	Data       []byte // the datagram, or its first bytes
	Length     int    // bytes of the whole
	Fault      bool   // a fault was injected into it

	Frame         wire.Frame      // valid if IsFrame
	IsFrame       bool            // it looks like a frame
	Head          wire.PacketView // header of the packet that the frame is a piece of; nil if unknown
	Retransmitted bool            // a data frame of this or a later number was seen before
}

// Limits of the memory that one capture takes in a chip, in bytes of datagrams
// that wait to be read. The chip drops from the capture the datagrams that find no room, and counts them.
const (
	DefaultBuffer = 16 << 20 // where nobody says otherwise
	MaxBuffer     = 1 << 30
)

// MaxTracks is how many directions of sessions a [Tracker] follows. Beyond the limit the Tracker
// forgets all of them.
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
	dest    uint32   // slot of that packet
	head    []byte   // header of the packet whose pieces are coming; empty: unknown
}

// maxHead is the longest header of a packet, in bytes.
const maxHead = wire.MaxPacket - wire.MaxPayload

// Look fills in the fields that follow from the datagram and from those before it.
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
