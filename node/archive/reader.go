package archive

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
)

// Reader returns the lines of one writer, oldest first. A Reader returns the lines that existed
// when the Reader was made. A Reader works while the writer continues, and whatever state the files
// are in.
type Reader struct {
	todo []segment
	file io.Closer
	in   *bufio.Reader
	skip Skipped
}

// Skipped counts the faults because of which a reader skipped data.
type Skipped struct {
	Torn    int // ends of segments without a newline: a kill -9 left the end, or the writer is writing the line
	Damaged int // lines that are not a JSON object or are too long, and segments that could not be read to the end
}

// Read returns a reader of a writer's lines in a folder. An error concerns the folder.
func Read(dir, name string) (*Reader, error) {
	ss, err := segments(dir, name)
	if err != nil {
		return nil, err
	}
	return &Reader{todo: ss}, nil
}

// Next returns the next line without its newline. The line is valid until the next call. At the
// end, Next reports false.
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

// open begins to read a segment. If the writer has closed the segment meanwhile, open uses the
// closed segment's name. If the writer has removed the segment, open skips the segment.
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

// Skipped returns the counts of what the reader has skipped up to now.
func (r *Reader) Skipped() Skipped { return r.skip }

// Close ends the reading early.
func (r *Reader) Close() {
	if r.in != nil {
		r.end()
	}
	r.todo = nil
}
