package node

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

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

// awaited is a wait of a program on words of the chip's memory.
type awaited struct {
	look func() (ended bool) // looks at the words; at the end of the wait, look tells the program
	fail func(error)         // tells the program that the wait has ended with an error
	soon bool                // at the end of the wait, the program submits requests at once; see [session.Replier]
	size int                 // number of words, for the limit MaxWaits; a hold counts as one
}

// StartAwait calls "done" once, as soon as the word at address a of the chip's memory passes the
// test against the value. The chip looks at the word now, and after each step. "done" must not
// block and must not call the node. The returned function ends the wait without a call of "done".
// If "done" has already been called, the returned function returns false. If the node closes during
// the wait, "done" gets ErrClosed. On a closed node, StartAwait returns ErrClosed.
func (n *Node) StartAwait(a wire.NocAddr, t session.Test, value uint32, done func(word uint32, err error)) (cancel func() bool, err error) {
	w := &awaited{func() bool {
		word, o := n.word(a)
		if o != wire.OutcomeDone || !t.Holds(word, value) {
			return false
		}
		done(word, nil)
		return true
	}, func(err error) { done(0, err) }, false, 1}
	closed := true
	n.locked(func(now mono.Time) {
		closed = false
		word, o := n.word(a)
		switch {
		case o != wire.OutcomeDone:
			err = &session.RefusedError{Dst: n.cfg.Node, Outcome: o, Addr: a}
		case t.Holds(word, value):
			done(word, nil)
		case n.waits() >= MaxWaits:
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

// waits returns the number of words that programs wait on. The caller holds the lock.
func (n *Node) waits() (size int) {
	for _, w := range n.waiting.words {
		size += w.size
	}
	return size
}

// forget removes a wait, and reports whether the wait was open.
func (n *Node) forget(w *awaited) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.drop(w)
}

// drop does what forget does. The caller holds the lock.
func (n *Node) drop(w *awaited) bool {
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

// ViewOwn calls f with n bytes of the chip's memory from address a on, without a copy; see
// [session.Viewer].
func (n *Node) ViewOwn(a wire.NocAddr, size int, f func(piece []byte) bool) (ok bool) {
	n.locked(func(mono.Time) { ok = n.chip.Memory().View(a, size, f) })
	return ok
}

// StartHold calls "done" once, as soon as one of the words does not have its value. "done" gets the
// values of all words at this instant. The chip looks at the words now, and after each step. For
// "done", errors and the returned function, see [Node.StartAwait]. The returned function also
// returns the values of the words, if the hold was open.
func (n *Node) StartHold(words []session.Word, done func(now []uint32, err error)) (end func() (now []uint32, open bool), err error) {
	now := make([]uint32, len(words))
	load := func() (o wire.Outcome, differ bool, bad wire.NocAddr) {
		for i, w := range words {
			if now[i], o = n.word(w.At); o != wire.OutcomeDone {
				return o, false, w.At
			}
			differ = differ || now[i] != w.Value
		}
		return o, differ, 0
	}
	w := &awaited{func() bool {
		o, differ, _ := load()
		if o != wire.OutcomeDone || !differ {
			return false
		}
		done(now, nil)
		return true
	}, func(err error) { done(nil, err) }, false, 1}
	closed := true
	n.locked(func(mono.Time) {
		closed = false
		switch o, differ, at := load(); {
		case o != wire.OutcomeDone:
			err = &session.RefusedError{Dst: n.cfg.Node, Outcome: o, Addr: at}
		case differ:
			done(now, nil)
		case n.waits() >= MaxWaits:
			err = ErrWaits
		default:
			n.waiting.words = append(n.waiting.words, w)
		}
	})
	if closed {
		return nil, ErrClosed
	}
	return func() (v []uint32, open bool) {
		n.locked(func(mono.Time) {
			if open = n.drop(w); open {
				load()
			}
		})
		return now, open
	}, err
}

// lookAtWords ends the waits whose words pass their tests. The node calls lookAtWords after each step. If lookAtWords
// ended a wait of AwaitReply, whose program submits requests at once, lookAtWords returns true.
func (n *Node) lookAtWords() (soon bool) {
	kept := n.waiting.words[:0]
	for _, w := range n.waiting.words {
		if !w.look() {
			kept = append(kept, w)
		} else {
			soon = soon || w.soon
		}
	}
	clear(n.waiting.words[len(kept):])
	n.waiting.words = kept
	return soon
}

// endWaits ends all waits on words, because the node closes.
func (n *Node) endWaits() {
	for _, w := range n.waiting.words {
		w.fail(ErrClosed)
	}
	n.waiting.words = nil
}

// Await waits until the word at address a of the chip's memory passes the test against the value, or
// until ctx ends; see [session.Waiter].
func (n *Node) Await(ctx context.Context, a wire.NocAddr, t session.Test, value uint32) (uint32, error) {
	if word, ok := n.passes(a, t, value); ok { // a wait that ends at once needs no memory
		return word, nil
	}
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
		return 0, &unmetError{n.cfg.Node, a, t, value, ctx.Err()}
	}
}

// AwaitAny waits until one of the words is at least its value, or until ctx ends; see [session.Replier].
func (n *Node) AwaitAny(ctx context.Context, words []session.Word, now []uint32) (err error) {
	var w *awaited
	var ended chan error
	closed := true
	n.locked(func(mono.Time) {
		closed = false
		one, bad, o := n.load(words, now)
		switch {
		case o != wire.OutcomeDone:
			err = &session.RefusedError{Dst: n.cfg.Node, Outcome: o, Addr: bad}
		case one:
		case n.waits()+len(words) > MaxWaits:
			err = ErrWaits
		default:
			ended = make(chan error, 1)
			w = &awaited{func() bool {
				one, _, o := n.load(words, now)
				if one && o == wire.OutcomeDone {
					ended <- nil
					return true
				}
				return false
			}, func(err error) { ended <- err }, true, len(words)}
			n.waiting.words = append(n.waiting.words, w)
		}
	})
	switch {
	case closed:
		return ErrClosed
	case w == nil:
		return err
	}
	select {
	case err = <-ended:
		return err
	case <-ctx.Done():
		n.forget(w)
		return &unmetError{n.cfg.Node, words[0].At, session.AtLeast, words[0].Value, ctx.Err()}
	}
}

// load reads words of the chip's memory, and reports whether one of them is at least its value. If the chip refuses an
// address, load returns the address and the outcome.
func (n *Node) load(words []session.Word, now []uint32) (one bool, bad wire.NocAddr, o wire.Outcome) {
	for i, w := range words {
		if now[i], o = n.word(w.At); o != wire.OutcomeDone {
			return false, w.At, o
		}
		one = one || session.AtLeast.Holds(now[i], w.Value)
	}
	return one, 0, wire.OutcomeDone
}

// passes returns a word, and reports whether the word passes the test against a value now.
func (n *Node) passes(a wire.NocAddr, t session.Test, value uint32) (word uint32, ok bool) {
	n.locked(func(mono.Time) {
		var o wire.Outcome
		word, o = n.word(a)
		ok = o == wire.OutcomeDone && t.Holds(word, value)
	})
	return word, ok
}

// unmetError is the error of a wait that has ended with its context. Programs often end a wait, so the message is made
// only when somebody reads it.
type unmetError struct {
	chip  wire.FabricNodeID
	at    wire.NocAddr
	test  session.Test
	value uint32
	err   error // error of the context
}

// Error names the chip, the address, and the value that the wait waited for.
func (e *unmetError) Error() string {
	least := ""
	if e.test == session.AtLeast {
		least = "at least "
	}
	return fmt.Sprintf("chip %s: the word at %s did not become %s%d: %v", e.chip, e.at, least, e.value, e.err)
}

// Unwrap returns the error of the context.
func (e *unmetError) Unwrap() error { return e.err }

// Claim claims a part of the chip; see [session.Claimer]. The claim of a program in the chip's process ends only
// by the function "release", or with the chip.
func (n *Node) Claim(_ context.Context, name, holder string) (release func(), err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	number, err := n.waiting.claims.Claim(n.cfg.Node, name, holder, time.Now())
	if err != nil {
		return nil, err
	}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.waiting.claims.Release(name, number)
	}, nil
}
