package chip

import (
	"cmp"
	"slices"

	"ttfabric/wire"
)

// Ends are how this chip's requests to one chip have ended since its start,
// over all planes; of a multicast, at this member. The chip's own probes are not
// counted, nor what it asks of itself.
type Ends struct {
	Dst   wire.FabricNodeID `json:"chip"`
	Fates [4]uint64         `json:"fates"` // by Fate: done, refused, lost, outcome unknown
	Open  int               `json:"open"`  // whose fate is not known yet
}

// Ends lists them by destination, for each that there has been a request to.
func (c *Chip) Ends() []Ends {
	by := map[wire.FabricNodeID]*Ends{}
	at := func(n wire.FabricNodeID) *Ends {
		e := by[n]
		if e == nil {
			e = &Ends{Dst: n}
			by[n] = e
		}
		return e
	}
	for _, f := range c.outOrder {
		at(f.key.node).add(f.fates)
		for _, o := range f.openOps() {
			if !o.settled && !o.probe {
				at(f.key.node).Open++
			}
		}
	}
	for _, ref := range c.reads {
		if !ref.openIn() {
			at(ref.flow.key.node).Open++
		}
	}
	for _, g := range c.groups.list {
		for _, m := range g.members {
			at(m.node).add(m.fates)
			for _, o := range g.openOps() {
				if !o.probe && o.open.has(m.node.Chip) {
					at(m.node).Open++
				}
			}
		}
	}
	for n, fates := range c.groups.past {
		at(n).add(fates)
	}
	out := []Ends{}
	for _, e := range by {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b Ends) int {
		return cmp.Or(cmp.Compare(a.Dst.Mesh, b.Dst.Mesh), cmp.Compare(a.Dst.Chip, b.Dst.Chip))
	})
	return out
}

func (e *Ends) add(fates [4]uint64) {
	for i, n := range fates {
		e.Fates[i] += n
	}
}

// bury keeps the counts of a group whose number goes to another one.
func (gs *groups) bury(g *outGroup) {
	if gs.past == nil {
		gs.past = map[wire.FabricNodeID][4]uint64{}
	}
	for _, m := range g.members {
		e := Ends{Fates: gs.past[m.node]}
		e.add(m.fates)
		gs.past[m.node] = e.Fates
	}
}

// Moment is how this chip's requests have ended up to now, for [Moment.Since].
type Moment struct {
	Chip        wire.FabricNodeID `json:"chip"`
	Incarnation wire.Incarnation  `json:"incarnation"` // the counts are of this life
	Ends        []Ends            `json:"ends"`        // by destination
}

// Moment returns the present one.
func (c *Chip) Moment() Moment { return Moment{c.cfg.Node, c.cfg.Incarnation, c.Ends()} }

// Since is what has come to m since an earlier moment of the chip: the ends in
// between, and what is open now. Of another life of the chip than m's nothing is subtracted.
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
