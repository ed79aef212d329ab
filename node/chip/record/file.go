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
	version  = 7 // version of the format; a reader also accepts versions 1 to 6
	prefix   = len(magic) + 4
	blockLen = 12 // length of a block's own header, in bytes

	endRoom = 1 << 11 // part of the limit that is reserved for the last block, in bytes
)

// MinLimit is the smallest limit of a [Writer], in bytes.
const MinLimit = 64 << 10

// ErrLimit is the error of [Writer.Block] when a file has reached its limit.
var ErrLimit = errors.New("the recording has reached its limit")

// Writer writes a recording. A Writer buffers nothing. When a call returns, the
// underlying writer has all data of the call.
type Writer struct {
	w     io.Writer
	limit int64
	n     int64
	flate *flate.Writer
	store *flate.Writer // writes the same format without compression
	buf   bytes.Buffer
	err   error
}

// NewWriter writes the beginning of a recording. The recording will have at most
// "limit" bytes. The limit must be at least MinLimit.
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

// Bytes returns the number of bytes written so far.
func (f *Writer) Bytes() int64 { return f.n }

// Block writes a block of whole records. If the block would exceed the limit, Block
// writes an end record instead and returns [ErrLimit]. After an error, Block writes
// nothing more.
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

// End writes the end record, with the reason and a text for display. After an error, End
// writes nothing and returns the error.
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
		f.err = fmt.Errorf("recording: a block of %d bytes: want at most %d", len(raw), MaxRaw)
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

// A Writer first compresses a sample of sampleBytes from the middle of a large block. If
// the compressed sample is longer than worthBytes, the Writer stores the whole block
// without compression. Random payload is an example of such a block. Compressing random payload
// would take more time than all other work of the Writer.
const (
	sampleBytes = 16 << 10
	worthBytes  = sampleBytes * 85 / 100
)

// packer returns the compressor for a block: with or without compression.
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

// counter is a writer that only counts bytes.
type counter int

// Write counts the bytes of b.
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

// Cut is the error of a recording that breaks off without an end record. The recording
// process was killed or still runs, or the file is damaged. All blocks before offset At
// are whole.
type Cut struct {
	At    int64 // offset in the file, in bytes
	Why   string
	Short bool // true: the file ends at At or within the block at At, as after a kill; false: the file is damaged or cannot be read
}

// Error returns the place and the reason of the break, in one line.
func (c *Cut) Error() string {
	return fmt.Sprintf("the recording breaks off after %d bytes: %s", c.At, c.Why)
}

// Reader reads a recording.
type Reader struct {
	r      *bufio.Reader
	header Header
	pos    int64 // offset in the file behind the last whole block read so far, in bytes
	stored []byte
	block  []byte // records of the block that have not been read
	raw    []byte // all raw bytes of the block
	dec    decoder
	body   []byte // body of the record that peek has read and no caller has taken yet; nil: there is none
	end    *Record
	err    error
}

// NewReader reads the beginning of a recording. If the recording cannot be read, the
// error says why.
func NewReader(r io.Reader) (*Reader, error) {
	f := &Reader{r: bufio.NewReaderSize(r, 1<<16)}
	head := make([]byte, prefix)
	_, err := io.ReadFull(f.r, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, fmt.Errorf("the recording cannot be read: %w", err)
	}
	if err != nil || string(head[:len(magic)]) != magic {
		return nil, errors.New("this is no recording of a chip: it does not begin with TTFREC")
	}
	v := binary.LittleEndian.Uint16(head[len(magic):])
	if v < 1 || v > version {
		return nil, fmt.Errorf("the recording has version %d of the format; this program reads versions 1 to %d", v, version)
	}
	f.pos = int64(prefix)
	if err := f.next(); err != nil {
		return nil, fmt.Errorf("the recording has no whole header: %w", err)
	}
	if f.header, err = decodeHeader(f.block); err != nil {
		return nil, err
	}
	f.block, f.dec.last, f.dec.old = nil, f.header.Started, v < 3
	return f, nil
}

// Header returns the header of the recording, with the configuration of the chip.
func (f *Reader) Header() *Header { return &f.header }

// Bytes returns the length of the file up to the end of the last block that was read, in
// bytes.
func (f *Reader) Bytes() int64 { return f.pos }

// next reads the next block.
func (f *Reader) next() error {
	cut := func(format string, a ...any) error { return &Cut{At: f.pos, Why: fmt.Sprintf(format, a...)} }
	short := func(format string, a ...any) error {
		return &Cut{At: f.pos, Why: fmt.Sprintf(format, a...), Short: true}
	}
	var head [blockLen]byte
	switch n, err := io.ReadFull(f.r, head[:]); {
	case err == io.EOF:
		return short("the recording has no end record")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return short("only %d of the %d bytes of a block's header are there", n, blockLen)
	case err != nil:
		return cut("%v", err)
	}
	stored, raw := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
	if stored == 0 || stored > MaxStored || raw == 0 || raw > MaxRaw {
		return cut("a block of %d bytes, %d before compression, is damaged", stored, raw)
	}
	var err error
	// A block may claim more bytes than the file has. Therefore the buffer grows only
	// with the bytes that come.
	got := bytes.NewBuffer(f.stored[:0])
	n, err := io.CopyN(got, f.r, int64(stored))
	f.stored = got.Bytes()
	switch {
	case err == io.EOF:
		return short("only %d of the %d bytes of a block are there", n, stored)
	case err != nil:
		return cut("%v", err)
	}
	if wire.Checksum(f.stored) != binary.LittleEndian.Uint32(head[8:]) {
		return cut("the checksum of the next block is wrong")
	}
	out := bytes.NewBuffer(f.raw[:0])
	k, err := io.Copy(out, io.LimitReader(flate.NewReader(bytes.NewReader(f.stored)), int64(raw)+1))
	if f.raw = out.Bytes(); err != nil || k != int64(raw) {
		return cut("the next block does not unpack to %d bytes", raw)
	}
	f.block = f.raw
	f.pos += int64(blockLen) + int64(stored)
	return nil
}

// peek returns the body of the next record, and keeps the record for Next. After the end
// record, the error is io.EOF. If the recording breaks off, the error is a [*Cut].
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
			f.err = &Cut{At: f.pos, Why: fmt.Sprintf("the length of a record, %d bytes, is 0, above %d, or beyond the %d bytes that its block still has", n, MaxRecord, len(f.block))}
			break
		}
		f.body, f.block = f.block[k:k+int(n):k+int(n)], f.block[k+int(n):]
		if Kind(f.body[0]) == KindEnd {
			r, err := f.dec.record(f.body)
			if err != nil {
				f.err, f.body = &Cut{At: f.pos, Why: "the end record is damaged: " + err.Error()}, nil
				break
			}
			f.end, f.body, f.block = &r, nil, nil
		}
	}
	return f.body, f.err
}

// Next returns the next record. The record is valid until the next call of Next. After
// the end record, the error is io.EOF. If the recording breaks off, the error is a
// [*Cut].
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

// EachRaw calls the function "do" with each record except the end record. The slice "body"
// holds the undecoded record without its length, and is valid during the call only. If a
// call of "do" fails, EachRaw returns its error. After the end record, EachRaw returns
// nil. If the recording breaks off, the error is a [*Cut].
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

// Now returns the latest time in the records that Next has returned so far.
func (f *Reader) Now() mono.Time { return f.dec.last }

// End returns why the recording ends, and the text of the end record. Before the end
// record has been read, End returns 0 and an empty text.
func (f *Reader) End() (EndReason, string) {
	if f.end == nil {
		return 0, ""
	}
	return f.end.End, f.end.Text
}
