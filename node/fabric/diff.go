package fabric

import (
	"fmt"
	"slices"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/router/topo"
	"ttfabric/router/topo/health"
	"ttfabric/wire"
)

// DownedLink is one direction of a cable that should exist and is not up. The
// downed-links report of tt-metal #52859 has the same columns.
type DownedLink struct {
	Src        wire.FabricNodeID `json:"src"`              // source: the chip at one end of the cable
	SrcChannel wire.Channel      `json:"src_channel"`      // ethernet channel at the source
	Dst        wire.FabricNodeID `json:"dst"`              // chip at the other end
	DstChannel wire.Channel      `json:"dst_channel"`      // ethernet channel at the other end
	Direction  string            `json:"direction"`        // direction in which dst lies, seen from src
	Plane      wire.Plane        `json:"plane"`            // routing plane of the cable
	Scope      string            `json:"scope"`            // "intra-mesh" or "inter-mesh"
	Reason     string            `json:"reason"`           // reason why the cable is not up, as the source sees it
	SinceS     *float64          `json:"since_seconds"`    // time for which the cable has carried no frames; null if the source does not know, or does not answer
	By         *wire.Channel     `json:"by_channel"`       // channel whose cable carries the link's frames meanwhile; null: no other cable carries the frames
	Retrains   int               `json:"retrains"`         // number of retrains of the source's end in the source's present incarnation
	DowntimeS  float64           `json:"downtime_seconds"` // time for which the source's end was down since this end first came up in the source's present incarnation
}

// LinkDiff is the result of comparing the declared cables with the cables that are up.
type LinkDiff struct {
	Declared int                    `json:"declared"`      // number of cables that routes use
	Up       int                    `json:"up"`            // number of these cables that are up
	Downed   []DownedLink           `json:"downed"`        // both directions of each missing cable that the fabric needs
	Unused   []DownedLink           `json:"unused_downed"` // both directions of each missing cable that the fabric does not need
	Planes   []topo.DirectionHealth `json:"directions"`    // numbers of cables by chip and direction: declared, live and missing ones
}

// DiffLinks compares the cables of topology t with the link ends that the chips report in views. A
// cable is up if its two ends report that they are up, in service, and have each other as peers.
// Both ends must also send their frames by this cable. The topology "expected" has the cables that
// should exist: either t, or the topology that --expected names. DiffLinks leaves out the cables of
// "expected" that a downshift of this topology leaves unused. For each chip without a report,
// the map "quiet" says why the report is missing; see [Quiet].
func DiffLinks(t, expected *topo.Topology, views []api.ChipView, quiet map[wire.FabricNodeID]string) LinkDiff {
	ends := endsOf(views)
	d := LinkDiff{Downed: []DownedLink{}, Unused: []DownedLink{}}
	h := health.Diagnose(t, inUse(expected), func(c topo.Cable) bool { return carries(ends[c.A], c.B) && carries(ends[c.B], c.A) })
	d.Planes = h.Directions
	idle := map[wire.PortID]string{} // why a downshift of the fabric leaves a cable unused, by the lower end of the cable
	for _, c := range t.Cables {
		if c.Unused {
			idle[c.A] = t.Idle(c)
			continue
		}
		d.Declared++
		if carries(ends[c.A], c.B) && carries(ends[c.B], c.A) {
			d.Up++
		}
	}
	both := func(cs []topo.Cable) (out []DownedLink) {
		out = []DownedLink{}
		for _, c := range cs {
			a, b := downed(c, c.A, c.B, c.Dir, ends, quiet), downed(c, c.B, c.A, c.Back, ends, quiet)
			if why := idle[c.A]; why != "" {
				a.Reason, b.Reason = "not brought up: "+why, "not brought up: "+why
			}
			out = append(out, a, b)
		}
		return out
	}
	d.Downed, d.Unused = both(h.Downed), both(h.Unused)
	return d
}

// inUse returns the topology without the cables that a downshift leaves unused.
func inUse(t *topo.Topology) *topo.Topology {
	u := *t
	u.Cables = slices.DeleteFunc(slices.Clone(t.Cables), func(c topo.Cable) bool { return t.Idle(c) != "" })
	return &u
}

// carries reports whether a link end is up, has the given peer, sends frames by the
// end's own cable, and is in service.
func carries(l api.LinkView, peer wire.PortID) bool {
	return l.State == "up" && l.By == nil && !l.Avoided && l.Peer == peer.Node && l.PeerChan == peer.Channel
}

// downed describes the direction of cable c from src to dst, which is not up. The map "ends" holds
// the link ends that the chips reported, and quiet is as for [DiffLinks].
func downed(c topo.Cable, src, dst wire.PortID, dir wire.Direction, ends map[wire.PortID]api.LinkView, quiet map[wire.FabricNodeID]string) DownedLink {
	d := DownedLink{Src: src.Node, SrcChannel: src.Channel, Dst: dst.Node, DstChannel: dst.Channel, Direction: dir.String(), Plane: c.Plane, Scope: "intra-mesh"}
	if c.External() {
		d.Scope = "inter-mesh"
	}
	l, told := ends[src]
	if told && l.Peer == dst.Node && l.PeerChan == dst.Channel {
		d.By, d.Retrains, d.DowntimeS = l.By, l.Retrains, l.DowntimeS
		switch {
		case l.OwnDownS != nil:
			d.SinceS = l.OwnDownS
		case l.State != "up":
			d.SinceS = &l.SinceS
		}
	}
	switch {
	case !told && quiet[src.Node] != "":
		d.Reason = fmt.Sprintf("%s %s", src.Node, quiet[src.Node])
	case !told && c.Unused:
		d.Reason = "not brought up: the mesh has fewer planes than cables here"
	case !told:
		d.Reason = "no such port at " + src.Node.String() // the chip was started with other cables
	case l.Peer != dst.Node || l.PeerChan != dst.Channel:
		d.Reason = fmt.Sprintf("the fabric was brought up with a cable to %s/%d there", l.Peer, l.PeerChan)
	case quiet[dst.Node] != "":
		d.Reason = fmt.Sprintf("%s %s", dst.Node, quiet[dst.Node])
	case l.Miswired != "":
		d.Reason = "miswired: found " + l.Miswired
	case l.Held:
		why := fmt.Sprintf("after %d failures", l.Flaps)
		if l.Unreliable {
			why = fmt.Sprintf("because %d %% of its frames were sent again and %d %% came damaged", l.ResentPct, l.DamagedPct)
		}
		d.Reason = fmt.Sprintf("held down for %s more %s", time.Duration(l.HeldForS*float64(time.Second)).Round(time.Second), why)
	case l.Avoided:
		d.Reason = "an operator took the cable out of service"
	case l.By != nil:
		d.Reason = "this cable does not carry frames"
	case l.State == "up" && ends[dst].By != nil:
		d.Reason = "up here, but the other end sends its frames by another cable"
	case l.State == "up":
		d.Reason = "up here, but not at the other end"
	case l.Retrains == 0 && l.LastDown == "none":
		d.Reason = "was never up"
	default:
		d.Reason = l.LastDown
	}
	return d
}
