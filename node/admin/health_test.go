package admin

import (
	"testing"
	"time"

	"ttfabric/node/chip"
	"ttfabric/router"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// TestHealthOf checks the health of a link that is up and held, and of a link that has never been
// up.
func TestHealthOf(t *testing.T) {
	at := func(s float64) mono.Time { return mono.Time(s * float64(time.Second)) }
	p := chip.PortStatus{Link: ttlink.Status{State: ttlink.StateUp, Phase: ttlink.PhaseReady, Train: ttlink.TrainOK,
		FirstUp: at(2), Since: at(8), LastRetrain: at(8), Uptime: 4 * time.Second, Downtime: 2 * time.Second, Retrains: 4, Cable: ttlink.Cable{Flaps: 7, HeldUntil: at(15)}},
		Router: router.PortStatus{State: router.StatePaused}}
	p.Router.Counters.Dropped[wire.DropFlushed], p.Router.Counters.Dropped[wire.DropDrained] = 3, 4
	h := healthOf(&p, at(12), at(2))
	if h.Postcode != "0xa3b3c3d3" || h.TrainCode != 1 || h.Router != "paused" || h.RouterCode != 2 || h.DroppedHere != 7 {
		t.Errorf("%+v", h)
	}
	if *h.RetrainedS != 4 || h.UptimeS != 8 || *h.UptimeShare != .8 || h.Flaps != 7 || h.MeanDownS != .5 || !h.Held || h.HeldForS != 3 || h.HeldUntil == "" {
		t.Errorf("%+v", h)
	}
	never := chip.PortStatus{}
	if h := healthOf(&never, at(12), 0); h.RetrainedS != nil || h.UptimeShare != nil || h.Held || h.Phase != "initialization started" {
		t.Errorf("%+v", h)
	}
	if h := healthOf(&never, at(12), at(2)); *h.UptimeShare != 0 {
		t.Errorf("a link that has never been up: %+v", h)
	}
	s := chip.Status{Ports: []chip.PortStatus{never, {Link: ttlink.Status{FirstUp: at(5)}}, p}}
	if got := firstUp(&s); got != at(2) {
		t.Errorf("first up at %v", got)
	}
}
