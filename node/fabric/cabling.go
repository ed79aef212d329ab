package fabric

import (
	"fmt"
	"slices"

	"ttfabric/node/admin/api"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// CableEnds is one cable of a [Cabling].
type CableEnds struct {
	A      string `json:"a"`                // port at one end, such as M0D3/8
	B      string `json:"b"`                // port at the other end
	Reason string `json:"reason,omitempty"` // why the cable is not live; absent for a live cable

	a, b wire.PortID
}

// Cabling is the live cabling of a fabric, as the training of the links found the cables, beside
// the declared cabling.
type Cabling struct {
	Declared   int                 `json:"declared"`    // number of declared cables that the chips bring up
	Live       []CableEnds         `json:"live"`        // cables that training found, declared or not
	Missing    []CableEnds         `json:"missing"`     // declared cables that are not live
	Found      []CableEnds         `json:"found"`       // live cables that are not declared
	Idle       int                 `json:"idle"`        // number of declared cables that the chips do not bring up, because no route needs these cables
	NotRunning []wire.FabricNodeID `json:"not_running"` // chips that do not run
	NoAnswer   []wire.FabricNodeID `json:"no_answer"`   // chips that run and do not answer

	chips, declared *topo.Topology // the topologies with the chips of the live cables, and with the chips of the missing cables
}

// CablingOf returns the live cabling of a fabric. The topology t is that of the fabric, and the
// topology "declared" has the cables that should exist. The chips in "missing" do not run, and the
// chips in "silent" do not answer. The chips' reports in "views" say what training found:
//
//   - A cable is live if both ends report that the link is up, and that the link's own cable
//     carries its frames. If one end does not answer, the report of the other end is enough.
//   - If the hello of another port comes in at a port whose link is not up, these two ports have a
//     live cable. CablingOf leaves out this cable if the other port reports a live cable to a third
//     port, or if the topology has no cable at the other port.
func CablingOf(t, declared *topo.Topology, views []api.ChipView, missing, silent []wire.FabricNodeID) *Cabling {
	c := &Cabling{Live: []CableEnds{}, Missing: []CableEnds{}, Found: []CableEnds{}, chips: t, declared: declared,
		NotRunning: append([]wire.FabricNodeID{}, missing...), NoAnswer: append([]wire.FabricNodeID{}, silent...)}
	ends := endsOf(views)
	live := trained(t, ends, missing)
	is := map[[2]wire.PortID]bool{}
	for _, e := range live {
		is[e] = true
		c.Live = append(c.Live, CableEnds{A: e[0].Short(), B: e[1].Short(), a: e[0], b: e[1]})
	}
	quiet := Quiet(missing, silent)
	expected := map[[2]wire.PortID]bool{}
	for _, d := range declared.Cables {
		key := [2]wire.PortID{d.A, d.B}
		expected[key] = true
		switch {
		case d.Unused && !is[key]:
			c.Idle++
			continue
		case !is[key]:
			c.Missing = append(c.Missing, CableEnds{A: d.A.Short(), B: d.B.Short(), Reason: downed(d, d.A, d.B, d.Dir, ends, quiet).Reason, a: d.A, b: d.B})
		}
		c.Declared++
	}
	for _, e := range c.Live {
		if !expected[[2]wire.PortID{e.a, e.b}] {
			c.Found = append(c.Found, e)
		}
	}
	return c
}

// Quiet says for each chip without a report why the report is missing, for [DiffLinks].
func Quiet(missing, silent []wire.FabricNodeID) map[wire.FabricNodeID]string {
	quiet := map[wire.FabricNodeID]string{}
	for _, n := range missing {
		quiet[n] = "is not running"
	}
	for _, n := range silent {
		quiet[n] = "does not answer"
	}
	return quiet
}

// endsOf returns the link ends in the chips' reports, by their ports.
func endsOf(views []api.ChipView) map[wire.PortID]api.LinkView {
	ends := map[wire.PortID]api.LinkView{}
	for _, v := range views {
		for _, l := range v.Links {
			ends[wire.PortID{Node: v.Chip, Channel: l.Channel}] = l
		}
	}
	return ends
}

// trained returns the live cables, sorted by their lower ends. No port has two of these cables. The
// chips in "missing" do not run.
func trained(t *topo.Topology, ends map[wire.PortID]api.LinkView, missing []wire.FabricNodeID) (live [][2]wire.PortID) {
	var sure, perhaps [][2]wire.PortID
	add := func(list *[][2]wire.PortID, p, q wire.PortID) {
		if q.Less(p) {
			p, q = q, p
		}
		*list = append(*list, [2]wire.PortID{p, q})
	}
	for p, l := range ends {
		q, up := farEnd(&l)
		other, told := ends[q]
		back, otherUp := farEnd(&other)
		switch {
		case slices.Contains(missing, q.Node):
		case up && (!told || otherUp && back == p):
			add(&sure, p, q)
		case !up && q != (wire.PortID{Node: l.Peer, Channel: l.PeerChan}) && q != p && hasCable(t, q):
			if told && !otherUp && back == p { // both ends found each other
				add(&sure, p, q)
			} else {
				add(&perhaps, p, q)
			}
		}
	}
	taken := map[wire.PortID]bool{}
	for _, list := range [][][2]wire.PortID{sure, perhaps} {
		slices.SortFunc(list, comparePairs)
		for _, e := range slices.Compact(list) {
			if !taken[e[0]] && !taken[e[1]] {
				taken[e[0]], taken[e[1]] = true, true
				live = append(live, e)
			}
		}
	}
	slices.SortFunc(live, comparePairs)
	return live
}

// farEnd returns the port at the other end of a cable, as the link end l found this port. The
// result "up" says whether the link is up by its own cable.
func farEnd(l *api.LinkView) (q wire.PortID, up bool) {
	q = wire.PortID{Node: l.Peer, Channel: l.PeerChan}
	if l.FoundChip != nil && l.FoundChan != nil {
		q = wire.PortID{Node: *l.FoundChip, Channel: *l.FoundChan}
	}
	return q, l.State == "up" && l.By == nil
}

// hasCable reports whether the topology has a cable at port p.
func hasCable(t *topo.Topology, p wire.PortID) bool {
	return slices.ContainsFunc(t.Ports(p.Node), func(q topo.Port) bool { return q.Local == p })
}

func comparePairs(x, y [2]wire.PortID) int {
	for i := range x {
		switch {
		case x[i].Less(y[i]):
			return -1
		case y[i].Less(x[i]):
			return 1
		}
	}
	return 0
}

// String summarises the cabling in one sentence.
func (c *Cabling) String() string {
	s := fmt.Sprintf("%d of %s are live", c.Declared-len(c.Missing), topo.Count(c.Declared, "declared cable"))
	if len(c.Found) > 0 {
		s += "; training also found " + topo.Count(len(c.Found), "cable") + " that the topology does not declare"
	}
	return s
}

// Parts of a [Cabling] that [Cabling.Encode] can write.
const (
	LiveCables    = "live"
	MissingCables = "missing"
	FoundCables   = "found"
)

// Encode writes a part of the cabling as a cluster descriptor of tt-umd, with the chips of one mesh:
// LiveCables, MissingCables or FoundCables. The live cabling leaves out chips that do not run.
// A missing cable has a comment with the reason.
func (c *Cabling) Encode(part string, mesh wire.MeshID) ([]byte, error) {
	t, list, what := c.chips, c.Live, "Live cabling of %s, as training found the cables."
	var without []wire.FabricNodeID
	switch part {
	case LiveCables:
		without = c.NotRunning
	case MissingCables:
		t, list, what = c.declared, c.Missing, "Declared cables of %s that are not live."
	case FoundCables:
		list, what = c.Found, "Live cables of %s that are not declared."
	}
	var cables []topo.FoundCable
	for _, e := range list {
		cables = append(cables, topo.FoundCable{A: e.a, B: e.b, Note: e.Reason})
	}
	about := []string{fmt.Sprintf(what, t.Name), c.String() + "."}
	if c.Idle > 0 {
		about = append(about, fmt.Sprintf("The chips do not bring up %s that no route needs; this file leaves them out.", topo.Count(c.Idle, "declared cable")))
	}
	if len(without) > 0 {
		about = append(about, fmt.Sprintf("%s not running; this file leaves out such a chip, unless a live cable leads to the chip.", isOrAre(without)))
	}
	return t.EncodeCabling(mesh, about, cables, without)
}

// isOrAre returns a sentence's subject and verb for some chips.
func isOrAre(chips []wire.FabricNodeID) string {
	if len(chips) == 1 {
		return fmt.Sprintf("%s is", chips[0])
	}
	return topo.Count(len(chips), "chip") + " are"
}
