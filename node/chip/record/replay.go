package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"ttfabric/node/chip"
	"ttfabric/node/flow"
	"ttfabric/node/kernel"
	"ttfabric/node/noc"
	"ttfabric/router"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Options say how far Replay replays a recording, and which function sees the calls.
type Options struct {
	Until uint64    // number of calls to replay; 0: all
	At    mono.Time // the replay ends before the first call with a later time; 0: no limit
	// Replay calls Each with the number and the record of each call into the chip, before
	// Replay makes the call. An error of Each ends the replay. Each may be nil.
	Each func(n uint64, r *Record) error
	// Kernels are the kernels that the chip can run. A recording of jobs needs the kernels of the
	// recorded chip.
	Kernels kernel.Table
}

// Summary counts the calls that a replay made and the answers that it compared.
type Summary struct {
	Calls   uint64 // number of calls into the chip
	Outputs uint64 // number of transmits, transfers of host memory, results, events, answers with records of their own, and calls of the client's Done and Performed
	Frames  uint64 // number of sent frames
	Events  uint64 // number of events among the outputs
	Last    mono.Time
	End     EndReason // why the recording ends; 0: the recording breaks off, or the replay ended earlier
	EndText string
	Cut     *Cut // where and why the recording breaks off; nil if the replay came to no break
}

// Difference describes the first answer that differs from the recorded answer.
type Difference struct {
	Call uint64 // number of the call, from 1
	Op   string // name of the call
	At   mono.Time
	Want string // answer of the recorded chip
	Got  string // answer of the replaying chip
}

// Error says what differs, in one line.
func (d *Difference) Error() string {
	return fmt.Sprintf("call %d, %s at %v: recorded %s; now %s", d.Call, d.Op, d.At, d.Want, d.Got)
}

// replayer drives a chip with the calls of a recording. Like a recorder, the replayer
// wraps the chip's inputs and encodes the calls and answers. The replayer then compares
// the bytes with the recording.
type replayer struct {
	tape
	r     *Reader
	sum   Summary
	op    Kind // kind of the present call
	diff  *Difference
	stop  bool  // the recording has ended or breaks off
	lacks error // a kernel of the recording that the replaying program does not have
	chip  *chip.Chip
}

// Replay makes the chip of a recording and repeats its calls. If an answer differs, the
// error is a [*Difference] of the first such answer. Any other error says that the chip
// cannot be made, or comes from o.Each. If a recording breaks off, Replay replays the
// part before the break, sets Cut of the Summary, and returns no error.
func Replay(r *Reader, o Options) (Summary, error) {
	h := r.Header()
	h.Config.Kernels = o.Kernels
	c, err := chip.New(h.Started, h.Config)
	if err != nil {
		return Summary{}, fmt.Errorf("recording: %w", err)
	}
	p := &replayer{r: r, chip: c}
	p.enc.last, p.sum.Last = h.Started, h.Started
	p.enc.old = r.dec.old
	p.done = p.compare
	c.Wrap(func(of chip.Inputs) chip.Inputs { return &taped{of, &p.tape, asIs} })
	err = p.run(&o)
	p.sum.End, p.sum.EndText = r.End()
	switch {
	case p.diff != nil && p.lacks != nil:
		err = p.lacks
	case p.diff != nil:
		err = p.diff
	}
	return p.sum, err
}

func (p *replayer) run(o *Options) error {
	for p.diff == nil && !p.stop {
		b, err := p.r.peek()
		if err != nil {
			return p.ended(err)
		}
		peek := decoder{last: p.r.dec.last, old: p.r.dec.old}
		rec, err := peek.record(b)
		if err != nil {
			return p.ended(&Cut{At: p.r.pos, Why: err.Error()})
		}
		if rec.Kind >= Kind(chip.NumOps) {
			p.sum.Calls++
			p.differ(b, "no such record")
			break
		}
		if o.Until > 0 && p.sum.Calls == o.Until || o.At > 0 && rec.Now.After(o.At) {
			return nil
		}
		p.sum.Calls++
		p.op = rec.Kind
		if o.Each != nil {
			if err := o.Each(p.sum.Calls, &rec); err != nil {
				return err
			}
		}
		p.call(&rec)
	}
	return nil
}

// ended notes that the recording has ended, or where it breaks off.
func (p *replayer) ended(err error) error {
	p.stop = true
	if errors.Is(err, io.EOF) {
		return nil
	}
	if errors.As(err, &p.sum.Cut) {
		return nil
	}
	return err
}

