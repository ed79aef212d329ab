package firmware

import (
	"encoding/binary"
	"fmt"

	"ttfabric/node/noc"
	"ttfabric/wire"
)

// Addresses in the L1 of an ethernet tile, in bytes (BDMS, "Queues").
const (
	QueuePointer    = 0x170            // word with the address of the queues
	QueueBase       = 0x11000          // first byte of the queues (eth_base_firmware_queues_t)
	SQ              = QueueBase + 0x80 // submission queue: requests of the host
	CQ              = QueueBase + 0x200
	Buffers         = QueueBase + 0x1000 // buffers[4][1024], by slot of both queues
	InternalBuffers = QueueBase + 0x2000 // internal_buffers[20][1024]
	End             = InternalBuffers + numInternal*BlockSize
)

// Offsets in a queue (eth_queue_t), in bytes.
const (
	WrReqCounter  = 0x00 // writes that the firmware has accepted
	WrRespCounter = 0x04 // writes that have ended
	RdReqCounter  = 0x08 // reads that the firmware has accepted
	RdRespCounter = 0x0C // reads that have ended
	ErrorCounter  = 0x10 // requests that ended with an error
	WrIdx         = 0x20
	RdIdx         = 0x30
	Entries       = 0x40
)

// Sizes of queues.
const (
	QueueLen  = 4                            // entries of a queue
	EntrySize = 32                           // bytes of an entry (routing_cmd_t)
	QueueSize = Entries + QueueLen*EntrySize // bytes of a queue
	BlockSize = 1024                         // bytes of a buffer, and of the longest part of a request
	indexMask = 2*QueueLen - 1               // indices count modulo 8
	HostSize  = noc.HostSize                 // bytes of host memory that requests can name
)

// Internal words of the firmware, in the padding of eth_base_firmware_queues_t. The documents say nothing
// of these words.
const (
	numInternal = 20
	headerSize  = 64
	headers     = QueueBase + 0x400                // headers of the internal buffers
	tellWord    = headers + numInternal*headerSize // numbers that this tile sends to the other end of its cable, see cable.go
	heardWord   = tellWord + wire.WriteUnit        // numbers that the other end sent
	wordsEnd    = heardWord + wire.WriteUnit
)

// Flags are the flags of a request or of a completion (routing_cmd_t::flags).
type Flags uint32

// The flags (BDMS, "Queues"). DataBlockUnavailable is from luwen and from part 4 of the Wormhole article.
const (
	WrReq                Flags = 1 << 0
	RdReq                Flags = 1 << 2
	RdData               Flags = 1 << 3
	DataBlockDRAM        Flags = 1 << 4
	DataBlock            Flags = 1 << 6
	NocID                Flags = 1 << 9
	Ordered              Flags = 1 << 12
	Mod                  Flags = 1 << 13
	DataBlockUnavailable Flags = 1 << 30 // in a completion: the firmware refused the read
	DestUnreachable      Flags = 1 << 31 // in a completion: no route to the chip, or no answer in time

	requestFlags = WrReq | RdReq | DataBlockDRAM | DataBlock | NocID | Ordered | Mod
)

// flagNames are the names of the flags in BDMS, without CMD_.
var flagNames = []struct {
	flag Flags
	name string
}{{WrReq, "WR_REQ"}, {RdReq, "RD_REQ"}, {RdData, "RD_DATA"}, {DataBlockDRAM, "DATA_BLOCK_DRAM"}, {DataBlock, "DATA_BLOCK"}, {NocID, "NOC_ID"}, {Ordered, "ORDERED"}, {Mod, "MOD"},
	{DataBlockUnavailable, "DATA_BLOCK_UNAVAILABLE"}, {DestUnreachable, "DEST_UNREACHABLE"}}

// Names returns the names of the flags in BDMS, without CMD_. Bits that are no flags come last, as one
// hexadecimal number.
func (f Flags) Names() []string {
	out := []string{}
	for _, n := range flagNames {
		if f&n.flag != 0 {
			out = append(out, n.name)
			f &^= n.flag
		}
	}
	if f != 0 {
		out = append(out, fmt.Sprintf("%#x", uint32(f)))
	}
	return out
}

// Entry is an entry of a queue (routing_cmd_t).
type Entry struct {
	Target   uint64 // target_addr: 36 bits of address, 6 bits each of NoC x, NoC y, chip x and chip y, 4 unused bits
	Data     uint32 // inline_data, or data_block_length with DataBlock
	Flags    Flags
	RackXY   uint16 // target_rack_xy: rack in the low byte, shelf in the high byte
	HostAddr uint32 // data_block_dram_addr
}

// Bits of Entry.Target.
const (
	chipXBit  = 48
	chipYBit  = 54
	chipBits  = 6
	nocTarget = 1<<chipXBit - 1
)

// NewTarget returns the target_addr of an address of a chip at the position (x, y) of its shelf.
func NewTarget(chipX, chipY uint8, a wire.NocAddr) uint64 {
	const most = 1<<chipBits - 1
	return uint64(a)&nocTarget | uint64(chipX&most)<<chipXBit | uint64(chipY&most)<<chipYBit
}

// addr returns the address within the chip, in the coordinates of the NoC that the entry names.
func (e *Entry) addr() wire.NocAddr {
	a := wire.NocAddr(e.Target & nocTarget)
	if e.Flags&NocID != 0 {
		a |= wire.NocOne
	}
	return a
}

// Append appends the 32 bytes of the entry.
func (e *Entry) Append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, e.Target)
	b = le.AppendUint32(b, e.Data)
	b = le.AppendUint32(b, uint32(e.Flags))
	b = le.AppendUint16(b, e.RackXY)
	b = append(b, make([]byte, 10)...)
	return le.AppendUint32(b, e.HostAddr)
}

// ParseEntry returns the entry in the first [EntrySize] bytes of b.
func ParseEntry(b []byte) Entry {
	le := binary.LittleEndian
	return Entry{Target: le.Uint64(b), Data: le.Uint32(b[8:]), Flags: Flags(le.Uint32(b[12:])), RackXY: le.Uint16(b[16:]), HostAddr: le.Uint32(b[28:])}
}

// String returns the target for people, such as "chip (1, 0, 0, 0) 8-0:0xffb20110".
func (e *Entry) String() string {
	const most = 1<<chipBits - 1
	return fmt.Sprintf("chip (%d, %d, %d, %d) %s", e.Target>>chipXBit&most, e.Target>>chipYBit&most, e.RackXY&0xFF, e.RackXY>>8, e.addr())
}
