package record

import (
	"ttfabric/node/flow"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Kind is the kind of a record. Kinds below chip.NumOps are calls, each with the number
// of its [chip.Op].
type Kind uint8

// The kinds of records that are not calls into the chip.
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
	MaxRecord = 1 << 20 // largest record, without its length
	MaxRaw    = 8 << 20 // largest block or header before compression
	MaxStored = MaxRaw + MaxRaw/8 + 64
	wholeMost = 192 // length of the longest frame that a recording keeps as a whole
	headBytes = 176 // number of bytes that a recording keeps from the start of a longer frame: the headers of a multicast to members, with a route of up to 19 hops
	oldHead   = 152 // value of headBytes in versions 1 and 2 of the format
)

// maxTime is the latest time that a reader accepts. The limit keeps sums of times from
// overflowing.
const maxTime mono.Time = 1 << 61

// EndReason says why a recording ends.
type EndReason uint8

// The reasons.
const (
	EndClosed  EndReason = iota + 1 // the chip was closed
	EndLimit                        // the file reached its limit
	EndError                        // the file could not be written any more
	EndStopped                      // a user stopped the recording
	EndPanic                        // the chip panicked in the last call
)

// String returns the reason in words.
func (r EndReason) String() string {
	switch r {
	case EndClosed:
		return "the chip was closed"
	case EndLimit:
		return "the limit of the file's size was reached"
	case EndError:
		return "the file could not be written any more"
	case EndStopped:
		return "a user stopped the recording"
	case EndPanic:
		return "the chip panicked, in the last call"
	}
	return "unknown"
}

// Record is one record. The Kind decides which fields have a meaning.
type Record struct {
	Kind    Kind
	Now     mono.Time // argument "now" of the call, if the call has one
	Channel wire.Channel
	Num     uint64 // Lend: bytes; HandleTransfer: number of the transfer; HandleStore: offset in the tile, in bytes
	N       int    // HandleTransfer: the outcome; SetPath, Cut and Avoid: 1 for on, 0 for off; Command: the router command; Assign: the channel of the fallback path; SetMaxPayload: bytes; SetClient: kind of client; other calls: 0
	Data    []byte // HandleDatagram: the datagram; HandleTransfer: the bytes that a read fetched; HandleStore: the stored bytes; PollEvent: the event as JSON; HandleLinkStates, HandleLives, StartJob and EndJob: the encoded argument; valid until the next record

	OK        bool // true if a Poll method, Deadline or Next returned a value
	Request   flow.Request
	Admission flow.Admission
	Sent      Sent
	Transfer  Transfer
	Result    Result
	At        mono.Time // time that Deadline returned
	Src       wire.FabricNodeID
	Plane     wire.Plane
	Other     bool
	Command   wire.Command
	End       EndReason
	Text      string // text of an error
}

// Sent is what a recording keeps of a [ttlink.Transmit].
type Sent struct {
	Path  ttlink.Path
	Seg   int      // length of a frame, in bytes
	Bytes int      // length of all frames, in bytes
	Sum   uint32   // CRC-32 of all frames
	Heads [][]byte // first bytes of each frame
}

// Transfer is what a recording keeps of a [firmware.Transfer]. Instead of the data of a write, a
// recording keeps the length and the sum of the data.
type Transfer struct {
	ID    uint64
	Write bool
	Addr  uint64
	Len   int    // length, in bytes
	Sum   uint32 // CRC-32 of the data of a write
}

// Result is what a recording keeps of a [flow.Result]. Instead of Data, Err and
// Members, a recording keeps only the fields below.
type Result struct {
	flow.Result
	DataLen    int
	DataSum    uint32
	Error      string
	Members    int
	MembersSum uint32
}
