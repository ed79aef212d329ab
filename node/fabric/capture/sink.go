package capture

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ttfabric/wire/capture"
)

// Sink receives the frames of a [Job]. The job adds an interface for each port. Interfaces
// are numbered from 0, in the order in which the job adds the interfaces.
type Sink interface {
	AddInterface(i capture.Interface) error
	Packet(p *capture.Packet) error
	Keys(lines []byte) error                // adds lines of a TLS key log
	Flush() error                           // writes all buffered data
	Size() int64                            // number of bytes that the sink has written to pcapng files or a pcapng stream; 0 for other sinks
	Close(stats []capture.Statistics) error // ends the capture; stats has the statistics of each interface
	Files() []string                        // names of the files that exist, oldest first
}

// pcapng is a [Sink] that writes a pcapng stream, or one or more pcapng files.
type pcapng struct {
	o       Options // options of the files; the zero value for a stream
	section capture.Section
	file    *os.File // the present file; nil: the sink writes a stream
	w       *capture.Writer
	ifaces  []capture.Interface
	keys    []byte
	names   []string // names of the files that exist, oldest first
	number  int      // number of the present file in the series
	before  int64    // number of bytes in all earlier files, also in removed files
	stats   []capture.Statistics
}

// Stream returns a sink that writes a pcapng stream with one section to w.
func Stream(w io.Writer, s capture.Section) Sink {
	return &pcapng{section: s, w: capture.NewWriter(w, s)}
}

// Files returns a sink that writes the file o.Write, and opens the file. If o.RingMiB is
// not 0, the sink writes a series of files NAME_00001_TIME.EXT. If o.Keys is true, only
// the owner can read a new file; a file that exists already keeps its mode. If a write
// fails, for example because the disk is full, the sink cuts the file to whole blocks. The
// file is then still a valid capture.
func Files(o *Options, s capture.Section) (Sink, error) {
	p := &pcapng{o: *o, section: s}
	return p, p.open()
}

// open begins the next file. If there are more than o.RingFiles files, open removes the
// oldest file.
func (p *pcapng) open() error {
	name := p.o.Write
	if p.o.RingMiB > 0 {
		p.number++
		ext := filepath.Ext(name)
		name = fmt.Sprintf("%s_%05d_%s%s", strings.TrimSuffix(name, ext), p.number, time.Now().Format("20060102150405"), ext)
	}
	mode := os.FileMode(0o644)
	if p.o.Keys {
		mode = 0o600
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return fmt.Errorf("cannot write the capture: %w", err)
	}
	if fi, err := f.Stat(); err == nil && p.o.Keys && fi.Mode().IsRegular() { // an earlier file may have another mode
		if err := f.Chmod(mode); err != nil {
			f.Close()
			return fmt.Errorf("cannot write the capture: %w", err)
		}
	}
	p.file, p.w = f, capture.NewWriter(f, p.section)
	for _, i := range p.ifaces {
		p.w.AddInterface(i)
	}
	p.names = append(p.names, name)
	if n := p.o.RingFiles; n > 0 && len(p.names) > n {
		if err := os.Remove(p.names[0]); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("cannot remove the oldest file of the ring: %w", err)
		}
		p.names = p.names[1:]
	}
	return p.failed(p.w.WriteKeys(p.keys))
}

// AddInterface implements [Sink].
func (p *pcapng) AddInterface(i capture.Interface) error {
	p.ifaces = append(p.ifaces, i)
	p.w.AddInterface(i)
	return nil
}

// Packet implements [Sink].
func (p *pcapng) Packet(k *capture.Packet) error {
	if p.file != nil && p.o.RingMiB > 0 && p.w.Size() >= int64(p.o.RingMiB)<<20 {
		p.before += p.w.Size()
		if err := p.finish(); err != nil {
			return err
		}
		if err := p.open(); err != nil {
			return err
		}
	}
	return p.failed(p.w.WritePacket(k))
}

// Keys implements [Sink].
func (p *pcapng) Keys(lines []byte) error {
	p.keys = append(p.keys, lines...)
	return p.failed(p.w.WriteKeys(lines))
}

// Flush implements [Sink].
func (p *pcapng) Flush() error { return p.failed(p.w.Flush()) }

// Size implements [Sink].
func (p *pcapng) Size() int64 { return p.before + p.w.Size() }

// Close implements [Sink].
func (p *pcapng) Close(stats []capture.Statistics) error {
	p.stats = stats
	return p.finish()
}

// finish ends the present file, or the stream.
func (p *pcapng) finish() error {
	var err error
	for i, s := range p.stats {
		if !s.End.IsZero() {
			err = p.w.WriteStatistics(i, s)
		}
	}
	if err == nil {
		err = p.w.Flush()
	}
	err = p.failed(err)
	if p.file != nil {
		if e := p.file.Close(); err == nil && e != nil && !errors.Is(e, os.ErrClosed) {
			err = fmt.Errorf("cannot write the capture: %w", e)
		}
	}
	return err
}

// failed cuts the present file to whole blocks if err, the error of a write, is not nil.
// If err comes from the file, the returned error says how many bytes of the file are
// valid. For a stream, failed only returns err.
func (p *pcapng) failed(err error) error {
	if err == nil || p.file == nil {
		return err
	}
	if fi, e := p.file.Stat(); e == nil && fi.Mode().IsRegular() {
		_ = p.file.Truncate(p.w.Whole()) // an error of Truncate is ignored, because the caller gets the error of the write
	}
	var pe *os.PathError
	if errors.As(err, &pe) {
		return fmt.Errorf("cannot write %s: %w; its first %d bytes are a valid capture", pe.Path, pe.Err, p.w.Whole())
	}
	return err
}

// Files implements [Sink].
func (p *pcapng) Files() []string { return p.names }
