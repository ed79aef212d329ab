package archive

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
)

// Reader returns the lines of one writer, oldest first. These are the lines that existed when the
// reader was made. A Reader works while the writer continues, and whatever state the files are in.
type Reader struct {
	todo []segment
	file io.Closer
	in   *bufio.Reader
	skip Skipped
}

// Skipped counts what a reader skipped.
type Skipped struct {
	Torn    int // ends of segments without a newline: left by a kill -9, or a line that is being written
	Damaged int // lines that are not a JSON object or are too long, and segments that could not be read to their end
}

// Read returns a reader of a writer's lines in a folder. An error is about the folder.
func Read(dir, name string) (*Reader, error) {
	ss, err := segments(dir, name)
	if err != nil {
		return nil, err
	}
	return &Reader{todo: ss}, nil
}

// Next returns the next line without its newline, valid until the next call. Next reports false at
// the end.
func (r *Reader) Next() ([]byte, bool) {
	for {
		if r.in == nil {
			if len(r.todo) == 0 {
				return nil, false
			}
			s := r.todo[0]
			r.todo = r.todo[1:]
			r.open(s)
			continue
		}
		line, err := r.in.ReadSlice('\n')
		switch {
		case err == nil:
			line = line[:len(line)-1]
			if len(line) > 0 && line[0] == '{' && json.Valid(line) {
				return line, true
			}
			r.skip.Damaged++
		case errors.Is(err, bufio.ErrBufferFull):
			r.skip.Damaged++
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = r.in.ReadSlice('\n')
			}
			if err != nil {
				r.end()
			}
		default:
			if !errors.Is(err, io.EOF) {
				r.skip.Damaged++
			} else if len(line) > 0 {
				r.skip.Torn++
			}
			r.end()
		}
	}
}

// open begins with a segment. If the segment has been closed meanwhile, open finds it under its
// other name. If it has been removed, open skips it.
func (r *Reader) open(s segment) {
	f, err := os.Open(s.path)
	if errors.Is(err, os.ErrNotExist) && !s.closed {
		s.path, s.closed = s.gz(), true
		f, err = os.Open(s.path)
	}
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			r.skip.Damaged++
		}
		return
	}
	in := io.Reader(f)
	if s.closed {
		z, err := gzip.NewReader(f)
		if err != nil {
			r.skip.Damaged++
			f.Close()
			return
		}
		in = z
	}
	r.file, r.in = f, bufio.NewReaderSize(io.LimitReader(in, maxPlain), MaxLine)
}

func (r *Reader) end() {
	r.file.Close()
	r.file, r.in = nil, nil
}

// Skipped counts what the reader has skipped so far.
func (r *Reader) Skipped() Skipped { return r.skip }

// Close ends the reading early.
func (r *Reader) Close() {
	if r.in != nil {
		r.end()
	}
	r.todo = nil
}
