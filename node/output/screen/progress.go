package screen

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// Terminal reports whether w is a terminal that understands control characters.
func Terminal(w io.Writer) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// Progress is a progress bar in one line of a terminal. If the writer of [NewProgress] is not a
// terminal, Progress draws nothing. Several goroutines may call the methods at the same time.
type Progress struct {
	w     io.Writer
	live  bool
	begin time.Time

	mu     sync.Mutex
	label  string
	total  int
	last   int
	closed bool
}

// NewProgress returns a progress bar on w. The label stands behind the bar, and total is the number
// of steps of a full bar, or 0 if it is not known. The caller must call [Progress.Stop].
func NewProgress(w io.Writer, label string, total int) *Progress {
	return &Progress{w: w, label: label, total: total, live: Terminal(w), begin: time.Now(), last: -1}
}

// Rename changes the label and the number of steps of a full bar. The next call of [Progress.Set]
// draws both.
func (p *Progress) Rename(label string, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.label, p.total = label, total
}

// barWidth is the width of a progress bar, in characters.
const barWidth = 30

// Set draws the bar with n steps done. If n is the number of the previous call, or if the bar was
// stopped, Set draws nothing.
func (p *Progress) Set(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || n == p.last {
		return
	}
	p.last = n
	if p.live {
		full := barWidth * n / max(p.total, 1)
		bar := make([]rune, barWidth)
		for i := range bar {
			bar[i] = '░'
			if i < full {
				bar[i] = '█'
			}
		}
		of := ""
		if p.total > 0 {
			of = fmt.Sprintf("/%d", p.total)
		}
		fmt.Fprintf(p.w, "\r\x1b[K%s %s %d%s  %.1fs", string(bar), p.label, n, of, time.Since(p.begin).Seconds())
	}
}

// Stop deletes the bar from the terminal. Further calls of Stop do nothing.
func (p *Progress) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	if p.live {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// Width returns the width of the terminal w in characters. If w is no terminal, or if the terminal does
// not know its width, Width returns 0.
func Width(w io.Writer) int {
	if !Terminal(w) {
		return 0
	}
	width, _, err := term.GetSize(int(w.(interface{ Fd() uintptr }).Fd()))
	if err != nil {
		return 0
	}
	return width
}
