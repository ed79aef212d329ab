package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/session"
	"ttfabric/router/route"
	"ttfabric/wire"
)

// traceHop is one hop of a packet, as planned and as it was seen. One that
// was not planned has no From, Dir, To and VC; one that was not seen has no Seen.
type traceHop struct {
	Hop      int    `json:"hop"`
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

// verdict says in words whether plan and packet agree.
func (h *traceHop) verdict() string {
	switch {
	case h.Agrees:
		return "as planned"
	case h.Seen == "":
		return "not seen"
	}
	return "another way"
}

func newTrace() *cobra.Command {
	var f routeFlags
	var machine string
	var plane, count int
	var other bool
	var timeout time.Duration
	c := &cobra.Command{Use: "trace SRC DST", Short: "Show the hops between two chips, as planned and as a packet takes them", Args: cobra.ExactArgs(2),
		Long: `trace prints the way that the routing tables give a request from one chip to
another, hop by hop with its virtual channel, and beside it what a packet did
that was sent along it: all chips are asked where it came in, those off the
planned way too. With --count several are sent, one after the other, and it is
counted at each hop how many came by, as mtr does. With --topology, only the
plan of a machine that need not run. Chips opposite each other on a ring of even
length are as far both ways round: --other-way shows the other one. Exit code 5
if a packet went another way, or didn't arrive.`,
		Example: "  ttfabric trace M0D0 M0D7\n  ttfabric trace M0D0 M3D8 --topology spec-l1\n  ttfabric trace M0D0 M0D15 --plane 1 -o json\n  ttfabric trace M0D0 M0D7 --count 20\n  ttfabric trace M0D0 M0D2 --other-way --topology ring:4",
		RunE: func(c *cobra.Command, args []string) error {
			format, err := format(c)
			if err != nil {
				return err
			}
			if count < 1 || count > maxTraced {
				return coded(exitUsage, "--count %d: want 1 to %d", count, maxTraced)
			}
			p, err := planOf(c, machine, &f)
			if err != nil {
				return err
			}
			way, hops, err := plannedWay(p, args, plane, other)
			if err != nil {
				return err
			}
			live := machine == ""
			if live && count > 1 && len(hops) > 0 {
				return traceMany(c, hops, way, timeout, count, format)
			}
			var failed error
			if live {
				hops, failed = observe(c, hops, way, timeout)
			}
			if format == "json" {
				if err := printJSON(c, hops); err != nil {
					return err
				}
			} else {
				printTrace(c, hops, live)
			}
			return failed
		}}
	f.add(c)
	c.Flags().Lookup("allow-deadlock").Hidden = true
	c.Flags().StringVarP(&machine, "topology", "t", "", "a machine that need not run: a file or a name")
	c.Flags().IntVar(&plane, "plane", 0, "routing plane")
	c.Flags().BoolVar(&other, "other-way", false, "where two ways round a ring are equally long, the other one")
	c.Flags().IntVarP(&count, "count", "c", 1, "packets; of several, it is counted at each hop how many came by")
	c.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "for a packet's answer")
	c.RegisterFlagCompletionFunc("topology", completeTopology)
	return c
}

// tracedWay is what a packet is traced along.
type tracedWay struct {
	ends  [2]wire.FabricNodeID
	plane wire.Plane
	other bool // round rings
}

// plannedWay is the way between two chips, and its hops by a plan.
func plannedWay(p *route.Plan, chips []string, plane int, other bool) (w tracedWay, hops []traceHop, err error) {
	for i, a := range chips {
		n, err := routeChips(p.Topology(), []string{a}, 0)
		if err != nil {
			return w, nil, err
		}
		w.ends[i] = n[0]
	}
	if w.plane, err = planeOf(p.Topology(), plane); err != nil {
		return w, nil, err
	}
	if w.other = other; other {
		p = p.Other()
	}
	walk, ok := p.Walk(wire.ClassRequest, w.plane, w.ends[0], w.ends[1])
	if !ok {
		return w, nil, coded(exitAssert, "there is no way from %s to %s on plane %d", w.ends[0], w.ends[1], plane)
	}
	return w, plannedHops(walk), nil
}

func plannedHops(walk []route.Hop) []traceHop {
	hops := []traceHop{}
	for i, h := range walk {
		hops = append(hops, traceHop{Hop: i + 1, From: h.At.String(), Dir: h.Dir.String(), To: h.To.String(), VC: h.VC.String(), Crossing: h.At.Mesh != h.To.Mesh})
	}
	return hops
}

