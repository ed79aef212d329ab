package chip

import (
	"testing"

	"ttfabric/wire"
)

// A chip allocates no memory for a read or write of another chip that the chip performs.
func TestRequestsAllocateNothing(t *testing.T) {
	w := newFabric(t, named(t, "n300"))
	c := w.chips[1]
	at := wire.NewNocAddr(1, 1, 0x40)
	src := w.chips[0].Node()
	for _, p := range []wire.Packet{
		{Src: src, Dst: c.Node(), Command: wire.Command{Type: wire.NocRead, Addr: at, Size: 64}},
		{Src: src, Dst: c.Node(), Command: wire.Command{Type: wire.NocUnicastWrite, Addr: at}, Payload: make([]byte, 64)},
		{Src: src, Dst: c.Node(), Command: wire.Command{Type: wire.NocRead, Addr: wire.NewNocAddr(1, 1, 0xFFB2002C), Size: 4}},
	} {
		perform := func() {
			if o := c.perform(w.now, &p); o != wire.OutcomeDone {
				t.Fatal(o)
			}
			for _, r := range c.outbox.replies {
				c.pool.Put(r.slot)
			}
			c.outbox.replies = c.outbox.replies[:0]
		}
		perform()
		if n := testing.AllocsPerRun(100, perform); n != 0 {
			t.Errorf("%v at %s: %v allocations", p.Command.Type, p.Command.Addr, n)
		}
	}
}
