package chip

import (
	"encoding/binary"
	"fmt"

	"ttfabric/node/noc"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// Registers of the transmit queues (TXQ) and receive queues (RXQ) of an ethernet tile. Addresses
// and meaning: tt-isa-documentation, WormholeB0/EthernetTile/EthernetTxRx.md and the page of the
// same name in BlackholeA0. A Wormhole tile has two queues of each kind, a Blackhole tile three.
// Each queue has a window of 0x1000 bytes. A register without a name below reads as 0. A store to
// such a register, or to a counter, does nothing. A Blackhole tile also has a table of headers for
// transmitted frames, the TX header table.
const (
	txqBase      = 0xFFB90000
	rxqWormhole  = 0xFFB92000
	rxqBlackhole = 0xFFB94000
	queueWindow  = 0x1000
	headersBase  = 0xFFB98200 // Blackhole: the TX header table
	headersLen   = 10 * 0x80  // 10 entries
	txqWords     = 0x8C / 4   // words from the first to the last named register of a transmit queue
)

// Offsets of the registers of a transmit queue.
const (
	txqCtrl        = 0x00 // bit 0 KEEPALIVE: TT-link mode; bit 3 DIS_DROP
	txqCmd         = 0x04 // a store of 1 sends a raw frame, of 2 starts an L1 write, of 4 starts an MMIO write; on Wormhole, a load returns 1 while the queue is busy, and 0 otherwise; on Blackhole, a load returns 0
	txqStatus      = 0x08 // Blackhole: bit 16 is set while the queue is busy; all other bits are 0
	txqMaxPacket   = 0x0C // MAX_PKT_SIZE: largest length of TT-link header and payload, in bytes
	txqStart       = 0x14 // address of the source in L1
	txqSize        = 0x18 // length of the source, in bytes
	txqDest        = 0x1C // address at the other end
	txqTransferCnt = 0x30 // number of begun commands, without the command that keeps the queue busy
	txqPktStart    = 0x34 // number of frames of this queue: each transmission and retransmission of a frame by the link, and each raw frame
	txqPktEnd      = 0x3C // the same as txqPktStart
	txqWordCnt     = 0x40 // length of headers and payloads of these frames, in words: of 16 bytes on Wormhole, of 96 bytes on Blackhole
	txqRegData     = 0x44 // value of an MMIO write
	txqResend      = 0x48 // time after which a frame is sent again, in cycles
	txqUpdate      = 0x4C // time between sequence updates, in cycles
	txqMAC         = 0x50 // Wormhole: MAC addresses and ethertype, up to 0x60
	txqMACEnd      = 0x64
	txqSelectSW    = 0x80 // Blackhole: numbers of the entries of the TX header table for raw frames, MMIO writes and L1 writes, 4 bits each
	txqSelectHW    = 0x84 // Blackhole: number of the entry for sequence updates
	txqSelectOvl   = 0x88 // Blackhole: numbers of the entries for the streams of the NoC overlay
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
	rxqFormatBits = 1<<14 - 1 // bits of TILE_HEADER_FORMAT
)

// Offsets of the registers of a receive queue. The counters count frames of L1 and MMIO writes. The
// counters of queue 0 also count raw frames.
const (
	rxqCtrl      = 0x00 // bit 1 PACKET_MODE: TT-link mode; bit 2 BUF_WRAP
	rxqByteCnt   = 0x04 // Blackhole: bytes that the queue has written to L1
	rxqBufPtr    = 0x08 // compliance mode: offset in the buffer where the next payload goes, in bytes
	rxqBufStart  = 0x0C // address of the buffer in L1, in words of 16 bytes
	rxqBufSize   = 0x10 // length of the buffer, in words of 16 bytes
	rxqWordCnt   = 0x14 // length of headers and payloads of the frames from the peer's queue of the same number, in words: of 16 bytes on Wormhole, of 96 bytes on Blackhole
	rxqHdrCtrl   = 0x18 // Blackhole: number of bytes to strip from the start of raw frames; initially 14, the length of an Ethernet header
	rxqPktStart  = 0x24 // Blackhole: the same as PKT_END
	rxqPktEnd    = 0x28 // number of frames from the peer's queue of the same number; on queue 0, also dropped frames
	rxqLocalSeq  = 0x40 // sequence number of the frame that the link expects next; data frames and writes of all queues share these numbers
	rxqRemoteSeq = 0x44 // sequence number after the newest frame that the peer has acknowledged
	rxqFormat    = 0x48 // TILE_HEADER_FORMAT: for the NoC overlay
	rxqDropCnt   = 0x4C // frames that the link or the chip dropped; only on queue 0
	rxqWriting   = 0x50 // OUTSTANDING_WR_CNT: number of writes to L1 under way; always 0, because each write ends at once
)

// etherHeader is the length of an Ethernet header, in bytes.
const etherHeader = 14

// txq is a transmit queue of one ethernet tile. The field "words" holds what was stored into the
// registers. The link uses its own timeouts and addresses. Therefore the registers of timeouts, MAC
// addresses, ethertype, DIS_DROP and entries of the TX header table only hold their values.
type txq struct {
	c     *machine
	port  int // index of the port; -1: the tile has no cable
	queue int
	words [txqWords]uint32
}

// rxq is a receive queue of one ethernet tile. In compliance mode, queue 0 receives the payloads. A
// raw frame has no Ethernet header to strip. Therefore HDR_CTRL only holds its value, like
// TILE_HEADER_FORMAT.
type rxq struct {
	c              *machine
	port           int // index of the port; -1: the tile has no cable
	queue          int
	header, format uint32
}

// headers is the TX header table of a Blackhole tile. The link sends its own headers. Therefore the
// table only holds its values.
type headers struct{ words *[headersLen / 4]uint32 }

// Load reads registers of the table.
func (h *headers) Load(off uint64, b []byte) wire.Outcome {
	return load(off, b, func(off uint64) uint32 {
		if h.words == nil {
			return 0
		}
		return h.words[off/4]
	})
}

// Store writes registers of the table.
func (h *headers) Store(off uint64, b []byte) wire.Outcome {
	if h.words == nil {
		h.words = new([headersLen / 4]uint32)
	}
	for ; len(b) > 0; off, b = off+4, b[4:] {
		h.words[off/4] = binary.LittleEndian.Uint32(b)
	}
	return wire.OutcomeDone
}

// addQueueRegisters maps the registers of the queues of all ethernet tiles into the chip's memory.
func (c *machine) addQueueRegisters() error {
	rx, header := uint32(rxqWormhole), uint32(0)
	if c.blackhole() {
		rx, header = rxqBlackhole, etherHeader
	}
	for ch := range wire.Channel(wire.MaxChannels) {
		x, y, ok := noc.EthernetTile(c.cfg.Topology.Arch, ch)
		if !ok {
			break
		}
		port := c.ports.index(ch)
		add := func(at uint32, n int, r noc.Registers) error {
			if err := c.memory.MapRegisters(wire.NewNocAddr(x, y, uint64(at)), n, r); err != nil {
				return fmt.Errorf("chip %s channel %d: %w", c.cfg.Node, ch, err)
			}
			return nil
		}
		for q := range c.queues() {
			t := &txq{c: c, port: port, queue: q}
			t.words[txqCtrl/4], t.words[txqMaxPacket/4] = txqKeepalive|txqDisDrop, ttlink.DefaultMaxPacket
			if err := add(txqBase+uint32(q)*queueWindow, queueWindow, t); err != nil {
				return err
			}
			if err := add(rx+uint32(q)*queueWindow, queueWindow, &rxq{c: c, port: port, queue: q, header: header}); err != nil {
				return err
			}
		}
		if c.blackhole() {
			if err := add(headersBase, headersLen, &headers{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// blackhole reports whether the chip's ethernet tiles are those of Blackhole.
func (c *machine) blackhole() bool { return c.cfg.Topology.Arch == wire.Blackhole }

// load fills b with words: the function "word" returns the word at each offset, from offset off on.
func load(off uint64, b []byte, word func(off uint64) uint32) wire.Outcome {
	for ; len(b) > 0; off, b = off+4, b[4:] {
		binary.LittleEndian.PutUint32(b, word(off))
	}
	return wire.OutcomeDone
}

// Load reads registers of the queue.
func (t *txq) Load(off uint64, b []byte) wire.Outcome { return load(off, b, t.word) }

func (t *txq) word(off uint64) uint32 {
	if t.holds(off) {
		return t.words[off/4]
	}
	if t.port < 0 {
		return 0
	}
	p := &t.c.ports.list[t.port]
	n, busy, raw := p.link.WriteCount(t.queue), p.link.Busy(t.queue), &p.raw.sent[t.queue]
	switch off {
	case txqCmd:
		if busy && !t.c.blackhole() {
			return 1
		}
		return 0
	case txqStatus:
		if busy && t.c.blackhole() {
			return txqOngoing
		}
		return 0
	case txqTransferCnt:
		if busy {
			return uint32(n.Started+raw.frames) - 1
		}
		return uint32(n.Started + raw.frames)
	case txqPktStart, txqPktEnd:
		return uint32(n.Frames + raw.frames)
	case txqWordCnt:
		if t.c.blackhole() {
			return uint32(n.Lines + raw.words)
		}
		return uint32(n.Words + raw.words)
	}
	return 0
}

// holds reports whether the register at an offset holds what was stored into it.
func (t *txq) holds(off uint64) bool {
	switch off {
	case txqCtrl, txqMaxPacket, txqStart, txqSize, txqDest, txqRegData, txqResend, txqUpdate:
		return true
	case txqSelectSW, txqSelectHW, txqSelectOvl:
		return t.c.blackhole()
	}
	return !t.c.blackhole() && txqMAC <= off && off < txqMACEnd
}

// Store writes registers of the queue. A store to CMD starts a command, with the values that the
// other registers have after the store. In compliance mode, CMD takes only the value 1, and
// otherwise only 2 and 4. Store returns OutcomeBadCommand for any other value of CMD, and for a
// tile without a cable. Store returns OutcomeMisaligned for an L1 write whose length is not a
// multiple of 16. Otherwise Store returns the outcome of startRaw, startWrite or startRegister.
// After an outcome other than OutcomeDone, no register has changed.
func (t *txq) Store(off uint64, b []byte) wire.Outcome {
	old := t.words
	cmd, starts := uint32(0), false
	for ; len(b) > 0; off, b = off+4, b[4:] {
		v := binary.LittleEndian.Uint32(b)
		switch {
		case off == txqCmd:
			cmd, starts = v, true
		case t.holds(off):
			t.words[off/4] = v
		}
	}
	if starts {
		if o := t.start(cmd); o != wire.OutcomeDone {
			t.words = old
			return o
		}
	}
	if n := t.words[txqMaxPacket/4]; n != old[txqMaxPacket/4] && t.port >= 0 {
		t.c.ports.list[t.port].link.SetMaxPacket(t.queue, int(n))
	}
	return wire.OutcomeDone
}

// Takes reports whether a store leaves CMD unchanged. The queue never refuses such a store.
func (t *txq) Takes(off uint64, n int) bool { return off > txqCmd || off+uint64(n) <= txqCmd }

// start performs a store of the value cmd to CMD.
func (t *txq) start(cmd uint32) wire.Outcome {
	if t.port < 0 {
		return wire.OutcomeBadCommand
	}
	ch := t.c.ports.list[t.port].Local.Channel
	w := &t.words
	if p := &t.c.ports.list[t.port]; p.raw.on != (cmd == cmdRaw) {
		return wire.OutcomeBadCommand
	}
	switch cmd {
	case cmdRaw:
		return t.c.startRaw(&t.c.ports.list[t.port], t.queue, w[txqStart/4], w[txqSize/4])
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
	switch blackhole := r.c.blackhole(); {
	case off == rxqFormat:
		return r.format
	case off == rxqHdrCtrl && blackhole:
		return r.header
	case r.port >= 0:
		return r.live(off, blackhole)
	case off == rxqCtrl:
		return rxqPacketMode
	}
	return 0
}

// live returns the value of a register that shows the state of the port.
func (r *rxq) live(off uint64, blackhole bool) uint32 {
	p := &r.c.ports.list[r.port]
	n := p.link.WriteCount(r.queue)
	expected, acked := p.link.Sequence()
	words, frames, size, dropped := n.WordsTaken, n.FramesTaken, n.BytesTaken, uint64(0)
	if blackhole {
		words = n.LinesTaken
	}
	mode := uint32(rxqPacketMode)
	if r.queue == 0 {
		f := p.link.Counters()
		dropped = refused(&f) + p.writes.Refused + p.raw.dropped()
		words, frames, size = words+p.raw.taken.words, frames+p.raw.taken.frames, size+p.raw.bytes
		if p.raw.on {
			mode = 0
		}
		if p.raw.wrap {
			mode |= rxqBufWrap
		}
		switch off {
		case rxqBufPtr:
			return p.raw.ptr
		case rxqBufStart:
			return p.raw.start
		case rxqBufSize:
			return p.raw.size
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
	if blackhole {
		switch off {
		case rxqByteCnt:
			return uint32(size)
		case rxqPktStart:
			return uint32(frames + dropped)
		}
	}
	return 0
}

// Store writes registers of the queue. Only queue 0 has the buffer of compliance mode, and BUF_WRAP.
func (r *rxq) Store(off uint64, b []byte) wire.Outcome {
	m := &rawMode{} // a tile without a cable forgets what is stored
	if r.port >= 0 {
		m = &r.c.ports.list[r.port].raw
	}
	for ; len(b) > 0; off, b = off+4, b[4:] {
		v := binary.LittleEndian.Uint32(b)
		switch {
		case off == rxqFormat:
			r.format = v & rxqFormatBits
		case off == rxqHdrCtrl:
			r.header = v
		case r.queue != 0:
		case off == rxqCtrl:
			m.wrap = v&rxqBufWrap != 0
		case off == rxqBufPtr:
			m.ptr = v
		case off == rxqBufStart:
			m.start = v
		case off == rxqBufSize:
			m.size = v
		}
	}
	return wire.OutcomeDone
}

// Takes reports that no store is refused.
func (r *rxq) Takes(uint64, int) bool { return true }
