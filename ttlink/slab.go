package ttlink

import (
	"ttfabric/wire"
)

// frameMeta describes one frame in the slab.
type frameMeta struct {
	off    uint32  // offset of the frame in slab.buf, in bytes
	dest   uint32  // destination address of the payload at the receiver
	padded uint16  // payload with its padding, in bytes
	length uint16  // payload without padding, in bytes
	vc     wire.VC // of a write: the queue
	flags  wire.Flags
	kind   wire.Kind
}

func (m *frameMeta) size() int { return wire.FrameOverhead + int(m.padded) }

// The method "packet" reports whether the frame carries a piece of a packet.
func (m *frameMeta) packet() bool { return m.kind == wire.KindData }

// The method "first" reports whether the frame carries the first piece of a packet.
func (m *frameMeta) first() bool { return m.packet() && m.dest%uint32(m.vc.SlotSize()) == 0 }

// slab is the retransmit buffer, a ring that holds the unacknowledged frames in the order of their
// numbers. Each frame is one block of memory, so the link can send neighbouring frames of equal
// size as one batch. If a frame does not fit at the end of the ring, the end stays unused, and the
// frame is placed at the start. The ring is small at first, so that it fits into the processor's
// cache. When more frames are under way, the ring doubles, up to the size Config.Window.
type slab struct {
	buf        []byte      // nil while the slab is idle
	meta       []frameMeta // description of each frame, at its sequence number modulo len(meta), which is a power of two
	oldest     wire.Seq    // sequence number of the oldest frame
	count      int         // number of frames; at most MaxFrames
	used       int         // bytes of all frames
	writes     int         // bytes of the frames of L1 and MMIO writes
	writeCount int         // number of frames of L1 and MMIO writes
	head       int         // offset of the end of the newest frame
	tail       int         // offset of the oldest frame; 0 if the slab is empty
	sources    []uint32    // like meta: for each frame of an L1 write, the address of the payload in this end's L1; nil until the first L1 write
	cut        []byte      // headers of the packet that the oldest frame belongs to, if the frame is not the first of the packet
}

// The sizes of a new slab.
const (
	firstSlab   = MinWindow // length of buf, in bytes
	firstFrames = 64
)

// fits reports whether the slab takes n more frames of size bytes each, if the ring may grow to
// window bytes. The slab takes at most MaxFrames frames.
func (s *slab) fits(n, size, window int) bool {
	if s.count+n > MaxFrames {
		return false
	}
	if len(s.buf) < window && n*size <= window-s.used {
		return true // if necessary, grow makes the ring larger and moves the frames to its start
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

// place reserves memory for the frame with the number seq, and returns the memory. The caller must
// have checked the room with fits.
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
	if !m.packet() {
		s.writes += size
		s.writeCount++
	}
	return frame
}

// room reports whether the ring has room for one more frame of size bytes without growing.
func (s *slab) room(size int) bool {
	if s.count > 0 && s.head <= s.tail {
		return size <= s.tail-s.head
	}
	return size <= len(s.buf)-s.head || size <= s.tail
}

// grow doubles the ring, up to window bytes, and moves the frames to its start.
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

// growMeta doubles the length of s.meta.
func (s *slab) growMeta() {
	old := *s
	s.meta = make([]frameMeta, max(2*len(old.meta), firstFrames))
	for i := range s.count {
		q := s.oldest.Add(i)
		*s.at(q) = *old.at(q)
	}
	if old.sources != nil {
		s.sources = make([]uint32, len(s.meta))
		for i := range s.count {
			q := s.oldest.Add(i)
			*s.source(q) = *old.source(q)
		}
	}
}

// source returns the place of the source of the L1 write with the sequence number seq.
func (s *slab) source(seq wire.Seq) *uint32 {
	if s.sources == nil {
		s.sources = make([]uint32, len(s.meta))
	}
	return &s.sources[int(uint32(seq))&(len(s.sources)-1)]
}

// The method "at" returns the description of the frame with the sequence number seq.
func (s *slab) at(seq wire.Seq) *frameMeta { return &s.meta[int(uint32(seq))&(len(s.meta)-1)] }

// bytes returns the bytes of the frame that m describes.
func (s *slab) bytes(m *frameMeta) []byte { return s.buf[m.off : int(m.off)+m.size()] }

// payload returns the payload of the frame that m describes, without padding.
func (s *slab) payload(m *frameMeta) []byte {
	return s.bytes(m)[wire.EnvelopeLen+wire.HeaderLen:][:m.length]
}

// The method "behind" returns the length of the free memory at the offset end, directly behind the
// newest frame. The next call of place may use this memory. If the newest frame does not end at the
// offset end, behind returns 0.
func (s *slab) behind(end int) int {
	switch {
	case s.head != end:
		return 0
	case s.head <= s.tail:
		return s.tail - end
	}
	return len(s.buf) - end
}

// release removes the oldest frame, whose sequence number is seq.
func (s *slab) release(seq wire.Seq) {
	m := s.at(seq)
	s.used -= m.size()
	if !m.packet() {
		s.writes -= m.size()
		s.writeCount--
	}
	s.count--
	s.oldest = seq.Add(1)
	if s.count == 0 {
		s.head, s.tail = 0, 0
		return
	}
	s.tail = int(s.at(s.oldest).off)
}

// clear removes all frames and keeps the memory.
func (s *slab) clear() {
	s.count, s.used, s.writes, s.writeCount, s.head, s.tail = 0, 0, 0, 0, 0, 0
}

// drop removes all frames and frees the memory.
func (s *slab) drop() { *s = slab{} }