// job makes a recorded call of StartJob or EndJob. If the chip of the recording had a kernel that the
// replaying program does not have, the replay stops.
func (p *replayer) job(r *Record) {
	if chip.Op(r.Kind) == chip.OpEndJob {
		var e endJob
		if err := json.Unmarshal(r.Data, &e); err == nil {
			p.chip.EndJob(r.Now, e.ID, e.End)
		}
		return
	}
	var j kernel.Job
	if err := json.Unmarshal(r.Data, &j); err != nil {
		return // the recorded chip got a job that cannot be encoded, and refused it
	}
	for _, pr := range j.Programs {
		for _, k := range pr.Kernels {
			if !p.chip.HasKernel(k.Kernel) && p.lacks == nil {
				p.lacks = fmt.Errorf("recording: job %d may have run kernel %q, which this program lacks: replay with the program that has the kernel", j.ID, k.Kernel)
			}
		}
	}
	_ = p.chip.StartJob(r.Now, j) // the chip's events show whether the job started
}

// call makes a recorded call on the chip. The method "compare" then checks the chip's answers.
func (p *replayer) call(r *Record) {
	c := p.chip
	switch chip.Op(r.Kind) {
	case chip.OpHandleDatagram:
		c.HandleDatagram(r.Now, r.Channel, bytes.Clone(r.Data))
	case chip.OpHandleRequest:
		r.Request.Payload = bytes.Clone(r.Request.Payload)
		c.HandleRequest(r.Now, r.Request)
	case chip.OpTick:
		c.Tick(r.Now)
	case chip.OpPump:
		c.Pump(r.Now)
	case chip.OpSetPath:
		c.SetPath(r.Now, r.Channel, r.N == 1)
	case chip.OpCut:
		c.Cut(r.Now, r.Channel, r.N == 1)
	case chip.OpRefused:
		c.Refused(r.Now, r.Channel)
	case chip.OpStartJob, chip.OpEndJob:
		p.job(r)
	case chip.OpHandleLinkStates:
		c.HandleLinkStates(r.Now, wire.AppendLinkStates(nil, r.Data))
	case chip.OpHandleLives:
		c.HandleLives(r.Now, getLives(r.Data))
	case chip.OpAvoid:
		c.Avoid(r.Now, r.Channel, r.N == 1)
	case chip.OpCommand:
		_ = c.Command(r.Now, r.Channel, router.Command(r.N)) // the chip's events show whether the command succeeded
	case chip.OpMark:
		c.Mark(r.Now, uint32(r.N))
	case chip.OpAsk:
		c.Ask(r.Now, r.Channel)
	case chip.OpAssign:
		_ = c.Assign(r.Now, r.Channel, wire.Channel(r.N)) // an error changes nothing in the chip
	case chip.OpFlush:
		_, _ = c.Flush(r.Now, r.Channel)
	case chip.OpSetMaxPayload:
		_ = c.SetMaxPayload(r.Now, r.Channel, r.N) // the method compare checks the error
	case chip.OpClose:
		c.Close(r.Now)
	case chip.OpSetClient:
		switch r.N {
		case clientNone:
			c.SetClient(nil)
		case clientPlain:
			c.SetClient(&recorded{p})
		default:
			c.SetClient(&recordedWaker{recorded{p}})
		}
	case chip.OpLend:
		c.Lend(r.Now, r.Num)
	case chip.OpHandleTransfer:
		c.HandleTransfer(r.Now, r.Num, wire.Outcome(r.N), bytes.Clone(r.Data))
	case chip.OpHandleStore:
		c.HandleStore(r.Now, r.Channel, r.Num, bytes.Clone(r.Data))
	case chip.OpPollTransfer:
		c.PollTransfer()
	case chip.OpPollTransmit:
		c.PollTransmit(r.Now)
	case chip.OpPollResult:
		c.PollResult()
	case chip.OpPollEvent:
		c.PollEvent()
	case chip.OpDeadline:
		c.Deadline()
	}
}

// compare compares the newly encoded record with the recorded record.
func (p *replayer) compare() {
	if p.diff != nil || p.stop {
		return
	}
	b, err := p.r.peek()
	if err != nil {
		p.endWithin(err, "")
		return
	}
	if !bytes.Equal(b, p.enc.body) {
		p.differ(b, "")
		return
	}
	r, err := p.r.Next()
	if err != nil {
		_ = p.ended(err)
		return
	}
	p.count(&r)
}

// endWithin notes that the recording ends before an action of the replaying chip, which
// "got" describes. If the reason is EndClosed or EndStopped, the recorded chip has
// completed its last call. The action is then a difference.
func (p *replayer) endWithin(err error, got string) {
	why, _ := p.r.End()
	if errors.Is(err, io.EOF) && (why == EndClosed || why == EndStopped) {
		p.differ(nil, got)
		return
	}
	_ = p.ended(err)
}

