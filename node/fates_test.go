package node_test

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"ttfabric/node"
	"ttfabric/node/flow"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// TestFirstRequestsLostWithALink cuts all cables between two chips, and sends the first requests of an
// epoch at once, so that only the dead links hold them. Another route leads round the cut to the
// destination. The destination says that the requests did not come, and each request ends as lost. A
// session may therefore send lost requests again: each increment of the session is performed exactly
// once.
func TestFirstRequestsLostWithALink(t *testing.T) {
	t.Parallel()
	_, _, ns := fabric(t, "mesh:2x2")
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	s, word, want := session.New(ns[0]), wire.NewNocAddr(1, 1, 64), uint32(0)
	inc := flow.Request{Dst: chipID(1), Command: wire.Command{Type: wire.NocAtomicInc, Addr: word, Value: 1}}
	const most = 20
	for try := 0; ; try++ {
		if try == most {
			t.Fatalf("in %d tries, the links lost no request", most)
		}
		calm(t, ns)
		time.Sleep(3 * flow.FlowIdle) // the next request begins an epoch
		cutBetween(t, ns, 0, 1, true)
		results := make(chan flow.Result, 4)
		if _, err := ns[0].Submit(ctx, []flow.Request{inc, inc, inc, inc}, func(_ int, r flow.Result) { results <- r }); err != nil {
			t.Fatal(err)
		}
		lost := 0
		for range cap(results) {
			switch r := <-results; r.Fate {
			case flow.FateDone:
				want++
			case flow.FateLost:
				lost++
			default:
				t.Fatalf("try %d: a request ended as %s: %s %s", try, r.Fate, r.Outcome, r.Doubt)
			}
		}
		if err := s.AtomicInc(ctx, chipID(1), word, 1, true); err != nil {
			t.Fatal(err)
		}
		want++
		if lost > 0 {
			t.Logf("try %d: %d requests were lost", try, lost)
			break
		}
		cutBetween(t, ns, 0, 1, false)
	}
	cutBetween(t, ns, 0, 1, false)
	calm(t, ns)
	time.Sleep(3 * flow.FlowIdle)
	cutBetween(t, ns, 0, 1, true)
	for range 4 {
		if err := s.AtomicInc(ctx, chipID(1), word, 1, true); err != nil {
			t.Fatal(err)
		}
		want++
	}
	b := make([]byte, 4)
	if err := s.Read(ctx, chipID(1), word, b); err != nil || binary.LittleEndian.Uint32(b) != want {
		t.Errorf("the counter is %d, %v; want %d", binary.LittleEndian.Uint32(b), err, want)
	}
}

// calm waits until all links are up.
func calm(t *testing.T, ns []*node.Node) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		down := 0
		for _, n := range ns {
			st, _ := n.Status()
			down += len(st.Ports) - st.PortsUp
		}
		if down == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d ends of links stay down", down)
		}
	}
}

// cutBetween cuts or repairs all cables between two chips, at both ends.
func cutBetween(t *testing.T, ns []*node.Node, a, b int, on bool) {
	t.Helper()
	for _, end := range [][2]int{{a, b}, {b, a}} {
		st, _ := ns[end[0]].Status()
		for _, p := range st.Ports {
			if p.Peer.Node == chipID(end[1]) {
				if err := ns[end[0]].Cut(p.Local.Channel, on, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
