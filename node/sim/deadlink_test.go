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
// after the tables avoid the link. If the flow's epoch was known, or gossip has told the source the
// life of the destination, the request is lost. Otherwise the fate of the request is open, and the
// reason must be the dead route.
func TestLostWithALink(t *testing.T) {
	for seed := range uint64(16) {
		known, far, told := seed%2 == 0, seed/2%2 == 0, seed >= 8
		s := quietLab(t, "mesh:4x4", seed)
		a, b, dst := s.machines[5], s.machines[6], s.machines[6]
		if far { // the link dies two hops from the source
			a, dst = s.machines[4], s.machines[7]
		}
		p := ttlink.ProfileLAN
		if told {
			s.around.gossip.on = true
			s.spread(a)
			s.run(a)
			s.pass(time.Millisecond)
		}
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
		if lost := known || told; lost && f.ends[flow.FateLost] != 1 || !lost && (f.ends[flow.FateUnknown] != 1 || f.last.Doubt != flow.DoubtRouteDead) {
			t.Errorf("seed %d: epoch known %v, life told %v: ends %v, last %+v", seed, known, told, f.ends, f.last)
		}
	}
}
