package chip

import (
	"testing"
	"time"

	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// Gossip reports again and again that a peer is alive, and the node calls SetPath each
// time. A link over a working cable must stay up. A link over a cut cable must stay down.
func TestPathNewsMovesNoLink(t *testing.T) {
	m, err := topo.Named("mesh:1x2")
	if err != nil {
		t.Fatal(err)
	}
	w := newFabric(t, m)
	tell := func() {
		for _, c := range w.chips {
			for _, p := range c.Channels() {
				c.SetPath(w.now, p.Local.Channel, true)
			}
		}
	}
	sessions := func() (ids []wire.SessionID) {
		for _, c := range w.chips {
			for _, p := range c.Status().Ports {
				ids = append(ids, p.Link.Session)
				if p.Link.Retrains != 0 {
					t.Errorf("%s channel %d was retrained", c.Node(), p.Local.Channel)
				}
			}
		}
		return ids
	}
	before := sessions()
	for range 50 {
		tell()
		w.run(time.Millisecond)
	}
	for i, id := range sessions() {
		if id != before[i] {
			t.Errorf("session %v has become %v", before[i], id)
		}
	}
	for _, d := range []wire.Direction{wire.East} {
		w.cut(w.chips[0], d, true)
	}
	w.run(3 * time.Second)
	for range 50 {
		tell()
		w.run(10 * time.Millisecond)
		if n := w.chips[0].Status().PortsUp + w.chips[1].Status().PortsUp; n != 0 {
			t.Fatalf("%d ports are up over cut cables", n)
		}
	}
}

// An idle link exchanges no hellos by itself. Ask makes an idle link exchange hellos.
func TestAsk(t *testing.T) {
	m, err := topo.Named("mesh:1x2")
	if err != nil {
		t.Fatal(err)
	}
	w := newFabric(t, m)
	w.run(10 * time.Second)
	c := w.chips[0]
	ch := c.Channels()[0].Local.Channel
	hellos := func() uint64 { return c.Status().Ports[0].Frames.HellosReceived }
	before := hellos()
	w.run(5 * time.Second)
	if hellos() != before {
		t.Fatal("hellos come by themselves")
	}
	if !c.Carries(ch) {
		t.Fatal("the link is not up")
	}
	if d := c.Ask(w.now, ch); d < ttlink.ProfileLAN.DeadTraffic {
		t.Errorf("Ask returns %v, less than DeadTraffic", d)
	}
	w.run(2 * time.Millisecond)
	if hellos() == before || c.Status().Ports[0].Link.Retrains != 0 {
		t.Errorf("%d answers, %d retrains", hellos()-before, c.Status().Ports[0].Link.Retrains)
	}
	w.cut(c, wire.East, true)
	w.run(3 * time.Second)
	if c.Carries(ch) || c.Ask(w.now, wire.MaxChannels) != 0 || c.Carries(wire.MaxChannels) {
		t.Error("Carries or Ask accepts a link that is down, or a channel without a port")
	}
	c.Ask(w.now, ch) // the link is down, and Ask does nothing
	w.run(time.Second)
}
