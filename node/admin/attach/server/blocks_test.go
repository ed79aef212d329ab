package server

import (
	"testing"

	"ttfabric/node/admin/attach"
)

// The memory for the data of reads under way follows the length of the reads. As many reads as a
// client may have in flight take at most twice as many bytes as the answers may have.
func TestMemoryOfLongReads(t *testing.T) {
	for _, size := range []int{4097, 8192, 60000, attach.MaxBlock} {
		c, total := &client{}, 0
		for range 3 {
			var under []*op
			total = 0
			for !c.full() {
				o := &op{size: size, left: 2}
				c.promise(o)
				c.inFlight++
				if under, total = append(under, o), total+cap(o.data); len(o.data) != size {
					t.Fatalf("a read of %d bytes has memory of %d bytes", size, len(o.data))
				}
			}
			for _, o := range under {
				c.keep(o.data)
			}
			c.bytes, c.inFlight = 0, 0
		}
		if total > 2*(attach.MaxAnswers+attach.MaxBlock) {
			t.Errorf("reads of %d bytes: %d bytes of memory", size, total)
		}
	}
}
