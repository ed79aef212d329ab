package fabric

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/session"
	"ttfabric/router/route"
	"ttfabric/wire"
)

// Hop is one hop of a packet, as planned and as it was seen. One that
// was not planned has no From, Dir, To and VC; one that was not seen has no Seen.
type Hop struct {
	Number   int    `json:"hop"`
	From     string `json:"from,omitempty"`
	Dir      string `json:"direction,omitempty"`
	To       string `json:"to,omitempty"`
	VC       string `json:"vc,omitempty"`
	Seen     string `json:"seen_at,omitempty"` // chip and channel where the packet came in
	SeenVC   string `json:"seen_vc,omitempty"`
	SeenTTL  int    `json:"seen_ttl"`
	Agrees   bool   `json:"agrees"`
	Crossing bool   `json:"leaves_mesh,omitempty"`
}

// Verdict says in words whether plan and packet agree.
func (h *Hop) Verdict() string {
	switch {
	case h.Agrees:
		return "as planned"
	case h.Seen == "":
		return "not seen"
	}
	return "another way"
}

// Route is what a packet is traced along.
type Route struct {
	Src, Dst wire.FabricNodeID
	Plane    wire.Plane
	Other    bool // round a ring of even length, the other way: see session.OtherWay
}

// NoRouteError says that the tables have no route between two chips.
type NoRouteError struct{ Route }

// Error names the chips and the plane.
func (e *NoRouteError) Error() string {
	return fmt.Sprintf("there is no way from %s to %s on plane %d", e.Src, e.Dst, e.Plane)
}

// Hops are the hops of a route by a plan.
func (r Route) Hops(p *route.Plan) ([]Hop, error) {
	if r.Other {
		p = p.Other()
	}
	walk, ok := p.Walk(wire.ClassRequest, r.Plane, r.Src, r.Dst)
	if !ok {
		return nil, &NoRouteError{r}
	}
	return plannedHops(walk), nil
}

func plannedHops(walk []route.Hop) []Hop {
	hops := []Hop{}
	for i, h := range walk {
		hops = append(hops, Hop{Number: i + 1, From: h.At.String(), Dir: h.Dir.String(), To: h.To.String(), VC: h.VC.String(), Crossing: h.At.Mesh != h.To.Mesh})
	}
	return hops
}

// sighting is a packet as it came to a chip.
type sighting struct {
	at wire.FabricNodeID
	api.SightingView
}

// sightings asks all chips for the traced packets along a route. It fails where a chip does not answer: the packet may have been there.
func sightings(ctx context.Context, cs []*api.Client, r Route) (out []sighting, err error) {
	var errs []error
	for _, a := range Each(ctx, cs, AskTime, func(ctx context.Context, c *api.Client) ([]api.SightingView, error) { return c.Traces(ctx) }) {
		errs = append(errs, a.Err)
		for _, s := range a.Value {
			if s.Src == r.Src && s.Dst == r.Dst && s.Plane == r.Plane {
				out = append(out, sighting{a.Chip, s})
			}
		}
	}
	return out, errors.Join(errs...)
}

// Tracer sends packets that are noted on their way, one after the other.
type Tracer struct {
	cs      []*api.Client
	from    *session.Session
	route   Route
	opts    []session.Option // of each packet
	timeout time.Duration
	before  []sighting
}

// Trace begins to trace packets along a route; timeout is for each packet's answer.
func (f *Fabric) Trace(ctx context.Context, r Route, timeout time.Duration) (*Tracer, error) {
	cs, _, err := f.Clients()
	if err != nil {
		return nil, err
	}
	from := slices.IndexFunc(cs, func(cl *api.Client) bool { return cl.Self() == r.Src })
	if from < 0 {
		return nil, &NotRunningError{r.Src}
	}
	t := &Tracer{cs: cs, from: session.New(cs[from]), route: r, timeout: timeout,
		opts: []session.Option{session.OnPlane(r.Plane), session.Traced()}}
	if r.Other {
		t.opts = append(t.opts, session.OtherWay())
	}
	t.before, err = sightings(ctx, cs, r)
	return t, err
}

// Packet sends one packet, and puts what chips saw of the packet beside the plan. sent is why the packet was not answered.
func (t *Tracer) Packet(ctx context.Context, plan []Hop) (hops []Hop, rtt time.Duration, sent, err error) {
	one, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	rtt, sent = t.from.Ping(one, t.route.Dst, t.opts...)
	after, err := sightings(ctx, t.cs, t.route)
	hops = beside(slices.Clone(plan), newOnes(t.before, after))
	t.before = after
	return hops, rtt, sent, err
}

// newOnes are the sightings of one packet that was not there before, in the
// order of its hops: each takes one of its time to live.
func newOnes(before, after []sighting) (out []sighting) {
	old := map[string]bool{}
	for _, s := range before {
		old[s.ID] = true
	}
	for _, s := range after {
		if !old[s.ID] && (len(out) == 0 || s.ID == out[0].ID) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b sighting) int { return cmp.Compare(b.TTL, a.TTL) })
	return out
}

// beside puts what was seen of a packet beside its plan, hop by hop.
func beside(hops []Hop, seen []sighting) []Hop {
	for i, s := range seen {
		if i == len(hops) {
			hops = append(hops, Hop{Number: i + 1})
		}
		h := &hops[i]
		h.Seen, h.SeenVC, h.SeenTTL = fmt.Sprintf("%s channel %d", s.at, s.Channel), s.VC, int(s.TTL)
		h.Agrees = h.To == s.at.String() && h.VC == s.VC
	}
	return hops
}
