package chip

import (
	"encoding/binary"
	"fmt"

	"ttfabric/wire"
)

// Registers of the transmit queues (TXQ) and receive queues (RXQ) of an ethernet tile. Addresses and
// meaning: tt-isa-documentation, WormholeB0/EthernetTile/EthernetTxRx.md and the page of the same name
// in BlackholeA0. Each queue has a window of 0x1000 bytes. A transmit queue keeps what is stored to
// its registers below offset 0x64. All other registers without a name here read as 0, and a store
// to them does nothing. A store to a counter does nothing either.
const (
	txqBase       = 0xFFB90000
	rxqWormhole   = 0xFFB92000
	rxqBlackhole  = 0xFFB94000
	queueWindow   = 0x1000
	registerWords = 0x64 / 4 // number of registers of a transmit queue that keep what is stored
)

// Offsets of the registers of a transmit queue.
const (
	txqCtrl        = 0x00 // bit 0 KEEPALIVE: TT-link mode; bit 3 DIS_DROP
	txqCmd         = 0x04 // a store starts a command: 1 payload of compliance mode, 2 L1 write, 4 MMIO write; on Wormhole a load gives 1 while the queue is busy
	txqStatus      = 0x08 // Blackhole: bit 16 while the queue is busy
	txqMaxPacket   = 0x0C // MAX_PKT_SIZE, in bytes of TT-link header and payload
	txqStart       = 0x14 // address of the source in L1
	txqSize        = 0x18 // length of the source, in bytes
	txqDest        = 0x1C // address at the other end
	txqTransferCnt = 0x30 // commands that the queue has taken over from CMD
	txqPktStart    = 0x34 // frames of this queue that the link sent, also again
	txqPktEnd      = 0x3C
	txqWordCnt     = 0x40 // headers and payloads of these frames, in words of 16 bytes, or of 96 bytes on Blackhole
	txqRegData     = 0x44 // value of an MMIO write
)

// Commands of a transmit queue, values of CMD.
const (
	cmdRaw   = 1 // payload of compliance mode
	cmdWrite = 2
	cmdMMIO  = 4
)

// Bits of registers.
const (
	txqKeepalive  = 1 << 0
	txqDisDrop    = 1 << 3
	txqOngoing    = 1 << 16
	rxqPacketMode = 1 << 1
	rxqBufWrap    = 1 << 2
)

// blackholeWord is the number of words of 16 bytes that WORD_CNT of a Blackhole counts as one.
const blackholeWord = 6

// Offsets of the registers of a receive queue. The counters count frames of L1 and MMIO writes, and
// on queue 0 also frames of compliance mode.
const (
	rxqCtrl      = 0x00 // bit 1 PACKET_MODE: TT-link mode; bit 2 BUF_WRAP
	rxqBufPtr    = 0x08 // compliance mode: offset in the buffer where the next payload goes, in bytes
	rxqBufStart  = 0x0C // address of the buffer in L1, in words of 16 bytes
	rxqBufSize   = 0x10 // length of the buffer, in words of 16 bytes
	rxqWordCnt   = 0x14 // headers and payloads of the frames of the peer's queue, in words of 16 bytes
	rxqPktEnd    = 0x28 // frames of the peer's queue, and of queue 0 also dropped frames
	rxqLocalSeq  = 0x40 // sequence number of the frame that the link expects next, of all kinds
	rxqRemoteSeq = 0x44 // sequence number after the newest frame that the peer has acknowledged
	rxqDropCnt   = 0x4C // frames that the link or the chip dropped; only on queue 0
)

// txq is a transmit queue of one port. The fields hold what was stored into the registers. The
// registers of timeouts, MAC addresses and the ethertype keep their values without effect, because
// the link has its own times and addresses.
type txq struct {
	c     *machine
	port  int
	queue int
	words [registerWords]uint32
}

// rxq is a receive queue of one port. In compliance mode, the payloads go to queue 0.
type rxq struct {
	c     *machine
	port  int
	queue int
}

// addQueueRegisters maps the registers of the queues of all ports into the chip's memory.
func (c *machine) addQueueRegisters() error {
	rx := uint32(rxqWormhole)
	if c.cfg.Topology.Arch == wire.Blackhole {
		rx = rxqBlackhole
	}
	for i := range c.ports.list {
		p := &c.ports.list[i]
		for q := range wire.NumQueues {
			t := &txq{c: c, port: i, queue: q}
			t.words[txqCtrl/4], t.words[txqMaxPacket/4] = txqKeepalive|txqDisDrop, uint32(p.link.MaxPacket(q))
			err := c.memory.MapRegisters(p.tileAddr(txqBase+uint32(q)*queueWindow), queueWindow, t)
			if err == nil {
				err = c.memory.MapRegisters(p.tileAddr(rx+uint32(q)*queueWindow), queueWindow, &rxq{c, i, q})
			}
			if err != nil {
				return fmt.Errorf("chip %s channel %d: %w", c.cfg.Node, p.Local.Channel, err)
			}
		}
	}
	return nil
}

// load copies the words that "word" gives for the offsets from off on into b.
func load(off uint64, b []byte, word func(off uint64) uint32) wire.Outcome {
	for ; len(b) > 0; off, b = off+4, b[4:] {
		binary.LittleEndian.PutUint32(b, word(off))
	}
	return wire.OutcomeDone
}

