package host

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"ttfabric/node/firmware"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// State is the state of the queues of one ethernet tile, from the words in the tile's L1.
type State struct {
	Channel     wire.Channel `json:"channel"`     // the ethernet channel of the tile
	Tile        string       `json:"tile"`        // the NoC coordinates of the tile, such as 9-6
	Writes      Count        `json:"writes"`      // the writes
	Reads       Count        `json:"reads"`       // the reads
	Errors      uint32       `json:"errors"`      // the number of requests that ended with an error
	Requests    Queue        `json:"requests"`    // the submission queue
	Completions Queue        `json:"completions"` // the completion queue

	LastError string                  `json:"last_error"` // why the last request with an error failed, such as "bad address", from the chip; empty: no request has failed
	Types     []firmware.TypeCounters `json:"types"`      // the firmware's counters by the type of request, from the chip
}

// AddTypes puts the counters of a chip's firmware, and its last errors, into the states of the chip's tiles.
func AddTypes(states []State, tiles []firmware.Tile) {
	for i := range states {
		for _, t := range tiles {
			if t.Channel == states[i].Channel {
				states[i].LastError, states[i].Types = t.LastError, t.Types
			}
		}
	}
}

// Count counts requests since the chip's start, modulo 2^32.
type Count struct {
	Accepted uint32 `json:"accepted"` // the number of requests that the firmware has accepted
	Ended    uint32 `json:"ended"`    // the number of requests that have ended
}

// Queue is the state of one queue.
type Queue struct {
	WrIdx   uint32 `json:"wr_idx"`  // the write index, 0 to 7
	RdIdx   uint32 `json:"rd_idx"`  // the read index, 0 to 7
	Waiting int    `json:"waiting"` // the number of entries from the read index to the write index; more than 4: the indices are wrong, and the queue stands still
	Slots   []Slot `json:"slots"`   // the entries of the four slots
}

// Slot is one slot of a queue.
type Slot struct {
	Waits  bool     `json:"waits"`  // whether the entry is between the read index and the write index; otherwise the entry is an old one
	Flags  []string `json:"flags"`  // the flags of the entry by their names in BDMS; empty for a completion that the firmware has not filled yet
	Raw    uint32   `json:"raw"`    // the flags as a number
	Target string   `json:"target"` // the target of the entry: position of the chip, tile and offset
	Data   uint32   `json:"data"`   // the data of a word, or the length of a block in bytes
}

// State reads the state of the queues.
func (q *Queues) State(ctx context.Context) (s State, err error) {
	const first, n = firmware.SQ, firmware.CQ + firmware.QueueSize - firmware.SQ
	b := make([]byte, n)
	if err := q.load(ctx, first, b); err != nil {
		return s, err
	}
	w := func(off int) uint32 { return binary.LittleEndian.Uint32(b[off:]) }
	s = State{Channel: q.ch, Tile: tileName(q.tile), Errors: w(firmware.ErrorCounter),
		Writes: Count{w(firmware.WrReqCounter), w(firmware.WrRespCounter)}, Reads: Count{w(firmware.RdReqCounter), w(firmware.RdRespCounter)},
		Requests: queueOf(b), Completions: queueOf(b[firmware.CQ-firmware.SQ:])}
	return s, nil
}

// States reads the state of the queues of all ethernet tiles of the session's chip, by channel.
func States(ctx context.Context, s *session.Session) ([]State, error) {
	out := []State{}
	for ch := wire.Channel(0); ; ch++ {
		q, err := Open(s, ch)
		if errors.Is(err, errNoTile) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		state, err := q.State(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, state)
	}
}

// String returns the indices of the queue, and the flags of the entries that wait, oldest first.
func (q Queue) String() string {
	text := fmt.Sprintf("%d, %d", q.WrIdx, q.RdIdx)
	for i := range min(q.Waiting, len(q.Slots)) {
		flags := q.Slots[(int(q.RdIdx%firmware.QueueLen)+i)%len(q.Slots)].Flags
		if len(flags) == 0 {
			flags = []string{"empty"}
		}
		text += "  " + strings.Join(flags, "|")
	}
	return text
}

// String returns how many requests were accepted, and how many have ended.
func (n Count) String() string { return fmt.Sprintf("%d, %d ended", n.Accepted, n.Ended) }

// queueOf returns the state of the queue whose bytes begin b.
func queueOf(b []byte) Queue {
	q := Queue{WrIdx: binary.LittleEndian.Uint32(b[firmware.WrIdx:]), RdIdx: binary.LittleEndian.Uint32(b[firmware.RdIdx:])}
	q.Waiting = waiting(q.WrIdx, q.RdIdx)
	for i := range uint32(firmware.QueueLen) {
		e := firmware.ParseEntry(b[firmware.Entries+i*firmware.EntrySize:])
		q.Slots = append(q.Slots, Slot{Waits: int((i-q.RdIdx)%firmware.QueueLen) < q.Waiting, Flags: e.Flags.Names(), Raw: uint32(e.Flags), Target: e.String(), Data: e.Data})
	}
	return q
}

// tileName returns the NoC coordinates of an address.
func tileName(a wire.NocAddr) string {
	name := a.String()
	return name[:len(name)-len(":0x0")]
}
