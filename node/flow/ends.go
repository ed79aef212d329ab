package flow

import (
	"slices"

	"ttfabric/wire"
)

// Ends counts how a chip's requests to one chip have ended since the start, over
// all planes. A multicast counts at each member. The probes of stalled flows are
// not counted, nor are requests of the chip to itself.
type Ends struct {
	Dst   wire.FabricNodeID `json:"chip"`
	Fates [4]uint64         `json:"fates"` // by Fate: done, refused, lost, outcome unknown
	Open  int               `json:"open"`  // requests whose fate is not known yet
}

// Ends lists them by destination, for each chip that a request was sent to.
func (s *Source) Ends() []Ends {
	by := map[wire.FabricNodeID]*Ends{}
	at := func(n wire.FabricNodeID) *Ends {
		e := by[n]
		if e == nil {
			e = &Ends{Dst: n}
			by[n] = e
		}
		return e
	}
	for _, list := range [][]*outFlow{s.list, s.groups.list} {
		for _, f := range list {
			for i := range f.members {
				e := at(f.members[i].node)
				e.add(f.members[i].fates)
				for k := f.head; k < len(f.ops); k++ {
					if !f.ops[k].probe && f.waits(k, i) {
						e.Open++
					}
				}
			}
		}
	}
	for _, ref := range s.reads {
		if !ref.inWindow() {
			at(ref.flow.key.Node).Open++
		}
	}
	for n, fates := range s.groups.past {
		at(n).add(fates)
	}
	out := []Ends{}
	for _, e := range by {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b Ends) int { return compareNodes(a.Dst, b.Dst) })
	return out
}

func (e *Ends) add(fates [4]uint64) {
	for i, n := range fates {
		e.Fates[i] += n
	}
}

// Moment is how a chip's requests have ended up to now, for [Moment.Since].
type Moment struct {
	Chip        wire.FabricNodeID `json:"chip"`
	Incarnation wire.Incarnation  `json:"incarnation"` // of the chip that the counts are of
	Ends        []Ends            `json:"ends"`        // by destination
}

// Moment returns the present one.
func (s *Source) Moment() Moment { return Moment{s.cfg.Self, s.cfg.Incarnation, s.Ends()} }

// Since is what has changed up to m since an earlier moment: the ends in
// between, and the requests that are open at m. Of another chip, or another
// incarnation of the chip, nothing is subtracted.
func (m *Moment) Since(before *Moment) []Ends {
	out := slices.Clone(m.Ends)
	if m.Chip != before.Chip || m.Incarnation != before.Incarnation {
		return out
	}
	for i := range out {
		k := slices.IndexFunc(before.Ends, func(e Ends) bool { return e.Dst == out[i].Dst })
		if k < 0 {
			continue
		}
		for f, n := range before.Ends[k].Fates {
			out[i].Fates[f] -= min(n, out[i].Fates[f])
		}
	}
	return out
}
