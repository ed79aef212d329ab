package ranks

import (
	"bytes"
	"io"
	"sync"
)

// MaxLine is the longest line of a rank's output, in bytes. A longer line becomes several lines.
const MaxLine = 64 << 10

// lines writes the output of a rank with a prefix before each line. Several lines may share the
// mutex, so that lines of ranks do not mix.
type lines struct {
	to     io.Writer
	prefix string
	mu     *sync.Mutex
	part   []byte // the beginning of a line that the rank has not ended yet
}

// Write implements io.Writer. Write reports no error. A rank therefore does not end if nobody reads
// its output.
func (l *lines) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		room := MaxLine - len(l.part)
		switch {
		case i >= 0 && i <= room:
			l.part = append(l.part, b[:i]...)
			b = b[i+1:]
		case len(b) <= room:
			l.part = append(l.part, b...)
			return n, nil
		default:
			l.part = append(l.part, b[:room]...)
			b = b[room:]
		}
		l.line()
	}
	return n, nil
}

// flush writes the rest of the output as a line.
func (l *lines) flush() {
	if len(l.part) > 0 {
		l.line()
	}
}

func (l *lines) line() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.to.Write(append(append([]byte(l.prefix), l.part...), '\n'))
	l.part = l.part[:0]
}
