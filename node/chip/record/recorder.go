package record

import (
	"encoding/json"
	"errors"
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/flow"
	"ttfabric/node/noc"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Limits of the blocks that a recorder hands to its [Sink].
const (
	BlockBytes = 256 << 10              // the recorder hands over a block of at least this length, in bytes
	BlockAge   = 250 * time.Millisecond // the recorder hands over a block of at least this age at the end of a step of the chip
)

// Sink takes a block of whole records, and returns an empty block for the next records.
// The Sink owns the block that it took. If the Sink returns an error, the recorder
// records nothing more.
type Sink func(block []byte) (empty []byte, err error)

// Recorder records all inputs of a chip, and most answers of the chip. Like the chip, a Recorder is
// a pure machine and is not safe for concurrent use.
type Recorder struct {
	tape
	out   []byte
	began mono.Time // time before the first record of the block
	sink  Sink
	err   error
}

// NewRecorder returns a recorder for a chip that was made at the time "started". Install the
// recorder by [chip.Chip.Wrap] with [Recorder.Wrap], before the first input.
func NewRecorder(started mono.Time, sink Sink) *Recorder {
	r := &Recorder{sink: sink, began: started}
	r.tape.enc.last = started
	r.tape.done = r.add
	return r
}

// Wrap returns Inputs that record each call and pass the call on to the Inputs "of".
func (r *Recorder) Wrap(of chip.Inputs) chip.Inputs { return &taped{of, &r.tape, r.tape.standIn} }

// ErrEnded is a recorder's error after [Recorder.End].
var ErrEnded = errors.New("the recording was ended")

// End hands the last block to the Sink, but writes no end record. After End, the Recorder
// records nothing more.
func (r *Recorder) End() {
	if r.Flush(); r.err == nil {
		r.err = ErrEnded
	}
}

// Err returns why the recording has ended. Err returns nil while the recording
// continues.
func (r *Recorder) Err() error { return r.err }

func (r *Recorder) add() {
	if r.err != nil {
		return
	}
	r.out = r.enc.end(r.out)
	if len(r.out) >= BlockBytes || r.enc.body[0] == byte(KindDue) && r.enc.last.Sub(r.began) >= BlockAge {
		r.Flush()
	}
}

// Flush hands all records so far to the Sink.
func (r *Recorder) Flush() {
	if len(r.out) > 0 && r.err == nil {
		r.out, r.err = r.sink(r.out)
	}
	r.out, r.began = r.out[:0], r.enc.last
}

// tape encodes calls and answers, one record at a time. After each record, tape calls
// its function "done".
type tape struct {
	enc  encoder
	done func()
}

// call encodes a call. For a call without a time, now is 0. The number n is the field N
// of the call's [Record].
func (t *tape) call(op chip.Op, now mono.Time, ch wire.Channel, n int, data []byte) {
	t.enc.call(op, now, ch, n, data)
	t.done()
}

// json encodes a call whose arguments are a JSON object.
func (t *tape) json(op chip.Op, now mono.Time, args any) {
	b, _ := json.Marshal(args) // json.Marshal of numbers and texts never fails
	t.call(op, now, 0, 0, b)
}

// request encodes a call of HandleRequest.
func (t *tape) request(now mono.Time, r *flow.Request) {
	t.enc.begin(Kind(chip.OpHandleRequest))
	t.enc.now(now)
	t.enc.request(r)
	t.done()
}

// admission encodes the answer of HandleRequest.
func (t *tape) admission(a flow.Admission) {
	t.enc.begin(KindAdmission)
	t.enc.uint(uint64(a))
	t.done()
}

// size encodes the answer of SetMaxPayload.
func (t *tape) size(err error) {
	t.enc.begin(KindSize)
	if err == nil {
		t.enc.text("")
	} else {
		t.enc.text(clip(err.Error()))
	}
	t.done()
}

// transmit encodes a call of PollTransmit and its answer.
func (t *tape) transmit(now mono.Time, ch wire.Channel, x *ttlink.Transmit, ok bool) {
	t.enc.begin(Kind(chip.OpPollTransmit))
	t.enc.now(now)
	if ok {
		t.enc.sent(ch, x)
	}
	t.done()
}

// result encodes a call of PollResult and its answer.
func (t *tape) result(r *flow.Result, ok bool) {
	t.enc.begin(Kind(chip.OpPollResult))
	if ok {
		t.enc.result(r)
	}
	t.done()
}

// event encodes a call of PollEvent and its answer.
func (t *tape) event(e *chip.Event, ok bool) {
	t.enc.begin(Kind(chip.OpPollEvent))
	if ok {
		b, _ := json.Marshal(e) // json.Marshal of numbers and texts never fails
		t.enc.body = append(t.enc.body, b...)
	}
	t.done()
}

// due encodes the answer of Deadline.
func (t *tape) due(at mono.Time, ok bool) {
	t.enc.begin(KindDue)
	t.enc.maybe(at, ok)
	t.done()
}

// standIn returns a client that encodes all calls between the chip and the client cl.
func (t *tape) standIn(cl chip.Client) chip.Client {
	c := client{t, cl}
	if w, ok := cl.(chip.Waker); ok {
		return &waker{c, w}
	}
	return &c
}

// client passes the calls of a chip on to the chip's client, and encodes the calls and
// the client's answers.
type client struct {
	t  *tape
	of chip.Client
}

// Next encodes the request that the client returns.
func (c *client) Next(now mono.Time) (flow.Request, bool) {
	r, ok := c.of.Next(now)
	c.t.enc.begin(KindNext)
	c.t.enc.now(now)
	if ok {
		c.t.enc.request(&r)
	}
	c.t.done()
	return r, ok
}

// Undo encodes the call. With Undo, the chip gives the last request back to its client.
func (c *client) Undo() {
	c.t.enc.begin(KindUndo)
	c.t.done()
	c.of.Undo()
}

// Done encodes how a request ended.
func (c *client) Done(now mono.Time, r flow.Result) {
	c.t.enc.begin(KindDone)
	c.t.enc.now(now)
	c.t.enc.result(&r)
	c.t.done()
	c.of.Done(now, r)
}

// Performed encodes a command that the chip performed.
func (c *client) Performed(now mono.Time, src wire.FabricNodeID, plane wire.Plane, other bool, cmd *wire.Command, m *noc.Memory) {
	c.t.enc.performed(now, src, plane, other, cmd)
	c.t.done()
	c.of.Performed(now, src, plane, other, cmd, m)
}

// waker is a client with deadlines.
type waker struct {
	client
	w chip.Waker
}

// Deadline encodes the time of the client's next request.
func (c *waker) Deadline() (mono.Time, bool) {
	at, ok := c.w.Deadline()
	c.t.enc.begin(KindClientDeadline)
	c.t.enc.maybe(at, ok)
	c.t.done()
	return at, ok
}