// Load reads registers of the queue.
func (t *txq) Load(off uint64, b []byte) wire.Outcome { return load(off, b, t.word) }

func (t *txq) word(off uint64) uint32 {
	l := t.c.ports.list[t.port].link
	n, busy, blackhole := l.WriteCount(t.queue), l.Busy(t.queue), t.c.cfg.Topology.Arch == wire.Blackhole
	switch off {
	case txqCmd:
		if busy && !blackhole {
			return 1
		}
		return 0
	case txqStatus:
		if busy && blackhole {
			return txqOngoing
		}
		return 0
	case txqTransferCnt:
		if busy {
			return uint32(n.Started) - 1
		}
		return uint32(n.Started)
	case txqPktStart, txqPktEnd:
		return uint32(n.Frames)
	case txqWordCnt:
		if blackhole {
			return uint32((n.Words + blackholeWord - 1) / blackholeWord)
		}
		return uint32(n.Words)
	}
	if off/4 < registerWords {
		return t.words[off/4]
	}
	return 0
}

// Store writes registers of the queue. A store to CMD starts a command, with the values that the other
// registers have after the store. The outcomes are those of startWrite and startRegister, and
// OutcomeBadCommand for another value of CMD than 2 and 4. In compliance mode, CMD takes only the value
// 1; see startRaw. After an outcome other than OutcomeDone, no register has changed.
func (t *txq) Store(off uint64, b []byte) wire.Outcome {
	old := t.words
	cmd, starts := uint32(0), false
	for ; len(b) > 0; off, b = off+4, b[4:] {
		v := binary.LittleEndian.Uint32(b)
		switch {
		case off == txqCmd:
			cmd, starts = v, true
		case off/4 < registerWords:
			t.words[off/4] = v
		}
	}
	if starts {
		if o := t.start(cmd); o != wire.OutcomeDone {
			t.words = old
			return o
		}
	}
	if n := t.words[txqMaxPacket/4]; n != old[txqMaxPacket/4] {
		t.c.ports.list[t.port].link.SetMaxPacket(t.queue, int(n))
	}
	return wire.OutcomeDone
}

// Takes reports that only a store to CMD may be refused.
func (t *txq) Takes(off uint64, n int) bool { return off > txqCmd || off+uint64(n) <= txqCmd }

// start performs a store of the value cmd to CMD.
func (t *txq) start(cmd uint32) wire.Outcome {
	ch := t.c.ports.list[t.port].Local.Channel
	w := &t.words
	if p := &t.c.ports.list[t.port]; p.raw.on != (cmd == cmdRaw) {
		return wire.OutcomeBadCommand
	}
	switch cmd {
	case cmdRaw:
		return t.c.startRaw(&t.c.ports.list[t.port], w[txqStart/4], w[txqSize/4])
	case cmdWrite:
		if w[txqSize/4]%wire.WriteUnit != 0 {
			return wire.OutcomeMisaligned
		}
		return t.c.startWrite(ch, t.queue, w[txqStart/4], w[txqDest/4], int(w[txqSize/4]/wire.WriteUnit))
	case cmdMMIO:
		return t.c.startRegister(ch, t.queue, w[txqDest/4], w[txqRegData/4])
	}
	return wire.OutcomeBadCommand
}

// Load reads registers of the queue.
func (r *rxq) Load(off uint64, b []byte) wire.Outcome { return load(off, b, r.word) }

func (r *rxq) word(off uint64) uint32 {
	p := &r.c.ports.list[r.port]
	n := p.link.WriteCount(r.queue)
	expected, acked := p.link.Sequence()
	words, frames, dropped := n.WordsTaken, n.FramesTaken, uint64(0)
	mode := uint32(rxqPacketMode)
	if r.queue == 0 {
		f := p.link.Counters()
		dropped = refused(&f) + p.writes.Refused + p.raw.dropped()
		words, frames = words+p.raw.words, frames+p.raw.frames
		switch off {
		case rxqBufPtr:
			return p.raw.ptr
		case rxqBufStart:
			return p.raw.start
		case rxqBufSize:
			return p.raw.size
		}
		if p.raw.on {
			mode = 0
		}
		if p.raw.wrap {
			mode |= rxqBufWrap
		}
	}
	switch off {
	case rxqCtrl:
		return mode
	case rxqWordCnt:
		return uint32(words)
	case rxqPktEnd:
		return uint32(frames + dropped)
	case rxqLocalSeq:
		return uint32(expected)
	case rxqRemoteSeq:
		return uint32(acked)
	case rxqDropCnt:
		return uint32(dropped)
	}
	return 0
}

// Store writes registers of the queue. Only queue 0 has registers that hold a value: the buffer of
// compliance mode, and BUF_WRAP.
func (r *rxq) Store(off uint64, b []byte) wire.Outcome {
	m := &r.c.ports.list[r.port].raw
	for ; r.queue == 0 && len(b) > 0; off, b = off+4, b[4:] {
		v := binary.LittleEndian.Uint32(b)
		switch off {
		case rxqCtrl:
			m.wrap = v&rxqBufWrap != 0
		case rxqBufPtr:
			m.ptr = v
		case rxqBufStart:
			m.start = v
		case rxqBufSize:
			m.size = v
		}
	}
	return wire.OutcomeDone
}

// Takes reports that no store is refused.
func (r *rxq) Takes(uint64, int) bool { return true }
