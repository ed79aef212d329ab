package session

import (
	"context"
	"encoding/binary"
	"errors"

	"ttfabric/node/flow"
	"ttfabric/wire"
)

// Test says when a wait on a word ends.
type Test uint8

// The tests compare words as unsigned numbers of 32 bits.
const (
	Equal   Test = iota // the word equals the value
	AtLeast             // the word is at least the value
)

// Valid reports whether t is one of the tests.
func (t Test) Valid() bool { return t <= AtLeast }

// Holds reports whether a word passes the test against a value.
func (t Test) Holds(word, value uint32) bool {
	return word == value || t == AtLeast && word > value
}

// Word is a word of 32 bits in a chip's memory, and the value that a program knows.
type Word struct {
	At    wire.NocAddr
	Value uint32
}

// Waiter is a [Fabric] that can wait on a word of its chip's memory.
type Waiter interface {
	// Await waits until a word passes the test against the value, or until ctx ends, and returns
	// the word. The word has 32 bits, and lies at address a of the Fabric's own chip. If the chip
	// refuses the address, the error is a [RefusedError].
	Await(ctx context.Context, a wire.NocAddr, t Test, value uint32) (word uint32, err error)
}

// Replier is a [Waiter] that waits on several words at once, and lets the program answer before the chip sends
// anything else.
type Replier interface {
	// AwaitAny waits until one of the words is at least its value, or until ctx ends. AwaitAny stores the values of
	// all words at this instant in "now", which has at least as many elements. The words lie in the memory of the
	// Fabric's own chip. If the chip refuses an address, the error is a [RefusedError]. After AwaitAny, the program
	// submits requests or waits again within microseconds. The chip lets the program run first. Acknowledgements and
	// completions of the chip then leave together with the program's requests.
	AwaitAny(ctx context.Context, words []Word, now []uint32) error
}

// ErrNoWait is the error of [Session.WaitCounter] and [Session.WaitWord] on a fabric that is no
// [Waiter].
var ErrNoWait = errors.New("this fabric cannot wait on a word; read the word again and again instead")

// WaitCounter waits until a counter of 32 bits in the memory of this Session's chip is at least a
// value, and returns the counter. Other chips add to the counter by [Session.AtomicInc]. The chip
// looks at the counter after each of its steps, and can miss a value that lasts less than one step.
// The address must be a multiple of 4. In tt-metal, the call is noc_semaphore_wait_min.
func (s *Session) WaitCounter(ctx context.Context, a wire.NocAddr, least uint32) (uint32, error) {
	return s.await(ctx, a, AtLeast, least)
}

// WaitToReply does what [Session.WaitCounter] does, for a program that submits requests or waits again at once. On
// a fabric that is a [Replier], fewer datagrams then leave the chip.
func (s *Session) WaitToReply(ctx context.Context, a wire.NocAddr, least uint32) (uint32, error) {
	if r, ok := s.f.(Replier); ok {
		words, now := [1]Word{{a, least}}, [1]uint32{}
		err := r.AwaitAny(ctx, words[:], now[:])
		return now[0], err
	}
	return s.await(ctx, a, AtLeast, least)
}

// errNoWords is the error of a wait that nothing can end.
var errNoWords = errors.New("a wait on no words would never end")

// WaitAny waits until one of several words is at least its value, and stores the values of all words in "now"; see
// [Replier]. On a fabric that is only a [Waiter], the Session waits on each word by itself, and then reads all words.
func (s *Session) WaitAny(ctx context.Context, words []Word, now []uint32) error {
	if len(words) == 0 {
		return errNoWords
	}
	if r, ok := s.f.(Replier); ok {
		return r.AwaitAny(ctx, words, now)
	}
	if one, err := s.readWords(ctx, words, now); one || err != nil {
		return err
	}
	waits, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(words))
	for _, w := range words {
		go func() {
			_, err := s.await(waits, w.At, AtLeast, w.Value)
			ended <- err
		}()
	}
	err := <-ended
	cancel()
	for range len(words) - 1 {
		<-ended
	}
	if err == nil {
		_, err = s.readWords(ctx, words, now)
	}
	return err
}

// readWords reads words of this Session's chip, and reports whether one of them is at least its value.
func (s *Session) readWords(ctx context.Context, words []Word, now []uint32) (one bool, err error) {
	var b [4]byte
	for i, w := range words {
		if err := s.Read(ctx, s.f.Self(), w.At, b[:]); err != nil {
			return false, err
		}
		now[i] = binary.LittleEndian.Uint32(b[:])
		one = one || AtLeast.Holds(now[i], w.Value)
	}
	return one, nil
}

