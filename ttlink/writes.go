package ttlink

import (
	"encoding/binary"
	"fmt"

	"ttfabric/wire"
)

// This file implements the transaction command queues of a port, whose commands are L1 writes and
// MMIO writes (CCL guide, "Ethernet Transaction Command Queues"). A queue holds at most one command.
// A command holds no payload. The link reads the source of an L1 write by [Config].Source when it
// sends a frame, and again when it sends the frame again. On hardware, too, the sender keeps only
// metadata, and reads the payload from L1 for every retransmission (tt-isa-documentation,
// WormholeB0/EthernetTile/EthernetTxRx.md).
//
// The link cuts a command into frames as the slab has room. The frames of all queues and of packets
// share the sequence numbers and the slab. If commands of several queues wait, the link's random
// numbers choose the queue of the next frame. Therefore there is no order between the queues.

// Limits of L1 writes.
const (
	// MaxWrite is the largest length of an L1 write, in bytes: the whole L1 of a Blackhole's ethernet
	// tile (tt-isa-documentation, BlackholeA0/EthernetTile).
	MaxWrite = 512 << 10
	// DefaultMaxPacket is the default of MAX_PKT_SIZE, in bytes of TT-link header and payload. The
	// CCL guide says "Maximum Packet Size: 1500 B".
	DefaultMaxPacket = 1500
	// MinMaxPacket and MaxMaxPacket limit MAX_PKT_SIZE, in bytes: the header with one word, and the
	// header with the longest payload of a frame.
	MinMaxPacket = wire.HeaderLen + wire.WriteUnit
	MaxMaxPacket = wire.HeaderLen + wire.MaxFramePayload
)

// WriteCounters counts the L1 and MMIO writes of one transaction command queue. The counters never
// decrease.
type WriteCounters struct {
	Started, Acked    uint64 // commands that began; commands of which the peer has acknowledged all frames
	Unknown           uint64 // commands of ended sessions that began and were not acknowledged completely
	Received          uint64 // commands of the peer's queue of which the last frame came
	Bytes, BytesTaken uint64 // bytes of payload of started commands; bytes of payload received
	Frames, Words     uint64 // frames sent, also again; their headers and payloads in words of 16 bytes, rounded up for each frame
	FramesTaken       uint64 // frames received, without frames that the link dropped
	WordsTaken        uint64 // headers and payloads of these frames, in words of 16 bytes
	Lines, LinesTaken uint64 // the same lengths as Words and WordsTaken, in lines of 96 bytes, the unit of a Blackhole
}

// LineLen is the unit in which a Blackhole's queues count bytes (tt-isa-documentation,
// BlackholeA0/EthernetTile/EthernetTxRx.md, ETH_TXQ_WORD_CNT).
const LineLen = 96

// lines returns the length of a frame's header and payload, in lines of 96 bytes, rounded up.
func lines(payload int) uint64 { return uint64(wire.HeaderLen+payload+LineLen-1) / LineLen }

// words returns the length of header and payload of a frame, in words of 16 bytes, rounded up.
func words(payload int) uint64 {
	return uint64(wire.HeaderLen+payload+wire.WriteUnit-1) / wire.WriteUnit
}

// sendWrite reads the payload of the frame m of a write, which the link sends now, and counts the
// frame. The frame's number is the sender's cursor.
func (l *Link) sendWrite(m *frameMeta, payload []byte) {
	if m.kind == wire.KindWrite {
		l.cfg.Source(*l.tx.slab.source(l.tx.cursor), payload)
	}
	c := &l.writes.count[m.vc]
	c.Frames++
	c.Words += words(int(m.length))
	c.Lines += lines(int(m.length))
}

// command is an L1 or MMIO write of which some frames are not placed yet.
type command struct {
	kind   wire.Kind // 0: the queue is not busy
	source uint32    // next address to read, or the value of an MMIO write
	dest   uint32    // next destination address
	left   uint32    // bytes that are not placed yet
}

// writes holds the transaction command queues of a link.
//
// Invariant: wait is true if and only if a queue has a command.
type writes struct {
	queue [wire.NumQueues]command
	open  [wire.NumQueues]int // commands that began and are not acknowledged completely
	most  [wire.NumQueues]int // MAX_PKT_SIZE
	wait  bool                // a queue is busy
	count [wire.NumQueues]WriteCounters
}

// Busy reports whether queue q, below [wire.NumQueues], takes no command now. A queue is busy from
// the start of a command until all frames of the command are in the retransmit slab.
func (l *Link) Busy(q int) bool { return l.writes.queue[q].kind != 0 }

