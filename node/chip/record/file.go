package record

import (
	"bufio"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

const (
	magic    = "TTFREC\r\n"
	version  = 2 // older ones, from 1, are part of it
	prefix   = len(magic) + 4
	blockLen = 12 // of a block's own header

	endRoom = 1 << 11 // bytes of the limit that are kept for the last block
)

// MinLimit is the least that a [Writer] must be allowed, in bytes.
const MinLimit = 64 << 10

// ErrLimit is returned when a file has the size that it was allowed.
var ErrLimit = errors.New("the recording has reached its limit")

// Writer writes a recording. It buffers nothing: what it was given is with the
// underlying writer when the call returns.
type Writer struct {
	w     io.Writer
	limit int64
	n     int64
	flate *flate.Writer
	store *flate.Writer // the same format without compression
	buf   bytes.Buffer
	err   error
}

// NewWriter writes the beginning of a recording of at most limit bytes, at least MinLimit.
func NewWriter(w io.Writer, h Header, limit int64) (*Writer, error) {
	if limit < MinLimit {
		return nil, fmt.Errorf("recording: a limit of %d bytes: want at least %d", limit, MinLimit)
	}
	b, err := h.encode()
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	f := &Writer{w: w, limit: limit}
	var errs [2]error
	f.flate, errs[0] = flate.NewWriter(nil, flate.BestSpeed)
	f.store, errs[1] = flate.NewWriter(nil, flate.NoCompression)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	head := binary.LittleEndian.AppendUint16([]byte(magic), version)
	head = append(head, 0, 0)
	if err := f.put(head); err != nil {
		return nil, err
	}
	return f, f.block(b, 0)
}

// Bytes is how many have been written.
func (f *Writer) Bytes() int64 { return f.n }

// Block writes a block of whole records. Where the limit would be passed it
// writes the end of the recording instead, and returns [ErrLimit]; after an
// error it writes nothing more.
func (f *Writer) Block(raw []byte) error {
	if f.err == nil && len(raw) > 0 {
		if err := f.block(raw, endRoom); errors.Is(err, ErrLimit) {
			if err := f.End(EndLimit, ""); err != nil {
				return err
			}
			f.err = ErrLimit
		}
	}
	return f.err
}

// End writes the end of the recording, and why.
func (f *Writer) End(why EndReason, text string) error {
	if f.err != nil {
		return f.err
	}
	var e encoder
	e.begin(KindEnd)
	e.uint(uint64(why))
	e.text(clip(text))
	return f.block(e.end(nil), 0)
}

func (f *Writer) block(raw []byte, room int64) error {
	if len(raw) > MaxRaw {
		f.err = fmt.Errorf("recording: a block of %d bytes: at most %d", len(raw), MaxRaw)
		return f.err
	}
	f.buf.Reset()
	var head [blockLen]byte
	f.buf.Write(head[:])
	pack, err := f.packer(raw)
	if err == nil {
		pack.Reset(&f.buf)
		_, err = pack.Write(raw)
		err = errors.Join(err, pack.Close())
	}
	if err != nil {
		f.err = err
		return err
	}
	b := f.buf.Bytes()
	if f.n+int64(len(b))+room > f.limit {
		return ErrLimit
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-blockLen))
	binary.LittleEndian.PutUint32(b[4:], uint32(len(raw)))
	binary.LittleEndian.PutUint32(b[8:], wire.Checksum(b[blockLen:]))
	return f.put(b)
}

// What is not worth to be compressed: a block of which a sample from its
// middle doesn't get below a share. Payload that a test made is such; to
// compress it costs more than all else.
const (
	sampleBytes = 16 << 10
	worthBytes  = sampleBytes * 85 / 100
)

// packer decides how a block is stored.
func (f *Writer) packer(raw []byte) (*flate.Writer, error) {
	if len(raw) < 4*sampleBytes {
		return f.flate, nil
	}
	var n counter
	f.flate.Reset(&n)
	_, err := f.flate.Write(raw[len(raw)/2:][:sampleBytes])
	if err = errors.Join(err, f.flate.Close()); err == nil && n > worthBytes {
		return f.store, nil
	}
	return f.flate, err
}

// counter counts what is written to it.
type counter int

// Write counts b.
func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

func (f *Writer) put(b []byte) error {
	n, err := f.w.Write(b)
	f.n += int64(n)
	if err != nil {
		f.err = fmt.Errorf("recording: %w", err)
	}
	return f.err
}

// Cut says that a recording has no end: its process was killed, or still
// runs, or the file is damaged. What came before At is whole.
type Cut struct {
	At    int64 // bytes of the file
	Why   string
	Short bool // the file just ends there, as after a kill; else it is damaged
}

// Error says where and why.
func (c *Cut) Error() string {
	return fmt.Sprintf("the recording breaks off after %d bytes: %s", c.At, c.Why)
}

// Reader reads a recording.
type Reader struct {
	r      *bufio.Reader
	header Header
	pos    int64 // bytes of whole blocks
	stored []byte
	block  []byte // records that have not been read
	raw    []byte // of the block, all
	dec    decoder
	body   []byte // of the record at hand; nil: to be read
	end    *Record
	err    error
}

