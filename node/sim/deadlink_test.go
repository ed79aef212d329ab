package sim

import (
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// TestLostWithALink cuts all cables between two chips, and sends one request at once, so that only
// the dead link holds it. The source must know the end of the request within the time ProbeAfter
// after the tables avoid the link. If the flow's epoch was known, the request is
// lost. Otherwise the fate of the request is open, and the reason must be the dead route.
func TestLostWithALink(t *testing.T) {
	for seed := range uint64(8) {
		known, far := seed%2 == 0, seed/2%2 == 0
		s := quietLab(t, "mesh:4x4", seed)
		a, b, dst := s.machines[5], s.machines[6], s.machines[6]
		if far { // the link dies two hops from the source
			a, dst = s.machines[4], s.machines[7]
		}
		p := ttlink.ProfileLAN
		f := &stream{req: flow.Request{Dst: dst.node, Command: wire.Command{Type: wire.NocAtomicInc, Addr: wire.NewNocAddr(1, 1, 64), Value: 1}}}
		a.chip.SetClient(f)
		if known {
			f.left = 1
			s.run(a)
			s.runUntil(s.now.Add(10*time.Millisecond), func() bool { return false })
		}
		before := f.ends
		s.cutEdge(s.machines[5].node, b.node, true)
		at := s.now
		f.left = 1
		s.run(a)
		limit := p.DeadTraffic + p.Hold + flow.ProbeAfter + 20*time.Millisecond
		if !s.when(time.Second, func() bool { return f.ends != before }) || s.now.Sub(at) > limit {
			t.Errorf("seed %d: the request ended after %v, want at most %v: %v", seed, s.now.Sub(at), limit, f.ends)
		}
		if known && f.ends[flow.FateLost] != 1 || !known && (f.ends[flow.FateUnknown] != 1 || f.last.Doubt != flow.DoubtRouteDead) {
			t.Errorf("seed %d: epoch known %v: ends %v, last %+v", seed, known, f.ends, f.last)
		}
	}
}
