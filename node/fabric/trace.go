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

// Hop is one hop of a traced packet: the hop of the plan, and the arrival that a chip
// recorded. If the plan has no such hop, From, Dir, To and VC are empty. If no chip
// recorded an arrival, Seen is empty.
type Hop struct {
	Number   int    `json:"hop"`                   // number of the hop, from 1
	From     string `json:"from,omitempty"`        // planned chip from which the packet makes the hop
	Dir      string `json:"direction,omitempty"`   // planned direction
	To       string `json:"to,omitempty"`          // planned chip to which the packet makes the hop
	VC       string `json:"vc,omitempty"`          // planned virtual channel
	Seen     string `json:"seen_at,omitempty"`     // chip and channel at which the packet arrived
	SeenVC   string `json:"seen_vc,omitempty"`     // virtual channel on which the packet arrived
	SeenTTL  int    `json:"seen_ttl"`              // number of routers that could still forward the packet at its arrival; 0 if no chip recorded an arrival
	Agrees   bool   `json:"agrees"`                // whether the packet arrived at the chip To, on the virtual channel VC
	Crossing bool   `json:"leaves_mesh,omitempty"` // whether the planned hop leads to another mesh
}

// Verdict returns "as planned" if the recorded arrival is the planned one, "not seen" if no
// chip recorded an arrival, and otherwise "another route".
func (h *Hop) Verdict() string {
	switch {
	case h.Agrees:
		return "as planned"
	case h.Seen == "":
		return "not seen"
	}
	return "another route"
}

// Route names the route of the packets that a [Tracer] sends.
type Route struct {
	Src, Dst wire.FabricNodeID
	Plane    wire.Plane
	Other    bool // take the opposite of two equally long routes round a ring, see session.OtherWay
}

// NoRouteError says that a plan does not have the given route.
type NoRouteError struct{ Route }

// Error returns a text that names the two chips, the plane, and the command that lists the routes.
func (e *NoRouteError) Error() string {
	return fmt.Sprintf("there is no route from %s to %s on plane %d; 'ttfabric routes' shows the routes that exist", e.Src, e.Dst, e.Plane)
}

// Hops returns the hops of route r in plan p. If the plan has no such route, the error is a
// [NoRouteError].
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

// sighting is the record of a traced packet's arrival at one chip.
type sighting struct {
	at wire.FabricNodeID
	api.SightingView
}

// sightings asks all chips for their records of traced packets on route r. sightings
// returns an error if a chip does not answer, because the result may then lack a record.
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
	opts    []session.Option // options of each request
	timeout time.Duration
	before  []sighting // records that the chips had before the next packet
}

// Trace returns a [Tracer] for a route. The parameter "timeout" is the longest time to wait for the
// answer to a packet. If the source of the route does not run, the error is a [NotRunningError].
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

// Packet sends one packet, and returns the planned hops together with the arrivals that
// chips recorded. If the packet gets no answer, the result "sent" is an error. If a chip does
// not return its records, the result err is an error.
func (t *Tracer) Packet(ctx context.Context, plan []Hop) (hops []Hop, rtt time.Duration, sent, err error) {
	one, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	rtt, sent = t.from.Ping(one, t.route.Dst, t.opts...)
	after, err := sightings(ctx, t.cs, t.route)
	hops = beside(slices.Clone(plan), newOnes(t.before, after))
	t.before = after
	return hops, rtt, sent, err
}

// replans is the largest number of packets that [Fabric.TraceNow] sends because the tables changed
// meanwhile.
const replans = 5

// TraceNow sends one packet along a route, and returns the planned hops together with the arrivals
// that chips recorded. If the tables change while the packet is under way, TraceNow sends another
// packet, at most replans times. If the packet gets no answer, the result "sent" is an error. All
// other errors are the result err.
func (f *Fabric) TraceNow(ctx context.Context, r Route, timeout time.Duration) (hops []Hop, sent, err error) {
	t, err := f.Trace(ctx, r, timeout)
	if err != nil {
		return nil, nil, err
	}
	p, err := f.PlanNow(ctx)
	if err != nil {
		return nil, nil, err
	}
	for try := 0; ; try++ {
		plan, err := r.Hops(p)
		if err != nil {
			return nil, nil, err
		}
		if hops, _, sent, err = t.Packet(ctx, plan); err != nil {
			return hops, sent, err
		}
		now, err := f.PlanNow(ctx)
		if err != nil || now.Hash() == p.Hash() || try == replans {
			return hops, sent, err
		}
		p = now
	}
}

// newOnes compares two lists of sightings. newOnes returns the sightings of the first packet that
// only the second list has. The result has the order of the packet's hops. newOnes finds this order
// by the TTL, which each hop decrements.
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

// The function "beside" adds sighting number i of a packet to the planned hop number i. If there
// are more sightings than planned hops, beside adds hops.
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
