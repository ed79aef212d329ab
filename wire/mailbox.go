package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The mailbox of a fabric router (Spec §7.1, "Fabric Node Status Mailbox") is a region of the L1 of
// the ethernet tile of its port. The router posts its status and its events there. Anyone may read
// the region with NoC reads. The layout is ours, as no public document gives one. All integers are
// little-endian.
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
//	   12  4  sequence number of this status; grows each time it is written, wraps
//	   16  8  incarnation of the chip
//	   24  8  time of this status, nanoseconds since the chip's start
//	   32  2  mesh, 34 2 chip, 36 1 channel: the port
//	   37  1  direction: 0 east, 1 west, 2 north, 3 south
//	   38  1  plane
//	   39  1  channel whose cable carries the frames; 255: the link's own cable
//	   40  2  mesh, 42 2 chip, 44 1 channel: the port at the other end
//	   45  1  link state: 0 off, 1 training, 2 up, 3 closed
//	   46  1  why it was last down (down reasons below)
//	   47  1  flags: 1 the peer has shown that it is up, 2 the cable leads to a wrong port
//	   48  4  router state: 0 initializing, 1 running, 2 paused, 3 draining, 4 retraining (tt-metal's RouterState)
//	   52  4  postcode, as tt-metal's EDMStatus: B0C0D0E0 the peer's address is unknown, A0B0C0D0
//	          started, A1B1C1D1 the peer heard, A2B2C2D2 up here, A3B3C3D3 ready for traffic, A4B4C4D4 terminated
//	   56  4  heartbeat: AABB in the upper half, the time in tenths of a second modulo 65536 in the lower
//	   60  4  entries posted so far, modulo 2^32: the number of the next one
//	   64  4  session id; 0: none yet
//	   68  4  retrains
//	   72  8  since when the link is in its state, nanoseconds since the chip's start
//	   80  8  time between down and up so far, nanoseconds
//	   88  8  round trip, nanoseconds; 0: not measured yet
//	   96  8  packets sent      104 8 bytes of them      112 8 frames sent      120 8 frames sent again
//	  128  8  packets received  136 8 bytes of them      144 8 frames received  152 8 frames refused
//	  160  8  packets of this chip that left here (injected)
//	  168  8  packets passed on to another port (forwarded)
//	  176  8  packets for this chip (delivered)
//	  184  8  packets dropped here
//	  192  4  packets in the receiver channels
//	  196  4  packets in the sender channels
//	  200  4  epoch of the routing tables
//	  204 48  zero
//	  252  4  CRC-32C of all bytes before it
//
//	entry
//	    0  4  number: 0 for the first since the start, wraps; it stands at number modulo 64
//	    4  4  lower half of the chip's incarnation
//	    8  8  time, nanoseconds since the chip's start
//	   16  1  kind (entry kinds below)
//	   17  1  severity: 1 information, 2 warning, 3 error
//	   18  1  reason: of down, a down reason; of incompatible, what does not fit; of dropped, the drop reason;
//	          of command, the router command, or 255 for a flush;
//	          of tables, 0 in force, 1 in force and detours of the old tables dropped, 2 refused
//	   19  1  up and path: channel whose cable carries the frames, 255 the link's own cable; stuck: sender channel, 255 the receiver channel
//	   20  4  packets that the entry is about; of tables, cables that the tables avoid; of a frame size, bytes of payload
//	   24  4  session id; of tables, their epoch
//	   28  4  retrains so far
//	   32  2  mesh, 34 2 chip: dropped and stuck, source of the packet; miswired, who was found
//	   36  2  mesh, 38 2 chip: dropped and stuck, destination of the packet
//	   40  1  stuck: virtual channel; miswired: channel that was found
//	   41  7  zero
//	   48  8  stuck: nanoseconds without progress; held: nanoseconds that the hold lasts
//	   56  4  zero
//	   60  4  CRC-32C of all bytes before it
//
// Reading. A router overwrites its status in place. The router overwrites the oldest entry when it
// posts the 65th. A reader that needs more than one packet may therefore see half of an old and
// half of a new status or entry. The reader takes a status or an entry only if its checksum is
// right. The reader takes an entry only if the entry also has the number and the incarnation that
// are expected at its place. Otherwise it reads again. The region holds the entries posted-64 to
// posted-1, or 0 to posted-1 before the 65th. A reader that has taken all entries before number n
// has missed posted-64-n entries, if this number is above zero.
//
// A router writes its status when its link changes and whenever the fabric reads the status, but
// never for a packet that passes. If others write into the region, their bytes last until the
// router writes over them.
const (
	// MailboxOffset is the offset of the mailbox in an ethernet tile, in bytes. The mailbox lies in
	// the area that tt-metal leaves to programs there. That area begins at 98304 on Wormhole
	// (erisc_l1_unreserved_base) and ends a few KiB below the end of 256 KiB. On Blackhole, this
	// area ends below 448 KiB.
	MailboxOffset     = 0x30000
	MailboxStatusLen  = 256 // bytes
	MailboxEntryLen   = 64  // bytes
	MailboxEntries    = 64  // number of entries that the region keeps
	MailboxSize       = MailboxStatusLen + MailboxEntries*MailboxEntryLen
	MailboxVersion    = 1
	MailboxOwnCable   = 0xFF       // value of Path: the link's own cable
	HeartbeatFabric   = 0xAABB0000 // signature of a fabric router's heartbeat (tt-umd, erisc_firmware.hpp)
	HeartbeatPerTick  = 100e6      // nanoseconds of one heartbeat
	mailboxMagic      = "TTMB"
	mailboxCheckLen   = 4
	mailboxConfirmed  = 1
	mailboxMiswired   = 2
	mailboxReserved   = 204 // offset of the status's zeros
	mailboxReservedTo = MailboxStatusLen - mailboxCheckLen
)

