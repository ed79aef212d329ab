package fifo

import (
	"errors"
	"fmt"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Limits of the ends. ttfabric chose these values.
const (
	Share       = 4                      // a chunk has at most 1/Share of the FIFO, unless a page is longer
	AckShare    = 8                      // the receiver acknowledges 1/AckShare of the FIFO at once
	AckDelay    = time.Millisecond       // longest time from the reading of bytes to their acknowledgement
	RepeatFirst = 2 * time.Millisecond   // wait before the first repetition of a write; the wait doubles up to RepeatMost
	RepeatMost  = 200 * time.Millisecond // longest wait before a repetition
)

// Fate says how a command of an end ended.
type Fate uint8

// The fates.
const (
	Done    Fate = iota // the other chip performed the command
	Repeat              // the other chip did not perform the command and never will: the command was lost, or refused for lack of room
	Refused             // the other chip refused the command for another reason, such as a restart
	Unknown             // nobody knows whether the other chip performed the command
)

// The errors of an end whose command did not end as done.
var (
	ErrUnknown = errors.New("nobody knows whether a write of the socket was performed")
	ErrRefused = errors.New("the other chip refused a write of the socket")
	ErrRepeats = fmt.Errorf("a write of the socket got lost or was refused more than %d times", MaxRepeats)
	ErrCount   = errors.New("the other end's counter is out of range: another program writes into the memory of the socket")
)

// failure returns the error for a fate after a number of repetitions, or nil if the command can be repeated.
func (f Fate) failure(tries int) error {
	switch {
	case f == Repeat && tries < MaxRepeats:
		return nil
	case f == Repeat:
		return ErrRepeats
	case f == Refused:
		return ErrRefused
	}
	return ErrUnknown
}

// RepeatAfter returns how long an end waits before repetition number "tries", from 0.
func RepeatAfter(tries int) time.Duration { return min(RepeatFirst<<min(tries, 16), RepeatMost) }

// Write is a command of a sender: a write, a fused write and increment, or an increment. A write
// writes the bytes From to To-1 of the stream to the FIFO of the receiver.
type Write struct {
	ID       uint64
	From, To uint64 // numbers of bytes in the stream; equal: only an increment
	Offset   uint32 // where the byte From lies in the FIFO
	Inc      uint32 // number to add to bytes_sent; 0: a plain write of any length. With an increment, To - From is at most wire.MaxPayload
	After    uint32 // value of bytes_sent after the increment
}

// Resolve returns the fate of an increment whose outcome was unknown. The argument "count" is the
// counter in the other end's block. The caller has read the counter in the flow of the increment,
// after the increment. The argument "after" is the counter's value after the increment. A chip that
// has performed a request of a flow performs no earlier request of this flow (package flow). So the
// end can repeat an increment that the counter lacks.
func Resolve(count, after uint32) Fate {
	if count == after {
		return Done
	}
	return Repeat
}

// part is the state of a command.
type part struct {
	state uint8
	id    uint64
	tries int
	due   mono.Time // earliest time at which the command may leave
}

// The states of a command.
const (
	waits uint8 = iota
	flies
	done
)

// chunk is a piece of the stream, from the byte "from" to the byte before "to". Plain writes carry
// the data before "tail". If tail is before "to", the last packet is a fused write and increment.
type chunk struct {
	from, tail, to uint64
	body           part // the plain write
}

// fused reports whether the chunk's last packet is a fused write and increment.
func (c *chunk) fused() bool { return c.tail < c.to }

// count is an increment of bytes_sent. If from is less than to, a write of the bytes "from" to
// "to"-1 is fused with the increment.
type count struct {
	part
	from, to uint64
}

// Sender is the sending end of a socket. A Sender is not safe for concurrent use.
//
// Invariants: sent ≤ written ≤ cut ≤ put; cut − acked ≤ the FIFO's size. The chunks cover the bytes written
// to cut−1, in order. Only the first chunk can be fused. acked ≤ sent, except that the receiver may already
// have acknowledged bytes of an increment that is under way.
type Sender struct {
	cfg     Config
	acked   uint64 // bytes that the receiver has read
	sent    uint64 // bytes that the counter in the receiver's block counts
	written uint64 // bytes before which all bytes are in the FIFO
	cut     uint64 // bytes that belong to a chunk, or have belonged to a chunk
	put     uint64 // bytes that the program has handed over by Put
	chunks  []chunk
	inc     count // the increment under way, or to be repeated; none if inc.to <= sent
	id      uint64
	err     error
}

// NewSender returns the sending end of a socket with no bytes. NewSender returns an error for a wrong
// configuration.
func NewSender(cfg Config) (*Sender, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	return &Sender{cfg: cfg}, nil
}

// Put adds n bytes to the stream, a multiple of the page. The caller keeps the memory of these
// bytes until Sent counts them.
func (s *Sender) Put(n int) error {
	if n < 0 || uint64(n)%uint64(s.cfg.Page) != 0 {
		return fmt.Errorf("%d bytes to send: want a multiple of the page of %d bytes", n, s.cfg.Page)
	}
	s.put += uint64(n)
	return s.err
}

// HandleAcked takes the counter bytes_acked from this end's block, where the receiver increments
// the counter. A value that was read before the latest one changes nothing.
func (s *Sender) HandleAcked(word uint32) {
	n := int32(word - uint32(s.acked))
	acked := s.acked + uint64(max(n, 0))
	if acked > s.visible() {
		s.fail(ErrCount)
		return
	}
	s.acked = acked
}

// visible returns the largest number of bytes that the receiver may have seen in bytes_sent.
func (s *Sender) visible() uint64 {
	if s.inc.state == flies {
		return s.inc.to
	}
	return s.sent
}

// end takes the fate of the command p, and reports whether the command is p.
func (s *Sender) end(now mono.Time, p *part, id uint64, f Fate) bool {
	if p.state != flies || p.id != id {
		return false
	}
	if f == Done {
		p.state = done
		return true
	}
	if err := f.failure(p.tries); err != nil {
		s.fail(err)
	}
	p.state, p.due = waits, now.Add(RepeatAfter(p.tries))
	p.tries++
	return true
}

// HandleEnd takes the fate of a command.
func (s *Sender) HandleEnd(now mono.Time, id uint64, f Fate) {
	if s.end(now, &s.inc.part, id, f) && s.inc.state == done {
		s.sent, s.inc.state = s.inc.to, waits
		if len(s.chunks) > 0 && s.chunks[0].to == s.sent && s.chunks[0].fused() {
			s.written, s.chunks = s.sent, s.chunks[1:]
		}
	}
	for i := range s.chunks {
		if s.end(now, &s.chunks[i].body, id, f) {
			break
		}
	}
	for len(s.chunks) > 0 && s.chunks[0].body.state == done && !s.chunks[0].fused() {
		s.written, s.chunks = s.chunks[0].to, s.chunks[1:]
	}
}

func (s *Sender) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// busy reports whether bytes are on their way to the receiver.
func (s *Sender) busy() bool { return len(s.chunks) > 0 || s.written > s.sent }

// cutNext cuts the next chunk, and reports whether cutNext has cut one. While bytes are on their
// way, cutNext cuts no short chunk. The receiver then gets the bytes of several Puts at once. A
// short chunk that need not wait ends with a fused write and increment.
func (s *Sender) cutNext() bool {
	page, size := uint64(s.cfg.Page), uint64(s.cfg.Size)
	most := max(size/Share/page, 1) * page
	n := min(s.put-s.cut, most)
	if n == 0 || n < most && s.busy() {
		return false
	}
	n = min(n, (size-(s.cut-s.acked))/page*page, size-s.cut%size)
	if n == 0 || n < min(most, s.put-s.cut, size-s.cut%size) && s.busy() {
		return false // better a longer chunk later
	}
	c := chunk{from: s.cut, tail: s.cut + n, to: s.cut + n}
	if !s.busy() && (n < most || n <= wire.MaxPayload) {
		c.tail = s.cut + (n-1)/wire.MaxPayload*wire.MaxPayload
	}
	if c.tail == c.from {
		c.body.state = done
	}
	s.chunks = append(s.chunks, c)
	s.cut = c.to
	return true
}

// Poll returns the next command. A call of HandleEnd must follow for each command.
func (s *Sender) Poll(now mono.Time) (Write, bool) {
	if s.err != nil {
		return Write{}, false
	}
	for {
		if s.counts() && !now.Before(s.inc.due) {
			return s.start(&s.inc.part, s.inc.from, s.inc.to, uint32(s.inc.to-s.sent)), true
		}
		for i := range s.chunks {
			if c := &s.chunks[i]; c.body.state == waits && !now.Before(c.body.due) {
				return s.start(&c.body, c.from, c.tail, 0), true
			}
		}
		if !s.cutNext() {
			return Write{}, false
		}
	}
}

// counts reports whether an increment waits, and chooses its bytes if it is not a repetition.
func (s *Sender) counts() bool {
	switch {
	case s.inc.state == flies:
		return false
	case s.inc.to > s.sent: // a repetition
		return true
	case s.written > s.sent:
		s.inc = count{from: s.written, to: s.written}
	case len(s.chunks) > 0 && s.chunks[0].fused() && s.chunks[0].body.state == done:
		s.inc = count{from: s.chunks[0].tail, to: s.chunks[0].to}
	default:
		return false
	}
	return true
}

func (s *Sender) start(p *part, from, to uint64, inc uint32) Write {
	s.id++
	p.state, p.id = flies, s.id
	return Write{s.id, from, to, uint32(from % uint64(s.cfg.Size)), inc, uint32(to)}
}

// Deadline returns the time at which a write is due for repetition.
func (s *Sender) Deadline() (mono.Time, bool) {
	at := mono.Never
	for i := range s.chunks {
		if c := &s.chunks[i]; c.body.state == waits && c.body.tries > 0 {
			at = mono.Min(at, c.body.due)
		}
	}
	if s.inc.state == waits && s.inc.to > s.sent {
		at = mono.Min(at, s.inc.due)
	}
	return at, at != mono.Never && s.err == nil
}

// Sent returns the number of bytes that the counter in the receiver's block counts. The caller may
// reuse the memory of these bytes.
func (s *Sender) Sent() uint64 { return s.sent }

// Acked returns the number of bytes that the receiver has read.
func (s *Sender) Acked() uint64 { return s.acked }

// Taken returns the number of bytes that the program has handed over.
func (s *Sender) Taken() uint64 { return s.put }

// Flying reports whether a command is under way.
func (s *Sender) Flying() bool {
	for i := range s.chunks {
		if s.chunks[i].body.state == flies {
			return true
		}
	}
	return s.inc.state == flies
}

// Fail ends the sender: Poll returns no command any more. The first error counts.
func (s *Sender) Fail(err error) { s.fail(err) }

// Err returns the error that has ended the sender, or nil.
func (s *Sender) Err() error { return s.err }

// CheckInvariants returns an error if the sender's own state is inconsistent.
func (s *Sender) CheckInvariants() error {
	if s.acked > s.visible() || s.sent > s.written || s.written > s.cut || s.cut > s.put || s.cut-s.acked > uint64(s.cfg.Size) {
		return fmt.Errorf("acked %d, sent %d, written %d, cut %d, put %d, size %d", s.acked, s.sent, s.written, s.cut, s.put, s.cfg.Size)
	}
	at := s.written
	for i, c := range s.chunks {
		if c.from != at || c.tail < c.from || c.to <= c.from || c.to-c.tail > wire.MaxPayload || c.fused() && (i > 0 || s.written > s.sent) ||
			c.from/uint64(s.cfg.Size) != (c.to-1)/uint64(s.cfg.Size) {
			return fmt.Errorf("chunk %d: %+v, written %d, sent %d", i, c, s.written, s.sent)
		}
		at = c.to
	}
	if at != s.cut {
		return fmt.Errorf("the chunks end at %d, want %d", at, s.cut)
	}
	if i := &s.inc; i.state == flies && (i.to <= s.sent || i.from < i.to && (len(s.chunks) == 0 || s.chunks[0].tail != i.from) || i.from == i.to && i.to > s.written) {
		return fmt.Errorf("increment %+v, sent %d, written %d", i, s.sent, s.written)
	}
	return nil
}