// sighting is a packet as it came to a chip.
type sighting struct {
	at wire.FabricNodeID
	api.SightingView
}

// sightings asks all chips for the traced packets along a way. It fails where a chip doesn't answer: the packet may have been there.
func sightings(ctx context.Context, cs []*api.Client, way tracedWay) (out []sighting, err error) {
	ctx, stop := context.WithTimeout(ctx, askTime)
	defer stop()
	var mu sync.Mutex
	err = each(cs, func(cl *api.Client) error {
		seen, err := cl.Traces(ctx)
		mu.Lock()
		defer mu.Unlock()
		for _, s := range seen {
			if s.Src == way.ends[0] && s.Dst == way.ends[1] && s.Plane == way.plane {
				out = append(out, sighting{cl.Self(), s})
			}
		}
		return err
	})
	return out, err
}

// tracer sends packets that are noted on their way, one after the other.
type tracer struct {
	cs      []*api.Client
	from    *session.Session
	way     tracedWay
	opts    []session.Option // of each packet
	timeout time.Duration
	before  []sighting
}

func newTracer(c *cobra.Command, way tracedWay, timeout time.Duration) (*tracer, error) {
	dir, err := dirOf(c)
	if err != nil {
		return nil, err
	}
	cs, _, _, err := dir.clients()
	if err != nil {
		return nil, err
	}
	from := slices.IndexFunc(cs, func(cl *api.Client) bool { return cl.Self() == way.ends[0] })
	if from < 0 {
		return nil, fmt.Errorf("chip %s is not running", way.ends[0])
	}
	t := &tracer{cs: cs, from: session.New(cs[from]), way: way, timeout: timeout,
		opts: []session.Option{session.OnPlane(way.plane), session.Traced()}}
	if way.other {
		t.opts = append(t.opts, session.OtherWay())
	}
	t.before, err = sightings(c.Context(), cs, way)
	return t, err
}

// packet sends one, and puts what was seen of it beside the plan. sent is why it was not answered.
func (t *tracer) packet(ctx context.Context, plan []traceHop) (hops []traceHop, rtt time.Duration, sent, err error) {
	one, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	rtt, sent = t.from.Ping(one, t.way.ends[1], t.opts...)
	after, err := sightings(ctx, t.cs, t.way)
	hops = beside(slices.Clone(plan), newOnes(t.before, after))
	t.before = after
	return hops, rtt, sent, err
}

// observe sends one packet along a plan, and shows what was seen beside it.
func observe(c *cobra.Command, hops []traceHop, way tracedWay, timeout time.Duration) ([]traceHop, error) {
	if len(hops) == 0 {
		return hops, nil
	}
	t, err := newTracer(c, way, timeout)
	if err != nil {
		return hops, err
	}
	hops, _, sent, err := t.packet(c.Context(), hops)
	if err != nil {
		return hops, err
	}
	off := 0
	for i := range hops {
		if !hops[i].Agrees {
			off++
		}
	}
	switch {
	case sent != nil:
		return hops, coded(exitAssert, "the packet was not answered: %w", sent)
	case off > 0:
		return hops, coded(exitAssert, "%d of %d hops were not taken as planned", off, len(hops))
	}
	return hops, nil
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
func beside(hops []traceHop, seen []sighting) []traceHop {
	for i, s := range seen {
		if i == len(hops) {
			hops = append(hops, traceHop{Hop: i + 1})
		}
		h := &hops[i]
		h.Seen, h.SeenVC, h.SeenTTL = fmt.Sprintf("%s channel %d", s.at, s.Channel), s.VC, int(s.TTL)
		h.Agrees = h.To == s.at.String() && h.VC == s.VC
	}
	return hops
}

func printTrace(c *cobra.Command, hops []traceHop, live bool) {
	head := []any{"Hop", "From", "Dir", "To", "VC"}
	if live {
		head = append(head, "Seen at", "VC", "TTL", "")
	}
	tw := newTable(c, head...)
	for _, h := range hops {
		row := table.Row{h.Hop, h.From, h.Dir, h.To, h.VC}
		if live {
			ttl := ""
			if h.Seen != "" {
				ttl = fmt.Sprint(h.SeenTTL)
			}
			row = append(row, h.Seen, h.SeenVC, ttl, h.verdict())
		}
		tw.AppendRow(row)
	}
	tw.Render()
}
