package socket

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"ttfabric/node/fifo"
	"ttfabric/node/flow"
	"ttfabric/node/session"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// machine is the state machine of an end: a [fifo.Sender] or a [fifo.Receiver].
type machine interface {
	Deadline() (mono.Time, bool)
	Fail(err error)
	Err() error
	Flying() bool
}

// end holds what a Sender and a Receiver have in common.
type end struct {
	s     *session.Session
	o     Options
	role  fifo.Role
	meet  fifo.Meeting
	ctx   context.Context // canceled when this Sender or Receiver stops
	stop  context.CancelFunc
	wg    sync.WaitGroup // goroutines of the end
	begin time.Time      // origin of the machine's time

	mu       sync.Mutex
	m        machine
	pump     func(now mono.Time) // starts the commands of the machine; called with the lock
	counted  func(word uint32)   // hands a value of the counter to the machine; called with the lock
	todo     []func()            // commands that change starts in goroutines of their own
	farewell fifo.Farewell       // what the other end has written into this end's block
	told     bool                // this end has begun to write its farewell, or skips the farewell because the other end is gone
	closed   bool                // Close has been called
	changed  chan struct{}       // Go channel that is closed, and replaced by a new one, after each change
	timer    *time.Timer         // the machine's deadline; nil: none
	gaveUp   bool                // giveUp has begun
}

func newEnd(s *session.Session, o Options, r fifo.Role) *end {
	e := &end{s: s, o: o, role: r, begin: time.Now(), changed: make(chan struct{}), meet: fifo.Meeting{Self: s.Self(), Chip: o.Peer}}
	e.ctx, e.stop = context.WithCancel(context.Background())
	return e
}

// run starts the goroutines that watch the counter, the farewell and the other end. The caller calls
// run after the meeting.
func (e *end) run(m machine) {
	e.m = m
	e.wg.Go(e.watchCounter)
	e.wg.Go(e.watchFarewell)
	e.wg.Go(e.watchPeer)
}

func (e *end) now() mono.Time { return mono.Time(time.Since(e.begin)) }

// change calls f with the lock, starts the machine's commands, and wakes the goroutines that wait
// for a change.
func (e *end) change(f func(now mono.Time)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	f(now)
	if e.ctx.Err() == nil { // after the end of ctx, no goroutine may begin
		if e.pump(now); e.m.Err() != nil && !e.gaveUp {
			e.gaveUp = true
			e.wg.Go(e.giveUp)
		}
	}
	if at, ok := e.m.Deadline(); ok && e.ctx.Err() == nil {
		if e.timer != nil {
			e.timer.Stop()
		}
		e.timer = time.AfterFunc(at.Sub(now)+time.Millisecond, func() { e.change(func(mono.Time) {}) })
	}
	close(e.changed)
	e.changed = make(chan struct{})
	for _, do := range e.todo {
		go do()
	}
	e.todo = e.todo[:0]
}

