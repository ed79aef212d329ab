package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// The blocks and options of pcapng that this package writes: draft-ietf-opsawg-pcapng, "PCAP Next
// Generation (pcapng) Capture File Format", sections 3.5, 4.1 to 4.7.
const (
	blockSection    = 0x0a0d0d0a
	blockInterface  = 1
	blockStatistics = 5
	blockPacket     = 6 // enhanced packet block
	blockSecrets    = 10

	byteOrderMagic = 0x1a2b3c4d
	secretsTLS     = 0x544c534b // "TLSK": lines of NSS's key log, which QUIC uses too

	linkEthernet = 1 // LINKTYPE_ETHERNET

	optEnd     = 0
	optComment = 1

	optHardware, optOS, optApplication = 2, 3, 4 // options of a section

	optName, optDescription, optMAC, optSpeed, optResolution, optFilter = 2, 3, 6, 8, 9, 11 // options of an interface

	optFlags, optDropCount, optPacketID = 2, 4, 5 // options of a packet

	optStart, optStop, optReceived, optDropped, optAccepted, optDelivered = 2, 3, 4, 5, 6, 8 // options of statistics

	nanoseconds = 9 // resolution of times: ten to the power of minus nanoseconds
)

// Limits of what a [Writer] writes.
const (
	MaxComment   = 4096    // longest comment, in bytes; the writer cuts off the rest
	MaxComments  = 16      // largest number of comments of one packet; the writer leaves out further comments
	writerBuffer = 1 << 16 // bytes that a Writer collects before it writes them
)

// Direction is the direction of a packet, seen from the interface.
type Direction uint8

// The directions, as in the packet flags of pcapng.
const (
	DirUnknown Direction = iota
	DirIn
	DirOut
)

// String returns "in", "out" or "?".
func (d Direction) String() string { return [...]string{"?", "in", "out", "?"}[d&3] }

// Section describes a capture.
type Section struct {
	Hardware, OS, Application string
	Comments                  []string
}

// Interface is a port at which packets are captured. Times are in nanoseconds, and packets are
// Ethernet frames.
type Interface struct {
	Name        string // M0D3/eth0
	Description string
	Comment     string
	Filter      string // the filter that the packets have passed
	MAC         net.HardwareAddr
	SnapLen     int    // number of bytes of a packet that the capture keeps; 0: all
	Speed       uint64 // bits per second; 0: unknown
}

// Packet is a captured packet.
type Packet struct {
	Interface int
	At        time.Time // time of the packet, in the years from 1970 to 2554
	Dir       Direction
	Data      []byte   // the captured bytes
	Length    int      // of the whole packet, in bytes; 0: the length of Data
	Comments  []string // comments about the packet
	Dropped   uint64   // number of packets of the interface that the capture has lost since the previous packet
	ID        uint64   // identifies the packet, also in a capture at another place; 0: none
}

// Statistics counts what the capture of an interface has done so far.
type Statistics struct {
	Start, End time.Time
	Received   uint64 // number of packets that passed the port
	Accepted   uint64 // number of received packets that passed the filter
	Dropped    uint64 // number of accepted packets that found no room
	Comments   []string
}

// Writer writes a section of a pcapng file. A Writer buffers its output, see [Writer.Flush]. After
// an error, a Writer writes nothing more.
type Writer struct {
	w          io.Writer
	buf        []byte
	ends       []int // offsets in buf of the ends of whole blocks
	whole      int64 // number of bytes written that belong to whole blocks
	total      int64 // number of bytes of all blocks, including the bytes in buf
	interfaces int
	err        error
}

// NewWriter begins a section.
func NewWriter(w io.Writer, s Section) *Writer {
	p := &Writer{w: w}
	p.begin(blockSection)
	p.u32(byteOrderMagic)
	p.u16(1) // version 1.0
	p.u16(0)
	p.u64(^uint64(0)) // length of the section: unknown
	p.comments(s.Comments)
	p.text(optHardware, s.Hardware)
	p.text(optOS, s.OS)
	p.text(optApplication, s.Application)
	p.end()
	return p
}

// AddInterface adds a port and returns its number.
func (p *Writer) AddInterface(i Interface) int {
	p.begin(blockInterface)
	p.u16(linkEthernet)
	p.u16(0)
	p.u32(uint32(max(i.SnapLen, 0)))
	p.text(optComment, i.Comment)
	p.text(optName, i.Name)
	p.text(optDescription, i.Description)
	if len(i.MAC) == 6 {
		p.option(optMAC, i.MAC)
	}
	if i.Speed > 0 {
		p.option(optSpeed, binary.LittleEndian.AppendUint64(nil, i.Speed))
	}
	p.option(optResolution, []byte{nanoseconds})
	if i.Filter != "" {
		p.option(optFilter, append([]byte{0}, cut(i.Filter)...)) // 0: libpcap's code for a filter in words
	}
	p.end()
	p.interfaces++
	return p.interfaces - 1
}

// WritePacket writes a packet of an interface that was added before.
func (p *Writer) WritePacket(k *Packet) error {
	if k.Interface < 0 || k.Interface >= p.interfaces {
		return fmt.Errorf("pcapng: interface %d of %d", k.Interface, p.interfaces)
	}
	p.begin(blockPacket)
	p.u32(uint32(k.Interface))
	p.time(k.At)
	p.u32(uint32(len(k.Data)))
	p.u32(uint32(max(k.Length, len(k.Data))))
	p.padded(k.Data)
	p.comments(k.Comments)
	if k.Dir != DirUnknown {
		p.option(optFlags, []byte{byte(k.Dir), 0, 0, 0})
	}
	if k.Dropped > 0 {
		p.option(optDropCount, binary.LittleEndian.AppendUint64(nil, k.Dropped))
	}
	if k.ID != 0 {
		p.option(optPacketID, binary.LittleEndian.AppendUint64(nil, k.ID))
	}
	p.end()
	return p.err
}

