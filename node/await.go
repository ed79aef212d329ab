package node

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"ttfabric/node/session"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// MaxWaits is the largest number of waits on words that a chip keeps open, of all its programs
// together. The chip reads each awaited word after each step.
const MaxWaits = 256

// ErrWaits is the error of a wait beyond [MaxWaits].
var ErrWaits = fmt.Errorf("the chip has %d waits on words, as many as it may have", MaxWaits)

// wordLen is the length of an awaited word, in bytes.
const wordLen = 4

// awaited is a word of the chip's memory that a program waits on.
type awaited struct {
	at    wire.NocAddr
	test  session.Test
	value uint32
	done  func(word uint32, err error)
}

// StartAwait calls "done" once, as soon as the word at address a of the chip's memory passes the
// test against the value. The chip looks at the word now, and after each step. "done" must not
// block and must not call the node. The returned function ends the wait without a call of "done".
// If "done" has already been called, the returned function returns false. If the node closes during
// the wait, "done" gets ErrClosed. On a closed node, StartAwait returns ErrClosed.
func (n *Node) StartAwait(a wire.NocAddr, t session.Test, value uint32, done func(word uint32, err error)) (cancel func() bool, err error) {
	w := &awaited{a, t, value, done}
	closed := true
	n.locked(func(now mono.Time) {
		closed = false
		word, o := n.word(a)
		switch {
		case o != wire.OutcomeDone:
			err = &session.RefusedError{Dst: n.cfg.Node, Outcome: o, Addr: a}
		case t.Holds(word, value):
			done(word, nil)
		case len(n.waiting.words) >= MaxWaits:
			err = ErrWaits
		default:
			n.waiting.words = append(n.waiting.words, w)
		}
	})
	if closed {
		return nil, ErrClosed
	}
	return func() bool { return n.forget(w) }, err
}

// forget removes an awaited word, and reports whether the wait was open.
func (n *Node) forget(w *awaited) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.Index(n.waiting.words, w)
	if i < 0 {
		return false
	}
	n.waiting.words = slices.Delete(n.waiting.words, i, i+1)
	return true
}

// word reads a word of the chip's memory.
func (n *Node) word(a wire.NocAddr) (uint32, wire.Outcome) {
	if a.Offset()%wordLen != 0 {
		return 0, wire.OutcomeMisaligned
	}
	var b [wordLen]byte
	o := n.chip.Memory().Read(a, b[:])
	return binary.LittleEndian.Uint32(b[:]), o
}

// LoadOwn copies len(b) bytes from address a of the chip's memory into b, at one instant; see [session.Loader].
func (n *Node) LoadOwn(a wire.NocAddr, b []byte) (o wire.Outcome, err error) {
	err = ErrClosed
	n.locked(func(mono.Time) { o, err = n.chip.Memory().Read(a, b), nil })
	return o, err
}

// lookAtWords ends the waits whose words pass their tests. The node calls lookAtWords after each step.
func (n *Node) lookAtWords() {
	kept := n.waiting.words[:0]
	for _, w := range n.waiting.words {
		if word, o := n.word(w.at); o == wire.OutcomeDone && w.test.Holds(word, w.value) {
			w.done(word, nil)
			continue
		}
		kept = append(kept, w)
	}
	clear(n.waiting.words[len(kept):])
	n.waiting.words = kept
}

// endWaits ends all waits on words, because the node closes.
func (n *Node) endWaits() {
	for _, w := range n.waiting.words {
		w.done(0, ErrClosed)
	}
	n.waiting.words = nil
}

// Await waits until the word at address a of the chip's memory passes the test against the value, or
// until ctx ends; see [session.Waiter].
func (n *Node) Await(ctx context.Context, a wire.NocAddr, t session.Test, value uint32) (uint32, error) {
	type end struct {
		word uint32
		err  error
	}
	ended := make(chan end, 1)
	cancel, err := n.StartAwait(a, t, value, func(word uint32, err error) { ended <- end{word, err} })
	if err != nil {
		return 0, err
	}
	select {
	case e := <-ended:
		return e.word, e.err
	case <-ctx.Done():
		cancel()
		return 0, fmt.Errorf("chip %s: the word at %s did not become %s: %w", n.cfg.Node, a, wanted(t, value), ctx.Err())
	}
}

// wanted describes the value that a wait waits for.
func wanted(t session.Test, value uint32) string {
	if t == session.AtLeast {
		return fmt.Sprintf("at least %d", value)
	}
	return fmt.Sprint(value)
}
