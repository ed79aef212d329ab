package attach

import (
	"encoding/binary"
	"fmt"
	"time"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Limits of the protocol. The values are choices of this project.
const (
	Version      = 1                        // version of the protocol
	MaxBlock     = 1 << 20                  // largest payload of a write or a read, in bytes
	MaxFrame     = MaxBlock + 4096          // largest frame, in bytes
	MaxInFlight  = 1024                     // largest number of requests of one client that are in flight
	MaxAnswers   = 8 << 20                  // largest number of bytes of answers that wait for one client, before the chip reads no more requests
	MaxClients   = 64                       // largest number of clients of a chip
	MaxName      = 64                       // largest length of the name of a barrier, in bytes
	MaxRanks     = 1 << 14                  // largest number of ranks of a barrier
	MaxPath      = 107                      // largest length of the path of a Unix socket, in bytes (sun_path of unix(7), less the closing zero)
	WriteTimeout = 30 * time.Second         // longest time for a client to take an answer
	HeadLen      = 16                       // length of a frame's header, in bytes
	commandLen   = 48                       // length of the fixed part of a command, in bytes
	resultLen    = 32                       // length of the fixed part of a result, in bytes
	memberLen    = 12                       // length of one member of a result, in bytes
	chunkLen     = 12                       // length of one chunk of a command, in bytes
	membersLen   = wire.MaxChipsPerMesh / 8 // length of a set of members, in bytes
)

// noID stands for an id of more than 16 bits in the answer to a hello.
const noID = 1<<16 - 1

// magic begins the hello.
const magic = "TTATTACH"

// Kind is the kind of a frame.
type Kind uint8

// The kinds of requests. The answer to a request has the request's kind plus Answer.
const (
	KindHello Kind = iota + 1
	KindCommand
	KindWait
	KindCancel
	KindBarrier
	KindEvents
	KindMoment
	KindJob
	KindStop
	KindEnd
	KindMemory
	KindTile
	KindLend
	KindMoved
	KindHold

	KindClaim     Kind = 18 // 16 and 17 are free, because their answers would have the kinds of an event and a transfer
	KindComm      Kind = 19
	KindBegin     Kind = 20
	KindOperation Kind = 21
	KindShrink    Kind = 22
	KindSplit     Kind = 23
	KindCloseComm Kind = 24
	Answer        Kind = 128
	KindEvent     Kind = 144
	KindTransfer  Kind = 145
	KindError     Kind = 255
)

// Code says why a request failed.
type Code uint16

// The codes.
const (
	CodeRefused   Code = iota + 1 // the chip cannot start the command
	CodeNoRoute                   // the fabric has no route to the destination
	CodeBad                       // the frame has a bad value
	CodeCancelled                 // the client cancelled the request
	CodeFull                      // a limit is reached
	CodeLeft                      // a rank has left the barrier
	CodeClosed                    // the chip shuts down, or is being removed
	CodeHeld                      // another program has the claim
	CodeDead                      // a rank's chip is dead
	CodeAbandoned                 // a rank has left an operation before its end
	CodeMismatch                  // two ranks of a communicator made different calls
)

// Head is the header of a frame.
type Head struct {
	Len    int // length of the frame with its header, in bytes
	Kind   Kind
	Number uint64
}

// AppendHead appends the header of a frame with a body of n bytes.
func AppendHead(b []byte, k Kind, number uint64, n int) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(HeadLen+n))
	b = append(b, byte(k), 0, 0, 0)
	return binary.LittleEndian.AppendUint64(b, number)
}

// ParseHead reads the header at the start of b, which has at least HeadLen bytes.
func ParseHead(b []byte) (Head, error) {
	h := Head{int(binary.LittleEndian.Uint32(b)), Kind(b[4]), binary.LittleEndian.Uint64(b[8:])}
	if h.Len < HeadLen || h.Len > MaxFrame {
		return h, fmt.Errorf("a frame of %d bytes: want %d to %d", h.Len, HeadLen, MaxFrame)
	}
	if b[5]|b[6]|b[7] != 0 {
		return h, fmt.Errorf("the reserved bytes of a frame are % x: want zeros", b[5:8])
	}
	return h, nil
}

// Hello is the chip's answer to the hello of a client.
type Hello struct {
	Chip        wire.FabricNodeID
	Incarnation wire.Incarnation
	Frame       int    // largest frame that the chip takes, in bytes
	InFlight    int    // largest number of requests in flight
	Topology    uint32 // hash of the topology
	Arch        wire.Arch
	Host        topo.HostChip // how a host's driver sees the chip; an ID above 65534 becomes 65535
}

