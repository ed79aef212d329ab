package transport

import (
	"bytes"
	"slices"
	"sync"
)

// MaxKeyLog is how many bytes of key lines a [KeyLog] keeps; the oldest lines go first.
const MaxKeyLog = 4 << 20

// KeyLog keeps the secrets of TLS connections, in the lines of NSS's key log
// format, for those who are to read what was captured. It is given to a
// transport only when somebody asked for it: who has it can read all. It is
// safe for concurrent use; a nil one keeps nothing.
type KeyLog struct {
	mu    sync.Mutex
	lines []byte
	first int // number of the first byte that is kept
	subs  []*func(line []byte)
}

// Write takes whole lines, as tls.Config.KeyLogWriter gets them. It never fails.
func (k *KeyLog) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lines = append(k.lines, p...)
	if over := len(k.lines) - MaxKeyLog; over > 0 {
		if nl := bytes.IndexByte(k.lines[over:], '\n'); nl >= 0 {
			over += nl + 1
		}
		k.lines, k.first = k.lines[over:], k.first+over // append moves what is left, now and then
	}
	for _, f := range k.subs {
		(*f)(p)
	}
	return len(p), nil
}

// Lines are all lines so far, each with its end of line.
func (k *KeyLog) Lines() []byte {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return bytes.Clone(k.lines)
}

// Since are the lines from byte n on, and the number to ask with the next time.
// What is kept no longer is left out. A nil KeyLog has none.
func (k *KeyLog) Since(n int) ([]byte, int) {
	if k == nil {
		return nil, n
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	end := k.first + len(k.lines)
	from := min(max(n, k.first), end) - k.first
	return bytes.Clone(k.lines[from:]), end
}

// Subscribe calls f with all lines so far, if there are any, and then with
// each new one, in order and none twice, until the function it returns is
// called. f must not block, keep its argument, or call the KeyLog. What f gets
// comes before any datagram that needs it.
func (k *KeyLog) Subscribe(f func(lines []byte)) (cancel func()) {
	if k == nil {
		return func() {}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.lines) > 0 {
		f(k.lines)
	}
	p := &f
	k.subs = append(k.subs, p)
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.subs = slices.DeleteFunc(k.subs, func(q *func([]byte)) bool { return q == p })
	}
}
