package transport

import (
	"bytes"
	"slices"
	"sync"
)

// MaxKeyLog is how many bytes of key lines a [KeyLog] keeps. The KeyLog drops the oldest lines
// first.
const MaxKeyLog = 4 << 20

// KeyLog keeps the secrets of TLS connections, in the lines of NSS's key log format, for people who
// read captured traffic. Whoever has a KeyLog can read all traffic. For that reason a transport
// gets a KeyLog only if somebody asks for a KeyLog. A KeyLog is safe for concurrent use. A nil
// KeyLog keeps nothing.
type KeyLog struct {
	mu    sync.Mutex
	lines []byte
	first int // number of the first byte that the log still has
	subs  []*func(line []byte)
}

// Write takes whole lines in the form that tls.Config.KeyLogWriter gets. Write never fails.
func (k *KeyLog) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lines = append(k.lines, p...)
	if over := len(k.lines) - MaxKeyLog; over > 0 {
		if nl := bytes.IndexByte(k.lines[over:], '\n'); nl >= 0 {
			over += nl + 1
		}
		k.lines, k.first = k.lines[over:], k.first+over // append moves the remaining lines from time to time
	}
	for _, f := range k.subs {
		(*f)(p)
	}
	return len(p), nil
}

// Lines returns all lines that the log has now, each with its end of line.
func (k *KeyLog) Lines() []byte {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return bytes.Clone(k.lines)
}

// Since returns the lines from byte n on, and the number for the next call. Since leaves out lines
// that the log has dropped. A nil KeyLog has no lines.
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

// Subscribe calls f with all lines that the log has now, if there are any, and then with each new
// line. Lines come in order and once, until the caller calls the returned function. f must not
// block, keep its argument, or call the KeyLog. f gets a line before any datagram is sent that can
// only be read with the line.
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
