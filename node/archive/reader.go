package archive

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
)

// Reader returns the lines of one writer, oldest first. A Reader reads the segments that existed
// when the Reader was made, except those that the writer has removed since. The writer may continue
// to write meanwhile. A Reader skips damaged parts of files.
type Reader struct {
	todo []segment
	file io.Closer
	in   *bufio.Reader
	skip Skipped
}

// Skipped counts the parts of an archive that a reader skipped.
type Skipped struct {
	Torn    int // segments that end in a torn line, because of a kill -9 or because the writer is writing the line
	Damaged int // lines that are too long or not a JSON object, plus segments that the reader could not open or read to the end
}

// Read returns a reader of the lines of the writer "name" in the folder "dir". Read returns an
// error if it cannot read the folder.
func Read(dir, name string) (*Reader, error) {
	ss, err := segments(dir, name)
	if err != nil {
		return nil, err
	}
	return &Reader{todo: ss}, nil
}

// Next returns the next line without its newline, and true. The line is valid until the next call
// of Next. After the last line, Next returns false.
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

// open opens the file of a segment. If the writer has compressed the segment meanwhile, open opens
// the compressed file. If the writer has removed the segment, open skips the segment.
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

// Skipped returns how many parts of the archive the reader has skipped up to now.
func (r *Reader) Skipped() Skipped { return r.skip }

// Close closes the open file. After Close, Next returns no more lines.
func (r *Reader) Close() {
	if r.in != nil {
		r.end()
	}
	r.todo = nil
}
