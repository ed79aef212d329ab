package scenario

import (
	"math"

	"ttfabric/node/traffic"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// tally holds what the run knows about the traffic. Traffic comes in rounds, because a restarted
// chip knows nothing about earlier packets. When such a chip starts, all chips stop sending. The
// packets under way end, and a new round begins with all chips.
type tally struct {
	t        *topo.Topology
	cfg      Traffic
	pairs    []traffic.Pair
	spec     traffic.Spec // spec of the current round
	last     map[wire.FabricNodeID]traffic.Report
	excused  map[wire.FabricNodeID]bool // chips killed in this round
	ended    counts                     // sums of the earlier rounds
	latency  traffic.Histogram          // latencies of the earlier rounds
	before   []uint64                   // packets delivered in the earlier rounds, by pair
	now      []uint64                   // packets delivered so far, by pair
	sources  int
	was      map[traffic.Pair]uint64    // packets that had ended at the source at the previous sample
	gone     map[traffic.Pair]uint64    // packets that the run knows to be lost
	expected map[wire.FabricNodeID]bool // chips that take part in the round
}

// counts holds sums over all pairs.
type counts struct {
	sent, delivered, completed, failed, lost, unexplained, duplicated, corrupted, reordered, misdirected, overflowed uint64
	open                                                                                                             uint64 // packets that were sent and have not ended
}

func (c *counts) add(o counts) {
	c.sent += o.sent
	c.delivered += o.delivered
	c.completed += o.completed
	c.failed += o.failed
	c.lost += o.lost
	c.unexplained += o.unexplained
	c.duplicated += o.duplicated
	c.corrupted += o.corrupted
	c.reordered += o.reordered
	c.misdirected += o.misdirected
	c.overflowed += o.overflowed
	c.open += o.open
}

// newTally finds the pairs of a scenario's traffic. If the scenario has no traffic, newTally
// returns nil.
func newTally(s *Scenario, t *topo.Topology, seed uint64) (*tally, error) {
	if s.Traffic == nil {
		return nil, nil
	}
	y := &tally{t: t, cfg: *s.Traffic}
	p, err := traffic.PatternByName(y.cfg.Pattern)
	if err != nil {
		return nil, s.fail(y.cfg.Line, "%v", err)
	}
	routes, err := route.New(t, route.Config{})
	if err != nil {
		return nil, s.fail(y.cfg.Line, "%v", err)
	}
	o := traffic.Options{Seed: seed, Hot: t.Chips[0].Node, HotShare: y.cfg.HotShare, Planes: routes.PlanesBetween, Ways: routes.WaysBetween}
	if y.cfg.Hot != "" {
		if o.Hot, err = wire.ParseFabricNodeID(y.cfg.Hot); err != nil {
			return nil, s.fail(y.cfg.Line, "hot: %v", err)
		}
	}
	if y.pairs, err = p.Pairs(t, o); err != nil {
		return nil, s.fail(y.cfg.Line, "%v", err)
	}
	planes := max(t.Planes(), 1)
	if y.cfg.Planes > planes {
		return nil, s.fail(y.cfg.Line, "%d planes: %s has %d", y.cfg.Planes, t.Name, planes)
	}
	if y.cfg.Planes != 0 {
		planes = y.cfg.Planes
	}
	from := map[wire.FabricNodeID]bool{}
	for _, p := range y.pairs {
		from[p.Src] = true
	}
	y.sources = len(from)
	y.before, y.now = make([]uint64, len(y.pairs)), make([]uint64, len(y.pairs))
	y.spec = traffic.Spec{Run: seed, Pattern: p.Name, Packets: y.cfg.Packets, Size: y.cfg.Size, Planes: planes, Ways: traffic.MaxWays, Window: y.cfg.Window, Seed: seed, Draw: p.Draw, Load: y.cfg.Load}
	switch {
	case y.cfg.Window == 0 && y.cfg.Load > 0:
		y.spec.Window = traffic.MaxWindow
	case y.cfg.Window == 0:
		y.spec.Window = traffic.DefaultWindow
	}
	return y, nil
}

// slack says how many times as many packets newTally prepares as the load needs on average. With
// slack, no source runs out of packets.
const slack = 2

// begin starts a round. The argument left is the time for which the traffic continues. begin
// reports whether any packet is left to send.
func (y *tally) begin(left float64, alive map[wire.FabricNodeID]bool) bool {
	y.spec.Run++ // with a new number, the verifier does not take packets of another round for packets of this round
	if y.cfg.Load > 0 {
		n := y.cfg.Load*left*float64(y.sources)*slack + 1000
		y.spec.Packets = min(uint64(math.Ceil(n))*uint64(maxWeight(y.pairs)), traffic.MaxPackets)
	} else if y.ended.sent >= y.cfg.Packets {
		return false
	} else {
		y.spec.Packets = y.cfg.Packets - y.ended.sent
	}
	y.last, y.excused, y.expected = map[wire.FabricNodeID]traffic.Report{}, map[wire.FabricNodeID]bool{}, alive
	y.was, y.gone = map[traffic.Pair]uint64{}, map[traffic.Pair]uint64{}
	for _, c := range y.t.Chips {
		if !alive[c.Node] {
			y.excused[c.Node] = true
		}
	}
	return true
}

// maxWeight returns how many times the average share of packets a pair may need. If all pairs send
// equally many packets, maxWeight returns 1.
func maxWeight(pairs []traffic.Pair) uint32 {
	for _, p := range pairs {
		if p.Weight > 1 {
			return 4 // enough also for the pairs of a chip that sends few packets
		}
	}
	return 1
}

// observe takes the reports of chips. The reports are not of the same instant. A packet may have
// ended in its source's report before the packet has come in its destination's report. To find lost
// packets, observe therefore uses the source's report of the previous sample.
func (y *tally) observe(reports []traffic.Report) {
	fresh := map[traffic.Pair]uint64{}
	for _, r := range reports {
		if r.Run != y.spec.Run {
			continue
		}
		y.last[r.Chip] = r
		for i := range r.Source {
			p := &r.Source[i]
			fresh[p.Pair] = p.Completed + p.Refused + p.Failed
		}
	}
	for _, r := range reports {
		for i := range r.Dest {
			if p := &r.Dest[i]; r.Run == y.spec.Run {
				y.gone[p.Pair] = y.was[p.Pair] - min(p.Delivered, y.was[p.Pair])
			}
		}
	}
	for p, n := range fresh {
		y.was[p] = n
	}
}

// quiet reports whether all sent packets have ended at their source, as far as living chips know.
func (y *tally) quiet() bool {
	for n := range y.expected {
		r, ok := y.last[n]
		if !ok && !y.excused[n] {
			return false
		}
		for i := range r.Source {
			if p := &r.Source[i]; !y.excused[n] && p.Sent != p.Completed+p.Refused+p.Failed {
				return false
			}
		}
	}
	return true
}

// finished reports whether all chips have sent all their packets.
func (y *tally) finished() bool {
	for n := range y.expected {
		if !y.excused[n] && !y.last[n].Finished {
			return false
		}
	}
	return true
}

// sum returns the result of the current round up to now. The argument over says that the round has
// ended.
func (y *tally) sum(over bool) (c counts, latency traffic.Histogram) {
	src, dst := map[traffic.Pair]*traffic.PairReport{}, map[traffic.Pair]*traffic.PairReport{}
	for _, r := range y.last {
		for i := range r.Source {
			src[r.Source[i].Pair] = &r.Source[i]
		}
		for i := range r.Dest {
			dst[r.Dest[i].Pair] = &r.Dest[i]
		}
		c.misdirected += r.Misdirected
	}
	var none traffic.PairReport
	for i, p := range y.pairs {
		s, d := src[p], dst[p]
		if s == nil {
			s = &none
		}
		if d == nil {
			d = &none
		}
		latency.Merge(&s.Latency)
		y.now[i] = y.before[i] + d.Delivered
		one := counts{sent: s.Sent, delivered: d.Delivered, completed: s.Completed, failed: s.Failed + s.Refused, overflowed: s.Overflowed,
			duplicated: d.Duplicated, corrupted: d.Corrupted, reordered: d.Reordered}
		if !y.excused[p.Src] && !y.excused[p.Dst] {
			one.open = s.Sent - min(one.completed+one.failed, s.Sent)
			one.lost = y.gone[p]
			if over {
				one.lost = s.Sent - min(one.delivered, s.Sent)
			}
			one.unexplained = one.lost - min(one.failed, one.lost)
		}
		c.add(one)
	}
	return c, latency
}

// total returns the result of all rounds up to now.
func (y *tally) total(over bool) (counts, traffic.Histogram) {
	c, h := y.sum(over)
	c.add(y.ended)
	h.Merge(&y.latency)
	return c, h
}

// end closes the round.
func (y *tally) end() {
	c, h := y.sum(true)
	c.open = 0
	y.ended.add(c)
	y.latency.Merge(&h)
	copy(y.before, y.now)
	y.last = map[wire.FabricNodeID]traffic.Report{}
}
