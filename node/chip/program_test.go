package chip

import (
	"testing"

	"ttfabric/node/flow"
	"ttfabric/node/noc"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// asks is a Client that asks for a list of requests, and keeps their results.
type asks struct {
	list []flow.Request
	ends []flow.Result
}

// Next returns the next request of the list.
func (a *asks) Next(mono.Time) (r flow.Request, ok bool) {
	if len(a.list) == 0 {
		return r, false
	}
	r, a.list = a.list[0], a.list[1:]
	return r, true
}

// Undo does nothing.
func (a *asks) Undo() {}

// Done keeps the result.
func (a *asks) Done(_ mono.Time, r flow.Result) { a.ends = append(a.ends, r) }

// Performed does nothing.
func (a *asks) Performed(mono.Time, wire.FabricNodeID, wire.Plane, bool, *wire.Command, *noc.Memory) {
}

// TestRefusalsOfPrograms lets a program ask for requests that the chip does not start. Each request
// must end as refused, for its own reason.
func TestRefusalsOfPrograms(t *testing.T) {
	m, err := topo.Named("mesh:1x3")
	if err != nil {
		t.Fatal(err)
	}
	w := newFabric(t, m)
	to := m.Chips[2].Node
	a := &asks{list: []flow.Request{
		{Dst: to, Posted: true, Command: wire.Command{Type: wire.NocRead, Size: 4}},
		{Dst: to, Payload: make([]byte, wire.MaxPayload+1)},
		{Dst: wire.FabricNodeID{Mesh: 9}},
	}}
	w.chips[0].SetClient(a)
	w.chips[0].Pump(w.now)
	want := []wire.Outcome{wire.OutcomeBadCommand, wire.OutcomeBadCommand, wire.OutcomeBadAddress}
	if len(a.ends) != len(want) {
		t.Fatalf("%d results", len(a.ends))
	}
	for i, r := range a.ends {
		if r.Fate != flow.FateRefused || r.Outcome != want[i] {
			t.Errorf("request %d: %s, %s; want %s", i, r.Fate, r.Outcome, want[i])
		}
	}
}
