package flow

import (
	"slices"

	"ttfabric/wire"
)

// Ends counts how a chip's requests to one other chip have ended since the chip started,
// over all planes. A multicast counts at each member. Ends counts neither the probes of
// stalled flows nor requests of the chip to itself without Via.
type Ends struct {
	Dst   wire.FabricNodeID `json:"chip"`  // destination of the requests
	Fates [4]uint64         `json:"fates"` // number of ended requests by Fate: done, refused, lost, outcome unknown
	Open  int               `json:"open"`  // number of requests whose fate is not known yet
}

// Ends returns one [Ends] for each chip that the source has sent a request to, in the
// order of the chips.
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
				for k := range f.reads.ops {
					if o := &f.reads.ops[k]; !o.probe && !o.settled() {
						e.Open++
					}
				}
			}
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

// Moment holds the counts of how a chip's requests had ended at one moment.
// [Moment.Since] compares two moments.
type Moment struct {
	Chip        wire.FabricNodeID `json:"chip"`        // source of the requests
	Incarnation wire.Incarnation  `json:"incarnation"` // incarnation of Chip
	Ends        []Ends            `json:"ends"`        // counts, by destination
}

// Moment returns the present counts of the source's requests.
func (s *Source) Moment() Moment { return Moment{s.cfg.Self, s.cfg.Incarnation, s.Ends()} }

// Since counts the requests that ended between the moment "before" and the moment m, and
// the requests that are open at m. If "before" is of another chip or another incarnation
// of the chip, Since subtracts nothing.
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
