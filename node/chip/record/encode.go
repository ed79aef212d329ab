package record

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"

	"ttfabric/node/chip"
	"ttfabric/node/firmware"
	"ttfabric/node/flow"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// encoder writes records, one at a time. For each record, call begin, then the methods
// for the parts of the body, then end.
type encoder struct {
	last mono.Time // latest time in the records so far
	old  bool      // write as version 2 of the format does
	body []byte
}

func (e *encoder) begin(k Kind) { e.body = append(e.body[:0], byte(k)) }

// end appends the record's length and the record to b.
func (e *encoder) end(b []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(e.body))), e.body...)
}

func (e *encoder) byte(v byte)     { e.body = append(e.body, v) }
func (e *encoder) uint(v uint64)   { e.body = binary.AppendUvarint(e.body, v) }
func (e *encoder) int(v int64)     { e.body = binary.AppendVarint(e.body, v) }
func (e *encoder) fixed(v uint32)  { e.body = binary.LittleEndian.AppendUint32(e.body, v) }
func (e *encoder) bytes(b []byte)  { e.uint(uint64(len(b))); e.body = append(e.body, b...) }
func (e *encoder) text(s string)   { e.uint(uint64(len(s))); e.body = append(e.body, s...) }
func (e *encoder) at(t mono.Time)  { e.int(int64(t - e.last)) }
func (e *encoder) now(t mono.Time) { e.int(int64(t - e.last)); e.last = t }
func (e *encoder) node(n wire.FabricNodeID) {
	e.uint(uint64(n.Mesh))
	e.uint(uint64(n.Chip))
}

func (e *encoder) flag(on bool) {
	if on {
		e.uint(1)
	} else {
		e.uint(0)
	}
}

// maybe writes a deadline, or writes that there is no deadline.
func (e *encoder) maybe(t mono.Time, ok bool) {
	if e.flag(ok); ok {
		e.at(t)
	}
}

func (e *encoder) call(op chip.Op, now mono.Time, ch wire.Channel, n int, data []byte) {
	e.begin(Kind(op))
	switch op {
	case chip.OpHandleDatagram:
		e.now(now)
		e.byte(byte(ch))
		e.body = append(e.body, data...)
	case chip.OpHandleLinkStates, chip.OpStartJob, chip.OpEndJob, chip.OpHandleLives:
		e.now(now)
		e.body = append(e.body, data...)
	case chip.OpSetPath, chip.OpCut, chip.OpAvoid:
		e.now(now)
		e.byte(byte(ch))
		e.uint(uint64(n))
	case chip.OpSetMaxPayload, chip.OpCommand, chip.OpFlush, chip.OpAsk, chip.OpAssign, chip.OpRefused, chip.OpMark:
		e.now(now)
		e.byte(byte(ch))
		e.int(int64(n))
	case chip.OpSetClient:
		e.uint(uint64(n))
	case chip.OpLend, chip.OpHandleTransfer, chip.OpHandleStore:
		e.now(now) // the rest comes from the tape's methods lend, transferred and stored
	case chip.OpDeadline, chip.OpPollTransfer:
	default:
		e.now(now)
	}
}

func (e *encoder) request(r *flow.Request) {
	e.uint(r.Token)
	e.node(r.Dst)
	e.uint(uint64(r.Plane))
	flags := byte(0)
	if r.Probe {
		flags |= flagProbe
	}
	if r.Trace {
		flags |= flagTrace
	}
	if r.Other {
		flags |= flagOther
	}
	if r.Posted {
		flags |= flagPosted
	}
	if r.Flush {
		flags |= flagFlush
	}
	if r.Members.Any() {
		flags |= flagMembers
	}
	e.byte(flags)
	e.command(&r.Command)
	e.bytes(r.Payload)
	e.uint(uint64(len(r.Via)))
	for _, d := range r.Via {
		e.byte(byte(d))
	}
	e.body = append(e.body, r.Ranges.Hops[:]...)
	e.body = append(e.body, r.Ranges.Skip[:]...)
	if r.Members.Any() {
		for _, w := range r.Members {
			e.uint(w)
		}
	}
}

