package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The mailbox of a fabric router (Spec §7.1, "Fabric Node Status Mailbox") is a region in the L1
// memory of the ethernet tile of the router's port. The router writes its status and its events
// into the mailbox. Everybody may read the mailbox with NoC reads. The layout is ttfabric's own,
// because no public document gives a layout. All integers are little-endian.
//
//	region, MailboxSize bytes at MailboxOffset of the tile
//	    0  256  status
//	  256   64  entry, 64 times
//
//	status
//	    0  4  magic 'T' 'T' 'M' 'B'
//	    4  2  version, 1
//	    6  2  size of the status, 256: where the entries begin
//	    8  2  size of an entry, 64
//	   10  2  number of entries, 64
//	   12  4  sequence number of the status; grows by 1 with each write, wraps
//	   16  8  incarnation of the chip
//	   24  8  time of the last write of the status, nanoseconds since the chip's start
//	   32  2  mesh, 34 2 chip, 36 1 channel: the router's port
//	   37  1  direction: 0 east, 1 west, 2 north, 3 south
//	   38  1  plane
//	   39  1  channel whose cable carries the frames; 255: the link's own cable
//	   40  2  mesh, 42 2 chip, 44 1 channel: the port at the other end
//	   45  1  link state: 0 off, 1 training, 2 up, 3 closed
//	   46  1  why the link was last down (see the down reasons of MailboxKind)
//	   47  1  flags: 1 the link is confirmed (the peer is up too), 2 the cable leads to a wrong port
//	   48  4  router state: 0 initializing, 1 running, 2 paused, 3 draining, 4 retraining (tt-metal's RouterState)
//	   52  4  postcode, as tt-metal's EDMStatus: B0C0D0E0 the peer's address is unknown, A0B0C0D0 the link has
//	          started, A1B1C1D1 a hello has come, A2B2C2D2 this end is up, A3B3C3D3 both ends are up, A4B4C4D4 the link is closed
//	   56  4  heartbeat: AABB in the upper half, the time in tenths of a second modulo 65536 in the lower half
//	   60  4  posted: number of entries written so far, modulo 2^32; also the number of the next entry
//	   64  4  session id; 0: no session yet
//	   68  4  number of times that the link has trained again
//	   72  8  time when the link entered its state, nanoseconds since the chip's start
//	   80  8  total length of the past periods from a down to the next up, nanoseconds
//	   88  8  round trip, nanoseconds; 0: not measured yet
//	   96  8  packets sent      104 8 payload bytes sent      112 8 frames sent      120 8 frames sent again
//	  128  8  packets received  136 8 payload bytes received  144 8 frames received  152 8 frames refused
//	  160  8  packets of this chip that left by this port (injected)
//	  168  8  packets that came in by this port and went on to another port (forwarded)
//	  176  8  packets for this chip that came in by this port (delivered)
//	  184  8  packets dropped at this port
//	  192  4  packets in the receiver channels
//	  196  4  packets in the sender channels
//	  200  4  table epoch of the tables in force
//	  204 48  zero
//	  252  4  CRC-32C of all bytes before it
//
//	entry
//	    0  4  number of the entry: 0 for the first since the chip's start, wraps; the entry's place is number modulo 64
//	    4  4  lower half of the chip's incarnation
//	    8  8  time of the event, nanoseconds since the chip's start
//	   16  1  kind (see MailboxKind)
//	   17  1  severity: 1 information, 2 warning, 3 error
//	   18  1  reason. down: the down reason; incompatible: what does not fit; dropped: the drop reason;
//	          command: the router command, or 255 for a flush;
//	          tables: 0 in force, 1 in force and detours of the old tables outdated, 2 refused
//	   19  1  up and path: channel whose cable carries the frames, 255 the link's own cable; stuck: number of the sender channel,
//	          255 for a receiver channel; other kinds: 255
//	   20  4  number of packets that the entry is about; tables: number of cables that the tables avoid; frame size: bytes of payload
//	   24  4  session id; tables: their table epoch
//	   28  4  number of times that the link has trained again so far
//	   32  2  mesh, 34 2 chip: dropped and stuck: source of the packet; miswired: the chip that was found
//	   36  2  mesh, 38 2 chip: dropped and stuck: destination of the packet
//	   40  1  stuck: virtual channel; miswired: channel of the port that was found
//	   41  7  zero
//	   48  8  stuck: nanoseconds without progress; held: nanoseconds that the hold lasts, 0 for a hold without an end
//	   56  4  zero
//	   60  4  CRC-32C of all bytes before it
//
// A router overwrites its status in place. From the 65th entry on, each new entry overwrites the
// oldest entry. A reader that needs several packets to read the region may therefore see a status
// or an entry that is half old and half new. The reader accepts a status or an entry only if the
// checksum is right. The reader also checks that an entry has the number that its place should
// hold, and the lower half of the chip's incarnation. If a check fails, the reader reads again. The
// region holds the entries from posted-64 to posted-1. Until the router writes the 65th entry, the
// region holds all entries. A reader that has taken all entries before number n has missed
// posted-64-n entries, if this number is above zero.
//
// A router writes its status after each event of its link, and before each NoC read of the mailbox.
// The router also writes its status after each command of an operator to the router. A packet that
// passes does not cause a write. If another chip or program writes into the region, the written
// bytes stay until the router overwrites them.
const (
	// MailboxOffset is the offset of the mailbox in an ethernet tile, in bytes. The mailbox lies in
	// the code of the firmware, which an emulated chip does not hold in L1. On Wormhole, the base
	// firmware's code ends at 0x9000. The results that programs read end at 0x2000 (tt-umd,
	// RESULTS_BUF), and the host queues begin at 0x11000 (tt-umd, erisc_firmware.hpp). On Blackhole,
	// tt-metal's firmware has the bytes below 0xF000 (dev_mem_map.h, MEM_AERISC_MAP_END). Kernels
	// therefore never own these bytes.
	MailboxOffset     = 0x4000
	MailboxStatusLen  = 256 // length of the status, in bytes
	MailboxEntryLen   = 64  // length of an entry, in bytes
	MailboxEntries    = 64  // number of entries that the region keeps
	MailboxSize       = MailboxStatusLen + MailboxEntries*MailboxEntryLen
	MailboxVersion    = 1
	MailboxOwnCable   = 0xFF       // value of the fields Path: the link's own cable
	HeartbeatFabric   = 0xAABB0000 // signature of a fabric router's heartbeat (tt-umd, erisc_firmware.hpp)
	HeartbeatPerTick  = 100e6      // time between two values of the heartbeat, in nanoseconds
	mailboxMagic      = "TTMB"
	mailboxCheckLen   = 4
	mailboxConfirmed  = 1
	mailboxMiswired   = 2
	mailboxReserved   = 204 // offset of the status's zeros
	mailboxReservedTo = MailboxStatusLen - mailboxCheckLen
)