// NewReader reads the beginning of a recording. The error of one that cannot be read says why.
func NewReader(r io.Reader) (*Reader, error) {
	f := &Reader{r: bufio.NewReaderSize(r, 1<<16)}
	head := make([]byte, prefix)
	if _, err := io.ReadFull(f.r, head); err != nil || string(head[:len(magic)]) != magic {
		return nil, errors.New("this is no recording of a chip: it does not begin with TTFREC")
	}
	if v := binary.LittleEndian.Uint16(head[len(magic):]); v < 1 || v > version {
		return nil, fmt.Errorf("the recording has version %d of the format; this program reads versions 1 to %d", v, version)
	}
	f.pos = int64(prefix)
	if err := f.next(); err != nil {
		return nil, fmt.Errorf("the recording has no whole header: %w", err)
	}
	var err error
	if f.header, err = decodeHeader(f.block); err != nil {
		return nil, err
	}
	f.block, f.dec.last = nil, f.header.Started
	return f, nil
}

// Header says of which chip the recording is.
func (f *Reader) Header() *Header { return &f.header }

// Bytes is how far the file has been read.
func (f *Reader) Bytes() int64 { return f.pos }

// next reads a block.
func (f *Reader) next() error {
	cut := func(format string, a ...any) error { return &Cut{At: f.pos, Why: fmt.Sprintf(format, a...)} }
	short := func(format string, a ...any) error {
		return &Cut{At: f.pos, Why: fmt.Sprintf(format, a...), Short: true}
	}
	var head [blockLen]byte
	switch n, err := io.ReadFull(f.r, head[:]); {
	case err == io.EOF:
		return short("it was not ended")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return short("of a block's header there are %d bytes of %d", n, blockLen)
	case err != nil:
		return cut("%v", err)
	}
	stored, raw := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
	if stored == 0 || stored > MaxStored || raw == 0 || raw > MaxRaw {
		return cut("a block of %d bytes, %d before compression, is damaged", stored, raw)
	}
	var err error
	// What a block claims is believed as far as there are bytes.
	got := bytes.NewBuffer(f.stored[:0])
	n, err := io.CopyN(got, f.r, int64(stored))
	f.stored = got.Bytes()
	switch {
	case err == io.EOF:
		return short("of a block there are %d bytes of %d", n, stored)
	case err != nil:
		return cut("%v", err)
	}
	if wire.Checksum(f.stored) != binary.LittleEndian.Uint32(head[8:]) {
		return cut("the checksum of the block behind differs")
	}
	out := bytes.NewBuffer(f.raw[:0])
	k, err := io.Copy(out, io.LimitReader(flate.NewReader(bytes.NewReader(f.stored)), int64(raw)+1))
	if f.raw = out.Bytes(); err != nil || k != int64(raw) {
		return cut("the block behind does not unpack to %d bytes", raw)
	}
	f.block = f.raw
	f.pos += int64(blockLen) + int64(stored)
	return nil
}

// peek returns the body of the next record without taking it. The error is
// io.EOF at the end of a recording that was ended, a [*Cut] where it breaks off.
func (f *Reader) peek() ([]byte, error) {
	for f.body == nil && f.err == nil {
		if len(f.block) == 0 {
			if f.end != nil {
				f.err = io.EOF
			} else {
				f.err = f.next()
			}
			continue
		}
		n, k := binary.Uvarint(f.block)
		if k <= 0 || n == 0 || n > MaxRecord || n > uint64(len(f.block)-k) {
			f.err = &Cut{At: f.pos, Why: "a record is longer than its block"}
			break
		}
		f.body, f.block = f.block[k:k+int(n):k+int(n)], f.block[k+int(n):]
		if Kind(f.body[0]) == KindEnd {
			var r Record
			if r, f.err = f.dec.record(f.body); f.err == nil {
				f.end, f.body, f.block = &r, nil, nil
			}
		}
	}
	return f.body, f.err
}

// Next returns the next record, valid until the one after it. The error is
// io.EOF at the end of a recording that was ended, a [*Cut] where it breaks off.
func (f *Reader) Next() (Record, error) {
	b, err := f.peek()
	if err != nil {
		return Record{}, err
	}
	f.body = nil
	r, err := f.dec.record(b)
	if err != nil {
		f.err = &Cut{At: f.pos, Why: err.Error()}
		return Record{}, f.err
	}
	return r, nil
}

// EachRaw calls f with each record behind its length, undecoded, until one
// fails or the recording ends. The slice is valid during the call.
func (f *Reader) EachRaw(do func(body []byte) error) error {
	for {
		b, err := f.peek()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		f.body = nil
		if err := do(b); err != nil {
			return err
		}
	}
}

// Now is the time of the last record that was read and had one.
func (f *Reader) Now() mono.Time { return f.dec.last }

// End says why the recording ends; 0 as long as its end has not been read.
func (f *Reader) End() (EndReason, string) {
	if f.end == nil {
		return 0, ""
	}
	return f.end.End, f.end.Text
}