// Flags of a request.
const (
	flagProbe = 1 << iota
	flagTrace
	flagOther
	flagPosted
	flagMembers // the members follow the ranges
	flagFlush
)

// The encoder adds missedFate to the fate of a result whose Missed is not 0. Missed then follows.
const missedFate = 1 << 4

// The encoder adds performedOther to the plane of a command whose request had Other set.
const performedOther = 1 << 7

func (e *encoder) command(c *wire.Command) {
	e.uint(uint64(c.Type))
	e.uint(uint64(c.Addr))
	e.uint(uint64(c.Sem))
	e.uint(uint64(c.Value))
	e.flag(c.Flush)
	e.uint(uint64(c.Size))
	e.uint(uint64(c.Chunks))
	for i := range min(int(c.Chunks), wire.MaxScatter) {
		e.uint(uint64(c.Scatter[i]))
		e.uint(uint64(c.Sizes[i]))
	}
}

func (e *encoder) performed(now mono.Time, src wire.FabricNodeID, plane wire.Plane, other bool, cmd *wire.Command) {
	e.begin(KindPerformed)
	e.now(now)
	e.node(src)
	at := byte(plane)
	if other {
		at |= performedOther
	}
	e.byte(at)
	e.command(cmd)
}

// transfer writes a transfer of host memory, and the sum of the data of a write.
func (e *encoder) transfer(t *firmware.Transfer) {
	e.uint(t.ID)
	e.flag(t.Write)
	e.uint(t.Addr)
	if t.Write {
		e.uint(uint64(len(t.Data)))
		e.fixed(crc32.ChecksumIEEE(t.Data))
	} else {
		e.uint(uint64(t.Len))
	}
}

func (e *encoder) sent(ch wire.Channel, t *ttlink.Transmit) {
	e.byte(byte(ch))
	e.byte(byte(t.Path))
	e.uint(uint64(t.Seg))
	e.uint(uint64(len(t.Data)))
	e.fixed(crc32.ChecksumIEEE(t.Data))
	for b := t.Data; len(b) > 0; {
		f := b[:min(max(t.Seg, 1), len(b))]
		b = b[len(f):]
		e.body = append(e.body, f[:headLen(len(f), e.old)]...)
	}
}

// headLen returns how many bytes a recording keeps of a frame of n bytes. The argument "old" is
// true for versions 1 and 2 of the format.
func headLen(n int, old bool) int {
	switch {
	case n <= wholeMost:
		return n
	case old:
		return oldHead
	}
	return headBytes
}

func (e *encoder) result(r *flow.Result) {
	e.uint(r.Token)
	e.node(r.Dst)
	if r.Missed > 0 {
		e.uint(uint64(r.Fate) + missedFate)
		e.uint(r.Missed)
	} else {
		e.uint(uint64(r.Fate))
	}
	e.uint(uint64(r.Outcome))
	e.uint(uint64(r.Drop))
	e.node(r.At)
	e.uint(uint64(r.Doubt))
	e.uint(uint64(len(r.Data)))
	e.fixed(crc32.ChecksumIEEE(r.Data))
	if r.Err == nil {
		e.text("")
	} else {
		e.text(clip(r.Err.Error()))
	}
	e.uint(uint64(len(r.Members)))
	sum := uint32(0)
	if len(r.Members) > 0 {
		b, _ := json.Marshal(r.Members) // json.Marshal of plain numbers never fails
		sum = crc32.ChecksumIEEE(b)
	}
	e.fixed(sum)
	e.at(r.Sent)
	e.at(r.Done)
}

// maxText is the longest text of an error that a recording keeps, in bytes.
const maxText = 1024

func clip(s string) string { return s[:min(len(s), maxText)] }