// RouterState is the state of a router. The names and values are those of tt-metal
// (fabric_common.h).
type RouterState uint32

// The states of a router.
const (
	RouterInitializing RouterState = iota
	RouterRunning
	RouterPaused
	RouterDraining
	RouterRetraining
)

// String returns the name of the state in lower case, such as "running".
func (s RouterState) String() string {
	names := [...]string{"initializing", "running", "paused", "draining", "retraining"}
	if int(s) >= len(names) {
		return fmt.Sprintf("state(%d)", uint32(s))
	}
	return names[s]
}

// Postcode says how far the bring-up of a router's link has come. The values are those of
// tt-metal's EDMStatus.
type Postcode uint32

// The postcodes that ttfabric uses, with tt-metal's names.
const (
	PostInit       Postcode = 0xB0C0D0E0 // INIT_STARTED
	PostStarted    Postcode = 0xA0B0C0D0
	PostRemote     Postcode = 0xA1B1C1D1 // REMOTE_HANDSHAKE_COMPLETE
	PostLocal      Postcode = 0xA2B2C2D2 // LOCAL_HANDSHAKE_COMPLETE
	PostReady      Postcode = 0xA3B3C3D3 // READY_FOR_TRAFFIC
	PostTerminated Postcode = 0xA4B4C4D4
)

