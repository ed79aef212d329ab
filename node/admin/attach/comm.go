package attach

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"ttfabric/node/claim"
	"ttfabric/node/collective"
	"ttfabric/wire"
)

// Limits of communicators.
const (
	MaxComms      = 16      // largest number of communicators of one client that are not closed; failed communicators count
	MaxCommMemory = 4 << 30 // largest memory that a client shares with the chip for the data of operations, in bytes
	operationLen  = 40      // length of the body of an operation, in bytes
	splitLen      = 16      // length of the body of a split, in bytes
)

// Comm is the body of a request for a communicator, in JSON. The chip performs the operations of the
// communicator; see package session/collective.
type Comm struct {
	Chips  []wire.FabricNodeID `json:"chips"`           // chip of each rank; all ranks give the same list
	Links  int                 `json:"links,omitempty"` // number of planes that carry the data; 0: 1
	Means  string              `json:"means,omitempty"` // what moves the data: "fabric" or "edm"; "": fabric
	Memory int64               `json:"memory"`          // size of the memory that the client and the chip share, in bytes: 1 to [MaxCommMemory]
	Holder string              `json:"holder"`          // names the program, for the error of another program
}

// ParseComm reads the body of a request for a communicator.
func ParseComm(b []byte) (c Comm, err error) {
	if err = json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("a request for a communicator that is no JSON of the documented form: %w", err)
	}
	switch {
	case c.Memory < 1 || c.Memory > MaxCommMemory:
		return c, fmt.Errorf("a communicator with %d bytes of memory: want 1 to %d", c.Memory, int64(MaxCommMemory))
	case len(c.Holder) < 1 || len(c.Holder) > claim.MaxHolder:
		return c, fmt.Errorf("the holder %q of a communicator has %d bytes: want 1 to %d", c.Holder, len(c.Holder), claim.MaxHolder)
	}
	return c, nil
}

// CommView describes a new communicator, in JSON.
type CommView struct {
	Rank  int                 `json:"rank"`            // rank of the client; -1: a split gave the client no communicator
	Chips []wire.FabricNodeID `json:"chips,omitempty"` // chip of each rank
	Path  string              `json:"path,omitempty"`  // way of the data, such as "a ring of 8 chips"
}

// Operation is the body of an operation: the number of the communicator, the call, and where input and output
// lie in the shared memory.
type Operation struct {
	Comm    uint64
	Call    collective.Call
	In, Out uint64 // offsets in bytes
}

// AppendOperation appends an operation.
func AppendOperation(b []byte, number uint64, o *Operation) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(AppendHead(b, KindOperation, number, operationLen), o.Comm)
	b = append(b, byte(o.Call.Kind), byte(o.Call.Type), byte(o.Call.Op), 0)
	b = le.AppendUint32(b, uint32(o.Call.Root))
	b = le.AppendUint64(b, uint64(o.Call.Count))
	return le.AppendUint64(le.AppendUint64(b, o.In), o.Out)
}

// ParseOperation reads the body of an operation.
func ParseOperation(b []byte) (o Operation, err error) {
	if len(b) != operationLen || b[11] != 0 {
		return o, fmt.Errorf("an operation of %d bytes: want %d, and a zero in byte 11", len(b), operationLen)
	}
	le := binary.LittleEndian
	count, root := le.Uint64(b[16:]), le.Uint32(b[12:])
	o = Operation{Comm: le.Uint64(b), In: le.Uint64(b[24:]), Out: le.Uint64(b[32:]),
		Call: collective.Call{Kind: collective.Kind(b[8]), Type: collective.Type(b[9]), Op: collective.Op(b[10]), Root: int(root), Count: int(min(count, collective.MaxCount))}}
	switch {
	case count > collective.MaxCount:
		return o, fmt.Errorf("an operation of %d elements: want at most %d", count, collective.MaxCount)
	case root >= collective.MaxRanks:
		return o, fmt.Errorf("an operation with root %d: want a rank, at most %d", root, collective.MaxRanks-1)
	case !o.Call.Type.Valid():
		return o, fmt.Errorf("an operation on elements of %s: there is no such type", o.Call.Type)
	}
	return o, nil
}

// Range returns the first offset of n bytes of shared memory, and the offset after the last byte. The argument
// "size" is the size of the memory. If some bytes lie outside the memory, Range returns an error that begins with
// "what".
func Range(what string, off uint64, n, size int) (from, to int, err error) {
	if n > size || off > uint64(size-n) {
		return 0, 0, fmt.Errorf("the %s of an operation has %d bytes from offset %d on: the shared memory has %d bytes", what, n, off, size)
	}
	return int(off), int(off) + n, nil
}

// Split is the body of a split: the number of the communicator, and the color and the key of the rank.
type Split struct {
	Comm       uint64
	Color, Key int32
}

// AppendSplit appends a split.
func AppendSplit(b []byte, number uint64, s *Split) []byte {
	b = binary.LittleEndian.AppendUint64(AppendHead(b, KindSplit, number, splitLen), s.Comm)
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, uint32(s.Color)), uint32(s.Key))
}

// ParseSplit reads the body of a split.
func ParseSplit(b []byte) (s Split, err error) {
	if len(b) != splitLen {
		return s, fmt.Errorf("a split of %d bytes: want %d", len(b), splitLen)
	}
	le := binary.LittleEndian
	return Split{le.Uint64(b), int32(le.Uint32(b[8:])), int32(le.Uint32(b[12:]))}, nil
}

// ParseCommNumber reads the body of a frame that holds the number of a communicator alone.
func ParseCommNumber(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("%d bytes in place of the number of a communicator: want 8", len(b))
	}
	return binary.LittleEndian.Uint64(b), nil
}

// AppendRankError appends an error that concerns a rank of a communicator.
func AppendRankError(b []byte, number uint64, c Code, rank int, text string) []byte {
	from := len(b)
	b = AppendError(b, number, c, text)
	binary.LittleEndian.PutUint16(b[from+HeadLen+2:], uint16(rank))
	return b
}
