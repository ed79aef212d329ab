package gossip

import (
	"maps"

	"ttfabric/membership"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// Impair injects faults into the packets and streams that the pool sends from now on. The zero
// Options end the impairment. The faults delay streams like packets. An injected loss slows a
// stream down, because a stream sends lost data again. The faults never damage the data of streams.
// If seed is not nil, the sequence of random numbers starts again from seed. The error names the
// option that is out of range.
func (p *Pool) Impair(o fault.Options, seed *uint64) error { return p.net.impair(o, seed) }

// Cut cuts this chip's gossip off from other chips. If "alone" is true, no gossip passes in either
// direction. Otherwise the pool sends no gossip to the chips in the set "apart", and drops packets
// from these chips. A chip in the set can still open a stream to this chip. The caller must
// therefore cut each chip in the set off from this chip too. Each call replaces the previous cut.
func (p *Pool) Cut(alone bool, apart map[wire.FabricNodeID]bool) { p.net.cut(alone, apart) }

// FaultCounts returns how many faults of each kind the pool has injected into packets and pieces of
// streams since its start.
func (p *Pool) FaultCounts() fault.Counts { return p.net.counts() }

// Status returns the state of the pool, as a list of one element.
func (p *Pool) Status() []membership.PoolStatus {
	s := membership.PoolStatus{Label: p.cfg.Label, Addr: p.addr.String(), Seen: p.seen(), Expected: p.cfg.Expect}
	p.mu.Lock()
	s.Unreadable, s.Refused = p.refusals.unreadable, p.refusals.claims
	p.mu.Unlock()
	s.Refused += p.net.dropped.long.Load()
	s.Version = p.net.dropped.version.Load()
	if p.cfg.Keys != nil {
		s.Keys = p.cfg.Keys.List()
	}
	return []membership.PoolStatus{s}
}

// Impair calls [Pool.Impair] for both pools. If the mesh's pool returns an error, Impair does not
// change the other pool.
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

// FaultCounts returns the sums of the counts of both pools.
func (p *Pools) FaultCounts() fault.Counts {
	a, b := p.mesh.FaultCounts(), p.exits.FaultCounts()
	return fault.Counts{Passed: a.Passed + b.Passed, Lost: a.Lost + b.Lost, BurstLost: a.BurstLost + b.BurstLost, CutOff: a.CutOff + b.CutOff,
		Overflowed: a.Overflowed + b.Overflowed, Duplicated: a.Duplicated + b.Duplicated, Reordered: a.Reordered + b.Reordered, Corrupted: a.Corrupted + b.Corrupted}
}

// Status returns the states of both pools, the mesh's pool first.
func (p *Pools) Status() []membership.PoolStatus { return append(p.mesh.Status(), p.exits.Status()...) }
