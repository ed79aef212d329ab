package flow

import (
	"reflect"
	"testing"

	"ttfabric/wire"
)

// TestSinkComesBack saves a sink that owes completions and has exceptions, and restores the sink. The new
// sink must send the same completions in the same order, and treat the next packets in the same way.
func TestSinkComesBack(t *testing.T) {
	s := NewSink(7)
	packet := func(src wire.ChipID, seq uint32) *wire.Packet {
		return &wire.Packet{Type: wire.PacketRequest, Src: wire.FabricNodeID{Chip: src}, FlowEpoch: 3, FlowSeq: seq}
	}
	for _, p := range []*wire.Packet{packet(2, 0), packet(1, 0), packet(1, 4), packet(5, 0)} {
		s.HandleRequest(p)
	}
	s.Refuse(packet(5, 0), wire.OutcomeBadAddress)
	saved := s.Save()
	again := NewSink(7)
	again.Restore(saved)
	if got := again.Save(); !reflect.DeepEqual(got, saved) || len(saved) != 3 || len(saved[1].Exceptions) != 1 {
		t.Fatalf("saved as\n%+v, and again as\n%+v", saved, got)
	}
	answers := func(s *Sink) (all []wire.Completion) {
		s.Answer(func(Key) *Route { return &Route{OK: true} }, func(_ Key, _ *Route, m wire.Completion) bool {
			all = append(all, m)
			return true
		})
		return all
	}
	for _, p := range []*wire.Packet{packet(1, 4), packet(1, 5)} {
		if a, b := s.HandleRequest(p), again.HandleRequest(p); a != b {
			t.Errorf("request %d: performed %v, and after the restore %v", p.FlowSeq, a, b)
		}
	}
	a, b := answers(s), answers(again)
	for i := range a { // an empty list and no list are the same
		if len(a[i].Exceptions) == 0 {
			a[i].Exceptions = nil
		}
	}
	for i := range b {
		if len(b[i].Exceptions) == 0 {
			b[i].Exceptions = nil
		}
	}
	if !reflect.DeepEqual(a, b) || len(a) != 3 {
		t.Errorf("the sink answers\n%+v, and after the restore\n%+v", a, b)
	}
	if err := again.CheckInvariants(); err != nil {
		t.Error(err)
	}
}
