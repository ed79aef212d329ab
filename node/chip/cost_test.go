package chip

import (
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/wire"
)

// TestNoAllocationPerPacket writes packets from one end of a row of three chips to the
// far end. In a ring of four chips, the test writes to the opposite chip by both routes
// in turn. In steady state, no stage from the request to its result may allocate memory.
func TestNoAllocationPerPacket(t *testing.T) {
	for _, c := range []struct {
		machine string
		size    int
	}{{"mesh:1x3", 64}, {"mesh:1x3", wire.MaxPayload}, {"ring:4", 64}} {
		w, size := newFabric(t, named(t, c.machine)), c.size
		r := flow.Request{Dst: w.m.Chips[2].Node, Payload: make([]byte, size), Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}}
		const packets = 200
		round := func() {
			sent, done := 0, 0
			for end := w.now.Add(time.Second); done < packets; w.now = w.now.Add(100 * time.Microsecond) {
				if end.Before(w.now) {
					t.Fatalf("%d of %d packets done within a second", done, packets)
				}
				for ; sent < packets && w.chips[0].HandleRequest(w.now, r) == flow.Accepted; sent++ {
					r.Other = sent%2 == 0 && c.machine == "ring:4"
				}
				for range 4 {
					w.move()
				}
				for x, ok := w.chips[0].PollResult(); ok; x, ok = w.chips[0].PollResult() {
					if done++; x.Fate != flow.FateDone {
						t.Fatalf("%+v", x)
					}
				}
			}
		}
		for range 20 {
			round()
		}
		if n := testing.AllocsPerRun(50, round); n != 0 {
			t.Errorf("%s, %d bytes: %v allocations for %d packets", c.machine, size, n, packets)
		}
	}
}

// move runs each chip once. move hands each datagram that the chip sends to the peer,
// without a copy.
func (w *fabric) move() {
	for _, c := range w.chips {
		c.Tick(w.now)
		c.Pump(w.now)
		for ch, x, ok := c.PollTransmit(w.now); ok; ch, x, ok = c.PollTransmit(w.now) {
			peer := c.ports.list[c.ports.index(ch)].Peer
			for b := x.Data; len(b) > 0; b = b[min(x.Seg, len(b)):] {
				w.at[peer.Node].HandleDatagram(w.now, peer.Channel, b[:min(x.Seg, len(b))])
			}
		}
	}
}