// StartWrite starts an L1 write on queue q: the link copies the given number of 16-byte words from
// address "from" of this end's L1 to address "to" of the L1 at the other end. The link keeps the
// command while it is down, but a command ends with its session (see [EventSessionEnded]). If the
// queue is busy, or the link is closed, StartWrite returns false. StartWrite panics for a queue that
// does not exist, for addresses that are not multiples of 16, for less than 1 word or more than
// [MaxWrite] bytes, and if Config.Source is nil.
func (l *Link) StartWrite(q int, from, to uint32, words int) bool {
	if from%wire.WriteUnit != 0 || to%wire.WriteUnit != 0 || words < 1 || words > MaxWrite/wire.WriteUnit || l.cfg.Source == nil {
		panic(fmt.Sprintf("ttlink: L1 write of %d words from %#x to %#x: want multiples of %d, 1 to %d words, and a source", words, from, to, wire.WriteUnit, MaxWrite/wire.WriteUnit))
	}
	return l.begin(q, command{wire.KindWrite, from, to, uint32(words * wire.WriteUnit)})
}

// StartRegister starts an MMIO write on queue q: the value goes to the register at address "to" of
// the ethernet tile at the other end. In all other respects, StartRegister works like
// [Link.StartWrite]. StartRegister panics for an address that is not a multiple of 4.
func (l *Link) StartRegister(q int, to, value uint32) bool {
	if to%wire.RegisterLen != 0 {
		panic(fmt.Sprintf("ttlink: MMIO write to %#x: want a multiple of %d", to, wire.RegisterLen))
	}
	return l.begin(q, command{wire.KindMMIO, value, to, wire.RegisterLen})
}

func (l *Link) begin(q int, c command) bool {
	w := &l.writes
	if w.queue[q].kind != 0 || l.state == StateClosed {
		return false
	}
	w.queue[q], w.wait = c, true
	w.open[q]++
	w.count[q].Started++
	w.count[q].Bytes += uint64(c.left)
	return true
}

// SetMaxPacket sets MAX_PKT_SIZE of queue q, in bytes of TT-link header and payload. Values outside
// of [MinMaxPacket] to [MaxMaxPacket] count as the nearer limit. Frames in the slab keep their
// length.
func (l *Link) SetMaxPacket(q, n int) {
	l.writes.most[q] = min(max(n, MinMaxPacket), MaxMaxPacket)
}

// Sequence returns two sequence numbers: the number of the frame that this end expects next, and
// the number after the newest frame that the peer has acknowledged. Outside of a session, the
// numbers are of the last session, or 0.
func (l *Link) Sequence() (expected, acked wire.Seq) { return l.rx.expected, l.tx.base }

// WriteCount returns the counters of queue q.
func (l *Link) WriteCount(q int) WriteCounters { return l.writes.count[q] }

// MaxPacket returns MAX_PKT_SIZE of queue q, in bytes.
func (l *Link) MaxPacket(q int) int { return l.writes.most[q] }

// WritePayload returns the largest payload of a frame of an L1 write on queue q, in bytes. The
// payload is limited by MAX_PKT_SIZE and by the frame size of the link, if the link has come up.
func (l *Link) WritePayload(q int) int {
	n := l.writes.most[q] - wire.HeaderLen
	if l.agreed > 0 {
		n = min(n, l.agreed)
	}
	return n / wire.WriteUnit * wire.WriteUnit
}

// SourcesInUse calls f for each range of this end's L1 that a started L1 write may still read: the
// ranges of unacknowledged frames, the oldest first, and then the ranges of commands that are not
// placed. The arguments are the queue, the first address, and the length in bytes.
func (l *Link) SourcesInUse(f func(q int, from uint32, n int)) {
	if l.tx.slab.writes > 0 {
		for s := l.tx.base; s != l.tx.next; s = s.Add(1) {
			if m := l.tx.slab.at(s); m.kind == wire.KindWrite {
				f(int(m.vc), *l.tx.slab.source(s), int(m.length))
			}
		}
	}
	for q := range l.writes.queue {
		if c := &l.writes.queue[q]; c.kind == wire.KindWrite {
			f(q, c.source, int(c.left))
		}
	}
}

// SourceInUse reports whether a started L1 write may still read any of the n bytes from address a on
// of this end's L1, and returns the queue of the write.
func (l *Link) SourceInUse(a uint32, n int) (queue int, inUse bool) {
	if !l.writes.wait && l.tx.slab.writes == 0 {
		return 0, false
	}
	l.SourcesInUse(func(q int, from uint32, m int) {
		if !inUse && uint64(from) < uint64(a)+uint64(n) && uint64(a) < uint64(from)+uint64(m) {
			queue, inUse = q, true
		}
	})
	return queue, inUse
}

