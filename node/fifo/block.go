package fifo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Layout of an end's block in L1, in bytes. The package documentation lists the fields.
const (
	BlockSize    = 96 // length of a block; the receiver's FIFO follows its block
	OwnerSize    = 64 // length of the half that the owner writes
	MetOffset    = 24 // offset of the nonce of the end that the owner has met
	BeatOffset   = 44 // offset of the beat
	CountOffset  = 64 // offset of the counter bytes_sent or bytes_acked, a multiple of 16 as the NoC's increments want
	FareOffset   = 80 // offset of the other end's [Farewell]
	blockMagic   = 0x4b535454
	blockVersion = 1
)

// Limits. ttfabric chose these values.
const (
	MaxSize      = 1536 << 10       // largest FIFO, in bytes: the L1 of a Tensix tile has 1464 KiB on a Wormhole and 1536 KiB on a Blackhole
	MaxRepeats   = 50               // repetitions of a write that got lost or was refused for lack of room
	RefuseLinger = time.Second      // how long an end that has met another configuration keeps its block, so that the other end sees this end's configuration
	CheckEvery   = time.Second      // time between two looks at the other end's block, and between two beats
	Silence      = 20 * time.Second // an end with a beat that has not changed for this time counts as dead; a chip counts as dead after the same time of silence
)

// Role says which end of a socket a block belongs to.
type Role uint8

// The roles.
const (
	SenderRole   Role = 1
	ReceiverRole Role = 2
)

// String returns "sender" or "receiver".
func (r Role) String() string {
	switch r {
	case SenderRole:
		return "sender"
	case ReceiverRole:
		return "receiver"
	}
	return fmt.Sprintf("role %d", uint8(r))
}

// Other returns the role of the other end.
func (r Role) Other() Role { return SenderRole + ReceiverRole - r }

// Farewell says how an end has ended. An end writes its farewell into the block of the other end,
// as its last command.
type Farewell uint32

// The farewells.
const (
	Open   Farewell = 0 // the end has not ended
	Closed Farewell = 1 // the program closed the end: a sender has sent all bytes, or a receiver reads no more
	Failed Farewell = 2 // the end has failed, or its program has given up
)

// Config is what both ends of a socket agree on.
type Config struct {
	Size  uint32     // size of the FIFO in bytes, a multiple of Page; 1 to MaxSize
	Page  uint32     // the unit of sending, in bytes: 1 or more. The FIFO wraps round between pages, so each page is contiguous in L1
	Plane wire.Plane // plane of the socket's packets
}

// Check returns an error if the sizes are out of range.
func (c Config) Check() error {
	switch {
	case c.Page == 0 || c.Page > c.Size:
		return fmt.Errorf("a page of %d bytes: want 1 to %d, the size of the FIFO", c.Page, c.Size)
	case c.Size > MaxSize:
		return fmt.Errorf("a FIFO of %d bytes: want at most %d", c.Size, uint32(MaxSize))
	case c.Size%c.Page != 0:
		return fmt.Errorf("a FIFO of %d bytes: want a multiple of the page of %d bytes", c.Size, c.Page)
	}
	return nil
}

// Block is the half of an end's block that the owner writes.
type Block struct {
	Role  Role
	Nonce uint64           // random number of this end; 0: no end uses the block
	Life  wire.Incarnation // incarnation of the end's chip
	Met   uint64           // nonce of the end that this end has met; 0: none
	Config
	Peer wire.FabricNodeID // chip of the other end
	Beat uint32            // changes each second; 0: the end does not beat
}

// Append appends the [OwnerSize] bytes of a block. A block without a nonce becomes zeros.
func (k *Block) Append(b []byte) []byte {
	if k.Nonce == 0 {
		return append(b, make([]byte, OwnerSize)...)
	}
	le := binary.LittleEndian
	b = le.AppendUint32(b, blockMagic)
	b = append(b, blockVersion, byte(k.Role), byte(k.Plane), 0)
	b = le.AppendUint64(b, k.Nonce)
	b = le.AppendUint64(b, uint64(k.Life))
	b = le.AppendUint64(b, k.Met)
	b = le.AppendUint32(b, k.Size)
	b = le.AppendUint32(b, k.Page)
	b = le.AppendUint16(b, uint16(k.Peer.Mesh))
	b = le.AppendUint16(b, uint16(k.Peer.Chip))
	b = le.AppendUint32(b, k.Beat)
	return append(b, make([]byte, OwnerSize-48)...)
}

// ErrNoBlock is the error of [ParseBlock] for memory that holds no block of this version.
var ErrNoBlock = errors.New("the memory holds no end of a socket")

// ParseBlock reads the half of a block that its owner writes. For memory that no end uses, and for
// a block of another version, the error is [ErrNoBlock].
func ParseBlock(b []byte) (Block, error) {
	le := binary.LittleEndian
	if len(b) < OwnerSize || le.Uint32(b) != blockMagic || b[4] != blockVersion || Role(b[5]) != SenderRole && Role(b[5]) != ReceiverRole || le.Uint64(b[8:]) == 0 {
		return Block{}, ErrNoBlock
	}
	return Block{
		Role: Role(b[5]), Nonce: le.Uint64(b[8:]), Life: wire.Incarnation(le.Uint64(b[16:])), Met: le.Uint64(b[24:]),
		Config: Config{Size: le.Uint32(b[32:]), Page: le.Uint32(b[36:]), Plane: wire.Plane(b[6])},
		Peer:   wire.FabricNodeID{Mesh: wire.MeshID(le.Uint16(b[40:])), Chip: wire.ChipID(le.Uint16(b[42:]))}, Beat: le.Uint32(b[44:]),
	}, nil
}