// WaitWord waits until the word of 32 bits at an address of this Session's chip equals a value. The
// address must be a multiple of 4. In tt-metal, the call is noc_semaphore_wait.
func (s *Session) WaitWord(ctx context.Context, a wire.NocAddr, value uint32) error {
	_, err := s.await(ctx, a, Equal, value)
	return err
}

func (s *Session) await(ctx context.Context, a wire.NocAddr, t Test, value uint32) (uint32, error) {
	w, ok := s.f.(Waiter)
	if !ok {
		return 0, ErrNoWait
	}
	return w.Await(ctx, a, t, value)
}

// Mover is a [Fabric] that moves long data to or from its own chip's memory by one request.
type Mover interface {
	// Move starts a write of b to address a of the Fabric's own chip, or a read of len(b) bytes
	// into b. The length of b is at most MaxMove. The chip performs the request at one instant. If
	// Move returns no error, the Fabric calls the function "done" once, with the result. A caller
	// that stops waiting calls the function "leave". After "leave", the Fabric does not use b any
	// more.
	Move(ctx context.Context, write bool, a wire.NocAddr, b []byte, done func(flow.Result)) (leave func(), err error)
	MaxMove() int // largest length of one Move, in bytes
}

// Loader is a [Fabric] that reads its own chip's memory without a request.
type Loader interface {
	// LoadOwn copies len(b) bytes from address a of the Fabric's own chip into b, at one instant.
	LoadOwn(a wire.NocAddr, b []byte) (wire.Outcome, error)
}

// Viewer is a [Fabric] that shows its own chip's memory without a copy.
type Viewer interface {
	// ViewOwn calls f with n bytes from address a of the Fabric's own chip on, in consecutive pieces. If
	// f returns false, ViewOwn stops. The chip does nothing else during the calls. The function f must not
	// block, use the chip, or change or keep the bytes. If the Fabric cannot show the bytes, ViewOwn calls
	// nothing and returns false.
	ViewOwn(a wire.NocAddr, n int, f func(piece []byte) bool) bool
}

// View calls f with n bytes of this Session's chip, without a copy; see [Viewer]. If the session cannot
// show the bytes, View returns false, and the caller uses [Session.Read].
func (s *Session) View(a wire.NocAddr, n int, f func(piece []byte) bool) bool {
	v, ok := s.f.(Viewer)
	return ok && v.ViewOwn(a, n, f)
}

// load reads from this Session's chip without a request. If ok is false, the Session needs a request.
func (s *Session) load(dst wire.FabricNodeID, a wire.NocAddr, b []byte, o []Option) (ok bool, err error) {
	l, has := s.f.(Loader)
	if !has || dst != s.f.Self() || len(o) > 0 {
		return false, nil
	}
	out, err := l.LoadOwn(a, b)
	if err == nil && out != wire.OutcomeDone {
		err = &RefusedError{dst, out, a}
	}
	return true, err
}

// movesAhead is the number of blocks of one call that are under way.
const movesAhead = 2

// mover returns the Session's Mover if a call may use it for n bytes of chip dst, with the options
// o.
func (s *Session) mover(dst wire.FabricNodeID, n int, o []Option) (Mover, bool) {
	if n <= wire.MaxPayload || len(o) > 0 || dst != s.f.Self() {
		return nil, false
	}
	m, ok := s.f.(Mover)
	return m, ok
}

// move writes b to address a of this Session's chip, or reads into b, in blocks.
func (s *Session) move(ctx context.Context, m Mover, write bool, a wire.NocAddr, b []byte) error {
	type end struct {
		at  wire.NocAddr
		res flow.Result
	}
	ends := make(chan end, movesAhead)
	var leaves [movesAhead]func()
	var first error
	open, block := 0, m.MaxMove()
	leave := func() {
		for _, f := range leaves {
			if f != nil {
				f()
			}
		}
	}
	for started := 0; ; {
		for first == nil && len(b) > 0 && open < movesAhead {
			n, at := min(block, len(b)), a
			f, err := m.Move(ctx, write, a, b[:n], func(r flow.Result) { ends <- end{at, r} })
			if err != nil {
				first = err
				break
			}
			leaves[started%movesAhead] = f
			started++
			open++
			a, b = a.Add(n), b[n:]
		}
		if open == 0 {
			return first
		}
		select {
		case e := <-ends:
			open--
			if first == nil {
				first = failure(&flow.Request{Dst: s.f.Self(), Command: wire.Command{Addr: e.at}}, &e.res)
			}
		case <-ctx.Done():
			leave()
			return errors.Join(first, &OutcomeUnknownError{Dst: s.f.Self(), Reason: "the caller stopped waiting"}, ctx.Err())
		}
	}
}
