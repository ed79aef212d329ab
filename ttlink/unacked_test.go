package ttlink

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

// TestUnacked places packets of three frames each and of one frame. After each acknowledgement, Unacked
// names every packet with an unacknowledged frame, by its first bytes.
func TestUnacked(t *testing.T) {
	l := &Link{agreed: 512, state: StateUp, cfg: Config{Window: 1 << 20, Profile: ProfileLAN}}
	l.tx.slots[0], l.tx.limit[0], l.tx.flight = 16, 16, MaxFrames
	sizes := []int{3 * 512, 3 * 512, 100, 3 * 512}
	frames := []int{3, 3, 1, 3}
	for k, n := range sizes {
		if !l.Send(1, 0, bytes.Repeat([]byte{byte('a' + k)}, n)) {
			t.Fatalf("packet %d was not placed", k)
		}
	}
	l.tx.sentTo, l.tx.cursor = l.tx.next, l.tx.next
	for _, steps := range [][]int{{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {2, 3, 3, 1, 1}, {5, 1, 2, 2}, {4, 5}} {
		x := *l
		x.tx.slab.meta, x.tx.slab.cut = slices.Clone(l.tx.slab.meta), nil
		acked := 0
		for _, n := range steps {
			acked += n
			x.handleAck(2, x.tx.base.Add(n))
			want, end := "", 0
			for k := range frames {
				if end += frames[k]; end > acked {
					want += string(rune('a' + k))
				}
			}
			got := ""
			x.Unacked(func(piece []byte) {
				if len(piece) < 100 || len(piece) > 512 || len(bytes.TrimLeft(piece, string(piece[:1]))) > 0 {
					t.Errorf("piece of %d bytes: %q", len(piece), piece)
				}
				got += string(piece[:1])
			})
			if got != want {
				t.Errorf("%s: packets %q are unacknowledged, want %q", fmt.Sprint(steps, acked), got, want)
			}
		}
	}
}
