package fabric

import (
	"context"
	"fmt"
	"slices"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/router/topo/pick"
	"ttfabric/wire"
)

// Fallback says which cable carries a link's frames, and which cable would carry them if the link's
// own cable failed now. If the two ends differ for a moment, the fields are those of the first end
// whose chip answers.
type Fallback struct {
	Link       string     `json:"link"`                // name of the link's own cable
	Plane      wire.Plane `json:"plane"`               // the link's routing plane
	CarriedBy  string     `json:"carried_by"`          // name of the cable that carries the frames: "own", another cable, or "none" if the link is not up
	Fallback   string     `json:"fallback"`            // name of the fallback cable; "none" if no parallel cable works
	Assigned   bool       `json:"assigned"`            // whether an operator assigned a fallback to the link
	Avoided    bool       `json:"out_of_service"`      // whether an operator took the cable out of service
	Unreliable bool       `json:"unreliable"`          // whether too many frames on the cable are sent again or come damaged
	Held       bool       `json:"held"`                // whether damping holds the cable
	NoAnswer   bool       `json:"no_answer,omitempty"` // whether no chip at the link answered; all other fields except Link and Plane are then empty
}

// Note returns what is special about the link, for people.
func (f *Fallback) Note() string {
	for _, n := range []struct {
		is   bool
		text string
	}{{f.NoAnswer, "no answer"}, {f.Avoided, "out of service"}, {f.Unreliable, "unreliable"}, {f.Held, "held"}, {f.Assigned, "assigned"}} {
		if n.is {
			return n.text
		}
	}
	return ""
}

// Fallbacks returns the fallbacks of links.
func (s *Chips) Fallbacks(ctx context.Context, links []topo.Link) []Fallback {
	views, _ := Ask(ctx, s.Clients())
	ends := map[wire.PortID]*api.LinkView{}
	for i := range views {
		for k := range views[i].Links {
			l := &views[i].Links[k]
			ends[wire.PortID{Node: views[i].Chip, Channel: l.Channel}] = l
		}
	}
	out := []Fallback{}
	for _, l := range links {
		f := Fallback{Link: l.String(), Plane: l.Plane}
		at, v := l.A, ends[l.A]
		if v == nil {
			at, v = l.B, ends[l.B]
		}
		if f.NoAnswer = v == nil; v != nil {
			f.CarriedBy, f.Fallback = "own", s.cableAt(at.Node, v.Fallback)
			f.Assigned, f.Avoided, f.Unreliable, f.Held = v.Assigned, v.Avoided, v.Unreliable, v.Held
			switch {
			case v.State != "up":
				f.CarriedBy = "none"
			case v.By != nil:
				f.CarriedBy = s.cableAt(at.Node, v.By)
			}
		}
		out = append(out, f)
	}
	return out
}

// cableAt returns the name of the cable at a chip's channel, or "none" if the channel is nil.
func (s *Chips) cableAt(n wire.FabricNodeID, ch *wire.Channel) string {
	if ch == nil {
		return "none"
	}
	if ls, err := pick.Links(s.Topology, []string{wire.PortID{Node: n, Channel: *ch}.Short()}); err == nil && len(ls) == 1 {
		return ls[0].String()
	}
	return fmt.Sprintf("%s/%d", n, *ch)
}

// AssignFallback makes the cable "by" the fallback of links, at both ends. The name "auto" lets the
// chips choose again. The error names a cable that is not parallel to a link. Of the chips at the
// links, the result "absent" lists those that do not run.
func (s *Chips) AssignFallback(ctx context.Context, links []topo.Link, by string) (absent []wire.FabricNodeID, err error) {
	to := map[wire.PortID]*wire.Channel{}
	if by != "auto" {
		others, err := pick.Links(s.Topology, []string{by})
		if err != nil {
			return nil, spec.AsUsage(err)
		}
		if len(others) != 1 {
			return nil, spec.Usagef("--by %s: the name stands for %s; want one cable, such as M0D0-M0D1/p1", by, topo.Count(len(others), "cable"))
		}
		for _, l := range links {
			for _, p := range []wire.PortID{l.A, l.B} {
				i := slices.IndexFunc([]wire.PortID{others[0].A, others[0].B}, func(q wire.PortID) bool {
					return q.Node == p.Node && q != p && direction(s.Topology, q) == direction(s.Topology, p)
				})
				if i < 0 {
					return nil, spec.Usagef("--by %s: the cable is not parallel to %s; 'ttfabric graph' shows the cables", by, l)
				}
				to[p] = &[]wire.PortID{others[0].A, others[0].B}[i].Channel
			}
		}
	}
	where, _ := spec.Ends(links, "both")
	return s.At(ctx, where, func(ctx context.Context, c *api.Client, chs []wire.Channel) error {
		for _, ch := range chs {
			if err := c.AssignFallback(ctx, ch, to[wire.PortID{Node: c.Self(), Channel: ch}]); err != nil {
				return err
			}
		}
		return nil
	})
}
