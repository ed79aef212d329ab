package firmware

// RequestType is a type of request of a host (BDMS, "Request types").
type RequestType uint8

// The types of requests.
const (
	WrongRequest     RequestType = iota // the flags name no request
	WordRead                            // a read of a word
	BlockRead                           // a read of a block into a buffer of the tile
	HostRead                            // a read of a block into host memory
	WordWrite                           // a write of a word
	BlockWrite                          // a write of a block from a buffer of the tile
	ScatterWrite                        // the writes of a scatter page in a buffer of the tile
	HostWrite                           // a write of a block from host memory
	HostScatterWrite                    // the writes of scatter pages in host memory
	NumRequestTypes
)

// String returns the name of the type.
func (t RequestType) String() string {
	names := [NumRequestTypes]string{"wrong", "word-read", "block-read", "host-read", "word-write", "block-write", "scatter-write", "host-write", "host-scatter-write"}
	if t >= NumRequestTypes {
		t = WrongRequest
	}
	return names[t]
}

// typeFlags are the flags that make the type of a request.
const typeFlags = WrReq | RdReq | DataBlockDRAM | DataBlock | Mod

// Type returns the type of a request with these flags.
func (f Flags) Type() RequestType {
	if f&^requestFlags != 0 {
		return WrongRequest
	}
	switch f & typeFlags {
	case RdReq:
		return WordRead
	case RdReq | DataBlock:
		return BlockRead
	case RdReq | DataBlock | DataBlockDRAM:
		return HostRead
	case WrReq:
		return WordWrite
	case WrReq | DataBlock:
		return BlockWrite
	case WrReq | DataBlock | Mod:
		return ScatterWrite
	case WrReq | DataBlock | DataBlockDRAM:
		return HostWrite
	case WrReq | DataBlock | DataBlockDRAM | Mod:
		return HostScatterWrite
	}
	return WrongRequest
}

// TypeCounters counts the requests of one type that a host has made through the queues of one tile, since
// the chip's start.
type TypeCounters struct {
	Type        string `json:"type"`        // word-read, block-read, host-read, word-write, block-write, scatter-write, host-write or host-scatter-write; wrong: the flags name no request
	Accepted    uint64 `json:"accepted"`    // requests that the firmware has accepted
	Done        uint64 `json:"done"`        // requests that ended without an error
	Refused     uint64 `json:"refused"`     // requests that the firmware refused
	Unreachable uint64 `json:"unreachable"` // requests that ended with DestUnreachable
}

// typeCounters are the counters of all types of one tile. The field Type is empty.
type typeCounters [NumRequestTypes]TypeCounters

// tileCounters are all counters of one tile.
type tileCounters struct {
	Counters
	types   typeCounters
	reports int    // events
	last    Reason // why the last request with an error failed; 0: no request has failed
}

// ended counts the end of a request. The reason is 0 for a request without an error.
func (c *typeCounters) ended(t RequestType, why Reason) {
	switch x := &c[t]; {
	case why == 0:
		x.Done++
	case why.unreachable():
		x.Unreachable++
	default:
		x.Refused++
	}
}

// list returns the counters with the names of the types.
func (c *typeCounters) list() (list []TypeCounters) {
	for t, x := range c {
		x.Type = RequestType(t).String()
		list = append(list, x)
	}
	return list
}
