package chip

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"ttfabric/node/firmware"
	"ttfabric/wire"
)

// TestMessagesThatLeaveTogether pushes four requests of random lengths at once, so that their messages share L1
// writes. All data must arrive at the first try, in any mix of lengths.
func TestMessagesThatLeaveTogether(t *testing.T) {
	w := n300(t, func(*Config) {})
	h, r := w.host(0, 8), rand.New(rand.NewPCG(3, 9))
	messages := uint64(0)
	for round := range 200 {
		var want [4][]byte
		for i := range want {
			want[i] = randomBytes(r, []int{4, 16, 20, 1020, 1024, 1024, 1024}[r.IntN(7)])
			e := firmware.Entry{Target: firmware.NewTarget(1, 0, wire.NewNocAddr(1, 1, uint64(i)*2048)), Data: uint32(len(want[i])), Flags: firmware.WrReq | firmware.DataBlock | firmware.Ordered}
			h.push(e, want[i])
		}
		h.written()
		for i, b := range want {
			got := make([]byte, len(b))
			if w.chips[1].memory.Read(wire.NewNocAddr(1, 1, uint64(i)*2048), got); !bytes.Equal(got, b) {
				t.Fatalf("round %d: write %d of %d bytes arrived as other bytes", round, i, len(b))
			}
		}
		for i, b := range want {
			h.push(firmware.Entry{Target: firmware.NewTarget(1, 0, wire.NewNocAddr(1, 1, uint64(i)*2048)), Data: uint32(len(b)), Flags: firmware.RdReq | firmware.DataBlock | firmware.Ordered}, nil)
		}
		for i, b := range want {
			if _, got := h.pop(); !bytes.Equal(got[:len(b)], b) {
				t.Fatalf("round %d: read %d of %d bytes brought other bytes", round, i, len(b))
			}
		}
	}
	w.run(2 * time.Second)
	for _, q := range []firmware.Tile{w.tileOf(0, 8), w.tileOf(0, 9), w.tileOf(1, 0), w.tileOf(1, 1)} {
		if q.Counters.Bad+q.Counters.Resent+q.Counters.Late+q.Counters.Lost != 0 {
			t.Errorf("E%d: %+v", q.Channel, q.Counters)
		}
		messages += q.Counters.Sent
	}
	if messages != 2*8*200 {
		t.Errorf("%d messages left, want %d", messages, 2*8*200)
	}
}
