package model_test

import (
	"strings"
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/node/model"
	"ttfabric/node/sim"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// TestRun loads a snapshot with open requests. After some virtual time, a few events and a drain, the
// results must say how far the fabric came.
func TestRun(t *testing.T) {
	m, err := topo.Named("mesh:1x3")
	if err != nil {
		t.Fatal(err)
	}
	d, err := sim.NewDriven(sim.Config{Topology: m, Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	for k := range 12 {
		d.Submit(0, flow.Request{Dst: m.Chips[2].Node, Payload: make([]byte, 64), Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 2, 0).Add(64 * k)}}, func(flow.Result) {})
	}
	if err := d.Run(d.Now().Add(15 * time.Microsecond)); err != nil {
		t.Fatal(err)
	}
	f := d.Snapshot(false, false)
	still, _, err := model.Run(f, model.Options{})
	if err != nil || still.Events != 0 || still.Nanos != 0 || still.Rest || still.After.Open != 12 || still.Before.Open != 12 {
		t.Errorf("without time: %+v, %v", still, err)
	}
	some, end, err := model.Run(f, model.Options{For: time.Microsecond, Events: 2})
	if err != nil || some.Events < 2 || some.Rest || some.After.Open != 12 || end.Check() != nil {
		t.Errorf("after 2 events: %+v, %v", some, err)
	}
	all, _, err := model.Run(end, model.Options{Drain: true})
	if err != nil || !all.Rest || all.Performed != 12 || all.Ended["done"] != 12 || all.After.Open != 0 {
		t.Errorf("drained: %+v, %v", all, err)
	}
	if s := all.String(); !strings.Contains(s, "of 12 open requests of the snapshot, 12 ended as done; chips performed 12 commands; 0 requests") {
		t.Error(s)
	}
}