// MailboxKind says what a mailbox entry is about. Kinds below [MailboxDropped] are events of the
// link: 1 up, 2 down, 3 session started, 4 session ended, 5 miswired, 6 incompatible, 7 path, 8
// held, 9 released, 10 frame size lowered, 11 frame size raised, 12 cable unreliable, 13 cable
// reliable again.
//
// Down reasons are 0 never, 1 silence, 2 peer retrained, 3 peer closed, 4 peer restarted, 5 path
// off, 6 closed, 7 path narrower, 8 fallback gone, 9 retrain, 10 no progress, 11 rerouted, 12
// compliance mode.
type MailboxKind uint8

// The kinds of entries that are not about events of the link.
const (
	MailboxDropped MailboxKind = 64 // the router dropped packets
	MailboxStuck   MailboxKind = 65 // the first packet of a receiver channel or sender channel could not move
	MailboxTables  MailboxKind = 66 // the chip has put new routing tables in force or refused them; each of its routers writes this entry
	MailboxCommand MailboxKind = 67 // an operator has given the router a command; for a flush, Packets is the number of dropped packets
)

// Severity is the severity of a mailbox entry.
type Severity uint8

// The severities. The specification calls the three severities status updates, event notifications
// and errors (Spec §7.1).
const (
	SeverityInfo Severity = iota + 1
	SeverityWarning
	SeverityError
)

// String returns the name of the severity: "info", "warning" or "error".
func (s Severity) String() string {
	switch s {
	case SeverityInfo:
		return "info"
	case SeverityWarning:
		return "warning"
	case SeverityError:
		return "error"
	}
	return fmt.Sprintf("severity(%d)", uint8(s))
}

// MailboxStatus is the status of a router. All times are in nanoseconds. The times At and Since
// count from the start of the chip's process.
type MailboxStatus struct {
	Seq         uint32
	Incarnation Incarnation
	At          uint64
	Local       PortID
	Dir         Direction
	Plane       Plane
	Path        uint8 // channel whose cable carries the frames, or MailboxOwnCable
	Peer        PortID
	LinkState   uint8
	LastDown    uint8
	Confirmed   bool
	Miswired    bool
	State       RouterState
	Postcode    Postcode
	Heartbeat   uint32
	Posted      uint32
	Session     SessionID
	Retrains    uint32
	Since       uint64
	Downtime    uint64
	RTT         uint64

	PacketsSent, BytesSent, FramesSent, FramesResent              uint64
	PacketsReceived, BytesReceived, FramesReceived, FramesRefused uint64
	Injected, Forwarded, Delivered, Dropped                       uint64
	InReceiver, InSender                                          uint32 // number of packets in the port's receiver channels and in its sender channels
	Epoch                                                         uint32 // table epoch of the tables in force
}

// MailboxEntry is one entry of a router's mailbox: an event. The Kind decides which fields have a
// meaning.
type MailboxEntry struct {
	Number   uint32
	Life     uint32 // lower 32 bits of the chip's incarnation
	At       uint64 // time of the entry, in nanoseconds since the chip's start
	Kind     MailboxKind
	Severity Severity
	Reason   uint8
	Path     uint8
	Packets  uint32
	Session  SessionID
	Retrains uint32
	Src, Dst FabricNodeID
	VC       uint8 // stuck: the virtual channel; miswired: the ethernet channel found
	For      uint64
}

// Errors of the functions that decode a mailbox.
var (
	ErrMailboxNone = errors.New("mailbox: no mailbox of this version at the address")
	ErrMailboxTorn = errors.New("mailbox: the router wrote to the mailbox during the read; read the mailbox again")
)

