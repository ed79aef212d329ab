package chip

import (
	"testing"
	"time"

	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire/mono"
)

// TestRates compares the rates of a port with the counts of its link over windows of a second and
// more. A window without activity must count too.
func TestRates(t *testing.T) {
	top, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(0, Config{Node: top.Chips[0].Node, Incarnation: 5, Topology: top, Behaviour: Behaviour{Profile: ttlink.ProfileLAN}, MaxPayload: 1408})
	if err != nil {
		t.Fatal(err)
	}
	ch := c.Channels()[0].Local.Channel
	hellos := func(now mono.Time) (bytes int) {
		for {
			on, x, ok := c.PollTransmit(now)
			if !ok {
				return bytes
			}
			if on == ch {
				bytes += len(x.Data)
			}
		}
	}
	at := mono.Time(time.Second)
	if r := c.StatusAt(at).Ports[0].Rate; r != (Rate{}) {
		t.Errorf("before the first Pump: %+v", r)
	}
	c.Pump(at)
	c.SetPath(at, ch, true)
	sent := hellos(at)
	if r := c.StatusAt(at.Add(999 * time.Millisecond)).Ports[0].Rate; r != (Rate{}) {
		t.Errorf("before a whole window: %+v", r)
	}
	if r := c.StatusAt(at.Add(2 * time.Second)).Ports[0].Rate; r.Over != 2*time.Second || r.BytesOut != float64(sent)/2 || r.BytesIn != 0 || sent == 0 {
		t.Errorf("the link sent %d bytes in 2 s: %+v", sent, r)
	}
	c.Pump(at.Add(1250 * time.Millisecond))
	if r := c.StatusAt(at.Add(1300 * time.Millisecond)).Ports[0].Rate; r.Over != 1250*time.Millisecond || r.BytesOut != float64(sent)/1.25 {
		t.Errorf("the window before had %d bytes in 1.25 s: %+v", sent, r)
	}
	if r := c.StatusAt(at.Add(1250*time.Millisecond + 4*time.Second)).Ports[0].Rate; r.Over != 4*time.Second || r.BytesOut != 0 {
		t.Errorf("a window without activity: %+v", r)
	}
}