// MismatchError says that the other end of a socket has another configuration.
type MismatchError struct {
	Peer         wire.FabricNodeID // chip of the other end
	Role         Role              // role of the other end
	What         string            // the field that differs
	Ours, Theirs string            // values of the field, with units
}

// Error names the chip, the field and both values.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("the %s at chip %s has another configuration: %s %s there, %s here", e.Role, e.Peer, e.What, e.Theirs, e.Ours)
}

// Meeting is the meeting of two ends. Own is the end's own block, and Peer becomes the block of the other
// end.
type Meeting struct {
	Self, Chip wire.FabricNodeID // this end's chip, and the other end's chip
	Own, Peer  Block
}

// Look takes the bytes of the other end's block. If publish is true, Look has put the other end's
// nonce into Own, and the caller must write this block to L1 again. When met is true, the ends have
// met. If the other end has another configuration, the error is a [MismatchError]. While the other
// end has no block, or has met another end, publish and met are false, and the error is nil. The
// argument "own" is the farewell in this end's block, which the caller has read before b. If the
// other end has written a farewell, the ends have met, and the other end may have freed its block.
func (m *Meeting) Look(own Farewell, b []byte) (publish, met bool, err error) {
	if own != Open && m.Own.Met != 0 {
		return false, true, nil
	}
	k, err := ParseBlock(b)
	if err != nil {
		return false, false, nil
	}
	bad := func(what string, ours, theirs any, unit string) (bool, bool, error) {
		return false, false, &MismatchError{m.Chip, m.Own.Role.Other(), what, fmt.Sprint(ours, unit), fmt.Sprint(theirs, unit)}
	}
	switch mine := k.Met == m.Own.Nonce; {
	case k.Met != 0 && !mine: // the other end serves another end, or an end that has died
		return false, false, nil
	case k.Role == m.Own.Role:
		return bad("role", m.Own.Role.Other(), k.Role, "")
	case k.Peer != m.Self:
		return bad("other end", "chip "+m.Self.String(), "chip "+k.Peer.String(), "")
	case k.Size != m.Own.Size:
		return bad("FIFO of", m.Own.Size, k.Size, " bytes")
	case k.Page != m.Own.Page:
		return bad("page of", m.Own.Page, k.Page, " bytes")
	case k.Plane != m.Own.Plane:
		return bad("plane", m.Own.Plane, k.Plane, "")
	default:
		publish = m.Own.Met != k.Nonce
		m.Own.Met, m.Peer = k.Nonce, k
		return publish, mine, nil
	}
}

// PeerError says that the other end of a socket has gone away.
type PeerError struct {
	Peer wire.FabricNodeID // chip of the other end
	Role Role              // role of the other end
	Why  PeerWhy
}

// PeerWhy says how the other end of a socket has gone away.
type PeerWhy uint8

// The reasons.
const (
	PeerRestarted PeerWhy = iota + 1 // the chip restarted, and has lost its memory
	PeerReplaced                     // the chip still runs, but the block no longer belongs to this socket
	PeerSilent                       // the program of the other end shows no life
	PeerFailed                       // the other end has failed, or its program has given up
	PeerClosed                       // the receiver was closed before it had read all bytes
)

// String returns the reason in words.
func (w PeerWhy) String() string {
	switch w {
	case PeerRestarted:
		return "the chip has restarted and lost its memory"
	case PeerReplaced:
		return "its program has ended, or another program has taken its place"
	case PeerSilent:
		return fmt.Sprintf("its program has shown no life for %v", Silence)
	case PeerFailed:
		return "it has failed, or its program has given up"
	case PeerClosed:
		return "it was closed before it had read all bytes"
	}
	return fmt.Sprintf("reason %d", uint8(w))
}

// Error names the role and the chip of the other end, and the reason.
func (e *PeerError) Error() string {
	return fmt.Sprintf("the %s at chip %s is gone: %s", e.Role, e.Peer, e.Why)
}

// Is reports whether target is a [PeerError] with the same reason. The other fields of target are not
// compared.
func (e *PeerError) Is(target error) bool {
	x, ok := target.(*PeerError)
	return ok && x.Why == e.Why
}

// Watch compares later contents of the other end's block with the block at the meeting.
type Watch struct {
	m    *Meeting
	seen bool // Look has seen the block before
	beat uint32
	at   mono.Time // when the beat last changed
}

// NewWatch returns a Watch of the other end of a meeting.
func NewWatch(m *Meeting) *Watch { return &Watch{m: m} }

// Look takes the other end's block, and the present incarnation of its chip. Look returns a
// [PeerError] in three cases: the chip restarted, the block no longer belongs to the socket, or the
// end has a beat that has not changed for [Silence].
func (w *Watch) Look(now mono.Time, b []byte, life wire.Incarnation) error {
	gone := func(why PeerWhy) error { return &PeerError{w.m.Chip, w.m.Own.Role.Other(), why} }
	k, err := ParseBlock(b)
	switch {
	case life != w.m.Peer.Life:
		return gone(PeerRestarted)
	case err != nil || k.Nonce != w.m.Peer.Nonce:
		return gone(PeerReplaced)
	case k.Beat == 0 || k.Beat != w.beat || !w.seen:
		w.seen, w.beat, w.at = true, k.Beat, now
	case now.Sub(w.at) > Silence:
		return gone(PeerSilent)
	}
	return nil
}
