package router

import (
	"testing"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Spec §7.3: "if a packet head cannot make progress through a fabric router
// within the configured timeout interval", the packet is dropped, buffered data
// drained, and the control plane notified; the first two are optional.
func TestTimeoutActions(t *testing.T) {
	const after = 40 * time.Millisecond
	for _, c := range []struct {
		name      string
		timeout   Timeout
		left      int // packets in the stuck receiver channel afterwards
		told      int
		forgotten bool // the sender channel's head was given up
	}{
		{"notify", Timeout{After: after}, 3, 2, false},
		{"drop", Timeout{After: after, Drop: true}, 2, 2, true},
		{"drain", Timeout{After: after, Drain: true}, 0, 2, true},
		{"off", Timeout{}, 3, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.r.cfg.Timeout = c.timeout
			// Three more packets for the East than its sender channel takes: the link has no credit.
			for i := range SlotSpec.Sender[wire.VCData] + 3 {
				b.arrive(int(wire.West), b.packet(wire.VCData, uint64(i), 5, wire.RouteEast, wire.RouteWest))
			}
			told := 0
			for now := mono.Time(1); now < mono.Time(after+after/2); now = now.Add(time.Millisecond) {
				b.r.Step(now)
				for s, ok := b.r.PollStuck(); ok; s, ok = b.r.PollStuck() {
					told++
					if s.For < after || s.For > after+after/looksPerTimeout+time.Millisecond || s.VC != wire.VCData {
						t.Errorf("told %+v", s)
					}
				}
				if told == c.told && told > 0 {
					break
				}
			}
			if told != c.told {
				t.Errorf("told of %d stuck channels, want %d", told, c.told)
			}
			if n := b.r.Status(int(wire.West)).Receiver[wire.VCData]; n != c.left && !(c.timeout.Drop && n == c.left-1) {
				t.Errorf("%d packets left in the receiver channel, want %d", n, c.left)
			}
			dropped := 0
			for d, ok := b.r.PollDrop(); ok; d, ok = b.r.PollDrop() {
				if d.Reason != wire.DropTimeout {
					t.Errorf("dropped for %s", d.Reason)
				}
				dropped++
			}
			if (dropped > 0) != c.forgotten {
				t.Errorf("%d packets given up", dropped)
			}
		})
	}
}
