package chip

import (
	"time"

	"ttfabric/node/flow"
	"ttfabric/router"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Inputs are all calls that change a chip. With its [Config], a chip depends on
// them alone: whoever repeats the calls gets the same answers (package record
// does). A wrapper around a chip implements Inputs, see [Chip.Wrap].
type Inputs interface {
	// HandleDatagram takes a datagram that came in on a port. The chip keeps no part of b.
	HandleDatagram(now mono.Time, ch wire.Channel, b []byte)
	// HandleRequest starts a request. Its end comes from PollResult.
	HandleRequest(now mono.Time, r flow.Request) flow.Admission
	// HandleLinkStates takes what gossip says of the ports of other chips. Gossip
	// repairs what did not come from neighbour to neighbour, and takes no link up or down.
	HandleLinkStates(now mono.Time, words []wire.LinkState)
	// Tick does what time demands. Call it when Deadline has come.
	Tick(now mono.Time)
	// Pump runs the chip until nothing moves. Call it once after a batch of other inputs.
	Pump(now mono.Time)

	// SetPath says whether the peer of a port can be addressed; the link sends hellos only then.
	SetPath(now mono.Time, ch wire.Channel, on bool)
	// SetMaxPayload says what the path of a port takes: padded payload bytes of one
	// frame. It fails where the link's frames do not fit, and for a channel without a port.
	SetMaxPayload(now mono.Time, ch wire.Channel, n int) error
	// SetClient installs the program inside the chip; nil removes it. The ends of a removed program's requests are dropped.
	SetClient(cl Client)
	// Avoid takes a channel's cable out of service, whether the cable works or not,
	// so that new tables lead around it; or gives the cable back. Avoid reports
	// whether the chip has such a channel.
	Avoid(now mono.Time, ch wire.Channel, on bool) bool
	// Command tells the router of a port to run, pause or drain, or to train its
	// link anew; see [router.Router.Order] and [ttlink.Link.Retrain]. It fails for a
	// channel without a cable, an unknown command, and a link that has no path to train on.
	Command(now mono.Time, ch wire.Channel, cmd router.Command) error
	// Flush gives up the packets that wait in the sender channels of a port, and
	// tells their sources. It returns the number of packets, and fails for a channel without a cable.
	Flush(now mono.Time, ch wire.Channel) (int, error)
	// Ask makes a port that carries its link say hello, and returns how long the
	// answer of a living peer takes at most; see [ttlink.Link.Ask].
	Ask(now mono.Time, ch wire.Channel) time.Duration
	// Close says goodbye on every link. Drain PollTransmit once more afterwards.
	Close(now mono.Time)

	// PollTransmit yields datagrams to send on a port, valid until the next call for that port.
	PollTransmit(now mono.Time) (wire.Channel, ttlink.Transmit, bool)
	// PollResult yields ended requests.
	PollResult() (flow.Result, bool)
	// PollEvent yields events, oldest first, and posts them to the mailboxes.
	PollEvent() (Event, bool)
	// Deadline is when Tick, and the Pump behind it, is due next.
	Deadline() (mono.Time, bool)
}

// Op names one of the [Inputs].
type Op uint8

// The inputs, each by the name of its method. Recordings hold these numbers.
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
