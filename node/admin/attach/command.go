package attach

import (
	"encoding/binary"
	"errors"
	"fmt"

	"ttfabric/node/flow"
	"ttfabric/node/session"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Flags of a command.
const (
	flagProbe = 1 << iota
	flagFlush
	flagPosted
	flagOther
	flagTrace
	flagMembers
	allFlags = 1<<iota - 1
)

// AppendCommand appends a command. The parameter "wanted" is the number of bytes that a read wants;
// for other commands it has no effect.
func AppendCommand(b []byte, number uint64, r *flow.Request, wanted int) []byte {
	c := &r.Command
	payload, size := r.Payload, len(r.Payload)
	if reads(r) {
		payload, size = nil, wanted
	}
	if r.Probe {
		payload, size = nil, 0
	}
	flags, n := 0, commandLen+len(r.Via)+int(c.Chunks)*chunkLen+len(payload)
	for i, on := range []bool{r.Probe, r.Flush || c.Flush, r.Posted, r.Other, r.Trace, r.Members.Any()} {
		if on {
			flags |= 1 << i
		}
	}
	if flags&flagMembers != 0 {
		n += membersLen
	}
	le := binary.LittleEndian
	b = appendNode(AppendHead(b, KindCommand, number, n), r.Dst)
	b = append(b, byte(c.Type), byte(r.Plane))
	b = le.AppendUint16(b, uint16(flags))
	b = le.AppendUint64(le.AppendUint64(b, uint64(c.Addr)), uint64(c.Sem))
	b = le.AppendUint32(le.AppendUint32(b, c.Value), uint32(size))
	b = append(append(b, r.Ranges.Hops[:]...), r.Ranges.Skip[:]...)
	b = append(b, c.Chunks, byte(len(r.Via)), 0, 0, 0, 0, 0, 0)
	if flags&flagMembers != 0 {
		for _, w := range r.Members {
			b = le.AppendUint64(b, w)
		}
	}
	for _, d := range r.Via {
		b = append(b, byte(d))
	}
	for i := range int(c.Chunks) {
		b = le.AppendUint64(b, uint64(c.Scatter[i]))
		b = le.AppendUint32(b, uint32(c.Sizes[i]))
	}
	return append(b, payload...)
}

// appendBlock appends a write or a read of n bytes of the chip's own memory, without the payload. The
// caller writes the payload, of the length "payload", behind it.
func appendBlock(b []byte, number uint64, r *flow.Request, n, payload int) []byte {
	at := len(b)
	b = AppendCommand(b, number, r, n)
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at+payload))
	binary.LittleEndian.PutUint32(b[at+HeadLen+28:], uint32(n))
	return b
}

func reads(r *flow.Request) bool { return r.Command.Type == wire.NocRead && !r.Probe }

// ParseCommand reads the body of a command. The request's payload is a part of b. The result
// "wanted" is the number of bytes that a read wants; the request's Size is not set.
func ParseCommand(b []byte, r *flow.Request) (wanted int, err error) {
	if len(b) < commandLen {
		return 0, fmt.Errorf("a command of %d bytes: want at least %d", len(b), commandLen)
	}
	le := binary.LittleEndian
	flags, size, chunks, hops := le.Uint16(b[6:]), int(le.Uint32(b[28:])), int(b[40]), int(b[41])
	*r = flow.Request{Dst: nodeAt(b), Plane: wire.Plane(b[5]), Probe: flags&flagProbe != 0, Posted: flags&flagPosted != 0, Other: flags&flagOther != 0, Trace: flags&flagTrace != 0,
		Command: wire.Command{Type: wire.NocSendType(b[4]), Addr: wire.NocAddr(le.Uint64(b[8:])), Sem: wire.NocAddr(le.Uint64(b[16:])), Value: le.Uint32(b[24:]), Chunks: uint8(chunks)}}
	r.Flush = r.Probe && flags&flagFlush != 0
	r.Command.Flush = !r.Probe && flags&flagFlush != 0
	copy(r.Ranges.Hops[:], b[32:])
	copy(r.Ranges.Skip[:], b[36:])
	switch {
	case flags&^allFlags != 0:
		return 0, fmt.Errorf("flags %#x of a command: want only the bits %#x", flags, allFlags)
	case chunks == 1 || chunks > wire.MaxScatter:
		return 0, fmt.Errorf("a scatter write of %d chunks: want 2 to %d", chunks, wire.MaxScatter)
	case hops > wire.MaxHops:
		return 0, fmt.Errorf("a route of %d hops: want at most %d", hops, wire.MaxHops)
	case le.Uint32(b[42:])|uint32(le.Uint16(b[46:])) != 0:
		return 0, fmt.Errorf("the reserved bytes of a command are % x: want zeros", b[42:48])
	}
	b = b[commandLen:]
	need := hops + chunks*chunkLen
	if flags&flagMembers != 0 {
		need += membersLen
	}
	if len(b) < need {
		return 0, fmt.Errorf("a command ends after %d of the %d bytes of its lists", len(b), need)
	}
	if flags&flagMembers != 0 {
		for i := range r.Members {
			r.Members[i] = le.Uint64(b[8*i:])
		}
		if !r.Members.Any() {
			return 0, errors.New("a multicast to members names no chip")
		}
		b = b[membersLen:]
	}
	for _, d := range b[:hops] {
		if d >= wire.NumDirections {
			return 0, fmt.Errorf("hop %d: want 0 to %d", d, wire.NumDirections-1)
		}
		r.Via = append(r.Via, wire.Direction(d))
	}
	b = b[hops:]
	for i := range chunks {
		n := le.Uint32(b[8:])
		if n > wire.MaxPayload {
			return 0, fmt.Errorf("a chunk of %d bytes: want at most %d", n, wire.MaxPayload)
		}
		r.Command.Scatter[i], r.Command.Sizes[i] = wire.NocAddr(le.Uint64(b)), uint16(n)
		b = b[chunkLen:]
	}
	return parsePayload(b, size, r)
}

