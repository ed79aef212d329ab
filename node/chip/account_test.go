package chip

import (
	"testing"

	"ttfabric/wire"
)

// TestRefusedIsAccounted delivers a packet for chip 2 to chip 1. Chip 1 must count the
// packet as refused and as malformed.
func TestRefusedIsAccounted(t *testing.T) {
	w := newFabric(t, named(t, "line:3"))
	c := w.chips[1]
	p := wire.Packet{Type: wire.PacketRequest, Src: w.chips[0].Node(), Dst: w.chips[2].Node(), Route: []byte{0}, Command: wire.Command{Type: wire.NocInlineWrite}}
	c.arrived(w.now, p.Append(nil))
	if a := c.Account(); a.Refused[wire.ClassRequest] != 1 || c.counters.Dropped[wire.DropMalformed] != 1 {
		t.Errorf("refused %v, dropped %v", a.Refused, c.counters.Dropped)
	}
}
