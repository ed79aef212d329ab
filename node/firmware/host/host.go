// Package host is the host's side of the queues of the base firmware. The package pushes requests and
// pops completions, as the baseline data movement service (BDMS) defines in "Queues". Package firmware
// describes requests and flags.
//
//	q, err := host.Open(s, 8) // the queues of the tile E8 of the session's chip
//	err = q.Read(ctx, dst, wire.NewNocAddr(1, 1, 0x20000), data)
//
// The queues have no lock. So only one host at a time may use the queues of a tile.
package host

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ttfabric/node/firmware"
	"ttfabric/node/firmware/board"
	"ttfabric/node/noc"
	"ttfabric/node/session"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Times and limits of a host.
const (
	PopTime   = firmware.AnswerTimeout + 5*time.Second // longest time to wait for the end of a request; the firmware ends each request earlier
	firstLook = 50 * time.Microsecond                  // pause after the first look at a queue that has not changed; the pauses double
	lastLook  = 5 * time.Millisecond                   // longest pause
	align     = 32                                     // alignment of blocks that every kind of tile accepts, in bytes
	word      = wire.RegisterLen                       // bytes of a word
)

// Queues are the queues of one ethernet tile. Only one goroutine at a time may use a Queues.
type Queues struct {
	s    *session.Session
	ch   wire.Channel
	tile wire.NocAddr // first byte of the tile's L1
	at   map[wire.FabricNodeID]board.Coord
}

// Open returns the queues of the tile of an ethernet channel of the session's chip. A chip of the
// architecture Blackhole has no such queues.
func Open(s *session.Session, ch wire.Channel) (*Queues, error) {
	t := s.Topology()
	if t.Arch != wire.Wormhole {
		return nil, fmt.Errorf("chip %s is a chip of the architecture %s, and only the base firmware of Wormhole has host queues", s.Self(), t.Arch)
	}
	x, y, ok := noc.EthernetTile(t.Arch, ch)
	if !ok {
		return nil, fmt.Errorf("%w E%d on chip %s", errNoTile, ch, s.Self())
	}
	return &Queues{s, ch, wire.NewNocAddr(x, y, 0), board.Coords(t)}, nil
}

// errNoTile is the error about a channel that has no tile.
var errNoTile = errors.New("there is no ethernet tile")

// Default returns a chip and a channel whose queues a host can use for requests to the chip dst: channel 0
// of the first chip in the mesh of dst that a host reaches over PCIe.
func Default(t *topo.Topology, dst wire.FabricNodeID) (wire.FabricNodeID, wire.Channel) {
	seen := t.HostView(dst.Mesh)
	for _, n := range t.Nodes() {
		if n.Mesh == dst.Mesh && seen[n].MMIO {
			return n, 0
		}
	}
	return dst, 0
}

// String names the tile, such as "the queues of tile E8 of chip M0D0".
func (q *Queues) String() string {
	return fmt.Sprintf("the queues of tile E%d of chip %s", q.ch, q.s.Self())
}

// BusyError says that requests of another host are under way in the queues, or that a host has left
// completions behind.
type BusyError struct{ State State }

// Error says what the queues hold.
func (e *BusyError) Error() string {
	return fmt.Sprintf("the queues of tile E%d hold %d requests and %d completions of another host: choose another tile, or wait until the other host has ended",
		e.State.Channel, e.State.Requests.Waiting, e.State.Completions.Waiting)
}

// RequestError says that the firmware did not perform a request, or that nobody knows whether the firmware
// performed the request.
type RequestError struct {
	Request     string // the request, for people
	Unreachable bool   // a read to whose chip no cable leads, or that got no answer in time; false: the firmware refused the read, or the request is a write
	Why         string // the firmware's reason, such as "bad address"; empty: unknown
}

// Error names the request and what is known of the reason.
func (e *RequestError) Error() string {
	if e.Why != "" {
		return e.Request + ": " + e.Why
	}
	if e.Unreachable {
		return e.Request + ": destination unreachable, or no answer in time"
	}
	return e.Request + ": the firmware refused the request, or could not end it; 'ttfabric events --type \"host request\"' shows the reason"
}

func (q *Queues) load(ctx context.Context, off uint64, b []byte) error {
	return q.s.Read(ctx, q.s.Self(), q.tile.Add(int(off)), b)
}

func (q *Queues) store(ctx context.Context, off uint64, b []byte) error {
	return q.s.Write(ctx, q.s.Self(), q.tile.Add(int(off)), b)
}

