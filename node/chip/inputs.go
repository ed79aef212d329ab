package chip

import (
	"time"

	"ttfabric/node/firmware"
	"ttfabric/node/flow"
	"ttfabric/node/kernel"
	"ttfabric/router"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Inputs are all calls that change a chip. The state of a chip depends only on its
// [Config] and on the calls of Inputs. Two chips with equal Configs therefore give equal
// answers to equal calls. Package record needs equal answers for its replays. A wrapper
// around a chip implements Inputs, see [Chip.Wrap].
type Inputs interface {
	// HandleDatagram takes a datagram that came in on a port. The chip keeps no part of b.
	HandleDatagram(now mono.Time, ch wire.Channel, b []byte)
	// HandleRequest starts a request. PollResult later returns how the request ended.
	HandleRequest(now mono.Time, r flow.Request) flow.Admission
	// HandleLinkStates takes the link states of other chips' ports from gossip. Gossip
	// fills in link states that neighbours failed to pass on. Gossip neither brings a link up nor
	// takes one down.
	HandleLinkStates(now mono.Time, words []wire.LinkState)
	// HandleLives takes news of the present lives of some chips, as gossip knows them. Suppose that
	// a request was lost on the way to a chip that had not answered before. With the news, this
	// chip knows the fate of the request; see [flow.Source.HandleLives].
	HandleLives(now mono.Time, news []flow.Life)
	// Tick handles the chip's timers. Call Tick, and then Pump, when the time of Deadline
	// has come.
	Tick(now mono.Time)
	// Pump runs the chip until nothing moves. Call Pump once after a batch of other
	// inputs.
	Pump(now mono.Time)

	// SetPath tells a port whether datagrams can reach the address of the port's peer. If
	// the argument "on" is false, the link goes off: it sends nothing and drops received
	// frames.
	SetPath(now mono.Time, ch wire.Channel, on bool)
	// Cut tells a port that this chip itself cuts the port's cable, or repairs it. The chip does
	// not tell the link of the cut: the link goes down because of the silence. The chip then counts
	// the cable as failed, and does not wait for the peer.
	Cut(now mono.Time, ch wire.Channel, on bool)
	// Refused tells a port that a host refused a datagram of the port. A host refuses datagrams if
	// no process has the peer's socket, or if no route leads to the host. See [ttlink.Link.Refused].
	Refused(now mono.Time, ch wire.Channel)
	// SetMaxPayload sets the largest frame payload that the path of a port takes, in padded
	// bytes. SetMaxPayload returns an error for a channel without a port, and for a size
	// that the link refuses; see [ttlink.Link.SetMaxPayload].
	SetMaxPayload(now mono.Time, ch wire.Channel, n int) error
	// SetClient installs the program inside the chip. A nil cl removes the program. The
	// results of a removed program's requests go to the program that is installed when the
	// requests end. If no program is installed then, the chip discards the results.
	SetClient(cl Client)
	// If the argument "on" is true, Avoid takes a channel's cable out of service, even if
	// the cable works. The frames of the cable's link then use a parallel cable. If no
	// parallel cable works, new tables lead around the cable. If "on" is false, Avoid puts
	// the cable back into service. Avoid reports whether the chip has a port on channel ch.
	Avoid(now mono.Time, ch wire.Channel, on bool) bool
	// Assign makes the cable of channel "by" the fallback path of the link on channel ch, while
	// that cable works. If "by" equals ch, the chip chooses the fallback path itself again. Assign
	// returns an error for a channel without a cable. Assign also returns an error if the two
	// cables do not lead to the same chip in the same direction.
	Assign(now mono.Time, ch, by wire.Channel) error
	// Command orders a port to run, pause, drain or retrain, or changes the mode of the port; see
	// [router.Router.Order], [ttlink.Link.Retrain] and [ttlink.Compliance]. Command returns an
	// error for a channel without a cable and for an unknown command. Command also returns an error
	// for the command to retrain, if the link has no path to train on.
	Command(now mono.Time, ch wire.Channel, cmd router.Command) error
	// Flush drops the packets that wait in the sender channels of a port, and returns their
	// number. The chip sends drop reports of the dropped requests and probes to their
	// sources. Flush returns an error for a channel without a cable.
	Flush(now mono.Time, ch wire.Channel) (int, error)
	// Ask makes a port's link send a hello, if the link is up over its own cable; see
	// [ttlink.Link.Ask]. Ask returns the longest time that a working peer takes to answer, or 0 for
	// a channel without a port.
	Ask(now mono.Time, ch wire.Channel) time.Duration
	// Mark begins the cut of a snapshot with this number. If the number is 0, or if the chip has begun
	// this cut or a later cut in the last 15 s, Mark does nothing. The bits [wire.CutPayload] and
	// [wire.CutMemory] of the number say what the chip saves. CutState returns the state.
	Mark(now mono.Time, number uint32)
	// StartJob starts this chip's part of a job of kernels. If the chip cannot run the job, StartJob
	// changes nothing and returns an error.
	StartJob(now mono.Time, j kernel.Job) error
	// EndJob ends a job on this chip. EndJob returns false if no such job runs.
	EndJob(now mono.Time, id kernel.JobID, e kernel.End) bool
	// Lend lets the chip use n bytes of a host's memory. The bytes begin at address 0 of the window
	// that the PCIe tile has for host memory. The chip uses the memory of one host at a time, and at
	// most [HostWindow] bytes. Lend ends all transfers under way with [wire.OutcomeHostGone]. If n is
	// 0, the host has gone.
	Lend(now mono.Time, n uint64)
	// HandleTransfer reports that a transfer that PollTransfer returned has ended with outcome o.
	// After a read, b holds the data. The chip keeps b, so the caller must not change b. The chip
	// ignores a transfer that is not under way.
	HandleTransfer(now mono.Time, id uint64, o wire.Outcome, b []byte)
	// HandleStore stores bytes into the L1 of a channel's ethernet tile. A host has stored these
	// bytes into the host's mapping of the L1. HandleStore returns the outcome of the store.
	HandleStore(now mono.Time, ch wire.Channel, off uint64, b []byte) wire.Outcome
	// Close ends all jobs and closes every link. A link that is up still sends a close frame to its
	// peer. After Close, call PollTransmit until PollTransmit returns false.
	Close(now mono.Time)

	// PollTransmit returns the next frames to send, and the channel of the cable that must
	// carry the frames. Each frame is a datagram of its own. The frames are valid until the
	// next input. PollTransmit returns false if no frame waits.
	PollTransmit(now mono.Time) (wire.Channel, ttlink.Transmit, bool)
	// PollResult returns the result of an ended request, oldest first.
	PollResult() (flow.Result, bool)
	// PollEvent returns the oldest event that waits, and posts the event to the
	// mailboxes.
	PollEvent() (Event, bool)
	// PollTransfer returns the next read or write of host memory that the host must perform. The
	// chip does not change the data of a write until the transfer ends. PollTransfer returns false
	// if no transfer waits.
	PollTransfer() (firmware.Transfer, bool)
	// Deadline returns the time at which the next Tick, followed by a Pump, is due. Deadline
	// returns false if no Tick is due at any time.
	Deadline() (mono.Time, bool)
}

// Op names one of the [Inputs].
type Op uint8

// The inputs. Each Op has the name of its method in [Inputs]. Recordings hold the
// numbers of these constants.
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
	OpAssign
	OpCut
	OpRefused
	OpStartJob
	OpEndJob
	OpLend
	OpHandleTransfer
	OpHandleStore
	OpPollTransfer
	OpHandleLives
	OpMark
	NumOps
)

var opNames = [NumOps]string{"", "HandleDatagram", "HandleRequest", "Tick", "Pump", "SetPath", "SetMaxPayload", "Close", "SetClient",
	"PollTransmit", "PollResult", "PollEvent", "Deadline", "HandleLinkStates", "Avoid", "Command", "Flush", "Ask", "Assign", "Cut", "Refused", "StartJob", "EndJob",
	"Lend", "HandleTransfer", "HandleStore", "PollTransfer", "HandleLives", "Mark"}

// String returns the name of the method that o stands for.
func (o Op) String() string {
	if o >= NumOps {
		return "unknown"
	}
	return opNames[o]
}