// parsePayload checks the length of a command's payload, which is the rest of the command.
func parsePayload(b []byte, size int, r *flow.Request) (wanted int, err error) {
	most := wire.MaxPayload
	if r.Command.Type == wire.NocUnicastWrite || r.Command.Type == wire.NocRead {
		most = MaxBlock
	}
	switch {
	case size > most:
		return 0, fmt.Errorf("a command of %d bytes: want at most %d for a write or read, and at most %d for other commands", size, MaxBlock, wire.MaxPayload)
	case reads(r) && len(b) == 0:
		return size, nil
	case reads(r) || len(b) != size:
		return 0, fmt.Errorf("a command with %d bytes of payload states %d", len(b), size)
	case r.Probe && size != 0:
		return 0, fmt.Errorf("a probe has %d bytes of payload: want none", size)
	}
	if size > 0 {
		r.Payload = b
	}
	return 0, nil
}

// AppendResult appends the result of a command with the data of a read.
func AppendResult(b []byte, number uint64, r *flow.Result, data []byte) []byte {
	return append(AppendLong(b, number, r, len(data)), data...)
}

// AppendLong appends the result of a read of n bytes without its data. The caller writes the data
// behind the result.
func AppendLong(b []byte, number uint64, r *flow.Result, n int) []byte {
	le := binary.LittleEndian
	b = AppendHead(b, KindCommand+Answer, number, resultLen+len(r.Members)*memberLen+n)
	b = appendEnd(b, r.Fate, r.Outcome, r.Drop, r.Doubt)
	b = appendNode(b, r.At)
	b = le.AppendUint64(b, uint64(r.Done.Sub(r.Sent)))
	b = le.AppendUint64(b, r.Missed)
	b = le.AppendUint32(le.AppendUint32(b, uint32(len(r.Members))), uint32(n))
	for i := range r.Members {
		m := &r.Members[i]
		b = appendEnd(appendNode(b, m.Node), m.Fate, m.Outcome, m.Drop, m.Doubt)
		b = appendNode(b, m.At)
	}
	return b
}

func appendEnd(b []byte, f flow.Fate, o wire.Outcome, r wire.DropReason, d flow.Doubt) []byte {
	return append(b, byte(f), byte(o), byte(r), byte(d))
}

// endOf checks the four bytes that say how a command ended.
func endOf(b []byte) error {
	if b[0] > byte(flow.FatePosted) || b[1] >= byte(wire.NumOutcomes) || b[2] >= byte(wire.NumDropReasons) || b[3] >= byte(flow.NumDoubts) {
		return fmt.Errorf("a result says fate %d, outcome %d, drop %d, doubt %d; this client does not know one of them", b[0], b[1], b[2], b[3])
	}
	return nil
}

