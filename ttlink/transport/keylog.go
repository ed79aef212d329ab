package transport

import (
	"bytes"
	"slices"
	"sync"
)

// MaxKeyLog is the largest number of bytes of lines that a [KeyLog] keeps. Beyond this limit, the
// KeyLog drops the oldest lines.
const MaxKeyLog = 4 << 20

// KeyLog keeps the secrets of TLS connections, as lines in the NSS key log format. People need
// these lines to decrypt captured traffic. Whoever has the lines can decrypt all traffic, so a
// transport has a KeyLog only if its user asks for one. A KeyLog is safe for concurrent use. Lines,
// Since and Subscribe of a nil KeyLog work as if the KeyLog had no lines.
type KeyLog struct {
	mu    sync.Mutex
	lines []byte
	first int // offset of lines[0] among all bytes ever written
	subs  []*func(line []byte)
}

// Write adds whole lines, and passes them to the subscribers. The lines have the form that
// crypto/tls writes to tls.Config.KeyLogWriter. The error is always nil.
func (k *KeyLog) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lines = append(k.lines, p...)
	if over := len(k.lines) - MaxKeyLog; over > 0 {
		if nl := bytes.IndexByte(k.lines[over:], '\n'); nl >= 0 {
			over += nl + 1
		}
		k.lines, k.first = k.lines[over:], k.first+over // a later append copies the remaining lines to new memory, which frees the dropped lines
	}
	for _, f := range k.subs {
		(*f)(p)
	}
	return len(p), nil
}

// Lines returns a copy of all lines that the log has now. Each line ends with a newline.
func (k *KeyLog) Lines() []byte {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return bytes.Clone(k.lines)
}

// Since returns the lines from the offset n on, and the offset to pass to the next call of Since.
// Offsets count all bytes ever written to the log, from 0. Since leaves out lines that the log has
// dropped.
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

// Subscribe calls f with all lines that the log has now, and later with each new line. f gets each
// line once, in the order in which the lines were written. The calls end when the caller calls
// cancel. f must not block, keep its argument, or call the KeyLog. f gets each new line before the
// connection sends datagrams that the line decrypts.
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
