package chip

import (
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Op names a call that changes a chip: all of its input.
type Op uint8

// The calls, each by the name of its method.
const (
	OpHandleDatagram Op = iota + 1
	OpHandleRequest
	OpTick
	OpPump
	OpSetPath
	OpSetMaxPayload
	OpClose
	OpSetClient
	OpPollTransmit
	OpPollResult
	OpPollEvent
	OpDeadline
	OpHandleLinkStates
	OpAvoid
	OpCommand
	OpFlush
	OpAsk
	NumOps
)

var opNames = [NumOps]string{"", "HandleDatagram", "HandleRequest", "Tick", "Pump", "SetPath", "SetMaxPayload", "Close", "SetClient",
	"PollTransmit", "PollResult", "PollEvent", "Deadline", "HandleLinkStates", "Avoid", "Command", "Flush", "Ask"}

// String is the name of the method.
func (o Op) String() string {
	if o >= NumOps {
		return "unknown"
	}
	return opNames[o]
}

// Values of a [Tap]'s n for [OpSetClient].
const (
	ClientNone  = iota // the client was removed
	ClientPlain        // one that is no [Waker]
	ClientWaker
)

// Tap hears of every call into a chip, in order, before it is carried out, and
// of what it returned. With the [Config] that is all that a chip depends on:
// who repeats the calls gets the same answers (package record does). A tap must
// not call the chip, keep nothing that it is shown, and change nothing.
type Tap interface {
	// Call tells of a call that returns nothing, or of [OpSetMaxPayload] and
	// [OpDeadline], whose answers follow. Of a call without a time now is 0. n
	// is 1 where a path is set on or a cable avoided, a router command, the frame payload in bytes, or the kind of client.
	Call(op Op, now mono.Time, ch wire.Channel, n int, data []byte)
	// Request tells of HandleRequest; Admission of its answer.
	Request(now mono.Time, r Request)
	Admission(a Admission)
	// Size is the answer of SetMaxPayload.
	Size(err error)
	// Transmit, Result, Event and Deadline are the answers of PollTransmit, PollResult, PollEvent and Deadline.
	Transmit(now mono.Time, ch wire.Channel, t ttlink.Transmit, ok bool)
	Result(r Result, ok bool)
	Event(e Event, ok bool)
	Deadline(at mono.Time, ok bool)
	// Client returns what is to stand between the chip and its client, which is
	// not nil: what the client says is input too. It is a [Waker] if the client is.
	Client(cl Client) Client
}

// SetTap installs a tap; nil removes it. One that is to hear everything must be the first call after [New].
func (c *Chip) SetTap(t Tap) { c.tap = t }

func (c *Chip) tapSwitch(op Op, now mono.Time, ch wire.Channel, on bool) {
	n := 0
	if on {
		n = 1
	}
	c.tap.Call(op, now, ch, n, nil)
}

func (c *Chip) tapWords(now mono.Time, words []wire.LinkState) {
	var b []byte
	for i := range words {
		b = words[i].Append(b)
	}
	c.tap.Call(OpHandleLinkStates, now, 0, 0, b)
}

// tapClient tells the tap of a new client.
func (c *Chip) tapClient(cl Client) Client {
	kind := ClientPlain
	if cl == nil {
		c.tap.Call(OpSetClient, 0, 0, ClientNone, nil)
		return nil
	}
	if _, ok := cl.(Waker); ok {
		kind = ClientWaker
	}
	c.tap.Call(OpSetClient, 0, 0, kind, nil)
	return c.tap.Client(cl)
}