// Put encodes the status into the first [MailboxStatusLen] bytes of b.
func (s *MailboxStatus) Put(b []byte) {
	b = b[:MailboxStatusLen]
	le := binary.LittleEndian
	copy(b, mailboxMagic)
	le.PutUint16(b[4:], MailboxVersion)
	le.PutUint16(b[6:], MailboxStatusLen)
	le.PutUint16(b[8:], MailboxEntryLen)
	le.PutUint16(b[10:], MailboxEntries)
	le.PutUint32(b[12:], s.Seq)
	le.PutUint64(b[16:], uint64(s.Incarnation))
	le.PutUint64(b[24:], s.At)
	putNode(b[32:], s.Local.Node)
	b[36], b[37], b[38], b[39] = byte(s.Local.Channel), byte(s.Dir), byte(s.Plane), s.Path
	putNode(b[40:], s.Peer.Node)
	b[44], b[45], b[46], b[47] = byte(s.Peer.Channel), s.LinkState, s.LastDown, 0
	if s.Confirmed {
		b[47] |= mailboxConfirmed
	}
	if s.Miswired {
		b[47] |= mailboxMiswired
	}
	for i, v := range s.words() {
		le.PutUint32(b[48+4*i:], v)
	}
	for i, v := range s.longs() {
		le.PutUint64(b[72+8*i:], *v)
	}
	le.PutUint32(b[192:], s.InReceiver)
	le.PutUint32(b[196:], s.InSender)
	le.PutUint32(b[200:], s.Epoch)
	clear(b[mailboxReserved:mailboxReservedTo])
	sealMailbox(b)
}

// words returns the 32-bit fields of the status from offset 48 to 71, in the order of the format.
func (s *MailboxStatus) words() [6]uint32 {
	return [...]uint32{uint32(s.State), uint32(s.Postcode), s.Heartbeat, s.Posted, uint32(s.Session), s.Retrains}
}

// longs returns pointers to the 64-bit fields of the status from offset 72 to 191, in the order of
// the format.
func (s *MailboxStatus) longs() [15]*uint64 {
	return [...]*uint64{&s.Since, &s.Downtime, &s.RTT,
		&s.PacketsSent, &s.BytesSent, &s.FramesSent, &s.FramesResent,
		&s.PacketsReceived, &s.BytesReceived, &s.FramesReceived, &s.FramesRefused,
		&s.Injected, &s.Forwarded, &s.Delivered, &s.Dropped}
}

// DecodeMailboxStatus decodes a status from b. The error is [ErrMailboxNone] if b holds no status
// of this version, and [ErrMailboxTorn] if the checksum is wrong.
func DecodeMailboxStatus(b []byte) (MailboxStatus, error) {
	le := binary.LittleEndian
	if len(b) < MailboxStatusLen || string(b[:4]) != mailboxMagic || le.Uint16(b[4:]) != MailboxVersion ||
		le.Uint16(b[6:]) != MailboxStatusLen || le.Uint16(b[8:]) != MailboxEntryLen || le.Uint16(b[10:]) != MailboxEntries {
		return MailboxStatus{}, ErrMailboxNone
	}
	if b = b[:MailboxStatusLen]; !mailboxWhole(b) {
		return MailboxStatus{}, ErrMailboxTorn
	}
	s := MailboxStatus{Seq: le.Uint32(b[12:]), Incarnation: Incarnation(le.Uint64(b[16:])), At: le.Uint64(b[24:]),
		Local: PortID{getNode(b[32:]), Channel(b[36])}, Dir: Direction(b[37]), Plane: Plane(b[38]), Path: b[39],
		Peer: PortID{getNode(b[40:]), Channel(b[44])}, LinkState: b[45], LastDown: b[46],
		Confirmed: b[47]&mailboxConfirmed != 0, Miswired: b[47]&mailboxMiswired != 0,
		State: RouterState(le.Uint32(b[48:])), Postcode: Postcode(le.Uint32(b[52:])), Heartbeat: le.Uint32(b[56:]),
		Posted: le.Uint32(b[60:]), Session: SessionID(le.Uint32(b[64:])), Retrains: le.Uint32(b[68:]),
		InReceiver: le.Uint32(b[192:]), InSender: le.Uint32(b[196:]), Epoch: le.Uint32(b[200:])}
	for i, v := range s.longs() {
		*v = le.Uint64(b[72+8*i:])
	}
	return s, nil
}

