package ttlink

import (
	"ttfabric/wire"
)

// frameMeta describes one frame in the slab.
type frameMeta struct {
	off    uint32 // of the frame in the slab
	dest   uint32 // payload destination address at the receiver
	padded uint16 // payload with its padding, in bytes
	length uint16 // true payload, in bytes
	vc     wire.VC
	flags  wire.Flags
}

func (m *frameMeta) size() int { return wire.FrameOverhead + int(m.padded) }

// slab is the retransmit buffer: a ring of bytes in which the unacknowledged
// frames lie whole and in order, so that frames of equal size can be sent
// from in place as one batch. A frame never wraps; where it would, the rest of
// the ring stays empty until the ring comes round.
type slab struct {
	buf   []byte      // nil when idle
	meta  []frameMeta // by sequence number modulo MaxFrames
	count int         // frames in use; at most MaxFrames
	used  int         // bytes of those
	head  int         // where the next frame goes if it fits
	tail  int         // start of the oldest frame; 0 when empty
}

// fits reports whether n more frames of size bytes each have room.
func (s *slab) fits(n, size, window int) bool {
	if s.count+n > MaxFrames {
		return false
	}
	if s.count > 0 && s.head <= s.tail {
		return n*size <= s.tail-s.head
	}
	atEnd := (window - s.head) / size
	return n <= atEnd || (n-atEnd)*size <= s.tail
}

// place reserves room for one frame. The caller has asked fits.
func (s *slab) place(seq wire.Seq, m frameMeta, window int) []byte {
	if s.buf == nil {
		s.buf = make([]byte, window)
		s.meta = make([]frameMeta, MaxFrames)
	}
	size := m.size()
	if !(s.count > 0 && s.head <= s.tail) && window-s.head < size {
		s.head = 0
	}
	m.off = uint32(s.head)
	s.meta[uint32(seq)%MaxFrames] = m
	frame := s.buf[s.head : s.head+size]
	s.head += size
	s.count++
	s.used += size
	return frame
}

// at returns the frame with sequence number seq.
func (s *slab) at(seq wire.Seq) *frameMeta { return &s.meta[uint32(seq)%MaxFrames] }

// bytes returns where m's frame lies.
func (s *slab) bytes(m *frameMeta) []byte { return s.buf[m.off : int(m.off)+m.size()] }

// release gives back the oldest frame, seq; next is the one after it.
func (s *slab) release(seq wire.Seq) {
	s.used -= s.at(seq).size()
	s.count--
	if s.count == 0 {
		s.head, s.tail = 0, 0
		return
	}
	s.tail = int(s.at(seq.Add(1)).off)
}

// clear drops all frames and keeps the memory.
func (s *slab) clear() { s.count, s.used, s.head, s.tail = 0, 0, 0, 0 }

// drop gives the memory back.
func (s *slab) drop() { *s = slab{} }
