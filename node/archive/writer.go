package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Config holds the settings of a writer.
type Config struct {
	Dir    string // the archive's folder; Open makes the folder if necessary
	Name   string // name of the writer, such as M0D3; at most 64 letters, digits, '_' and '.'
	Limits Limits

	open func(path string, flags int) (file, error) // opens a file; nil: os.OpenFile
}

// file is the interface of a Writer to an open file.
type file interface {
	io.Writer
	io.Closer
	Truncate(size int64) error
	Sync() error
	Fd() uintptr
}

// Notice reports that a writer cannot write any more, or that the writer can write again.
type Notice struct {
	Err  error         // why the writer cannot write; nil: the writer can write again
	Path string        // the file or folder that the writer could not write, or writes again
	Lost uint64        // number of lines lost meanwhile; set when the writer can write again
	For  time.Duration // how long the writer could not write; set when the writer can write again
}

// Writer appends lines to an archive. A Writer is not safe for concurrent use.
//
// Invariant: the first "size" bytes of the file "out" are complete lines.
type Writer struct {
	cfg  Config
	out  file // file of the open segment; nil: no segment is open
	seg  segment
	size int64

	pending []byte // complete lines that wait to be written
	stopped bool
	since   time.Time // when writing began to fail
	retryAt time.Time
	lost    uint64 // number of lines lost since writing began to fail
	removed uint64
}

// Open makes or continues the archive of one writer. If the newest segment is not compressed, Open
// continues this segment, and cuts off a torn last line. Open compresses all other segments that
// are not compressed. If the disk is full, Open returns no error, but the first [Writer.Append]
// returns a notice. Open returns an error if another process has the newest segment open.
func Open(cfg Config, now time.Time) (*Writer, error) {
	var err error
	if cfg.Limits, err = cfg.Limits.check(); err != nil {
		return nil, err
	}
	if !validName().MatchString(cfg.Name) {
		return nil, fmt.Errorf("archive writer %q: want letters, digits, '_' and '.', at most 64", cfg.Name)
	}
	if cfg.open == nil {
		cfg.open = func(path string, flags int) (file, error) { return os.OpenFile(path, flags, 0o600) }
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the archive's folder: %w", err)
	}
	w := &Writer{cfg: cfg}
	ss, err := segments(cfg.Dir, cfg.Name)
	if err != nil {
		return nil, fmt.Errorf("cannot read the archive's folder: %w", err)
	}
	if n := len(ss); n > 0 {
		if w.seg = ss[n-1]; !w.seg.closed {
			if err := w.resume(); err != nil {
				return nil, err
			}
		}
	}
	w.tidy()
	return w, nil
}

// resume opens the newest segment again, which is not compressed yet, and cuts off a torn last
// line.
func (w *Writer) resume() error {
	f, err := w.cfg.open(w.seg.path, os.O_RDWR|os.O_APPEND)
	if err != nil {
		return fmt.Errorf("cannot continue the archive: %w", err)
	}
	if err := lock(f, w.seg.path); err != nil {
		f.Close()
		return err
	}
	size, err := wholeLines(w.seg.path)
	if err == nil {
		err = f.Truncate(size)
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("cannot continue the archive: %w", err)
	}
	w.out, w.size = f, size
	return nil
}

// lock locks a file against a second writer while the file is open. On a file system without locks,
// lock does nothing.
func lock(f file, path string) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("another process writes %s: %w", path, err)
	}
	return nil
}

// wholeLines returns the number of bytes in the complete lines of a segment.
func wholeLines(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	tail := make([]byte, min(fi.Size(), maxRepair))
	from := fi.Size() - int64(len(tail))
	if _, err := f.ReadAt(tail, from); err != nil && len(tail) > 0 {
		return 0, err
	}
	i := bytes.LastIndexByte(tail, '\n')
	if i < 0 && from > 0 {
		return fi.Size(), nil // no writer writes a line longer than MaxLine; keep the bytes for the reader to judge
	}
	return from + int64(i) + 1, nil
}

// Append writes lines, each with its newline. If a line is longer than [MaxLine], or bytes follow
// the last newline, Append returns an error and writes no line. If the writer cannot write at
// present, the lines wait in memory. If more than MaxPending bytes would wait, the writer drops
// lines of this call. Append returns a notice only when writing begins to fail or works again.
func (w *Writer) Append(now time.Time, lines []byte) (*Notice, error) {
	for rest := lines; len(rest) > 0; {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 || i >= MaxLine {
			return nil, fmt.Errorf("a line of %d bytes or more: want a newline and at most %d", len(rest), MaxLine)
		}
		rest = rest[i+1:]
	}
	if len(w.pending)+len(lines) > MaxPending && w.stopped {
		w.lost += uint64(bytes.Count(lines, []byte{'\n'}))
		return w.Retry(now), nil
	}
	w.pending = append(w.pending, lines...)
	return w.Retry(now), nil
}