// WriteKeys writes lines of a TLS key log. These keys decrypt the QUIC packets that follow in the
// file.
func (p *Writer) WriteKeys(lines []byte) error {
	if len(lines) == 0 {
		return p.err
	}
	p.begin(blockSecrets)
	p.u32(secretsTLS)
	p.u32(uint32(len(lines)))
	p.padded(lines)
	p.end()
	return p.err
}

// WriteStatistics writes the statistics of an interface's capture so far. The last statistics of an
// interface are the valid ones.
func (p *Writer) WriteStatistics(iface int, s Statistics) error {
	if iface < 0 || iface >= p.interfaces {
		return fmt.Errorf("pcapng: interface %d of %d", iface, p.interfaces)
	}
	p.begin(blockStatistics)
	p.u32(uint32(iface))
	p.time(s.End)
	p.comments(s.Comments)
	for _, o := range []struct {
		code uint16
		at   time.Time
	}{{optStart, s.Start}, {optStop, s.End}} {
		if !o.at.IsZero() {
			t := uint64(o.at.UnixNano())
			b := binary.LittleEndian.AppendUint32(nil, uint32(t>>32))
			p.option(o.code, binary.LittleEndian.AppendUint32(b, uint32(t)))
		}
	}
	for _, o := range []struct {
		code uint16
		n    uint64
	}{{optReceived, s.Received}, {optDropped, s.Dropped}, {optAccepted, s.Accepted}, {optDelivered, s.Accepted - s.Dropped}} {
		p.option(o.code, binary.LittleEndian.AppendUint64(nil, o.n))
	}
	p.end()
	return p.err
}

// Flush writes the buffered bytes.
func (p *Writer) Flush() error {
	if p.err != nil || len(p.buf) == 0 {
		return p.err
	}
	n, err := p.w.Write(p.buf)
	if err == nil && n < len(p.buf) {
		err = io.ErrShortWrite
	}
	done := 0
	for _, e := range p.ends {
		if e <= n {
			done = e
		}
	}
	p.whole += int64(done)
	p.buf, p.ends, p.err = p.buf[:0], p.ends[:0], err
	return err
}

// Whole returns the number of bytes of whole blocks that have been written. If a write has failed,
// the caller cuts the file to this length to make the file valid.
func (p *Writer) Whole() int64 { return p.whole }

// Size returns the section's length so far, in bytes, including buffered bytes.
func (p *Writer) Size() int64 { return p.total }

// begin begins a block. The method end later fills in the block's length.
func (p *Writer) begin(kind uint32) {
	if p.err != nil { // write nothing any more
		p.buf, p.ends = p.buf[:0], p.ends[:0]
	}
	p.u32(kind)
	p.u32(0)
}

// end ends a block.
func (p *Writer) end() {
	start := 0
	if n := len(p.ends); n > 0 {
		start = p.ends[n-1]
	}
	if !p.bare(start) {
		p.u32(optEnd)
	}
	n := len(p.buf) - start + 4
	binary.LittleEndian.PutUint32(p.buf[start+4:], uint32(n))
	p.u32(uint32(n))
	p.ends = append(p.ends, len(p.buf))
	p.total += int64(n)
	if len(p.buf) >= writerBuffer {
		_ = p.Flush() // the error stays in p.err
	}
}

// bare reports whether the block at start has no options, and therefore no end-of-options mark.
func (p *Writer) bare(start int) bool {
	return binary.LittleEndian.Uint32(p.buf[start:]) == blockSecrets
}

func (p *Writer) u16(v uint16) { p.buf = binary.LittleEndian.AppendUint16(p.buf, v) }
func (p *Writer) u32(v uint32) { p.buf = binary.LittleEndian.AppendUint32(p.buf, v) }
func (p *Writer) u64(v uint64) { p.buf = binary.LittleEndian.AppendUint64(p.buf, v) }

// time writes an instant as two words, the high word first.
func (p *Writer) time(t time.Time) {
	n := uint64(0)
	if !t.IsZero() {
		n = uint64(t.UnixNano())
	}
	p.u32(uint32(n >> 32))
	p.u32(uint32(n))
}

// padded writes bytes, and pads them with zeros to a multiple of four.
func (p *Writer) padded(b []byte) {
	p.buf = append(p.buf, b...)
	p.buf = append(p.buf, make([]byte, -len(b)&3)...)
}

func (p *Writer) option(code uint16, b []byte) {
	p.u16(code)
	p.u16(uint16(len(b)))
	p.padded(b)
}

func (p *Writer) text(code uint16, s string) {
	if s != "" {
		p.option(code, []byte(cut(s)))
	}
}

func (p *Writer) comments(cs []string) {
	for _, c := range cs[:min(len(cs), MaxComments)] {
		p.text(optComment, c)
	}
}

// cut shortens a text to at most [MaxComment] bytes, and never cuts within a character.
func cut(s string) string {
	if len(s) <= MaxComment {
		return s
	}
	n := MaxComment
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}

// ErrNotPcapng is returned for a stream that no [Writer] of this package has written.
var ErrNotPcapng = errors.New("not a pcapng stream of ttfabric")