func (q *Queues) storeWord(ctx context.Context, off uint64, v uint32) error {
	return q.s.InlineWrite(ctx, q.s.Self(), q.tile.Add(int(off)), v)
}

// words reads consecutive words.
func (q *Queues) words(ctx context.Context, off uint64, n int) ([]uint32, error) {
	b := make([]byte, n*word)
	err := q.load(ctx, off, b)
	out := make([]uint32, n)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(b[i*word:])
	}
	return out, err
}

// until calls the function "look" until look returns true or an error, or ctx ends.
func until(ctx context.Context, look func() (bool, error)) error {
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		if ok, err := look(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// Push pushes a request. The block, of at most [firmware.BlockSize] bytes, goes into the buffer of the
// request's slot. If the submission queue is full, Push waits.
func (q *Queues) Push(ctx context.Context, e firmware.Entry, block []byte) error {
	if len(block) > firmware.BlockSize {
		return fmt.Errorf("a block of %d bytes: want at most %d", len(block), firmware.BlockSize)
	}
	var wr uint32
	err := until(ctx, func() (bool, error) {
		w, err := q.words(ctx, firmware.SQ+firmware.WrIdx, 1+(firmware.RdIdx-firmware.WrIdx)/word)
		if err != nil {
			return false, err
		}
		wr = w[0]
		return waiting(wr, w[len(w)-1]) < firmware.QueueLen, nil
	})
	slot := uint64(wr % firmware.QueueLen)
	if err == nil && len(block) > 0 {
		err = q.store(ctx, firmware.Buffers+slot*firmware.BlockSize, block)
	}
	if err == nil {
		err = q.store(ctx, firmware.SQ+firmware.Entries+slot*firmware.EntrySize, e.Append(nil))
	}
	if err == nil {
		err = q.storeWord(ctx, firmware.SQ+firmware.WrIdx, (wr+1)%indices)
	}
	if err != nil {
		return fmt.Errorf("pushing a request into %s: %w", q, err)
	}
	return nil
}

// indices is the number of values of an index: twice the length of a queue.
const indices = 2 * firmware.QueueLen

// waiting returns the number of entries of a queue with these indices.
func waiting(wr, rd uint32) int { return int((wr - rd) % indices) }

// Pop waits for a completion, and pops it: its entry, and the first n bytes of its buffer.
func (q *Queues) Pop(ctx context.Context, n int) (e firmware.Entry, block []byte, err error) {
	var rd uint32
	b := make([]byte, firmware.EntrySize)
	err = until(ctx, func() (bool, error) {
		w, err := q.words(ctx, firmware.CQ+firmware.WrIdx, 1+(firmware.RdIdx-firmware.WrIdx)/word)
		if err != nil {
			return false, err
		}
		if rd = w[len(w)-1]; w[0] == rd {
			return false, nil
		}
		err = q.load(ctx, firmware.CQ+firmware.Entries+uint64(rd%firmware.QueueLen)*firmware.EntrySize, b)
		e = firmware.ParseEntry(b)
		return e.Flags != 0, err // the firmware stores the flags last
	})
	if err == nil && n > 0 {
		block = make([]byte, n)
		err = q.load(ctx, firmware.Buffers+uint64(rd%firmware.QueueLen)*firmware.BlockSize, block)
	}
	if err == nil {
		err = q.storeWord(ctx, firmware.CQ+firmware.RdIdx, (rd+1)%indices)
	}
	if err != nil {
		return e, nil, fmt.Errorf("waiting for a completion in %s: %w", q, err)
	}
	return e, block, nil
}

// Read reads memory or registers of a chip into b. The address and the length must be multiples of 4
// bytes. Bytes at multiples of 32 bytes travel as blocks, and other bytes as words. If ctx ends, Read
// still waits for the end of the present request, for at most [PopTime].
func (q *Queues) Read(ctx context.Context, dst wire.FabricNodeID, a wire.NocAddr, b []byte) error {
	return q.parts(ctx, dst, a, b, firmware.RdReq, func(ctx context.Context, e firmware.Entry, part []byte) error {
		if err := q.Push(ctx, e, nil); err != nil {
			return err
		}
		n := 0
		if e.Flags&firmware.DataBlock != 0 {
			n = len(part)
		}
		c, block, err := q.Pop(ctx, n)
		switch {
		case err != nil:
			return err
		case c.Flags&^(firmware.DataBlock) != firmware.RdData:
			return &RequestError{Request: fmt.Sprintf("read of %d bytes of %s", len(part), e.String()), Unreachable: c.Flags&firmware.DestUnreachable != 0}
		case n > 0:
			copy(part, block)
		default:
			binary.LittleEndian.PutUint32(part, c.Data)
		}
		return nil
	})
}

// Write writes memory or registers of a chip, under the rules of [Queues.Read]. A write has no completion, so
// Write waits until the firmware has counted the write's end.
func (q *Queues) Write(ctx context.Context, dst wire.FabricNodeID, a wire.NocAddr, b []byte) error {
	return q.parts(ctx, dst, a, b, firmware.WrReq, func(ctx context.Context, e firmware.Entry, part []byte) error {
		const counters = firmware.ErrorCounter/word + 1
		before, err := q.words(ctx, firmware.SQ, counters)
		if err != nil {
			return err
		}
		block := part
		if e.Flags&firmware.DataBlock == 0 {
			e.Data, block = binary.LittleEndian.Uint32(part), nil
		}
		if err := q.Push(ctx, e, block); err != nil {
			return err
		}
		var now []uint32
		if err := until(ctx, func() (bool, error) {
			now, err = q.words(ctx, firmware.SQ, counters)
			return err == nil && now[firmware.WrRespCounter/word] != before[firmware.WrRespCounter/word], err
		}); err != nil {
			return fmt.Errorf("waiting for the end of a write in %s: %w", q, err)
		}
		if now[firmware.ErrorCounter/word] != before[firmware.ErrorCounter/word] {
			return &RequestError{Request: fmt.Sprintf("write of %d bytes to %s", len(part), e.String())}
		}
		return nil
	})
}

// Check returns an error if no request can read or write n bytes at an address, on any chip.
func Check(a wire.NocAddr, n int) error {
	switch {
	case a.IsRect():
		return fmt.Errorf("address %s: a request names one tile", a)
	case a.Offset()%word != 0 || n%word != 0:
		return fmt.Errorf("%d bytes at %s: want an address and a length that are multiples of %d bytes", n, a, word)
	}
	return nil
}

// ParseTile splits the name of an ethernet tile into its chip and its channel: M0D0/8, M0D0:8 or M0D0/E8.
func ParseTile(s string) (chip string, ch wire.Channel, err error) {
	at := strings.LastIndexAny(s, "/:")
	n, err := strconv.ParseUint(strings.TrimPrefix(s[at+1:], "E"), 10, 8)
	if at < 0 || err != nil {
		return "", 0, fmt.Errorf("tile %q: want CHIP/CHANNEL, such as M0D0/8", s)
	}
	return s[:at], wire.Channel(n), nil
}

// parts calls f for the request of each part of b. The kind is RdReq or WrReq.
func (q *Queues) parts(ctx context.Context, dst wire.FabricNodeID, a wire.NocAddr, b []byte, kind firmware.Flags, f func(context.Context, firmware.Entry, []byte) error) error {
	at, known := q.at[dst]
	if !known {
		return fmt.Errorf("chip %s is not in the topology", dst)
	}
	if err := Check(a, len(b)); err != nil {
		return err
	}
	s, err := q.State(ctx)
	if err == nil && s.Requests.Waiting+s.Completions.Waiting > 0 {
		err = &BusyError{s}
	}
	for err == nil && len(b) > 0 {
		if err = ctx.Err(); err != nil {
			break
		}
		e, n := firmware.Entry{Flags: kind, RackXY: uint16(at.Rack) | uint16(at.Shelf)<<8}, word
		if a.Offset()%align == 0 && len(b) >= align {
			n = min(len(b)/align*align, firmware.BlockSize)
			e.Flags, e.Data = e.Flags|firmware.DataBlock, uint32(n)
		}
		if a&wire.NocOne != 0 {
			e.Flags |= firmware.NocID
		}
		e.Target = firmware.NewTarget(at.X, at.Y, a)
		one, cancel := context.WithTimeout(context.WithoutCancel(ctx), PopTime) // no completion must stay in the queue
		err = f(one, e, b[:n])
		cancel()
		a, b = a.Add(n), b[n:]
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = fmt.Errorf("%w; perhaps a kernel of a strict job keeps the firmware of the tile from working ('ttfabric job ls' shows strict jobs)", err)
	}
	return err
}