// While L1 or MMIO writes wait, writes take at most 1/writeShare of the slab, and packets take at
// most as much. Writes and packets thus take turns.
const writeShare = 2

// packetShare reports whether packets may place n more frames with together size bytes while writes
// wait.
func (l *Link) packetShare(n, size int) bool {
	s := &l.tx.slab
	return s.count == 0 || s.used-s.writes+size <= l.cfg.Window/writeShare && s.count-s.writeCount+n <= MaxFrames/writeShare
}

// PlaceWrites places frames of the commands that wait, if the link is up. PlaceWrites reports
// whether a queue that was busy takes a command now. [Link.PollTransmit] does the same before it
// sends.
func (l *Link) PlaceWrites() bool {
	if !l.writes.wait || l.state != StateUp {
		return false
	}
	before := l.writes.queue
	l.placeWrites()
	for q := range before {
		if before[q].kind != 0 && l.writes.queue[q].kind == 0 {
			return true
		}
	}
	return false
}

// placeWrites places frames of the commands that wait, as far as their part of the slab has room.
func (l *Link) placeWrites() {
	w := &l.writes
	for {
		q, ok := l.nextQueue()
		if !ok {
			w.wait = false
			return
		}
		c := &w.queue[q]
		n := min(int(c.left), l.WritePayload(q))
		m := frameMeta{kind: c.kind, dest: c.dest, vc: wire.VC(q), padded: uint16(wire.PadTo(n)), length: uint16(n)}
		if s := &l.tx.slab; s.count > 0 && s.writes+m.size() > l.cfg.Window/writeShare || s.writeCount >= MaxFrames/writeShare || !s.fits(1, m.size(), l.cfg.Window) {
			return
		}
		c.left -= uint32(n)
		if c.left == 0 {
			m.flags = wire.FlagEnd
		}
		seq := l.tx.next
		body := l.place(m)
		clear(body[n:])
		if c.kind == wire.KindWrite {
			*l.tx.slab.source(seq) = c.source
		} else {
			binary.LittleEndian.PutUint32(body, c.source)
		}
		c.source, c.dest = c.source+uint32(n), c.dest+uint32(n)
		if c.left == 0 {
			*c = command{}
		}
	}
}

// nextQueue chooses at random one of the queues with a command. If no queue has a command,
// nextQueue returns false.
func (l *Link) nextQueue() (q int, ok bool) {
	var busy [wire.NumQueues]int
	n := uint64(0)
	for q := range l.writes.queue {
		if l.writes.queue[q].kind != 0 {
			busy[n] = q
			n++
		}
	}
	if n > 1 {
		return busy[l.rng.Uint64()%n], true
	}
	return busy[0], n > 0
}

// acked notes that the peer has acknowledged the frame m of a write.
func (w *writes) acked(m *frameMeta) {
	if m.flags&wire.FlagEnd != 0 {
		w.open[m.vc]--
		w.count[m.vc].Acked++
	}
}

// abandon drops the commands of the session, and returns the number of unacknowledged commands of
// each queue.
func (w *writes) abandon() (unknown [wire.NumQueues]int) {
	unknown = w.open
	for q, n := range unknown {
		w.count[q].Unknown += uint64(n)
	}
	w.queue, w.open, w.wait = [wire.NumQueues]command{}, [wire.NumQueues]int{}, false
	return unknown
}

// writable reports whether the frame f, which has the expected number, is a valid frame of a write.
// If it is not, writable counts the frame.
func (l *Link) writable(f *wire.Frame) bool {
	ok := f.VC < wire.NumQueues && f.Flags&^wire.FlagEnd == 0
	if f.Kind == wire.KindWrite {
		ok = ok && len(f.Payload) > 0 && len(f.Payload)%wire.WriteUnit == 0 && f.Dest%wire.WriteUnit == 0
	} else {
		ok = ok && len(f.Payload) == wire.RegisterLen && f.Dest%wire.RegisterLen == 0 && f.Flags&wire.FlagEnd != 0
	}
	if !ok {
		l.counters.BadPieces++
	}
	return ok
}

// receivedWrite counts an accepted frame of a write, and returns it for the owner.
func (l *Link) receivedWrite(f *wire.Frame) Delivery {
	c := &l.writes.count[f.VC]
	c.BytesTaken += uint64(len(f.Payload))
	c.FramesTaken++
	c.WordsTaken += words(len(f.Payload))
	c.LinesTaken += lines(len(f.Payload))
	d := Delivery{Kind: f.Kind, Addr: f.Dest, VC: f.VC, Data: f.Payload, End: f.Flags&wire.FlagEnd != 0}
	if d.End {
		c.Received++
	}
	return d
}
