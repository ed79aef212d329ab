package session

import (
	"context"
	"errors"
	"testing"

	"ttfabric/node/flow"
	"ttfabric/wire"
)

// TestRepeats gives a call a first result, and checks whether the call sends the request again. A
// call must repeat what a fault has lost, and reads and pings whose fate a fault left open. A call
// must never repeat a write whose fate is open.
func TestRepeats(t *testing.T) {
	write := func(s *Session) error { return s.Write(context.Background(), at(1), 64, []byte("x")) }
	inc := func(s *Session) error { return s.AtomicInc(context.Background(), at(1), 64, 1, false) }
	read := func(s *Session) error { return s.Read(context.Background(), at(1), 64, make([]byte, 1)) }
	ping := func(s *Session) error { _, err := s.Ping(context.Background(), at(1)); return err }
	gap := flow.Result{Fate: flow.FateLost}
	dead := flow.Result{Fate: flow.FateLost, Drop: wire.DropNextHopDead}
	open := flow.Result{Fate: flow.FateUnknown, Doubt: flow.DoubtRouteDead}
	for _, c := range []struct {
		name   string
		call   func(*Session) error
		first  flow.Result
		repeat bool
	}{
		{"write, gap", write, gap, true},
		{"write, next hop dead", write, dead, true},
		{"write, tables replaced", write, flow.Result{Fate: flow.FateLost, Drop: wire.DropTables}, true},
		{"write, TTL", write, flow.Result{Fate: flow.FateLost, Drop: wire.DropTTL}, false},
		{"write, flushed", write, flow.Result{Fate: flow.FateLost, Drop: wire.DropFlushed}, false},
		{"write, open", write, open, false},
		{"increment, gap", inc, gap, true},
		{"increment, open", inc, open, false},
		{"read, gap", read, gap, true},
		{"read, open", read, open, true},
		{"read, no answer", read, flow.Result{Fate: flow.FateUnknown, Doubt: flow.DoubtTimeout}, false},
		{"ping, open", ping, open, true},
		{"ping, unreachable", ping, flow.Result{Fate: flow.FateUnknown, Doubt: flow.DoubtUnreachable}, false},
	} {
		f := &scripted{ends: []flow.Result{c.first, {Fate: flow.FateDone, Data: []byte("x")}}}
		err := c.call(New(f))
		if want := map[bool]int{true: 2, false: 1}[c.repeat]; len(f.asked) != want || (err == nil) != c.repeat {
			t.Errorf("%s: sent %d times, want %d; error %v", c.name, len(f.asked), want, err)
		}
	}
}

// TestRepeatsEnd loses every repetition. The call must end with the error of the last repetition.
func TestRepeatsEnd(t *testing.T) {
	f := &scripted{}
	for range faultRetries + 1 {
		f.ends = append(f.ends, flow.Result{Fate: flow.FateLost, Drop: wire.DropNextHopDead})
	}
	var lost *LostError
	if err := New(f).AtomicInc(context.Background(), at(1), 64, 1, false); !errors.As(err, &lost) || len(f.asked) != faultRetries+1 {
		t.Errorf("sent %d times, want %d; error %v", len(f.asked), faultRetries+1, err)
	}
}
