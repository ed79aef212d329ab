package chip

import (
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// TestVia writes from a chip to itself, by hops through the three other chips. The chip
// must refuse hops that do not end at the destination.
func TestVia(t *testing.T) {
	m, err := topo.Named("mesh:2x2")
	if err != nil {
		t.Fatal(err)
	}
	w := newFabric(t, m)
	e, s, we, n := wire.East, wire.South, wire.West, wire.North
	write := flow.Request{Dst: m.Chips[0].Node, Via: []wire.Direction{e, s, we, n}, Payload: []byte("round"),
		Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 64)}}
	for range 3 {
		if got := w.chips[0].HandleRequest(w.now, write); got != flow.Accepted {
			t.Fatalf("not taken: %d", got)
		}
	}
	other := write
	other.Via = []wire.Direction{s, e, n, we}
	if got := w.chips[0].HandleRequest(w.now, other); got != flow.Busy {
		t.Errorf("another path while requests are open: %d, want Busy", got)
	}
	if rs := w.results(0, 3); len(rs) != 3 || rs[2].Fate != flow.FateDone {
		t.Errorf("results %+v", rs)
	}
	back := make([]byte, 5)
	if o := w.chips[0].Memory().Read(write.Command.Addr, back); o != wire.OutcomeDone || string(back) != "round" {
		t.Errorf("memory holds %q, %v", back, o)
	}
	if got := w.chips[0].HandleRequest(w.now, other); got != flow.Accepted {
		t.Errorf("another path when nothing is open: %d", got)
	}
	w.results(0, 1)
	for _, c := range w.chips[1:] {
		forwarded, delivered := uint64(0), uint64(0)
		for _, p := range c.Status().Ports {
			forwarded, delivered = forwarded+p.Router.Counters.Forwarded, delivered+p.Router.Counters.Delivered
		}
		if forwarded != 4 || delivered != 0 {
			t.Errorf("%s passed on %d packets and took %d, want 4 and 0", c.Node(), forwarded, delivered)
		}
	}
	for _, via := range [][]wire.Direction{{e, s, we}, {n}, {e, we}, {e, s, we, n, n}, make([]wire.Direction, wire.MaxHops+1)} {
		r := write
		r.Via = via
		if got := w.chips[0].HandleRequest(w.now, r); got != flow.BadVia {
			t.Errorf("via %v: %d, want BadVia", via, got)
		}
	}
}

// fabric joins chips by cables without loss and without delay.
type fabric struct {
	t     *testing.T
	now   mono.Time
	m     *topo.Topology
	chips []*Chip
	at    map[wire.FabricNodeID]*Chip
	gone  map[wire.PortID]bool                    // both ports of each cut cable
	watch func(to wire.PortID, v wire.PacketView) // called for each packet that arrives in one frame; nil: not called
	lose  func(to wire.PortID, b []byte) bool     // whether the cable loses a datagram; nil: it loses none
	lent  map[*Chip]*lender                       // hosts that lend chips memory
	asked uint64                                  // number of the last request of method ask
}

// cut cuts all cables that leave chip c in direction d if "on" is true, and tells the chips at both
// ends. If "on" is false, cut repairs the cables.
func (w *fabric) cut(c *Chip, d wire.Direction, on bool) {
	w.silence(c, d, on)
	for i := range c.ports.list {
		if p := &c.ports.list[i]; p.Dir == d {
			c.Cut(w.now, p.Local.Channel, on)
			w.at[p.Peer.Node].Cut(w.now, p.Peer.Channel, on)
		}
	}
}

// silence makes the network lose all datagrams of the cables that leave chip c in direction d if
// "on" is true. No chip is told. If "on" is false, the network works again.
func (w *fabric) silence(c *Chip, d wire.Direction, on bool) {
	for i := range c.ports.list {
		if p := &c.ports.list[i]; p.Dir == d {
			w.gone[p.Local], w.gone[p.Peer] = on, on
		}
	}
}

// restart replaces chip i with a new chip of incarnation inc.
func (w *fabric) restart(i int, inc wire.Incarnation) {
	c, err := New(w.now, Config{Node: w.m.Chips[i].Node, Incarnation: inc, Topology: w.m, MaxPayload: 1408, Seed: uint64(inc)})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range c.Channels() {
		c.SetPath(w.now, p.Local.Channel, true)
	}
	w.chips[i], w.at[c.Node()] = c, c
}

func newFabric(t *testing.T, m *topo.Topology) *fabric { return fabricOf(t, m, func(*Config) {}) }

// fabricOf returns a fabric with all links up. The function "change" may change the
// configuration of each chip.
func fabricOf(t *testing.T, m *topo.Topology, change func(*Config)) *fabric {
	w := &fabric{t: t, now: 1, m: m, at: map[wire.FabricNodeID]*Chip{}, gone: map[wire.PortID]bool{}}
	for i, tc := range m.Chips {
		cfg := Config{Node: tc.Node, Incarnation: wire.Incarnation(i + 1), Topology: m, MaxPayload: 1408, Seed: uint64(i)}
		change(&cfg)
		c, err := New(w.now, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range c.Channels() {
			c.SetPath(w.now, p.Local.Channel, true)
		}
		w.chips, w.at[tc.Node] = append(w.chips, c), c
	}
	w.run(time.Second)
	for _, c := range w.chips {
		if s := c.Status(); s.PortsUp != len(s.Ports) {
			t.Fatalf("%s has %d of %d ports up", c.Node(), s.PortsUp, len(s.Ports))
		}
	}
	return w
}

// run runs the fabric for time d, in steps of a millisecond.
func (w *fabric) run(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(time.Millisecond) {
		for moved := true; moved; {
			moved = false
			for _, c := range w.chips {
				c.Tick(w.now)
				c.Pump(w.now)
				for ch, x, ok := c.PollTransmit(w.now); ok; ch, x, ok = c.PollTransmit(w.now) {
					moved = true
					peer := c.ports.list[c.ports.index(ch)].Peer
					for b := x.Data; len(b) > 0 && !w.gone[peer]; b = b[min(x.Seg, len(b)):] {
						d := append([]byte(nil), b[:min(x.Seg, len(b))]...)
						if f, err := wire.DecodeFrame(d); err == nil && f.Kind == wire.KindData && f.Flags&wire.FlagEnd != 0 && w.watch != nil {
							if v, err := wire.ViewPacket(f.Payload); err == nil {
								w.watch(peer, v)
							}
						}
						if w.lose == nil || !w.lose(peer, d) {
							w.at[peer.Node].HandleDatagram(w.now, peer.Channel, d)
						}
					}
				}
				if l := w.lent[c]; l != nil {
					moved = l.serve(w.now, c) || moved
				}
			}
		}
	}
}

// results waits at most 100 ms for n results of chip i, and returns all results that
// came.
func (w *fabric) results(i, n int) (rs []flow.Result) {
	for range 100 {
		w.run(time.Millisecond)
		for r, ok := w.chips[i].PollResult(); ok; r, ok = w.chips[i].PollResult() {
			rs = append(rs, r)
		}
		if len(rs) >= n {
			break
		}
	}
	return rs
}