// RouterState is a router's state in the words of tt-metal's fabric_common.h.
type RouterState uint32

// The states.
const (
	RouterInitializing RouterState = iota
	RouterRunning
	RouterPaused
	RouterDraining
	RouterRetraining
)

// String returns the state in lower case.
func (s RouterState) String() string {
	names := [...]string{"initializing", "running", "paused", "draining", "retraining"}
	if int(s) >= len(names) {
		return fmt.Sprintf("state(%d)", uint32(s))
	}
	return names[s]
}

// Postcode tells how far a router has come, in the words of tt-metal's EDMStatus.
type Postcode uint32

// The postcodes in use.
const (
	PostInit       Postcode = 0xB0C0D0E0 // INIT_STARTED
	PostStarted    Postcode = 0xA0B0C0D0
	PostRemote     Postcode = 0xA1B1C1D1 // REMOTE_HANDSHAKE_COMPLETE
	PostLocal      Postcode = 0xA2B2C2D2 // LOCAL_HANDSHAKE_COMPLETE
	PostReady      Postcode = 0xA3B3C3D3 // READY_FOR_TRAFFIC
	PostTerminated Postcode = 0xA4B4C4D4
)

// MailboxKind says what an entry is about. Kinds below [MailboxDropped] are the events of the link:
// 1 up, 2 down, 3 session started, 4 session ended, 5 miswired, 6 incompatible, 7 path, 8 held, 9
// released, 10 frame size lowered, 11 frame size raised.
//
// Down reasons are 0 never, 1 silence, 2 peer retrained, 3 peer closed, 4 peer restarted, 5 path
// off, 6 closed, 7 path narrower, 8 fallback gone, 9 retrain.
type MailboxKind uint8

// The kinds that are not events of the link.
const (
	MailboxDropped MailboxKind = 64 // the router dropped packets
	MailboxStuck   MailboxKind = 65 // the head of a channel could not move
	MailboxTables  MailboxKind = 66 // the chip has put new routing tables in force; each of its routers posts this
	MailboxCommand MailboxKind = 67 // the router was ordered to do something; for a flush, the entry gives the number of packets dropped
)

// Severity of an entry.
type Severity uint8

// The severities: status updates, event notifications and errors of Spec §7.1.
const (
	SeverityInfo Severity = iota + 1
	SeverityWarning
	SeverityError
)

// String returns the severity in one word.
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

// MailboxStatus is the status of a router. Times are in nanoseconds. The times At and Since are
// instants of the chip's clock, which starts at 0 with the chip.
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
	InReceiver, InSender                                          uint32 // number of packets in the receiver channels and in the sender channels
	Epoch                                                         uint32 // epoch of the routing tables
}

// MailboxEntry is one message of a router. The Kind decides which fields have a meaning.
type MailboxEntry struct {
	Number   uint32
	Life     uint32 // lower half of the chip's incarnation
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

// Errors when reading a mailbox.
var (
	ErrMailboxNone = errors.New("mailbox: none here")
	ErrMailboxTorn = errors.New("mailbox: written while it was read; read it again")
)

// Put writes the status into b, which holds [MailboxStatusLen] bytes.
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

// words returns the 32-bit fields from offset 48 to 72.
func (s *MailboxStatus) words() [6]uint32 {
	return [...]uint32{uint32(s.State), uint32(s.Postcode), s.Heartbeat, s.Posted, uint32(s.Session), s.Retrains}
}

// longs returns pointers to the 64-bit fields from offset 72 to 192.
func (s *MailboxStatus) longs() [15]*uint64 {
	return [...]*uint64{&s.Since, &s.Downtime, &s.RTT,
		&s.PacketsSent, &s.BytesSent, &s.FramesSent, &s.FramesResent,
		&s.PacketsReceived, &s.BytesReceived, &s.FramesReceived, &s.FramesRefused,
		&s.Injected, &s.Forwarded, &s.Delivered, &s.Dropped}
}

// DecodeMailboxStatus reads a status. The error is [ErrMailboxNone] if b holds no status of this
// version, or [ErrMailboxTorn].
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

// Put writes the entry into b, which holds [MailboxEntryLen] bytes.
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

// DecodeMailboxEntry reads an entry. The error is [ErrMailboxNone] if b is too short, or
// [ErrMailboxTorn].
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

// Mailbox is the content of a region.
type Mailbox struct {
	Status  MailboxStatus
	Entries []MailboxEntry // oldest first
	Torn    int            // entries that should be in the region and were overwritten while the region was read
}

// DecodeMailbox reads a region of [MailboxSize] bytes. The errors are the same as those of
// [DecodeMailboxStatus].
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

// MailboxEntryAt returns the offset in the region of the entry with the given number, in bytes.
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

// sealMailbox writes the checksum into the last four bytes.
func sealMailbox(b []byte) {
	end := len(b) - mailboxCheckLen
	binary.LittleEndian.PutUint32(b[end:], Checksum(b[:end]))
}

// mailboxWhole reports whether the checksum is right. A region of zeros, which nobody has written,
// does not pass.
func mailboxWhole(b []byte) bool {
	end := len(b) - mailboxCheckLen
	return binary.LittleEndian.Uint32(b[end:]) == Checksum(b[:end])
}
