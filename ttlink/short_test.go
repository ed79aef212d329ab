package ttlink

import (
	"testing"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// TestShortOfCredits checks which bursts make which end short of credits, and for how long. The
// receiver sees that the sender used its last credit. Only the sender knows of a packet without
// credit.
func TestShortOfCredits(t *testing.T) {
	packet := make([]byte, 4096)
	for _, c := range []struct {
		packets              int
		atSender, atReceiver bool
	}{
		{1, false, false}, {8, false, false}, {15, false, false}, {16, false, true}, {17, true, true},
	} {
		p := newPair(t, 16, wire.PadTo(wire.MaxPacket))
		p.now = p.now.Add(CreditMemory) // without a grant, the ends may have been short of credits
		if p.a.ShortOfCredits(p.now) || p.b.ShortOfCredits(p.now) {
			t.Errorf("an end of a new link is short of credits")
		}
		p.round(packet, c.packets)
		last := p.now.Add(CreditMemory - 1)
		for _, now := range []mono.Time{p.now, last} {
			if a, b := p.a.ShortOfCredits(now), p.b.ShortOfCredits(now); a != c.atSender || b != c.atReceiver {
				t.Errorf("%v after %d packets: sender short %v, receiver short %v", now.Sub(p.now), c.packets, a, b)
			}
		}
		if now := last.Add(1); p.a.ShortOfCredits(now) || p.b.ShortOfCredits(now) {
			t.Errorf("%v after %d packets, an end is short of credits", CreditMemory, c.packets)
		}
		many := newPair(t, FewSlots+1, wire.PadTo(wire.MaxPacket))
		many.now = many.now.Add(CreditMemory)
		if many.round(packet, 2*FewSlots); many.a.ShortOfCredits(many.now) || many.b.ShortOfCredits(many.now) {
			t.Errorf("with %d slots, an end is short of credits", FewSlots+1)
		}
		p.a.Close(p.now)
		if p.a.ShortOfCredits(p.now) {
			t.Error("a closed link is short of credits")
		}
	}
}
