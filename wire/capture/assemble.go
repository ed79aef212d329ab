package capture

import (
	"github.com/google/gopacket"

	"ttfabric/wire"
)

// Limits of a [Decoder].
const (
	// MaxPieces limits the pieces of incomplete packets that a decoder keeps for one direction of a
	// session. The decoder discards a piece when MaxPieces later pieces of the direction have come.
	// MaxPieces is the size of a link's largest window, in frames.
	MaxPieces = 4096
	// MaxDirections is the largest number of directions of sessions that a decoder follows. When
	// one more direction appears, the decoder discards the pieces of all directions.
	MaxDirections = 1 << 14
)

// Decoder decodes the datagrams of a capture, and assembles packets from several frames. The zero
// value is ready for use.
type Decoder struct {
	dirs map[direction]*assembly
}

// direction identifies the frames of a session in one direction, captured at one interface.
type direction struct {
	from    string
	session wire.SessionID
	channel wire.Channel
}

// assembly holds the pieces of one direction of a session.
type assembly struct {
	pieces map[wire.Seq]piece // pieces of incomplete packets, by sequence number
	order  []wire.Seq         // sequence numbers of the pieces in the order of arrival, including pieces that are no longer in the map
	done   map[wire.Seq]bool  // sequence numbers of the last MaxPieces pieces of complete packets
	ended  []wire.Seq         // sequence numbers in done, in the order of completion
}

type piece struct {
	offset int
	end    bool
	data   []byte
}

// Datagram decodes a UDP payload into layers, in the order of the bytes. The parameter "from" is a
// text that names the interface where the datagram was captured, the addresses and the ports.
// Datagram assembles a packet only from pieces with equal values of "from".
func (d *Decoder) Datagram(from string, payload []byte) []gopacket.Layer {
	return d.datagram(&from, payload)
}

// datagram decodes a UDP payload into layers. If the parameter "from" is nil, datagram assembles no
// packets from several pieces.
func (d *Decoder) datagram(from *string, b []byte) (out []gopacket.Layer) {
	for len(b) > 0 {
		t := &TTLink{}
		_ = t.DecodeFromBytes(b, gopacket.NilDecodeFeedback) // DecodeFromBytes never returns an error
		out = append(out, t)
		b = b[t.Len():]
		var p *Fabric
		switch {
		case t.holdsPacket():
			p = &Fabric{}
			_ = p.DecodeFromBytes(t.Frame.Payload, gopacket.NilDecodeFeedback)
		case t.Fault == nil && t.Frame.Kind == wire.KindData && from != nil:
			if p = d.add(*from, t); p == nil && t.startsPacket() {
				p = partial(t.Frame.Payload)
			}
		case t.startsPacket():
			p = partial(t.Frame.Payload)
		}
		if p != nil {
			out = append(out, p)
		}
	}
	return out
}

// add adds the piece in a data frame. If the piece completes a packet, add returns the packet, and
// otherwise nil.
func (d *Decoder) add(from string, t *TTLink) *Fabric {
	k := direction{from, t.Frame.Session, t.Frame.Channel}
	a := d.dirs[k]
	if a == nil {
		if d.dirs == nil || len(d.dirs) >= MaxDirections {
			d.dirs = map[direction]*assembly{}
		}
		a = &assembly{pieces: map[wire.Seq]piece{}, done: map[wire.Seq]bool{}}
		d.dirs[k] = a
	}
	seq := t.Frame.TxSeq
	if _, known := a.pieces[seq]; known || a.done[seq] {
		return nil
	}
	a.pieces[seq] = piece{t.Offset(), t.Frame.Flags&wire.FlagEnd != 0, append([]byte(nil), t.Frame.Payload...)}
	if a.order = append(a.order, seq); len(a.order) > MaxPieces {
		delete(a.pieces, a.order[0])
		a.order = a.order[1:]
	}
	return a.complete(seq)
}

// complete returns the packet of the piece with number seq, or nil if pieces of the packet are
// missing.
func (a *assembly) complete(seq wire.Seq) *Fabric {
	first := seq
	for a.pieces[first].offset > 0 {
		before, ok := a.pieces[first-1]
		if !ok || before.end || before.offset+len(before.data) != a.pieces[first].offset {
			return nil
		}
		first--
	}
	var whole []byte
	last := first
	for {
		p, ok := a.pieces[last]
		if !ok || p.offset != len(whole) || len(whole)+len(p.data) > wire.SlotSize {
			return nil
		}
		if whole = append(whole, p.data...); p.end {
			break
		}
		last++
	}
	for s := first; s != last+1; s++ {
		delete(a.pieces, s)
		a.done[s] = true
		if a.ended = append(a.ended, s); len(a.ended) > MaxPieces {
			delete(a.done, a.ended[0])
			a.ended = a.ended[1:]
		}
	}
	p := &Fabric{}
	_ = p.DecodeFromBytes(whole, gopacket.NilDecodeFeedback)
	p.Pieces = last.Sub(first) + 1
	return p
}
