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

// Hop is one hop of a packet, as planned and as seen by the chips. If no hop was
// planned, From, Dir, To and VC are empty. If no chip saw the hop, Seen is empty.
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

// Verdict returns in words whether the planned hop and the packet's hop agree.
func (h *Hop) Verdict() string {
	switch {
	case h.Agrees:
		return "as planned"
	case h.Seen == "":
		return "not seen"
	}
	return "another route"
}

// Route names a route along which packets are traced.
type Route struct {
	Src, Dst wire.FabricNodeID
	Plane    wire.Plane
	Other    bool // take the other of two equally long routes round a ring: see session.OtherWay
}

// NoRouteError says that the tables have no route between two chips.
type NoRouteError struct{ Route }

// Error names the chips and the plane, and the command that lists the routes.
func (e *NoRouteError) Error() string {
	return fmt.Sprintf("there is no route from %s to %s on plane %d; 'ttfabric routes' shows the routes that exist", e.Src, e.Dst, e.Plane)
}

// Hops returns the hops of a route by plan p. The error is a [NoRouteError] if the plan has no such route.
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

// sighting is the arrival of a traced packet at one chip.
type sighting struct {
	at wire.FabricNodeID
	api.SightingView
}

// sightings asks all chips for the traced packets from r.Src to r.Dst. sightings
// returns an error if a chip does not answer, because a packet may have come to that
// chip.
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

// Tracer sends traced packets, one after the other. Each chip on the route of a traced
// packet records the packet.
type Tracer struct {
	cs      []*api.Client
	from    *session.Session
	route   Route
	opts    []session.Option // options of each packet
	timeout time.Duration
	before  []sighting
}

// Trace begins to trace packets along a route. The parameter "timeout" is the longest
// time to wait for the answer to a packet. The error is a [NotRunningError] if the
// source does not run.
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

// Packet sends one packet, and returns the planned hops together with the hops that
// chips saw. The result "sent" is the error of a packet without an answer. The result
// "err" is an error of a call to a chip.
func (t *Tracer) Packet(ctx context.Context, plan []Hop) (hops []Hop, rtt time.Duration, sent, err error) {
	one, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	rtt, sent = t.from.Ping(one, t.route.Dst, t.opts...)
	after, err := sightings(ctx, t.cs, t.route)
	hops = beside(slices.Clone(plan), newOnes(t.before, after))
	t.before = after
	return hops, rtt, sent, err
}

// newOnes returns the sightings of the first packet in the list "after" that is not in
// the list "before". The sightings are in the order of the packet's hops, because each
// hop decrements the packet's TTL.
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

// beside adds the sightings of a packet to the packet's planned hops, hop by hop.
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
