package capture

import (
	"ttfabric/wire"
)

// Sight is one datagram that passed a port, with its decoded frame. [Tracker.Look] fills in the
// fields that depend on earlier datagrams.
type Sight struct {
	Port, Peer wire.PortID // the port where the datagram was captured, and the port at the other end of the cable
	Dir        Direction
	Data       []byte // the captured bytes of the datagram, from its first byte on
	Length     int    // length of the whole datagram, in bytes
	Fault      bool   // an injected fault has affected the datagram

	Frame         wire.Frame      // the decoded frame; valid if IsFrame
	IsFrame       bool            // the datagram has the magic, the version and a kind of TT-link; if the capture cut the datagram off, the kind does not matter
	Head          wire.PacketView // header of the packet that has the frame as a piece; nil: unknown
	Retransmitted bool            // data frame or write: a frame of the session with the same number or a later number has passed before
}

// Limits of a capture's buffer in a chip, in bytes. The buffer holds the captured datagrams that
// nobody has read yet. If the buffer is full, the chip leaves further datagrams out of the capture,
// and counts them.
const (
	DefaultBuffer = 16 << 20 // default size of the buffer
	MaxBuffer     = 1 << 30  // largest size of the buffer
)

// MaxTracks is the largest number of streams that a [Tracker] follows. A stream is one direction of
// one session at one port. When one more stream appears, the Tracker discards its data about all
// streams.
const MaxTracks = 1024

// Tracker follows the data frames and writes of a capture, to find retransmissions and the headers
// of packets. The zero value is ready for use.
type Tracker struct{ dirs map[trackKey]*track }

type trackKey struct {
	port    wire.PortID
	dir     Direction
	session wire.SessionID
	channel wire.Channel
}

// track holds what a Tracker knows about one direction of a session at one port.
type track struct {
	any     bool
	highest wire.Seq
	headSeq wire.Seq // sequence number of the first piece of the packet that head belongs to
	dest    uint32   // slot of the packet that head belongs to
	head    []byte   // header of the last packet whose first piece has passed; empty: unknown
}

// maxHead is the length of a packet's longest header with the extension, in bytes.
const maxHead = wire.MaxPacket - wire.MaxPayload

// Look sets the fields Frame, IsFrame, Head and Retransmitted of s, from the datagram and from
// earlier datagrams.
func (t *Tracker) Look(s *Sight) {
	s.Head, s.Retransmitted = nil, false
	s.Frame, s.IsFrame = wire.PeekFrame(s.Data)
	if s.IsFrame = s.IsFrame && IsTTLink(s.Data) || s.IsFrame && len(s.Data) < s.Length && version(s.Data) == wire.Version; !s.IsFrame || !s.Frame.Kind.Numbered() {
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
	if s.Frame.Kind == wire.KindData {
		x.follow(s)
	}
}

// follow sets s.Head to the header of the packet that the data frame s is a piece of, if the header
// is known.
func (x *track) follow(s *Sight) {
	f := &s.Frame
	slot, offset := f.Slot()
	if offset == 0 {
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
