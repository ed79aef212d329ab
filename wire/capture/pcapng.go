package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Codes of the blocks and options of pcapng that this package writes. The codes come from
// draft-ietf-opsawg-pcapng, "PCAP Next Generation (pcapng) Capture File Format", sections 3.5 and
// 4.1 to 4.7.
const (
	blockSection    = 0x0a0d0d0a
	blockInterface  = 1
	blockStatistics = 5
	blockPacket     = 6 // the draft's Enhanced Packet Block
	blockSecrets    = 10

	byteOrderMagic = 0x1a2b3c4d
	secretsTLS     = 0x544c534b // "TLSK": lines of a TLS key log in NSS's format; QUIC uses TLS

	linkEthernet = 1 // LINKTYPE_ETHERNET

	optEnd     = 0
	optComment = 1

	optHardware, optOS, optApplication = 2, 3, 4 // options of a section

	optName, optDescription, optMAC, optSpeed, optResolution, optFilter = 2, 3, 6, 8, 9, 11 // options of an interface

	optFlags, optDropCount, optPacketID = 2, 4, 5 // options of a packet

	optStart, optStop, optReceived, optDropped, optAccepted, optDelivered = 2, 3, 4, 5, 6, 8 // options of statistics

	nanoseconds = 9 // code for the resolution of times: 10^-9 s
)

// Limits of a [Writer].
const (
	MaxComment   = 4096    // length of the longest text of an option, in bytes; the Writer cuts off the rest
	MaxComments  = 16      // largest number of comments in one block; the Writer leaves out further comments
	writerBuffer = 1 << 16 // number of bytes that a Writer collects before it writes them
)

// Direction is the direction of a packet at its interface: received or sent.
type Direction uint8

// The directions. The values are those of the packet flags of pcapng.
const (
	DirUnknown Direction = iota
	DirIn
	DirOut
)

// String returns "in", "out" or "?".
func (d Direction) String() string { return [...]string{"?", "in", "out", "?"}[d&3] }

// Section is the header of a capture. Hardware, OS and Application describe the machine and the
// program that captured.
type Section struct {
	Hardware, OS, Application string
	Comments                  []string
}

// Interface is a port at which packets are captured. The packets are Ethernet frames, and their
// times are in nanoseconds.
type Interface struct {
	Name        string // such as "M0D3/eth0"
	Description string
	Comment     string
	Filter      string // text of the capture filter; "": no filter
	MAC         net.HardwareAddr
	SnapLen     int    // number of bytes that the capture keeps of each packet; 0: all
	Speed       uint64 // bits per second; 0: unknown
}

// Packet is a captured packet.
type Packet struct {
	Interface int
	At        time.Time // when the packet passed the port; the format can express the years 1970 to 2554
	Dir       Direction
	Data      []byte   // the captured bytes of the packet, from the first byte on
	Length    int      // length of the whole packet, in bytes; 0: the length of Data
	Comments  []string // comments about the packet
	Dropped   uint64   // number of packets of the interface that the capture left out between the previous packet and this packet
	ID        uint64   // identifier of the packet, equal in captures at both ends of the cable; 0: none
}

// Statistics holds the counters of an interface's capture.
type Statistics struct {
	Start, End time.Time
	Received   uint64 // number of packets that passed the port
	Accepted   uint64 // number of received packets that passed the filter
	Dropped    uint64 // number of accepted packets that the capture left out because its buffer was full
	Comments   []string
}

// Writer writes a pcapng stream of one section. A Writer buffers its output until [Writer.Flush].
// After a write error, a Writer writes nothing more.
type Writer struct {
	w          io.Writer
	buf        []byte
	ends       []int // offsets in buf of the ends of whole blocks
	whole      int64 // number of bytes from the start to the end of the last block that was written completely
	total      int64 // number of bytes of all blocks, including blocks in buf
	interfaces int
	err        error
}

// NewWriter returns a Writer to w, and buffers the section header.
func NewWriter(w io.Writer, s Section) *Writer {
	p := &Writer{w: w}
	p.begin(blockSection)
	p.u32(byteOrderMagic)
	p.u16(1) // version 1.0
	p.u16(0)
	p.u64(^uint64(0)) // the section's length is unknown
	p.comments(s.Comments)
	p.text(optHardware, s.Hardware)
	p.text(optOS, s.OS)
	p.text(optApplication, s.Application)
	p.end()
	return p
}

// AddInterface writes the description of an interface, and returns the interface's number.
// Interfaces are numbered from 0.
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
		p.option(optFilter, append([]byte{0}, cut(i.Filter)...)) // 0: code for a filter as text
	}
	p.end()
	p.interfaces++
	return p.interfaces - 1
}

// WritePacket writes a packet. The caller has added the packet's interface before.
func (p *Writer) WritePacket(k *Packet) error {
	if k.Interface < 0 || k.Interface >= p.interfaces {
		return fmt.Errorf("pcapng: the packet names interface %d, but there are only %d interfaces", k.Interface, p.interfaces)
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

// WriteKeys writes lines of a TLS key log. With these keys, Wireshark decrypts the QUIC packets
// that follow in the file.
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

// WriteStatistics writes the counters of an interface. Readers use the last counters of each
// interface.
func (p *Writer) WriteStatistics(iface int, s Statistics) error {
	if iface < 0 || iface >= p.interfaces {
		return fmt.Errorf("pcapng: the statistics name interface %d, but there are only %d interfaces", iface, p.interfaces)
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

// Flush writes the buffered bytes to the underlying writer.
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

// Whole returns the number of bytes up to the end of the last block that was written completely. If
// a write has failed, the caller can cut the file to this length, which makes the file valid.
func (p *Writer) Whole() int64 { return p.whole }

// Size returns the length of the section so far, in bytes, including buffered bytes.
func (p *Writer) Size() int64 { return p.total }

// begin begins a block of the given kind. The method "end" later fills in the block's length.
func (p *Writer) begin(kind uint32) {
	if p.err != nil { // after an error, discard all output
		p.buf, p.ends = p.buf[:0], p.ends[:0]
	}
	p.u32(kind)
	p.u32(0)
}

// end ends the block that begin began last.
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

// bare reports whether the kind of the block at the offset "start" has no options. A block without
// options has no end-of-options mark.
func (p *Writer) bare(start int) bool {
	return binary.LittleEndian.Uint32(p.buf[start:]) == blockSecrets
}

func (p *Writer) u16(v uint16) { p.buf = binary.LittleEndian.AppendUint16(p.buf, v) }
func (p *Writer) u32(v uint32) { p.buf = binary.LittleEndian.AppendUint32(p.buf, v) }
func (p *Writer) u64(v uint64) { p.buf = binary.LittleEndian.AppendUint64(p.buf, v) }

// time writes an instant in nanoseconds as two 32-bit words, the high word first.
func (p *Writer) time(t time.Time) {
	n := uint64(0)
	if !t.IsZero() {
		n = uint64(t.UnixNano())
	}
	p.u32(uint32(n >> 32))
	p.u32(uint32(n))
}

// padded writes b, and zeros up to a multiple of four bytes.
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

// cut shortens s to at most [MaxComment] bytes. The cut is between two characters of UTF-8.
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

// ErrNotPcapng is the error for a stream that a [Reader] cannot read.
var ErrNotPcapng = errors.New("not a pcapng stream that ttfabric can read")
