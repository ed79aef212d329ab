package sim

import (
	"testing"

	"ttfabric/wire"
)

// TestDigest checks that the events, their order, and each bit of a datagram change the hash of a
// run.
func TestDigest(t *testing.T) {
	seen := map[digest]string{}
	add := func(what string, do func(d *digest)) {
		var d digest
		do(&d)
		if was, ok := seen[d]; ok {
			t.Errorf("%s has the same hash as %s", what, was)
		}
		seen[d] = what
	}
	add("nothing", func(*digest) {})
	add("1 2", func(d *digest) { d.word(1); d.word(2) })
	add("2 1", func(d *digest) { d.word(2); d.word(1) })
	add("1", func(d *digest) { d.word(1) })
	// The datagram ends with the checksum of the bytes before, like a frame.
	for bit := range 64 * 8 {
		b := make([]byte, 64)
		b[bit/8] ^= 1 << (bit % 8)
		sum := wire.Checksum(b)
		b = append(b, byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
		add("a bit of a datagram", func(d *digest) { d.bytes(b); d.word(7) })
	}
	add("a datagram", func(d *digest) { d.bytes(make([]byte, 64)) })
	add("a longer datagram", func(d *digest) { d.bytes(make([]byte, 65)) })
}
