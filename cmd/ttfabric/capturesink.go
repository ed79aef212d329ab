package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ttfabric/wire/capture"
)

// pcapSink writes pcapng: to a stream, or to files one after the other.
type pcapSink struct {
	flags   *captureFlags // nil: a stream
	section capture.Section
	out     io.Writer
	file    *os.File // nil: a stream
	w       *capture.Writer
	ifaces  []capture.Interface
	keys    []byte
	kept    []string // names of the ring's files, oldest first
	number  int      // of the file
	before  int64    // bytes of the files before
	stats   []capture.Statistics
}

func newPcapSink(w io.Writer, f *captureFlags, s capture.Section) *pcapSink {
	return &pcapSink{out: w, flags: f, section: s, w: capture.NewWriter(w, s)}
}

// newFileSink opens the first file.
func newFileSink(f *captureFlags, s capture.Section) (*pcapSink, error) {
	p := &pcapSink{flags: f, section: s}
	return p, p.open()
}

// open begins a file.
func (p *pcapSink) open() error {
	name := p.flags.write
	if p.flags.ringSize > 0 {
		p.number++
		ext := filepath.Ext(name)
		name = fmt.Sprintf("%s_%05d_%s%s", strings.TrimSuffix(name, ext), p.number, time.Now().Format("20060102150405"), ext)
	}
	mode := os.FileMode(0o644)
	if p.flags.keys {
		mode = 0o600
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return fmt.Errorf("cannot write the capture: %w", err)
	}
	p.file, p.out, p.w = f, f, capture.NewWriter(f, p.section)
	for _, i := range p.ifaces {
		p.w.AddInterface(i)
	}
	p.kept = append(p.kept, name)
	if n := p.flags.ringFiles; n > 0 && len(p.kept) > n {
		if err := os.Remove(p.kept[0]); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("cannot remove the oldest file of the ring: %w", err)
		}
		p.kept = p.kept[1:]
	}
	return p.failed(p.w.WriteKeys(p.keys))
}

// AddInterface implements [captureSink].
func (p *pcapSink) AddInterface(i capture.Interface) error {
	p.ifaces = append(p.ifaces, i)
	p.w.AddInterface(i)
	return nil
}

// Packet implements [captureSink].
func (p *pcapSink) Packet(k *capture.Packet) error {
	if p.file != nil && p.flags.ringSize > 0 && p.w.Size() >= int64(p.flags.ringSize)<<20 {
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

// Keys implements [captureSink].
func (p *pcapSink) Keys(lines []byte) error {
	p.keys = append(p.keys, lines...)
	return p.failed(p.w.WriteKeys(lines))
}

// Flush implements [captureSink].
func (p *pcapSink) Flush() error { return p.failed(p.w.Flush()) }

// Size implements [captureSink].
func (p *pcapSink) Size() int64 { return p.before + p.w.Size() }

// Close implements [captureSink].
func (p *pcapSink) Close(stats []capture.Statistics) error {
	p.stats = stats
	return p.finish()
}

// finish ends a file, or the stream.
func (p *pcapSink) finish() error {
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

// failed makes a file valid that could not be written further, and says so.
func (p *pcapSink) failed(err error) error {
	if err == nil || p.file == nil {
		return err
	}
	if fi, e := p.file.Stat(); e == nil && fi.Mode().IsRegular() {
		_ = p.file.Truncate(p.w.Whole()) // what was written before is all that is left to save
	}
	var pe *os.PathError
	if errors.As(err, &pe) {
		return fmt.Errorf("cannot write %s: %w; its first %d bytes are a valid capture", pe.Path, pe.Err, p.w.Whole())
	}
	return err
}

// Names implements [captureSink].
func (p *pcapSink) Names() string {
	switch len(p.kept) {
	case 0:
		return ""
	case 1:
		return ", written to " + p.kept[0]
	}
	return fmt.Sprintf(", written to %s … %s", p.kept[0], p.kept[len(p.kept)-1])
}

// lineSink prints a line per frame.
type lineSink struct {
	w       *bufio.Writer
	tracker capture.Tracker
}

func newLineSink(w io.Writer) *lineSink { return &lineSink{w: bufio.NewWriter(w)} }

// AddInterface implements [captureSink].
func (*lineSink) AddInterface(capture.Interface) error { return nil }

// Packet implements [captureSink].
func (l *lineSink) Packet(p *capture.Packet) error {
	from, to, _ := capture.PortsOf(p.Data)
	_, _, payload, _ := capture.Payload(p.Data)
	s := capture.Sight{Port: to, Peer: from, Dir: p.Dir, Data: payload, Length: len(payload) + p.Length - len(p.Data)}
	if p.Dir == capture.DirOut {
		s.Port, s.Peer = from, to
	}
	l.tracker.Look(&s)
	notes := p.Comments
	if p.Dropped > 0 {
		notes = append(notes, fmt.Sprintf("%d before it dropped by the capture", p.Dropped))
	}
	_, err := fmt.Fprintln(l.w, capture.Line(p.At, &s, notes))
	return err
}

// Keys implements [captureSink].
func (*lineSink) Keys([]byte) error { return nil }

// Flush implements [captureSink].
func (l *lineSink) Flush() error { return l.w.Flush() }

// Size implements [captureSink].
func (*lineSink) Size() int64 { return 0 }

// Close implements [captureSink].
func (l *lineSink) Close([]capture.Statistics) error { return l.w.Flush() }

// Names implements [captureSink].
func (*lineSink) Names() string { return "" }

// jsonSink prints a JSON object per frame, with its fields by the names of the Wireshark dissector.
type jsonSink struct {
	lineSink
	item    string // before each object: makes a list of YAML of them
	names   []string
	decoder capture.Decoder
}

// newJSONSink prints JSON, or with yaml the same as items of a list of YAML.
func newJSONSink(w io.Writer, yaml bool) *jsonSink {
	s := &jsonSink{lineSink: lineSink{w: bufio.NewWriter(w)}}
	if yaml {
		s.item = "- "
	}
	return s
}

// AddInterface implements [captureSink].
func (s *jsonSink) AddInterface(i capture.Interface) error {
	s.names = append(s.names, i.Name)
	return nil
}

// frameView is a frame as -o json prints it.
type frameView struct {
	Time      time.Time           `json:"time"`
	Port      string              `json:"port"`
	Direction string              `json:"direction"`
	Length    int                 `json:"length"`
	Comments  []string            `json:"comments,omitempty"`
	Dropped   uint64              `json:"dropped_before,omitempty"`
	Fields    map[string][]string `json:"fields"`
}

// Packet implements [captureSink].
func (s *jsonSink) Packet(p *capture.Packet) error {
	from, to, payload, _ := capture.Payload(p.Data)
	v := frameView{p.At, s.names[p.Interface], p.Dir.String(), p.Length, p.Comments, p.Dropped, map[string][]string{}}
	for _, f := range capture.Fields(s.decoder.Datagram(v.Port+from.String()+to.String(), payload)) {
		v.Fields[f.Name] = append(v.Fields[f.Name], f.Value)
	}
	if _, err := s.w.WriteString(s.item); err != nil {
		return err
	}
	return json.NewEncoder(s.w).Encode(v)
}
