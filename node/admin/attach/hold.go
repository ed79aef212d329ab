package attach

import (
	"encoding/binary"
	"fmt"
	"time"

	"ttfabric/node/session"
	"ttfabric/wire"
)

// Limits of a hold.
const (
	MaxHeld     = 32                    // largest number of words of a hold
	MaxHoldTime = 10 * time.Millisecond // longest time of a hold
	holdLen     = 8                     // length of the fixed part of a hold, in bytes
	heldLen     = 16                    // length of one word of a hold, in bytes
)

// Hold is the request of a driver that polls words. The chip answers when a word does not have its
// value, or after the longest time.
type Hold struct {
	Most  time.Duration  // longest time, in whole µs, 1 µs to MaxHoldTime
	Words []session.Word // 1 to MaxHeld words
}

// AppendHold appends a hold.
func AppendHold(b []byte, number uint64, h *Hold) []byte {
	le := binary.LittleEndian
	b = AppendHead(b, KindHold, number, holdLen+heldLen*len(h.Words))
	b = le.AppendUint32(b, uint32(h.Most/time.Microsecond))
	b = le.AppendUint32(b, 0)
	for _, w := range h.Words {
		b = le.AppendUint64(b, uint64(w.At))
		b = le.AppendUint32(b, w.Value)
		b = le.AppendUint32(b, 0)
	}
	return b
}

// ParseHold reads the body of a hold.
func ParseHold(b []byte) (h Hold, err error) {
	le, n := binary.LittleEndian, (len(b)-holdLen)/heldLen
	if len(b) < holdLen+heldLen || len(b) != holdLen+heldLen*n || n > MaxHeld {
		return h, fmt.Errorf("a hold of %d bytes: want 8 bytes, and 16 bytes for each of 1 to %d words", len(b), MaxHeld)
	}
	h.Most = time.Duration(le.Uint32(b)) * time.Microsecond
	if h.Most < time.Microsecond || h.Most > MaxHoldTime || le.Uint32(b[4:]) != 0 {
		return h, fmt.Errorf("a hold begins with % x: want a time of 1 to %d µs, and 4 zeros", b[:holdLen], MaxHoldTime/time.Microsecond)
	}
	for b = b[holdLen:]; len(b) > 0; b = b[heldLen:] {
		if le.Uint32(b[12:]) != 0 {
			return h, fmt.Errorf("a word of a hold is % x: want an address, a value and 4 zeros", b[:heldLen])
		}
		h.Words = append(h.Words, session.Word{At: wire.NocAddr(le.Uint64(b)), Value: le.Uint32(b[8:])})
	}
	return h, nil
}