func (p *replayer) count(r *Record) {
	p.sum.Last = p.r.dec.last
	switch {
	case r.Kind == KindDone, r.Kind == KindPerformed, r.Kind == Kind(chip.OpPollResult) && r.OK:
		p.sum.Outputs++
	case r.Kind == Kind(chip.OpPollEvent) && r.OK:
		p.sum.Outputs++
		p.sum.Events++
	case r.Kind == Kind(chip.OpPollTransfer) && r.OK:
		p.sum.Outputs++
	case r.Kind == Kind(chip.OpPollTransmit) && r.OK:
		p.sum.Outputs++
		p.sum.Frames += uint64(len(r.Sent.Heads))
	case r.Kind == KindAdmission, r.Kind == KindSize, r.Kind == KindDue:
		p.sum.Outputs++
	}
}

// differ notes the first difference. The parameter "want" is the recorded body, or nil if
// the recording has no record left. The parameter "got" describes what the replaying chip
// did. An empty "got" means the newly encoded record.
func (p *replayer) differ(want []byte, got string) {
	d := &Difference{Call: p.sum.Calls, Op: p.op.String(), At: p.r.dec.last, Want: "nothing more", Got: got}
	if want != nil {
		dec := decoder{last: p.r.dec.last, old: p.r.dec.old}
		r, err := dec.record(want)
		if d.Want = Describe(&r); err != nil {
			d.Want = err.Error()
		}
		if got == "" && r.Kind == Kind(p.enc.body[0]) {
			d.At = max(dec.last, d.At)
		}
	}
	if got == "" {
		dec := decoder{last: p.r.dec.last, old: p.r.dec.old}
		if r, err := dec.record(p.enc.body); err == nil {
			d.Got = Describe(&r)
		} else {
			d.Got = err.Error()
		}
	}
	if d.Want == d.Got {
		d.Want += fmt.Sprintf(" (%s)", hexOf(want))
		d.Got += fmt.Sprintf(" (%s)", hexOf(p.enc.body))
	}
	p.diff = d
}

// hexMost is the largest number of bytes of a record that a Difference shows. A
// Difference shows bytes if the two records have equal descriptions.
const hexMost = 512

func hexOf(b []byte) string {
	if len(b) > hexMost {
		return fmt.Sprintf("%x and %d bytes more", b[:hexMost], len(b)-hexMost)
	}
	return fmt.Sprintf("%x", b)
}

// asIs returns the client unchanged, because the client of a replay makes its own
// comparisons.
func asIs(cl chip.Client) chip.Client { return cl }

// recorded is the client of the replaying chip, and returns the recorded answers of the
// recorded chip's client.
type recorded struct{ p *replayer }

// answer returns the client's next answer from the recording, if the next record has kind
// k. Otherwise answer notes a difference or the end of the recording, and returns false.
func (c *recorded) answer(k Kind) (r Record, ok bool) {
	p := c.p
	if p.diff != nil || p.stop {
		return r, false
	}
	b, err := p.r.peek()
	if err != nil {
		p.endWithin(err, k.String())
		return r, false
	}
	if Kind(b[0]) != k {
		p.differ(b, k.String())
		return r, false
	}
	dec := decoder{last: p.r.dec.last, old: p.r.dec.old}
	if r, err = dec.record(b); err != nil {
		_ = p.ended(&Cut{At: p.r.pos, Why: err.Error()})
		return r, false
	}
	r.Request.Payload = bytes.Clone(r.Request.Payload)
	return r, true
}

// Next returns the recorded request.
func (c *recorded) Next(now mono.Time) (flow.Request, bool) {
	r, ok := c.answer(KindNext)
	if !ok {
		return flow.Request{}, false
	}
	e := &c.p.enc
	e.begin(KindNext)
	if e.now(now); r.OK {
		e.request(&r.Request)
	}
	c.p.compare()
	return r.Request, r.OK && c.p.diff == nil && !c.p.stop
}

// Undo compares the chip's call of Undo with the recording.
func (c *recorded) Undo() {
	c.p.enc.begin(KindUndo)
	c.p.compare()
}

// Done compares the result of a request with the recorded result.
func (c *recorded) Done(now mono.Time, r flow.Result) {
	c.p.enc.begin(KindDone)
	c.p.enc.now(now)
	c.p.enc.result(&r)
	c.p.compare()
}

// Performed compares the command that the chip performed with the recorded command.
func (c *recorded) Performed(now mono.Time, src wire.FabricNodeID, plane wire.Plane, other bool, cmd *wire.Command, _ *noc.Memory) {
	c.p.enc.performed(now, src, plane, other, cmd)
	c.p.compare()
}

// recordedWaker is a recorded client with deadlines.
type recordedWaker struct{ recorded }

// Deadline returns the recorded deadline.
func (c *recordedWaker) Deadline() (mono.Time, bool) {
	r, ok := c.answer(KindClientDeadline)
	if !ok {
		return 0, false
	}
	c.p.enc.begin(KindClientDeadline)
	c.p.enc.maybe(r.At, r.OK)
	c.p.compare()
	return r.At, r.OK
}
