package record

import (
	"ttfabric/node/flow"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Kind tells records apart. Those below chip.NumOps are the calls, by their [chip.Op].
type Kind uint8

// The kinds beside the calls.
const (
	KindAdmission      Kind = 32
	KindSize           Kind = 33
	KindDue            Kind = 34
	KindNext           Kind = 64
	KindUndo           Kind = 65
	KindDone           Kind = 66
	KindPerformed      Kind = 67
	KindClientDeadline Kind = 68
	KindEnd            Kind = 96
)

// Limits of records and files, in bytes.
const (
	MaxRecord = 1 << 20 // one record behind its length
	MaxRaw    = 8 << 20 // a block, or the header, before it is compressed
	MaxStored = MaxRaw + MaxRaw/8 + 64
	wholeMost = 192 // a frame of at most so many is written down whole
	headBytes = 152 // of a longer one so many
)

// Limits of times: an instant that is later is refused, so that sums with it are instants too.
const maxTime mono.Time = 1 << 61

// EndReason says why a recording ends.
type EndReason uint8

// The reasons.
const (
	EndClosed  EndReason = iota + 1 // the chip was closed
	EndLimit                        // the file had the size that it was allowed
	EndError                        // it could not be written any more
	EndStopped                      // it was told to stop
	EndPanic                        // the chip panicked, in the last call
)

// String is the reason in words.
func (r EndReason) String() string {
	switch r {
	case EndClosed:
		return "the chip was closed"
	case EndLimit:
		return "the limit of the file's size was reached"
	case EndError:
		return "it could not be written any more"
	case EndStopped:
		return "it was told to stop"
	case EndPanic:
		return "the chip panicked, in the last call"
	}
	return "unknown"
}

// Record is one record. Which fields count depends on Kind.
type Record struct {
	Kind    Kind
	Now     mono.Time // of calls that have one, Next, Done and Performed
	Channel wire.Channel
	N       int    // of a call: 1 where a path is set on or a cable is avoided, the router command, the frame payload in bytes, or the kind of client
	Data    []byte // HandleDatagram: the datagram; PollEvent: the event as JSON. A view that the next record ends

	OK        bool // polls, Deadline, Next: there is something
	Request   flow.Request
	Admission flow.Admission
	Sent      Sent
	Result    Result
	At        mono.Time // a deadline
	Src       wire.FabricNodeID
	Plane     wire.Plane
	Other     bool
	Command   wire.Command
	End       EndReason
	Text      string // of an error
}

// Sent is what a recording keeps of a [ttlink.Transmit].
type Sent struct {
	Path  ttlink.Path
	Seg   int      // bytes of a frame
	Bytes int      // of all frames
	Sum   uint32   // CRC-32 of all
	Heads [][]byte // the first bytes of each frame
}

// Result is what a recording keeps of a [flow.Result]: Data, Err and Members are only as below.
type Result struct {
	flow.Result
	DataLen    int
	DataSum    uint32
	Error      string
	Members    int
	MembersSum uint32
}