// until waits until the function "ready" returns true, or until ctx ends. The lock is held while
// "ready" runs.
func (e *end) until(ctx context.Context, ready func() bool) error {
	for {
		e.mu.Lock()
		ok, changed := ready(), e.changed
		e.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// fateOf returns the fate of a command, and whether the command can be repeated.
func fateOf(err error) (f fifo.Fate, again bool) {
	var lost *session.LostError
	var refused *session.RefusedError
	switch {
	case err == nil:
		return fifo.Done, false
	case errors.Is(err, session.ErrUnreachable):
		return fifo.Refused, false
	case errors.As(err, &lost):
		return fifo.Repeat, true
	case errors.As(err, &refused) && (refused.Outcome == wire.OutcomeAgain || refused.Outcome == wire.OutcomeOverflow):
		return fifo.Repeat, true
	case errors.As(err, &refused):
		return fifo.Refused, false
	}
	return fifo.Unknown, false
}

// command queues a command of the machine; [end.change] then starts the queued commands. When the
// command has ended, the function "ended" gets the command's fate. For an increment, "after" points
// to the counter's value after the increment; for a plain write, "after" is nil. If the command's
// fate is [fifo.Refused] or [fifo.Unknown], the end fails with an error. The caller holds the lock.
func (e *end) command(c wire.Command, payload []byte, after *uint32, ended func(now mono.Time, f fifo.Fate)) {
	h := flow.Request{Dst: e.o.Peer, Plane: e.o.Plane, Command: c}
	e.todo = append(e.todo, func() {
		e.s.StartThen(e.ctx, &h, payload, func(err error) {
			if err == nil {
				e.change(func(now mono.Time) { ended(now, fifo.Done) })
				return
			}
			// resolve waits for a read. A function of StartThen must not block, so resolve needs its
			// own goroutine.
			go func() {
				f, again := fateOf(err)
				if !again {
					f, err = e.resolve(f, err, after)
				}
				e.change(func(now mono.Time) {
					if f == fifo.Refused || f == fifo.Unknown {
						e.m.Fail(err)
					}
					ended(now, f)
				})
			}()
		})
	})
}

// resolve reads the other end's block after a command that was refused or whose outcome is unknown.
// If the other end is gone, the error of resolve says why. Otherwise resolve finds out whether the
// other chip performed an increment of unknown outcome. resolve lets the end repeat a plain write
// of unknown outcome.
func (e *end) resolve(f fifo.Fate, err error, after *uint32) (fifo.Fate, error) {
	if e.ctx.Err() != nil || errors.Is(err, session.ErrUnreachable) {
		return f, err
	}
	if why := e.look(e.ctx, fifo.NewWatch(&e.meet)); why != nil {
		return f, fmt.Errorf("%w (%w)", why, err)
	}
	if f != fifo.Unknown {
		return f, err
	}
	if after == nil {
		return fifo.Repeat, err
	}
	var b [4]byte
	if why := e.s.Read(e.ctx, e.o.Peer, e.o.PeerAt.Add(fifo.CountOffset), b[:], session.OnPlane(e.o.Plane)); why != nil {
		return f, fmt.Errorf("%w (%w)", why, err)
	}
	return fifo.Resolve(binary.LittleEndian.Uint32(b[:]), *after), err
}

// fail ends the socket with an error.
func (e *end) fail(err error) {
	e.change(func(mono.Time) { e.m.Fail(err) })
}

// failure returns the error that has ended the socket.
func (e *end) failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.m != nil && e.m.Err() != nil {
		return e.m.Err()
	}
	return ErrClosed
}

// word reads a word of this end's block.
func (e *end) word(ctx context.Context, off int) (uint32, error) {
	var b [4]byte
	err := e.s.Read(ctx, e.s.Self(), e.o.At.Add(off), b[:])
	return binary.LittleEndian.Uint32(b[:]), err
}

// nearWrap is the pause between two reads of a counter that is about to wrap. A chip compares a
// counter and the awaited value as numbers of 32 bits, so a chip cannot wait for a counter that
// wraps.
const nearWrap = time.Millisecond

// watchCounter hands each new value of this end's counter to the machine.
func (e *end) watchCounter() {
	for last := uint32(0); ; {
		var word uint32
		var err error
		if last > math.MaxUint32-2*e.o.Size {
			if word, err = e.word(e.ctx, fifo.CountOffset); word == last && err == nil {
				select {
				case <-time.After(nearWrap):
				case <-e.ctx.Done():
				}
			}
		} else {
			word, err = e.s.WaitCounter(e.ctx, e.o.At.Add(fifo.CountOffset), last+1)
		}
		switch {
		case e.ctx.Err() != nil:
			return
		case err != nil:
			e.fail(fmt.Errorf("the socket's counter on chip %s: %w", e.s.Self(), err))
			return
		case word != last:
			e.change(func(mono.Time) { e.counted(word) })
			last = word
		}
	}
}

// watchFarewell waits for the farewell of the other end.
func (e *end) watchFarewell() {
	word, err := e.s.WaitCounter(e.ctx, e.o.At.Add(fifo.FareOffset), 1)
	if e.ctx.Err() != nil {
		return
	}
	if err == nil {
		err = e.takeFarewell(e.ctx, fifo.Farewell(word))
	}
	if err != nil {
		e.fail(fmt.Errorf("the socket's memory on chip %s: %w", e.s.Self(), err))
	}
}

// takeFarewell takes the farewell of the other end. takeFarewell reads the counter after the
// farewell, so the counter includes all bytes that the other end counted before its farewell.
func (e *end) takeFarewell(ctx context.Context, f fifo.Farewell) error {
	count, err := e.word(ctx, fifo.CountOffset)
	if err != nil {
		return err
	}
	e.change(func(mono.Time) {
		e.counted(count)
		if e.farewell == fifo.Open {
			e.farewell = f
		}
		if m, ok := e.m.(*fifo.Receiver); ok && f == fifo.Closed {
			m.HandleClosed(count)
			return
		}
		why := fifo.PeerFailed
		if f == fifo.Closed {
			why = fifo.PeerClosed
		}
		e.m.Fail(&fifo.PeerError{Peer: e.o.Peer, Role: e.role.Other(), Why: why})
	})
	return nil
}

// beat changes this end's beat every second.
func (e *end) beat() {
	tick := time.NewTicker(fifo.CheckEvery)
	defer tick.Stop()
	for n := uint32(2); ; n++ {
		select {
		case <-tick.C:
		case <-e.ctx.Done():
			return
		}
		_ = e.s.InlineWrite(e.ctx, e.s.Self(), e.o.At.Add(fifo.BeatOffset), max(n, 1)) // if this chip is gone, watchCounter reports the error
	}
}

// look reads the other end's block and its chip's incarnation. A [fifo.PeerError] says that the other end is
// gone.
func (e *end) look(ctx context.Context, w *fifo.Watch) error {
	var b [fifo.OwnerSize]byte
	if err := e.s.Read(ctx, e.o.Peer, e.o.PeerAt, b[:], session.OnPlane(e.o.Plane)); err != nil {
		return err
	}
	life, err := e.lifeOf(ctx, e.o.Peer)
	if err != nil {
		return err
	}
	return w.Look(e.now(), b[:], life)
}

// watchPeer looks at the other end every second.
func (e *end) watchPeer() {
	w := fifo.NewWatch(&e.meet)
	for {
		select {
		case <-time.After(fifo.CheckEvery):
		case <-e.ctx.Done():
			return
		}
		err := e.look(e.ctx, w)
		var gone *fifo.PeerError
		if e.ctx.Err() != nil || !errors.As(err, &gone) && !errors.Is(err, session.ErrUnreachable) {
			continue // a read that failed for another reason is repeated
		}
		// A sender that closes first writes its farewell into the receiver's block. The sender
		// frees its own block later. So a receiver that finds another block at the sender may still
		// have a farewell. A receiver that has read all bytes frees its block without a farewell.
		word, fareErr := e.word(e.ctx, fifo.FareOffset)
		count, countErr := e.word(e.ctx, fifo.CountOffset)
		if e.ctx.Err() != nil {
			return
		}
		if gone != nil && gone.Why == fifo.PeerReplaced && fareErr == nil && countErr == nil {
			if word != 0 {
				return // watchFarewell takes the farewell
			}
			drained := false
			e.change(func(mono.Time) {
				e.counted(count)
				x, ok := e.m.(*fifo.Sender)
				drained = ok && e.told && x.Acked() == x.Taken()
			})
			if drained {
				return
			}
		}
		e.fail(err)
		return
	}
}

// tell writes this end's farewell into the other end's block. A repetition may write the same
// farewell twice.
func (e *end) tell(ctx context.Context, f fifo.Farewell) error {
	for try := 0; ; try++ {
		err := e.s.InlineWrite(ctx, e.o.Peer, e.o.PeerAt.Add(fifo.FareOffset), uint32(f), session.OnPlane(e.o.Plane))
		if g, _ := fateOf(err); g == fifo.Done || g == fifo.Refused || try == fifo.MaxRepeats || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(fifo.RepeatAfter(try)):
		case <-ctx.Done():
			return err
		}
	}
}

