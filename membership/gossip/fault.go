package gossip

import (
	"maps"

	"ttfabric/membership"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// Impair injects the faults of a bad network into the packets that the pool sends, from the next
// packet on. The zero Options end the impairment. If packets are delayed and lost, streams are
// delayed and slowed down, as TCP streams are. Impair never damages streams. A seed restarts the
// random numbers. The error names the option that is out of range.
func (p *Pool) Impair(o fault.Options, seed *uint64) error { return p.net.impair(o, seed) }

// Cut cuts the pool's network. If alone is true, Cut cuts everything in both directions. Otherwise
// Cut cuts the network towards the chips in apart. Either side may open a stream. The caller must
// therefore tell the chips in apart to cut their network towards this chip too. A call replaces the
// previous cut.
func (p *Pool) Cut(alone bool, apart map[wire.FabricNodeID]bool) { p.net.cut(alone, apart) }

// FaultCounts returns the counts of faults injected into packets and pieces of streams since the
// start.
func (p *Pool) FaultCounts() fault.Counts { return p.net.counts() }

// Status returns the state of the pool.
func (p *Pool) Status() []membership.PoolStatus {
	s := membership.PoolStatus{Label: p.cfg.Label, Addr: p.addr.String(), Seen: len(p.View()), Expected: p.cfg.Expect}
	p.mu.Lock()
	s.Unreadable, s.Refused = p.unreadable, p.refused
	p.mu.Unlock()
	s.Version = p.net.version.Load()
	if p.cfg.Keys != nil {
		s.Keys = p.cfg.Keys.List()
	}
	return []membership.PoolStatus{s}
}

// Impair calls [Pool.Impair] for both pools.
func (p *Pools) Impair(o fault.Options, seed *uint64) error {
	if err := p.mesh.Impair(o, seed); err != nil {
		return err
	}
	return p.exits.Impair(o, seed)
}

// Cut calls [Pool.Cut] for both pools.
func (p *Pools) Cut(alone bool, apart map[wire.FabricNodeID]bool) {
	p.mesh.Cut(alone, maps.Clone(apart))
	p.exits.Cut(alone, apart)
}

// FaultCounts returns the sum of both pools' counts.
func (p *Pools) FaultCounts() fault.Counts {
	a, b := p.mesh.FaultCounts(), p.exits.FaultCounts()
	return fault.Counts{Passed: a.Passed + b.Passed, Lost: a.Lost + b.Lost, BurstLost: a.BurstLost + b.BurstLost, CutOff: a.CutOff + b.CutOff,
		Overflowed: a.Overflowed + b.Overflowed, Duplicated: a.Duplicated + b.Duplicated, Reordered: a.Reordered + b.Reordered, Corrupted: a.Corrupted + b.Corrupted}
}

// Status returns the state of both pools.
func (p *Pools) Status() []membership.PoolStatus { return append(p.mesh.Status(), p.exits.Status()...) }