// Retry writes the waiting lines, and closes a segment that has become too old. Retry returns a
// notice only when writing begins to fail or works again. The owner of a Writer should call Retry
// every minute, and every second while writing fails.
func (w *Writer) Retry(now time.Time) *Notice {
	if w.stopped && now.Before(w.retryAt) && w.retryAt.Sub(now) <= retryAfter { // if the clock has been set back far, the last condition is false, and Retry tries at once
		return nil
	}
	path, err := w.flush(now)
	switch {
	case err != nil:
		w.retryAt = now.Add(retryAfter)
		if over := len(w.pending) - MaxPending; over > 0 {
			i := bytes.LastIndexByte(w.pending[:MaxPending], '\n') + 1
			w.lost += uint64(bytes.Count(w.pending[i:], []byte{'\n'}))
			w.pending = w.pending[:i]
		}
		if w.stopped {
			return nil
		}
		w.stopped, w.since = true, now
		return &Notice{Err: err, Path: path}
	case w.stopped:
		n := &Notice{Path: path, Lost: w.lost, For: now.Sub(w.since)}
		w.stopped, w.lost = false, 0
		return n
	}
	return nil
}

// flush closes the open segment if necessary, and writes the pending lines. The returned path is
// the file or folder that flush has written or could not write. If no line is pending, the path is
// the folder.
func (w *Writer) flush(now time.Time) (path string, err error) {
	w.rotate(now)
	if len(w.pending) == 0 {
		return w.cfg.Dir, nil
	}
	if w.out == nil {
		if err := w.begin(now); err != nil {
			return w.cfg.Dir, err
		}
	}
	n, err := w.out.Write(w.pending)
	if err == nil {
		w.size += int64(n)
		w.pending = w.pending[:0]
		return w.seg.path, nil
	}
	whole := bytes.LastIndexByte(w.pending[:n], '\n') + 1
	w.size += int64(whole)
	w.pending = w.pending[:copy(w.pending, w.pending[whole:])]
	if whole < n {
		if terr := w.out.Truncate(w.size); terr != nil {
			// The torn line stays in the file and would damage the next line. The next line
			// therefore begins another segment.
			w.out.Close()
			w.out = nil
			err = errors.Join(err, terr)
		}
	}
	return w.seg.path, err
}

// begin opens the next segment.
func (w *Writer) begin(now time.Time) error {
	s := newSegment(w.cfg.Dir, w.cfg.Name, w.seg.number+1, now)
	f, err := w.cfg.open(s.path, os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND)
	if errors.Is(err, os.ErrExist) {
		w.seg.number++ // another process has made a segment with this number; the next attempt uses the next number
	}
	if err != nil {
		return err
	}
	if err := lock(f, s.path); err != nil {
		f.Close()
		return err
	}
	w.out, w.seg, w.size = f, s, 0
	return nil
}

// rotate closes the open segment if the segment is too large or too old. A segment without lines
// stays open. After the clock has been set back, a segment may seem to begin far in the future.
// rotate also closes a segment that seems to begin far in the future.
func (w *Writer) rotate(now time.Time) {
	if w.out == nil || w.size == 0 {
		return
	}
	age := now.Sub(w.seg.begun)
	if w.size < w.cfg.Limits.SegmentBytes && age < w.cfg.Limits.SegmentAge && age > -w.cfg.Limits.SegmentAge {
		return
	}
	w.out.Close()
	w.out = nil
	w.tidy()
}

// tidy compresses all segments but the open one. tidy also removes the oldest segments beyond
// TotalBytes, but never the open segment. tidy also removes the incomplete files of a
// killed process. If a step fails, the next call of tidy tries the step again. A failed step loses
// no lines.
func (w *Writer) tidy() {
	ents, _ := os.ReadDir(w.cfg.Dir)
	for _, e := range ents {
		whole, half := strings.CutSuffix(e.Name(), unready)
		if s, ok := parseSegment(w.cfg.Dir, whole); half && ok && s.name == w.cfg.Name {
			os.Remove(filepath.Join(w.cfg.Dir, e.Name()))
		}
	}
	ss, err := segments(w.cfg.Dir, w.cfg.Name)
	if err != nil {
		return
	}
	total := int64(0)
	sizes := make([]int64, len(ss))
	for i := range ss {
		s := &ss[i]
		open := w.out != nil && s.number == w.seg.number
		if s.closed {
			os.Remove(strings.TrimSuffix(s.path, ".gz")) // a killed process may have left the plain file
		} else if !open && compress(s) == nil {
			s.closed, s.path = true, s.gz()
		}
		if fi, err := os.Stat(s.path); err == nil {
			sizes[i] = fi.Size()
			total += fi.Size()
		}
	}
	for i := range ss {
		if total <= w.cfg.Limits.TotalBytes || w.out != nil && ss[i].number == w.seg.number {
			break
		}
		if os.Remove(ss[i].path) == nil {
			w.removed++
			total -= sizes[i]
		}
	}
}

// Removed returns the number of segments that the writer has removed because of the limit
// TotalBytes.
func (w *Writer) Removed() uint64 { return w.removed }

// Lost returns the number of lines lost since writing began to fail. While writing works, Lost
// returns 0.
func (w *Writer) Lost() uint64 { return w.lost }

// Close writes the waiting lines, and syncs and closes the open segment. The segment stays
// uncompressed, and the next Open continues the segment. If lines are lost that no notice has
// reported, the error has the number of these lines.
func (w *Writer) Close(now time.Time) error {
	path, err := w.flush(now)
	switch n := uint64(bytes.Count(w.pending, []byte{'\n'})) + w.lost; {
	case err != nil:
		err = fmt.Errorf("archive %s: %d lines lost: %w", path, n, err)
	case n > 0: // writing works again, but no notice has said what was lost meanwhile
		err = fmt.Errorf("archive %s: %d lines lost while it could not be written", path, n)
	}
	if w.out != nil {
		err = errors.Join(err, w.out.Sync(), w.out.Close())
		w.out = nil
	}
	return err
}