// ParseResult reads the body of a result without its data. b may hold only a part of the data. The
// result "n" is the length of the data, and "from" is where the data begin in the body. If b is too
// short for all members, "more" is true, and the caller must call again with at least "from" bytes.
func ParseResult(b []byte, body int, r *flow.Result) (from, n int, more bool, err error) {
	if len(b) < resultLen {
		return 0, 0, false, fmt.Errorf("a result of %d bytes: want at least %d", len(b), resultLen)
	}
	le := binary.LittleEndian
	members, n := int(le.Uint32(b[24:])), int(le.Uint32(b[28:]))
	if members > MaxFrame/memberLen || n > MaxBlock || resultLen+members*memberLen+n != body {
		return 0, 0, false, fmt.Errorf("a result of %d bytes states %d members and %d bytes of data", body, members, n)
	}
	if err := endOf(b); err != nil {
		return 0, 0, false, err
	}
	*r = flow.Result{Fate: flow.Fate(b[0]), Outcome: wire.Outcome(b[1]), Drop: wire.DropReason(b[2]), Doubt: flow.Doubt(b[3]), At: nodeAt(b[4:]),
		Done: mono.Time(le.Uint64(b[8:])), Missed: le.Uint64(b[16:])}
	from = resultLen + members*memberLen
	if len(b) < from {
		return from, n, true, nil
	}
	for i := range members {
		m := b[resultLen+i*memberLen:]
		if err := endOf(m[4:]); err != nil {
			return 0, 0, false, err
		}
		r.Members = append(r.Members, flow.MemberResult{Node: nodeAt(m), Fate: flow.Fate(m[4]), Outcome: wire.Outcome(m[5]), Drop: wire.DropReason(m[6]), Doubt: flow.Doubt(m[7]), At: nodeAt(m[8:])})
	}
	return from, n, false, nil
}

// Wait is the request to wait on a word.
type Wait struct {
	Addr  wire.NocAddr
	Value uint32
	Test  session.Test
}

// AppendWait appends a wait.
func AppendWait(b []byte, number uint64, w *Wait) []byte {
	b = AppendHead(b, KindWait, number, 16)
	b = binary.LittleEndian.AppendUint64(b, uint64(w.Addr))
	b = binary.LittleEndian.AppendUint32(b, w.Value)
	return append(b, byte(w.Test), 0, 0, 0)
}

// ParseWait reads the body of a wait.
func ParseWait(b []byte) (w Wait, err error) {
	if len(b) != 16 {
		return w, fmt.Errorf("a wait of %d bytes: want 16", len(b))
	}
	w = Wait{wire.NocAddr(binary.LittleEndian.Uint64(b)), binary.LittleEndian.Uint32(b[8:]), session.Test(b[12])}
	if !w.Test.Valid() || b[13]|b[14]|b[15] != 0 {
		return w, fmt.Errorf("the last bytes of a wait are % x: want a test of 0 (equal) or 1 (at least), and zeros", b[12:])
	}
	return w, nil
}

// Barrier is the request of one rank to wait for all ranks.
type Barrier struct {
	Name  string
	Rank  int
	Ranks int
}

// AppendBarrier appends a barrier.
func AppendBarrier(b []byte, number uint64, w *Barrier) []byte {
	b = AppendHead(b, KindBarrier, number, 8+len(w.Name))
	b = binary.LittleEndian.AppendUint32(b, uint32(w.Rank))
	b = binary.LittleEndian.AppendUint32(b, uint32(w.Ranks))
	return append(b, w.Name...)
}

// ParseBarrier reads the body of a barrier.
func ParseBarrier(b []byte) (w Barrier, err error) {
	if len(b) < 9 || len(b) > 8+MaxName {
		return w, fmt.Errorf("a barrier of %d bytes: want a name of 1 to %d bytes, after 8 bytes", len(b), MaxName)
	}
	w = Barrier{string(b[8:]), int(binary.LittleEndian.Uint32(b)), int(binary.LittleEndian.Uint32(b[4:]))}
	return w, w.Check()
}

// Check returns an error if the barrier has a bad value.
func (w *Barrier) Check() error {
	switch {
	case len(w.Name) < 1 || len(w.Name) > MaxName:
		return fmt.Errorf("the name %q of a barrier has %d bytes: want 1 to %d", w.Name, len(w.Name), MaxName)
	case w.Ranks < 1 || w.Ranks > MaxRanks || w.Rank < 0 || w.Rank >= w.Ranks:
		return fmt.Errorf("rank %d of %d in a barrier: want a rank below the number of ranks, and at most %d ranks", w.Rank, w.Ranks, MaxRanks)
	}
	return nil
}
