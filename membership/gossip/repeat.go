package gossip

import (
	"encoding/binary"
	"hash/crc32"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"ttfabric/membership"
)

// Types of memberlist's messages that repeats looks at (memberlist, net.go).
const (
	suspectMsg  = 3
	aliveMsg    = 4
	compoundMsg = 7
	hasCrcMsg   = 12
)

// crcHeader is the length of the checksum that memberlist puts before a message: hasCrcMsg and the
// CRC-32 of the message.
const crcHeader = 5

// Times for which a pool drops repeats of an announcement. If memberlist could not use an
// announcement, memberlist gets the announcement again after this time.
const (
	repeatTime  = 10 * time.Second // usual time; a member's state, for example, can make memberlist ignore an announcement
	repeatAgain = time.Second      // time if memberlist has dropped messages because its queue was full; about two rounds of gossip
)

// maxRepeats is the largest number of announcements that repeats remembers.
const maxRepeats = 2 * membership.MaxClaims

// repeats finds announcements that the pool has heard already: that a member lives, or that one
// member suspects another. In memberlist, each member that learns of a new member repeats the
// announcement several times, for example manyRepeats times. While a pool of n members forms, each
// member therefore hears each of n announcements several times. Decoding an announcement costs many
// times as much as recognizing a repeated announcement.
type repeats struct {
	label string // announcements of pools with another label count for nothing
	seed  maphash.Seed
	heard map[uint64]struct{} // hashes of the announcements since the time "since"
	since time.Time
	full  atomic.Bool // since then, memberlist has dropped messages because its queue was full
}

func newRepeats(label string) *repeats {
	return &repeats{label: label, seed: maphash.MakeSeed(), heard: map[uint64]struct{}{}}
}

// The method "again" reports whether a message is an announcement that the pool has heard already.
// If not, again remembers the announcement.
func (r *repeats) again(msg []byte) bool {
	if len(msg) == 0 || msg[0] != aliveMsg && msg[0] != suspectMsg {
		return false
	}
	h := maphash.Bytes(r.seed, msg)
	if _, ok := r.heard[h]; ok {
		return true
	}
	r.heard[h] = struct{}{}
	return false
}

// strip returns a packet without the announcements that the pool has heard already. If no message is
// left, strip returns nil. If strip cannot read the packet, strip returns the whole packet, and
// memberlist reports what is wrong.
func (r *repeats) strip(now time.Time, b []byte) []byte {
	rest, label, err := memberlist.RemoveLabelHeaderFromPacket(b)
	if err != nil || len(rest) == 0 || label != r.label {
		return b
	}
	prefix := b[:len(b)-len(rest)]
	if rest[0] == hasCrcMsg {
		if len(rest) <= crcHeader || crc32.ChecksumIEEE(rest[crcHeader:]) != binary.BigEndian.Uint32(rest[1:]) {
			return b
		}
		rest = rest[crcHeader:]
	}
	if age := now.Sub(r.since); age >= repeatTime || age >= repeatAgain && r.full.Load() || len(r.heard) >= maxRepeats {
		clear(r.heard)
		r.since = now
		r.full.Store(false)
	}
	if rest[0] != compoundMsg {
		if r.again(rest) {
			return nil
		}
		return b
	}
	// A compound message is its type, the number of messages (8 bits), their lengths (16 bits each)
	// and the messages (memberlist, util.go).
	if len(rest) < 2 || len(rest) < 2+2*int(rest[1]) {
		return b
	}
	lengths, texts := rest[2:2+2*int(rest[1])], rest[2+2*int(rest[1]):]
	var left [][]byte
	for ; len(lengths) > 0; lengths = lengths[2:] {
		n := int(binary.BigEndian.Uint16(lengths))
		if n > len(texts) {
			return b
		}
		if !r.again(texts[:n]) {
			left = append(left, texts[:n])
		}
		texts = texts[n:]
	}
	if len(left) == 0 {
		return nil
	}
	out := append(make([]byte, 0, len(b)), prefix...)
	out = append(out, compoundMsg, byte(len(left)))
	for _, m := range left {
		out = binary.BigEndian.AppendUint16(out, uint16(len(m)))
	}
	for _, m := range left {
		out = append(out, m...)
	}
	return out
}