// AppendHello appends the hello of a client.
func AppendHello(b []byte) []byte {
	b = append(AppendHead(b, KindHello, 0, 16), magic...)
	return append(binary.LittleEndian.AppendUint16(b, Version), 0, 0, 0, 0, 0, 0)
}

// ParseHello checks the body of a client's hello.
func ParseHello(b []byte) error {
	if len(b) != 16 || string(b[:8]) != magic {
		return fmt.Errorf("the first frame is no hello: want the 8 bytes %q, a version and 6 zeros", magic)
	}
	if v := binary.LittleEndian.Uint16(b[8:]); v != Version {
		return fmt.Errorf("version %d of the protocol: this chip has version %d; use a client and a chip of one release", v, Version)
	}
	return nil
}

// AppendWelcome appends the chip's answer to a hello.
func AppendWelcome(b []byte, number uint64, h *Hello) []byte {
	b = AppendHead(b, KindHello+Answer, number, 32)
	b = binary.LittleEndian.AppendUint16(b, Version)
	b = appendNode(b, h.Chip)
	b = append(b, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.Incarnation))
	b = binary.LittleEndian.AppendUint32(b, uint32(h.Frame))
	b = binary.LittleEndian.AppendUint32(b, uint32(h.InFlight))
	b = binary.LittleEndian.AppendUint32(b, h.Topology)
	direct := byte(0)
	if h.Host.MMIO {
		direct = 1
	}
	return binary.LittleEndian.AppendUint16(append(b, byte(h.Arch), direct), uint16(min(h.Host.ID, noID)))
}

// ParseWelcome reads the body of the chip's answer to a hello.
func ParseWelcome(b []byte) (h Hello, err error) {
	if len(b) != 32 {
		return h, fmt.Errorf("an answer to a hello of %d bytes: want 32", len(b))
	}
	if v := binary.LittleEndian.Uint16(b); v != Version {
		return h, fmt.Errorf("the chip has version %d of the protocol, this client version %d; use a client and a chip of one release", v, Version)
	}
	h = Hello{Chip: nodeAt(b[2:]), Incarnation: wire.Incarnation(binary.LittleEndian.Uint64(b[8:])), Frame: int(binary.LittleEndian.Uint32(b[16:])),
		InFlight: int(binary.LittleEndian.Uint32(b[20:])), Topology: binary.LittleEndian.Uint32(b[24:]),
		Arch: wire.Arch(b[28]), Host: topo.HostChip{ID: int(binary.LittleEndian.Uint16(b[30:])), MMIO: b[29] == 1}}
	if h.Frame < HeadLen+commandLen || h.InFlight < 1 {
		return h, fmt.Errorf("the chip takes frames of %d bytes and %d requests in flight: want at least %d and 1", h.Frame, h.InFlight, HeadLen+commandLen)
	}
	return h, nil
}

// AppendError appends an error.
func AppendError(b []byte, number uint64, c Code, text string) []byte {
	text = text[:min(len(text), maxText)]
	b = AppendHead(b, KindError, number, 4+len(text))
	b = binary.LittleEndian.AppendUint16(b, uint16(c))
	return append(append(b, 0, 0), text...)
}

// maxText is the largest length of the text of an error, in bytes.
const maxText = 4096

// Error says that the chip did not carry out a request.
type Error struct {
	Code Code
	Text string // reason, as stated by the chip
}

// Error returns the reason.
func (e *Error) Error() string { return e.Text }

// ParseError reads the body of an error.
func ParseError(b []byte) (*Error, error) {
	if len(b) < 4 {
		return nil, fmt.Errorf("an error of %d bytes: want at least 4", len(b))
	}
	return &Error{Code(binary.LittleEndian.Uint16(b)), string(b[4:])}, nil
}

func appendNode(b []byte, n wire.FabricNodeID) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(n.Mesh))
	return binary.LittleEndian.AppendUint16(b, uint16(n.Chip))
}

func nodeAt(b []byte) wire.FabricNodeID {
	return wire.FabricNodeID{Mesh: wire.MeshID(binary.LittleEndian.Uint16(b)), Chip: wire.ChipID(binary.LittleEndian.Uint16(b[2:]))}
}