// Put encodes the entry into the first [MailboxEntryLen] bytes of b.
func (e *MailboxEntry) Put(b []byte) {
	b = b[:MailboxEntryLen]
	le := binary.LittleEndian
	le.PutUint32(b, e.Number)
	le.PutUint32(b[4:], e.Life)
	le.PutUint64(b[8:], e.At)
	b[16], b[17], b[18], b[19] = byte(e.Kind), byte(e.Severity), e.Reason, e.Path
	le.PutUint32(b[20:], e.Packets)
	le.PutUint32(b[24:], uint32(e.Session))
	le.PutUint32(b[28:], e.Retrains)
	putNode(b[32:], e.Src)
	putNode(b[36:], e.Dst)
	clear(b[40:48])
	b[40] = e.VC
	le.PutUint64(b[48:], e.For)
	le.PutUint32(b[56:], 0)
	sealMailbox(b)
}

// DecodeMailboxEntry decodes an entry from b. The error is [ErrMailboxNone] if b is too short, and
// [ErrMailboxTorn] if the checksum is wrong.
func DecodeMailboxEntry(b []byte) (MailboxEntry, error) {
	if len(b) < MailboxEntryLen {
		return MailboxEntry{}, ErrMailboxNone
	}
	if b = b[:MailboxEntryLen]; !mailboxWhole(b) {
		return MailboxEntry{}, ErrMailboxTorn
	}
	le := binary.LittleEndian
	return MailboxEntry{Number: le.Uint32(b), Life: le.Uint32(b[4:]), At: le.Uint64(b[8:]), Kind: MailboxKind(b[16]), Severity: Severity(b[17]),
		Reason: b[18], Path: b[19], Packets: le.Uint32(b[20:]), Session: SessionID(le.Uint32(b[24:])), Retrains: le.Uint32(b[28:]),
		Src: getNode(b[32:]), Dst: getNode(b[36:]), VC: b[40], For: le.Uint64(b[48:])}, nil
}

// Mailbox is the decoded content of a mailbox.
type Mailbox struct {
	Status  MailboxStatus
	Entries []MailboxEntry // oldest first
	Torn    int            // number of entries that the reader could not decode, because the router overwrote them during the read
}

// DecodeMailbox decodes a mailbox from the first [MailboxSize] bytes of b. If b is shorter, the
// error is [ErrMailboxNone]. The other errors are those of [DecodeMailboxStatus].
func DecodeMailbox(b []byte) (Mailbox, error) {
	if len(b) < MailboxSize {
		return Mailbox{}, ErrMailboxNone
	}
	s, err := DecodeMailboxStatus(b)
	if err != nil {
		return Mailbox{}, err
	}
	m := Mailbox{Status: s}
	for i := range min(s.Posted, MailboxEntries) {
		n := s.Posted - min(s.Posted, MailboxEntries) + i
		e, err := DecodeMailboxEntry(b[MailboxEntryAt(n):])
		if err != nil || e.Number != n || e.Life != uint32(s.Incarnation) {
			m.Torn++
			continue
		}
		m.Entries = append(m.Entries, e)
	}
	return m, nil
}

// MailboxEntryAt returns the offset in the mailbox of the entry with the given number, in bytes.
func MailboxEntryAt(number uint32) int {
	return MailboxStatusLen + int(number%MailboxEntries)*MailboxEntryLen
}

func putNode(b []byte, n FabricNodeID) {
	binary.LittleEndian.PutUint16(b, uint16(n.Mesh))
	binary.LittleEndian.PutUint16(b[2:], uint16(n.Chip))
}

func getNode(b []byte) FabricNodeID {
	return FabricNodeID{MeshID(binary.LittleEndian.Uint16(b)), ChipID(binary.LittleEndian.Uint16(b[2:]))}
}

// sealMailbox writes the checksum of the other bytes into the last four bytes of b.
func sealMailbox(b []byte) {
	end := len(b) - mailboxCheckLen
	binary.LittleEndian.PutUint32(b[end:], Checksum(b[:end]))
}

// mailboxWhole reports whether the checksum in the last four bytes of b is right. Memory that
// nobody has written is all zeros, and its checksum is wrong.
func mailboxWhole(b []byte) bool {
	end := len(b) - mailboxCheckLen
	return binary.LittleEndian.Uint32(b[end:]) == Checksum(b[:end])
}
