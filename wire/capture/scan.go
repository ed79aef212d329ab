package capture

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// MaxBlock is the length of the longest block that a [Reader] reads, in bytes. A block with the
// longest datagram and all its comments is shorter.
const MaxBlock = 1 << 20

// Reader reads a pcapng stream of one section, with all options that a [Writer] writes. The stream
// may come from any program, if it is little-endian, its times are in nanoseconds, and its
// interfaces are Ethernet.
type Reader struct {
	r          *bufio.Reader
	buf        []byte
	interfaces int
	Section    Section
}

// NewReader reads the section header, and returns a Reader for the blocks that follow.
func NewReader(r io.Reader) (*Reader, error) {
	p := &Reader{r: bufio.NewReaderSize(r, writerBuffer)}
	kind, b, err := p.block()
	if err != nil {
		return nil, err
	}
	if kind != blockSection || len(b) < 16 || binary.LittleEndian.Uint32(b) != byteOrderMagic {
		return nil, ErrNotPcapng
	}
	err = options(b[16:], func(code uint16, v []byte) error {
		switch code {
		case optComment:
			p.Section.Comments = append(p.Section.Comments, string(v))
		case optHardware:
			p.Section.Hardware = string(v)
		case optOS:
			p.Section.OS = string(v)
		case optApplication:
			p.Section.Application = string(v)
		}
		return nil
	})
	return p, err
}

// Block is one block of a capture. Exactly one of Interface, Packet, Statistics and Keys is set.
type Block struct {
	Interface  *Interface  // a new interface; its number is the number of interfaces before it
	Packet     *Packet     // valid until the next call of Next
	Statistics *Statistics // statistics of the interface with number Of
	Of         int
	Keys       []byte // lines of a TLS key log
}

// Next returns the next block, and skips blocks of other kinds than those in [Block]. At the end of
// the stream, the error is [io.EOF]. If the stream ends within a block, the error is
// [io.ErrUnexpectedEOF]. If a block is invalid, or is the header of a second section, the error is
// [ErrNotPcapng].
func (p *Reader) Next() (b Block, err error) {
	for {
		kind, body, err := p.block()
		if err != nil {
			return b, err
		}
		switch kind {
		case blockInterface:
			b.Interface, err = readInterface(body)
			p.interfaces++
		case blockPacket:
			b.Packet, err = p.readPacket(body)
		case blockStatistics:
			b.Of, b.Statistics, err = p.readStatistics(body)
		case blockSecrets:
			b.Keys, err = readSecrets(body)
		case blockSection:
			return b, fmt.Errorf("%w: the stream has a second section", ErrNotPcapng)
		}
		if err != nil || b.Interface != nil || b.Packet != nil || b.Statistics != nil || b.Keys != nil {
			return b, err
		}
	}
}

// block reads the next block. block returns the block's kind, and the bytes between the block's two
// length fields.
func (p *Reader) block() (kind uint32, body []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(p.r, head[:]); err != nil {
		return 0, nil, err
	}
	le := binary.LittleEndian
	kind = le.Uint32(head[:])
	n := int64(le.Uint32(head[4:]))
	if n < 12 || n%4 != 0 || n > MaxBlock {
		return 0, nil, fmt.Errorf("%w: a block has the invalid length %d", ErrNotPcapng, n)
	}
	if int(n) > cap(p.buf) {
		p.buf = make([]byte, n)
	}
	b := p.buf[:n-8]
	if _, err := io.ReadFull(p.r, b); err != nil {
		return 0, nil, noEOF(err)
	}
	if int64(le.Uint32(b[len(b)-4:])) != n {
		return 0, nil, fmt.Errorf("%w: a block's two lengths differ", ErrNotPcapng)
	}
	return kind, b[: len(b)-4 : len(b)-4], nil
}

// noEOF returns [io.ErrUnexpectedEOF] for [io.EOF], and any other error unchanged.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// options calls f for each option in b, with the option's code and value.
func options(b []byte, f func(code uint16, v []byte) error) error {
	le := binary.LittleEndian
	for len(b) >= 4 {
		code, n := le.Uint16(b), int(le.Uint16(b[2:]))
		if code == optEnd {
			return nil
		}
		b = b[4:]
		if n > len(b) {
			return fmt.Errorf("%w: an option is longer than its block", ErrNotPcapng)
		}
		if err := f(code, b[:n]); err != nil {
			return err
		}
		b = b[min(len(b), (n+3)&^3):]
	}
	return nil
}