// tellMost is the longest time that a failed end takes to write its farewell, and that an end takes
// to free its memory.
const tellMost = 2 * time.Second

// giveUp tells the other end once that this end has failed, unless the other end is gone. giveUp
// first waits until no command of this end is under way, because the other end may free its memory
// after the farewell.
func (e *end) giveUp() {
	ctx, cancel := context.WithTimeout(context.Background(), tellMost)
	defer cancel()
	if e.until(ctx, func() bool { return !e.m.Flying() }) != nil {
		return
	}
	var gone *fifo.PeerError
	skip := false
	e.change(func(mono.Time) {
		skip = e.told || errors.As(e.m.Err(), &gone) && (gone.Why == fifo.PeerRestarted || gone.Why == fifo.PeerReplaced)
		e.told = true
	})
	if !skip {
		_ = e.tell(ctx, fifo.Failed) // without a route, the other end notices by itself that this end is gone
	}
}

// free ends the end's goroutines, and gives the end's memory back.
func (e *end) free() error {
	e.mu.Lock()
	e.stop()
	if e.timer != nil {
		e.timer.Stop()
	}
	e.mu.Unlock()
	e.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), tellMost)
	defer cancel()
	if err := e.s.Write(ctx, e.s.Self(), e.o.At, make([]byte, fifo.OwnerSize)); err != nil {
		return fmt.Errorf("the socket's memory on chip %s is not free: %w", e.s.Self(), err)
	}
	return nil
}

// errFlying is the error of a Close whose ctx ended before the other end's last writes.
var errFlying = errors.New("the other end may still write into the memory of the socket")

// settle waits until neither end writes into the memory of the other end any more.
func (e *end) settle(ctx context.Context) error {
	quiet := func() bool {
		var gone *fifo.PeerError
		over := errors.As(e.m.Err(), &gone) && gone.Why != fifo.PeerClosed || errors.Is(e.m.Err(), session.ErrUnreachable)
		switch m := e.m.(type) {
		case *fifo.Receiver:
			over = over || e.farewell != fifo.Open && (m.Err() != nil || m.Drained() || !m.Ended())
		case *fifo.Sender:
			over = over || m.Err() != nil || m.Acked() == m.Taken()
		}
		return over && !e.m.Flying() && (e.m.Err() == nil || e.told)
	}
	if err := e.until(ctx, quiet); err != nil {
		return fmt.Errorf("%w: %w", errFlying, err)
	}
	return nil
}
