package record

import (
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/firmware"
	"ttfabric/node/flow"
	"ttfabric/node/kernel"
	"ttfabric/router"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// taped wraps a chip's inputs. taped encodes each call and most answers on a tape, and does not
// change calls or answers. If a record holds both the call and its answer, taped encodes the record
// after the call. Otherwise taped encodes the call before it makes the call. The records of
// everything that happens within the call therefore follow the record of the call.
type taped struct {
	of   chip.Inputs
	tape *tape
	// standIn returns the client that the chip gets instead of the given client. A
	// recorder's standIn records the client's answers, because they are inputs of the chip
	// too. The given client is not nil. If the given client is a chip.Waker, the returned
	// client is also a chip.Waker.
	standIn func(chip.Client) chip.Client
}

// HandleDatagram encodes the call.
func (x *taped) HandleDatagram(now mono.Time, ch wire.Channel, b []byte) {
	x.tape.call(chip.OpHandleDatagram, now, ch, 0, b)
	x.of.HandleDatagram(now, ch, b)
}

// HandleRequest encodes the call and its answer.
func (x *taped) HandleRequest(now mono.Time, r flow.Request) flow.Admission {
	x.tape.request(now, &r)
	a := x.of.HandleRequest(now, r)
	x.tape.admission(a)
	return a
}

// HandleLinkStates encodes the call.
func (x *taped) HandleLinkStates(now mono.Time, words []wire.LinkState) {
	var b []byte
	for i := range words {
		b = words[i].Append(b)
	}
	x.tape.call(chip.OpHandleLinkStates, now, 0, 0, b)
	x.of.HandleLinkStates(now, words)
}

// HandleLives encodes the call.
func (x *taped) HandleLives(now mono.Time, news []flow.Life) {
	x.tape.call(chip.OpHandleLives, now, 0, 0, putLives(news))
	x.of.HandleLives(now, news)
}

// Tick encodes the call.
func (x *taped) Tick(now mono.Time) {
	x.tape.call(chip.OpTick, now, 0, 0, nil)
	x.of.Tick(now)
}

// Pump encodes the call.
func (x *taped) Pump(now mono.Time) {
	x.tape.call(chip.OpPump, now, 0, 0, nil)
	x.of.Pump(now)
}

// SetPath encodes the call.
func (x *taped) SetPath(now mono.Time, ch wire.Channel, on bool) {
	x.tape.call(chip.OpSetPath, now, ch, number(on), nil)
	x.of.SetPath(now, ch, on)
}

// Cut encodes the call.
func (x *taped) Cut(now mono.Time, ch wire.Channel, on bool) {
	x.tape.call(chip.OpCut, now, ch, number(on), nil)
	x.of.Cut(now, ch, on)
}

// Mark encodes the call.
func (x *taped) Mark(now mono.Time, number uint32) {
	x.tape.call(chip.OpMark, now, 0, int(number), nil)
	x.of.Mark(now, number)
}

// StartJob encodes the call.
func (x *taped) StartJob(now mono.Time, j kernel.Job) error {
	x.tape.json(chip.OpStartJob, now, j)
	return x.of.StartJob(now, j)
}

// EndJob encodes the call.
func (x *taped) EndJob(now mono.Time, id kernel.JobID, e kernel.End) bool {
	x.tape.json(chip.OpEndJob, now, endJob{id, e})
	return x.of.EndJob(now, id, e)
}

// endJob holds the arguments of EndJob.
type endJob struct {
	ID  kernel.JobID `json:"id"`
	End kernel.End   `json:"end"`
}

// Refused encodes the call.
func (x *taped) Refused(now mono.Time, ch wire.Channel) {
	x.tape.call(chip.OpRefused, now, ch, 0, nil)
	x.of.Refused(now, ch)
}

// SetMaxPayload encodes the call and its answer.
func (x *taped) SetMaxPayload(now mono.Time, ch wire.Channel, n int) error {
	x.tape.call(chip.OpSetMaxPayload, now, ch, n, nil)
	err := x.of.SetMaxPayload(now, ch, n)
	x.tape.size(err)
	return err
}

// SetClient encodes the kind of client, and installs the client that standIn returns.
func (x *taped) SetClient(cl chip.Client) {
	kind := clientPlain
	if _, ok := cl.(chip.Waker); ok {
		kind = clientWaker
	}
	if cl == nil {
		kind = clientNone
	}
	x.tape.call(chip.OpSetClient, 0, 0, kind, nil)
	if cl != nil {
		cl = x.standIn(cl)
	}
	x.of.SetClient(cl)
}

// Avoid encodes the call.
func (x *taped) Avoid(now mono.Time, ch wire.Channel, on bool) bool {
	x.tape.call(chip.OpAvoid, now, ch, number(on), nil)
	return x.of.Avoid(now, ch, on)
}

// Assign encodes the call.
func (x *taped) Assign(now mono.Time, ch, by wire.Channel) error {
	x.tape.call(chip.OpAssign, now, ch, int(by), nil)
	return x.of.Assign(now, ch, by)
}

// Command encodes the call.
func (x *taped) Command(now mono.Time, ch wire.Channel, cmd router.Command) error {
	x.tape.call(chip.OpCommand, now, ch, int(cmd), nil)
	return x.of.Command(now, ch, cmd)
}

// Flush encodes the call.
func (x *taped) Flush(now mono.Time, ch wire.Channel) (int, error) {
	x.tape.call(chip.OpFlush, now, ch, 0, nil)
	return x.of.Flush(now, ch)
}

// Ask encodes the call.
func (x *taped) Ask(now mono.Time, ch wire.Channel) time.Duration {
	x.tape.call(chip.OpAsk, now, ch, 0, nil)
	return x.of.Ask(now, ch)
}

// Lend encodes the call.
func (x *taped) Lend(now mono.Time, n uint64) {
	x.tape.lend(now, n)
	x.of.Lend(now, n)
}

// HandleTransfer encodes the call.
func (x *taped) HandleTransfer(now mono.Time, id uint64, o wire.Outcome, b []byte) {
	x.tape.transferred(now, id, o, b)
	x.of.HandleTransfer(now, id, o, b)
}

// HandleStore encodes the call.
func (x *taped) HandleStore(now mono.Time, ch wire.Channel, off uint64, b []byte) wire.Outcome {
	x.tape.stored(now, ch, off, b)
	return x.of.HandleStore(now, ch, off, b)
}

// PollTransfer encodes the call and its answer in one record.
func (x *taped) PollTransfer() (firmware.Transfer, bool) {
	t, ok := x.of.PollTransfer()
	x.tape.transfer(&t, ok)
	return t, ok
}

// Close encodes the call.
func (x *taped) Close(now mono.Time) {
	x.tape.call(chip.OpClose, now, 0, 0, nil)
	x.of.Close(now)
}

// PollTransmit encodes the call and its answer in one record.
func (x *taped) PollTransmit(now mono.Time) (wire.Channel, ttlink.Transmit, bool) {
	ch, t, ok := x.of.PollTransmit(now)
	x.tape.transmit(now, ch, &t, ok)
	return ch, t, ok
}

// PollResult encodes the call and its answer in one record.
func (x *taped) PollResult() (flow.Result, bool) {
	r, ok := x.of.PollResult()
	x.tape.result(&r, ok)
	return r, ok
}

// PollEvent encodes the call and its answer in one record.
func (x *taped) PollEvent() (chip.Event, bool) {
	e, ok := x.of.PollEvent()
	x.tape.event(&e, ok)
	return e, ok
}

// Deadline encodes the call and its answer.
func (x *taped) Deadline() (mono.Time, bool) {
	x.tape.call(chip.OpDeadline, 0, 0, 0, nil)
	at, ok := x.of.Deadline()
	x.tape.due(at, ok)
	return at, ok
}

// Values of a recorded SetClient.
const (
	clientNone  = iota // the client was removed
	clientPlain        // a client that is no chip.Waker
	clientWaker
)

func number(on bool) int {
	if on {
		return 1
	}
	return 0
}