func readInterface(b []byte) (*Interface, error) {
	if len(b) < 8 || binary.LittleEndian.Uint16(b) != linkEthernet {
		return nil, fmt.Errorf("%w: an interface is not Ethernet", ErrNotPcapng)
	}
	i := &Interface{SnapLen: int(binary.LittleEndian.Uint32(b[4:]))}
	resolution := byte(6)
	err := options(b[8:], func(code uint16, v []byte) error {
		switch code {
		case optComment:
			i.Comment = string(v)
		case optName:
			i.Name = string(v)
		case optDescription:
			i.Description = string(v)
		case optMAC:
			i.MAC = append(net.HardwareAddr(nil), v...)
		case optSpeed:
			i.Speed = number(v)
		case optFilter:
			if len(v) > 0 {
				i.Filter = string(v[1:])
			}
		case optResolution:
			if len(v) == 1 {
				resolution = v[0]
			}
		}
		return nil
	})
	if err == nil && resolution != nanoseconds {
		err = fmt.Errorf("%w: the times are not in nanoseconds", ErrNotPcapng)
	}
	return i, err
}

// number returns the 64-bit number in the value v of an option. If v does not have 8 bytes, number
// returns 0.
func number(v []byte) uint64 {
	if len(v) != 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(v)
}

// instant returns the time in the first 8 bytes of b. The high 32-bit word of the nanoseconds comes
// first. If all 8 bytes are 0, instant returns the zero Time.
func instant(b []byte) time.Time {
	le := binary.LittleEndian
	n := uint64(le.Uint32(b))<<32 | uint64(le.Uint32(b[4:]))
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(int64(n/1e9), int64(n%1e9))
}

func (p *Reader) readPacket(b []byte) (*Packet, error) {
	le := binary.LittleEndian
	if len(b) < 20 || int(le.Uint32(b)) >= p.interfaces {
		return nil, fmt.Errorf("%w: a packet names an interface that does not exist", ErrNotPcapng)
	}
	n := int(le.Uint32(b[12:]))
	if n < 0 || n > len(b)-20 {
		return nil, fmt.Errorf("%w: a packet is longer than its block", ErrNotPcapng)
	}
	k := &Packet{Interface: int(le.Uint32(b)), At: instant(b[4:]), Data: b[20 : 20+n : 20+n], Length: int(le.Uint32(b[16:]))}
	err := options(b[20+min(len(b)-20, (n+3)&^3):], func(code uint16, v []byte) error {
		switch {
		case code == optComment:
			k.Comments = append(k.Comments, string(v))
		case code == optFlags && len(v) == 4:
			k.Dir = Direction(v[0] & 3)
		case code == optDropCount:
			k.Dropped = number(v)
		case code == optPacketID:
			k.ID = number(v)
		}
		return nil
	})
	return k, err
}

func (p *Reader) readStatistics(b []byte) (int, *Statistics, error) {
	if len(b) < 12 || int(binary.LittleEndian.Uint32(b)) >= p.interfaces {
		return 0, nil, fmt.Errorf("%w: statistics name an interface that does not exist", ErrNotPcapng)
	}
	s := &Statistics{}
	err := options(b[12:], func(code uint16, v []byte) error {
		switch {
		case code == optComment:
			s.Comments = append(s.Comments, string(v))
		case code == optStart && len(v) == 8:
			s.Start = instant(v)
		case code == optStop && len(v) == 8:
			s.End = instant(v)
		case code == optReceived:
			s.Received = number(v)
		case code == optDropped:
			s.Dropped = number(v)
		case code == optAccepted:
			s.Accepted = number(v)
		}
		return nil
	})
	return int(binary.LittleEndian.Uint32(b)), s, err
}

func readSecrets(b []byte) ([]byte, error) {
	if len(b) < 8 {
		return nil, fmt.Errorf("%w: a block of secrets is too short", ErrNotPcapng)
	}
	n := int(binary.LittleEndian.Uint32(b[4:]))
	if n < 0 || n > len(b)-8 {
		return nil, fmt.Errorf("%w: secrets are longer than their block", ErrNotPcapng)
	}
	if binary.LittleEndian.Uint32(b) != secretsTLS || n == 0 {
		return nil, nil // ignore secrets that are not TLS keys
	}
	return append([]byte(nil), b[8:8+n]...), nil
}
