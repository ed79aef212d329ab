package gossip

import (
	"maps"

	"ttfabric/membership"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// Impair does on purpose to what the pool sends what a bad network would, from
// the next packet on; the zero Options nothing. Streams are late and slow where
// packets are late and lost, as TCP's are, and never damaged. A seed throws the
// dice anew. The error names the option that is out of range.
func (p *Pool) Impair(o fault.Options, seed *uint64) error { return p.net.impair(o, seed) }

// Cut takes the pool's network away: with alone all of it, in both directions,
// else towards the chips named in apart, who are to be told the same of this
// one, as nobody knows who opens a stream. It replaces what was cut before.
func (p *Pool) Cut(alone bool, apart map[wire.FabricNodeID]bool) { p.net.cut(alone, apart) }

// FaultCounts says what was done to packets and pieces of streams since the start.
func (p *Pool) FaultCounts() fault.Counts { return p.net.counts() }

// Status returns how the pool fares.
func (p *Pool) Status() []membership.PoolStatus {
	s := membership.PoolStatus{Label: p.cfg.Label, Addr: p.addr.String(), Seen: len(p.View()), Expected: p.cfg.Expect}
	p.mu.Lock()
	s.Unreadable = p.unreadable
	p.mu.Unlock()
	if p.cfg.Keys != nil {
		s.Keys = p.cfg.Keys.List()
	}
	return []membership.PoolStatus{s}
}

// Impair does so to both pools.
func (p *Pools) Impair(o fault.Options, seed *uint64) error {
	if err := p.mesh.Impair(o, seed); err != nil {
		return err
	}
	return p.exits.Impair(o, seed)
}

// Cut does so to both pools.
func (p *Pools) Cut(alone bool, apart map[wire.FabricNodeID]bool) {
	p.mesh.Cut(alone, maps.Clone(apart))
	p.exits.Cut(alone, apart)
}

// FaultCounts is the sum of both pools'.
func (p *Pools) FaultCounts() fault.Counts {
	a, b := p.mesh.FaultCounts(), p.exits.FaultCounts()
	return fault.Counts{Passed: a.Passed + b.Passed, Lost: a.Lost + b.Lost, BurstLost: a.BurstLost + b.BurstLost, CutOff: a.CutOff + b.CutOff,
		Overflowed: a.Overflowed + b.Overflowed, Duplicated: a.Duplicated + b.Duplicated, Reordered: a.Reordered + b.Reordered, Corrupted: a.Corrupted + b.Corrupted}
}

// Status returns how both pools fare.
func (p *Pools) Status() []membership.PoolStatus { return append(p.mesh.Status(), p.exits.Status()...) }
