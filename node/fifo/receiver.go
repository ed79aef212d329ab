package fifo

import (
	"fmt"

	"ttfabric/wire/mono"
)

// Receiver is the receiving end of a socket. A Receiver is not safe for concurrent use.
//
// Invariants: acked + acking ≤ taken ≤ sent; sent − acked − acking ≤ the FIFO's size. An
// acknowledgement may be in the sender's block before the receiver knows that the increment has
// ended.
type Receiver struct {
	cfg     Config
	sent    uint64 // bytes that the counter in this end's block counts
	taken   uint64 // bytes that the program has read
	acked   uint64 // bytes that the counter in the sender's block counts
	acking  uint64 // bytes of the acknowledgement under way; 0: none
	flying  bool   // the acknowledgement is under way, and does not wait for its repetition
	tries   int
	due     mono.Time // earliest time at which the acknowledgement may leave, or leave again
	delayed bool      // read bytes wait for their acknowledgement until "due"
	ended   bool      // the sender has sent all bytes
	err     error
}

// NewReceiver returns the receiving end of a socket with no bytes. NewReceiver returns an error for a
// wrong configuration.
func NewReceiver(cfg Config) (*Receiver, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	return &Receiver{cfg: cfg}, nil
}

// HandleSent takes the counter bytes_sent from this end's block, where the sender increments the
// counter. A value that was read before the latest one changes nothing.
func (r *Receiver) HandleSent(word uint32) {
	n := uint64(max(int32(word-uint32(r.sent)), 0))
	if r.sent+n-r.acked-r.acking > uint64(r.cfg.Size) || n%uint64(r.cfg.Page) != 0 {
		r.Fail(ErrCount)
		return
	}
	r.sent += n
}

// HandleClosed notes that the sender has sent all bytes. The argument is the counter bytes_sent,
// which the caller has read after the sender's farewell.
func (r *Receiver) HandleClosed(word uint32) {
	r.HandleSent(word)
	r.ended = true
}

// Next returns the offset of the next unread bytes in the FIFO, and the number of unread bytes up
// to the FIFO's end, at most "most".
func (r *Receiver) Next(most int) (offset uint32, n int) {
	size := uint64(r.cfg.Size)
	return uint32(r.taken % size), int(min(uint64(max(most, 0)), r.sent-r.taken, size-r.taken%size))
}

// Take notes that the program has read n bytes from the FIFO, at most as many as Next has named.
func (r *Receiver) Take(n int) { r.taken += uint64(n) }

// Poll returns the next acknowledgement: the number to add to bytes_acked. A call of HandleEnd must
// follow. While the sender has room for more pages, small acknowledgements wait for up to
// [AckDelay].
func (r *Receiver) Poll(now mono.Time) (add uint32, ok bool) {
	unacked := r.taken - r.acked
	switch {
	case r.err != nil || r.flying:
		return 0, false
	case r.acking > 0: // a repetition
		if now.Before(r.due) {
			return 0, false
		}
	case unacked == 0:
		return 0, false
	case unacked < uint64(r.cfg.Size)/AckShare && !r.Ended() && uint64(r.cfg.Size)-unacked >= uint64(r.cfg.Page):
		if !r.delayed {
			r.delayed, r.due = true, now.Add(AckDelay)
		}
		if now.Before(r.due) {
			return 0, false
		}
	}
	if r.delayed = false; r.acking == 0 {
		r.acking, r.tries = unacked, 0
	}
	r.flying = true
	return uint32(r.acking), true
}

// After returns the value that bytes_acked has after the acknowledgement under way. [Resolve] needs
// this value.
func (r *Receiver) After() uint32 { return uint32(r.acked + r.acking) }

// HandleEnd takes the fate of the acknowledgement.
func (r *Receiver) HandleEnd(now mono.Time, f Fate) {
	r.flying = false
	if f == Done {
		r.acked += r.acking
		r.acking = 0
		return
	}
	if err := f.failure(r.tries); err != nil {
		r.Fail(err)
	}
	r.due = now.Add(RepeatAfter(r.tries))
	r.tries++
}

// Deadline returns the time at which an acknowledgement is due.
func (r *Receiver) Deadline() (mono.Time, bool) {
	return r.due, r.err == nil && !r.flying && (r.acking > 0 || r.delayed)
}

// Sent returns the number of bytes that the sender has sent.
func (r *Receiver) Sent() uint64 { return r.sent }

// Taken returns the number of bytes that the program has read.
func (r *Receiver) Taken() uint64 { return r.taken }

// Flying reports whether an acknowledgement is under way.
func (r *Receiver) Flying() bool { return r.flying }

// Ended reports whether the program has read all bytes of a sender that was closed.
func (r *Receiver) Ended() bool { return r.ended && r.taken == r.sent }

// Closed reports whether the sender has sent all bytes.
func (r *Receiver) Closed() bool { return r.ended }

// Drained reports whether the program has read all bytes of a sender that was closed, and
// bytes_acked in the sender's block counts all bytes.
func (r *Receiver) Drained() bool { return r.Ended() && r.acked == r.sent }

// Fail ends the receiver: Poll returns no acknowledgement any more. The first error counts.
func (r *Receiver) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Err returns the error that has ended the receiver, or nil.
func (r *Receiver) Err() error { return r.err }

// CheckInvariants returns an error if the receiver's own state is inconsistent.
func (r *Receiver) CheckInvariants() error {
	if r.acked+r.acking > r.taken || r.taken > r.sent || r.sent-r.acked-r.acking > uint64(r.cfg.Size) {
		return fmt.Errorf("acked %d + %d, taken %d, sent %d, size %d", r.acked, r.acking, r.taken, r.sent, r.cfg.Size)
	}
	return nil
}
