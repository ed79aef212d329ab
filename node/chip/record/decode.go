package record

import (
	"encoding/binary"
	"errors"
	"fmt"

	"ttfabric/node/chip"
	"ttfabric/node/flow"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// errRecord is the error of bytes that form no record.
var errRecord = errors.New("malformed record")

// decoder reads the body of a record. If a value is missing or invalid, the decoder sets
// bad and returns zero for the value.
type decoder struct {
	last mono.Time
	old  bool // the recording has version 1 or 2 of the format
	b    []byte
	bad  bool
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.bad = true
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) uint(most uint64) uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > most {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) take(n int) []byte {
	if n > len(d.b) {
		d.bad, d.b = true, nil
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) rest() []byte { return d.take(len(d.b)) }

func (d *decoder) fixed() uint32 {
	if b := d.take(4); len(b) == 4 {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) bytes(most uint64) []byte { return d.take(int(d.uint(most))) }
func (d *decoder) flag() bool               { return d.uint(1) == 1 }
func (d *decoder) at() mono.Time            { return d.last + mono.Time(d.int()) }
func (d *decoder) num8() uint8              { return uint8(d.uint(1<<8 - 1)) }

// now reads the time of a record. now refuses a time before the time of an earlier
// record, and a time after maxTime.
func (d *decoder) now() mono.Time {
	t := d.last + mono.Time(d.int())
	if t < d.last || t > maxTime {
		d.bad = true
		return d.last
	}
	d.last = t
	return t
}

func (d *decoder) node() wire.FabricNodeID {
	return wire.FabricNodeID{Mesh: wire.MeshID(d.uint(1<<16 - 1)), Chip: wire.ChipID(d.uint(1<<16 - 1))}
}

// record reads one record from b. The slice b holds the record without its length.
func (d *decoder) record(b []byte) (r Record, err error) {
	d.b, d.bad = b, false
	r.Kind = Kind(d.byte())
	if r.Kind < Kind(chip.NumOps) {
		d.call(&r)
	} else {
		d.other(&r)
	}
	if d.bad || len(d.b) > 0 {
		return Record{}, fmt.Errorf("%w of kind %d, %d bytes", errRecord, r.Kind, len(b))
	}
	return r, nil
}

// call reads a call, and the answer if the record also holds the answer.
func (d *decoder) call(r *Record) {
	op := chip.Op(r.Kind)
	switch op {
	case chip.OpDeadline:
	case chip.OpSetClient:
		r.N = int(d.uint(clientWaker))
	case chip.OpPollResult:
		if r.OK = len(d.b) > 0; r.OK {
			r.Result = d.result()
		}
	case chip.OpPollTransfer:
		if r.OK = len(d.b) > 0; r.OK {
			r.Transfer = d.transfer()
		}
	case chip.OpPollEvent:
		r.Data = d.rest()
		r.OK = len(r.Data) > 0
	default:
		r.Now = d.now()
	}
	switch op {
	case 0:
		d.bad = true
	case chip.OpHandleDatagram:
		r.Channel, r.Data = wire.Channel(d.byte()), d.rest()
	case chip.OpHandleRequest:
		r.Request = d.request()
	case chip.OpHandleLinkStates:
		if r.Data = d.rest(); d.old {
			r.Data = newLinkStates(r.Data)
		}
	case chip.OpStartJob, chip.OpEndJob, chip.OpHandleLives:
		r.Data = d.rest()
	case chip.OpLend:
		r.Num = d.uint(1<<64 - 1)
	case chip.OpHandleTransfer:
		r.Num, r.N, r.Data = d.uint(1<<64-1), int(d.byte()), d.rest()
	case chip.OpHandleStore:
		r.Channel, r.Num, r.Data = wire.Channel(d.byte()), d.uint(1<<64-1), d.rest()
	case chip.OpSetPath, chip.OpCut, chip.OpAvoid:
		r.Channel, r.N = wire.Channel(d.byte()), int(d.uint(1))
	case chip.OpSetMaxPayload, chip.OpCommand, chip.OpFlush, chip.OpAsk, chip.OpAssign, chip.OpRefused, chip.OpMark:
		r.Channel, r.N = wire.Channel(d.byte()), int(d.int())
	case chip.OpPollTransmit:
		if r.OK = len(d.b) > 0; r.OK {
			r.Channel, r.Sent = wire.Channel(d.byte()), d.sent()
		}
	}
}

// The method "other" reads a record that is not a call into the chip: an answer, a call from chip
// to client, or the end.
func (d *decoder) other(r *Record) {
	switch r.Kind {
	case KindAdmission:
		r.Admission = flow.Admission(d.num8())
	case KindSize:
		r.Text = string(d.bytes(maxText))
	case KindDue, KindClientDeadline:
		if r.OK = d.flag(); r.OK {
			r.At = d.at()
		}
	case KindNext:
		r.Now = d.now()
		if r.OK = len(d.b) > 0; r.OK {
			r.Request = d.request()
		}
	case KindUndo:
	case KindDone:
		r.Now = d.now()
		r.Result = d.result()
	case KindPerformed:
		r.Now = d.now()
		r.Src = d.node()
		at := d.byte()
		r.Plane, r.Other = wire.Plane(at&^performedOther), at&performedOther != 0
		r.Command = d.command()
	case KindEnd:
		r.End, r.Text = EndReason(d.num8()), string(d.bytes(maxText))
	default:
		d.bad = true
	}
}

func (d *decoder) request() (r flow.Request) {
	r.Token = d.uint(1<<64 - 1)
	r.Dst = d.node()
	r.Plane = wire.Plane(d.num8())
	flags := d.byte()
	if flags&^(flagProbe|flagTrace|flagOther|flagPosted|flagMembers|flagFlush) != 0 {
		d.bad = true
	}
	r.Probe, r.Trace, r.Other, r.Posted = flags&flagProbe != 0, flags&flagTrace != 0, flags&flagOther != 0, flags&flagPosted != 0
	r.Flush = flags&flagFlush != 0
	r.Command = d.command()
	r.Payload = d.bytes(MaxRecord)
	for _, v := range d.bytes(MaxRecord) {
		if v >= wire.NumDirections {
			d.bad = true
			break
		}
		r.Via = append(r.Via, wire.Direction(v))
	}
	copy(r.Ranges.Hops[:], d.take(wire.NumDirections))
	copy(r.Ranges.Skip[:], d.take(wire.NumDirections))
	if flags&flagMembers != 0 {
		for i := range r.Members {
			r.Members[i] = d.uint(1<<64 - 1)
		}
		d.bad = d.bad || !r.Members.Any()
	}
	return r
}

func (d *decoder) command() (c wire.Command) {
	c.Type = wire.NocSendType(d.num8())
	c.Addr = wire.NocAddr(d.uint(1<<64 - 1))
	c.Sem = wire.NocAddr(d.uint(1<<64 - 1))
	c.Value = uint32(d.uint(1<<32 - 1))
	c.Flush = d.flag()
	c.Size = uint16(d.uint(1<<16 - 1))
	c.Chunks = d.num8()
	for i := range min(int(c.Chunks), wire.MaxScatter) {
		c.Scatter[i] = wire.NocAddr(d.uint(1<<64 - 1))
		c.Sizes[i] = uint16(d.uint(1<<16 - 1))
	}
	return c
}

// maxSent is the largest length of a transmit that the decoder accepts, in bytes.
const maxSent = 1 << 20

func (d *decoder) sent() (s Sent) {
	s.Path = ttlink.Path(d.byte())
	s.Seg, s.Bytes = int(d.uint(maxSent)), int(d.uint(maxSent))
	s.Sum = d.fixed()
	for left := s.Bytes; left > 0 && !d.bad; {
		n := min(max(s.Seg, 1), left)
		left -= n
		s.Heads = append(s.Heads, d.take(headLen(n, d.old)))
	}
	return s
}

func (d *decoder) transfer() (t Transfer) {
	t.ID, t.Write, t.Addr, t.Len = d.uint(1<<64-1), d.flag(), d.uint(1<<64-1), int(d.uint(MaxRecord))
	if t.Write {
		t.Sum = d.fixed()
	}
	return t
}

func (d *decoder) result() (r Result) {
	r.Token = d.uint(1<<64 - 1)
	r.Dst = d.node()
	fate := d.uint(missedFate + uint64(flow.FatePosted))
	if fate >= missedFate {
		fate -= missedFate
		r.Missed = d.uint(1<<64 - 1)
		d.bad = d.bad || r.Missed == 0
	}
	if r.Fate = flow.Fate(fate); r.Fate > flow.FatePosted {
		d.bad, r.Fate = true, 0
	}
	r.Outcome = wire.Outcome(d.num8())
	r.Drop = wire.DropReason(d.num8())
	r.Result.At = d.node()
	r.Doubt = flow.Doubt(d.uint(uint64(flow.NumDoubts - 1)))
	r.DataLen, r.DataSum = int(d.uint(MaxRecord)), d.fixed()
	r.Error = string(d.bytes(maxText))
	r.Members, r.MembersSum = int(d.uint(MaxRecord)), d.fixed()
	r.Result.Sent, r.Done = d.at(), d.at()
	return r
}

// oldLinkState is the length of a link state in versions 1 and 2 of the format, in bytes.
const oldLinkState = 10

// newLinkStates converts link states of versions 1 and 2 of the format. Link states of versions 1
// and 2 have no map of silent ports.
func newLinkStates(b []byte) (out []byte) {
	for ; len(b) >= oldLinkState; b = b[oldLinkState:] {
		out = append(append(out, b[:oldLinkState]...), 0, 0)
	}
	return out
}
