package scenario

import (
	"math"

	"ttfabric/node/traffic"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// tally holds what the run knows about the traffic. A chip that restarts has lost its counts of
// earlier packets. The tally therefore counts the traffic in rounds. When a chip starts, all chips
// stop sending. A new round begins with all running chips as soon as the sources know the fate of
// all sent packets, but at the latest after [DrainTime].
type tally struct {
	t        *topo.Topology
	cfg      Traffic
	pairs    []traffic.Pair
	spec     traffic.Spec                         // spec of the current round
	last     map[wire.FabricNodeID]traffic.Report // latest report of each chip in this round
	excused  map[wire.FabricNodeID]bool           // chips that were killed in this round, or did not run at the start of the round
	ended    counts                               // sums over the earlier rounds
	latency  traffic.Histogram                    // latencies of the earlier rounds
	before   []uint64                             // packets that each pair delivered in the earlier rounds
	now      []uint64                             // packets that each pair has delivered so far, in all rounds
	sources  int                                  // number of chips that send
	was      map[traffic.Pair]uint64              // packets of each pair whose fate the source knew at the previous call of observe
	gone     map[traffic.Pair]uint64              // packets of each pair that were lost in this round
	expected map[wire.FabricNodeID]bool           // chips that take part in the round
}

// counts holds numbers of packets, summed over all pairs of chips. Each field except open has the
// name of a metric.
type counts struct {
	sent, delivered, completed, failed, lost, unexplained, duplicated, corrupted, reordered, misdirected, overflowed uint64
	open                                                                                                             uint64 // packets that were sent and whose fate the source does not know yet
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

// newTally returns the tally of a run before the first round. If the scenario has no traffic,
// newTally returns nil.
func newTally(s *Scenario, t *topo.Topology, seed uint64) (*tally, error) {
	if s.Traffic == nil {
		return nil, nil
	}
	y := &tally{t: t, cfg: *s.Traffic}
	p, err := traffic.PatternByName(y.cfg.Pattern)
	if err != nil {
		return nil, s.fail(y.cfg.Line, "%v", err)
	}
	cfg, err := s.Fabric.Route()
	if err != nil {
		return nil, s.fail(y.cfg.Line, "%v", err)
	}
	routes, err := route.New(t, cfg)
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

// slack is a factor. A round has slack times as many packets as the load needs on average, so that
// no source runs out of packets.
const slack = 2

// begin starts a round with the chips in the parameter "alive". The parameter "left" is the time
// for which the traffic continues, in seconds. begin reports whether any packet is left to send.
func (y *tally) begin(left float64, alive map[wire.FabricNodeID]bool) bool {
	y.spec.Run++ // the new number tells the packets of this round from the packets of other rounds
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

// maxWeight returns the factor by which begin raises the number of packets of a round. If all pairs
// send equally many packets, maxWeight returns 1.
func maxWeight(pairs []traffic.Pair) uint32 {
	for _, p := range pairs {
		if p.Weight > 1 {
			return 4 // a pair with a small weight also gets enough packets to send until the end of the round
		}
	}
	return 1
}

// observe adds the reports of chips to the tally. The chips make their reports at different times.
// Therefore a source's report may count a packet as ended before the destination's report counts
// the packet as delivered. To count lost packets, observe compares the destination's report with
// the source's report of the previous sample.
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

// quiet reports whether each source knows the fate of all packets that the source sent. quiet ignores
// the excused chips.
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

// finished reports whether all chips have sent all their packets. finished ignores the
// excused chips.
func (y *tally) finished() bool {
	for n := range y.expected {
		if !y.excused[n] && !y.last[n].Finished {
			return false
		}
	}
	return true
}

// sum returns the counts and latencies of the present round. The parameter "over" says that the
// round has ended, so that every packet that was not delivered is lost.
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

// total returns the counts and latencies of all rounds. The parameter "over" says that the
// present round has ended.
func (y *tally) total(over bool) (counts, traffic.Histogram) {
	c, h := y.sum(over)
	c.add(y.ended)
	h.Merge(&y.latency)
	return c, h
}

// end adds the counts and latencies of the present round to those of the earlier rounds.
func (y *tally) end() {
	c, h := y.sum(true)
	c.open = 0
	y.ended.add(c)
	y.latency.Merge(&h)
	copy(y.before, y.now)
	y.last = map[wire.FabricNodeID]traffic.Report{}
}
