package ttlink

import (
	"ttfabric/wire"
)

// frameMeta describes one frame in the slab.
type frameMeta struct {
	off    uint32 // offset of the frame in the slab
	dest   uint32 // payload destination address at the receiver
	padded uint16 // payload with its padding, in bytes
	length uint16 // true payload, in bytes
	vc     wire.VC
	flags  wire.Flags
}

func (m *frameMeta) size() int { return wire.FrameOverhead + int(m.padded) }

// slab is the retransmit buffer: a ring of bytes. The unacknowledged frames lie in the ring whole
// and in order. For that reason the link can send frames of equal size from the ring as one batch.
// A frame never wraps. If a frame does not fit at the end, the rest of the ring stays empty until
// the ring comes round. The ring begins small, which keeps the ring in the cache. When more frames
// are under way, the ring doubles, up to the window.
type slab struct {
	buf    []byte      // nil while the slab is idle
	meta   []frameMeta // frames by sequence number modulo the length of meta, a power of two
	oldest wire.Seq    // number of the oldest frame
	count  int         // frames in use; at most MaxFrames
	used   int         // bytes of the frames in use
	head   int         // offset at which the next frame begins if there is room
	tail   int         // offset of the oldest frame; 0 when the slab is empty
}

// The first sizes of the ring and of the list of its frames.
const (
	firstSlab   = MinWindow // size of the first ring, in bytes
	firstFrames = 64
)

// fits reports whether there is room for n more frames of size bytes each.
func (s *slab) fits(n, size, window int) bool {
	if s.count+n > MaxFrames {
		return false
	}
	if len(s.buf) < window && n*size <= window-s.used {
		return true // grow moves the frames to the ring's beginning
	}
	if s.count > 0 && s.head <= s.tail {
		return n*size <= s.tail-s.head
	}
	if n*size <= len(s.buf)-s.head {
		return true
	}
	atEnd := (len(s.buf) - s.head) / size
	return (n-atEnd)*size <= s.tail
}

// place reserves room for one frame. The caller must have called fits.
func (s *slab) place(seq wire.Seq, m frameMeta, window int) []byte {
	if s.count == 0 {
		s.oldest = seq
	}
	if s.count == len(s.meta) {
		s.growMeta()
	}
	size := m.size()
	for !s.room(size) {
		s.grow(window)
	}
	if !(s.count > 0 && s.head <= s.tail) && len(s.buf)-s.head < size {
		s.head = 0
	}
	m.off = uint32(s.head)
	*s.at(seq) = m
	frame := s.buf[s.head : s.head+size]
	s.head += size
	s.count++
	s.used += size
	return frame
}

// room reports whether the ring has room for one frame without growing.
func (s *slab) room(size int) bool {
	if s.count > 0 && s.head <= s.tail {
		return size <= s.tail-s.head
	}
	return size <= len(s.buf)-s.head || size <= s.tail
}

// grow doubles the ring and moves the frames to its beginning.
func (s *slab) grow(window int) {
	if len(s.buf) == window {
		panic("ttlink: a frame was placed without room in the slab")
	}
	buf := make([]byte, min(max(2*len(s.buf), firstSlab), window))
	end := 0
	for i := range s.count {
		m := s.at(s.oldest.Add(i))
		off := end
		end += copy(buf[off:], s.bytes(m))
		m.off = uint32(off)
	}
	s.buf, s.tail, s.head = buf, 0, end
}

// growMeta doubles the list of frames.
func (s *slab) growMeta() {
	old := *s
	s.meta = make([]frameMeta, max(2*len(old.meta), firstFrames))
	for i := range s.count {
		q := s.oldest.Add(i)
		*s.at(q) = *old.at(q)
	}
}

// at returns the frame with sequence number seq.
func (s *slab) at(seq wire.Seq) *frameMeta { return &s.meta[int(uint32(seq))&(len(s.meta)-1)] }

// bytes returns the bytes of m's frame.
func (s *slab) bytes(m *frameMeta) []byte { return s.buf[m.off : int(m.off)+m.size()] }

// release gives back the room of the oldest frame, seq.
func (s *slab) release(seq wire.Seq) {
	s.used -= s.at(seq).size()
	s.count--
	s.oldest = seq.Add(1)
	if s.count == 0 {
		s.head, s.tail = 0, 0
		return
	}
	s.tail = int(s.at(s.oldest).off)
}

// clear drops all frames and keeps the memory.
func (s *slab) clear() { s.count, s.used, s.head, s.tail = 0, 0, 0, 0 }

// drop gives the memory back.
func (s *slab) drop() { *s = slab{} }
