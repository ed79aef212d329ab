package main

import (
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/route"
	"ttfabric/wire"
)

func newTrace() *cobra.Command {
	f := spec.Default()
	var machine string
	var plane, count int
	var other bool
	var timeout time.Duration
	c := &cobra.Command{Use: "trace SRC DST", Short: "Show the hops between two chips: the planned hops, and the hops of a packet", Args: cobra.ExactArgs(2),
		Long: `The command prints the route of a request from one chip to another by the routing
tables, hop by hop, with the virtual channels. The command also sends a packet, asks
all chips at which port the packet came in, and prints the packet's hops beside the
planned hops. With --count the command sends several packets, one after the other,
and counts the packets that pass each hop, as mtr does. With --topology the command
prints only the planned route, in a topology that need not run.

Two chips opposite each other on a ring of even length have two routes of equal
length, one in each direction. --other-way shows the other route.

Exit code 5 if a packet took another route, or did not arrive.`,
		Example: "  ttfabric trace M0D0 M0D7\n  ttfabric trace M0D0 M3D8 --topology spec-l1\n  ttfabric trace M0D0 M0D15 --plane 1 -o json\n  ttfabric trace M0D0 M0D7 --count 20\n  ttfabric trace M0D0 M0D2 --other-way --topology ring:4",
		RunE: func(c *cobra.Command, args []string) error {
			format, err := format(c)
			if err != nil {
				return err
			}
			if count < 1 || count > maxTraced {
				return spec.Usagef("--count %d: want 1 to %d", count, maxTraced)
			}
			p, err := planOf(c, machine, &f)
			if err != nil {
				return err
			}
			way, hops, err := tracedRoute(p, args, plane, other)
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
	addOptions(c, &f, spec.RoutingOptions...)
	c.Flags().Lookup("allow-deadlock").Hidden = true
	c.Flags().StringVarP(&machine, "topology", "t", "", "print the planned route in this topology, a file or a name, instead of the route in the running fabric")
	c.Flags().IntVar(&plane, "plane", 0, "routing plane")
	c.Flags().BoolVar(&other, "other-way", false, "if two routes round a ring are equally long, take the second route (default: the first route, which 'ttfabric routes' shows)")
	c.Flags().IntVarP(&count, "count", "c", 1, "number of packets; with several packets, the command counts the packets that pass each hop")
	c.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "wait at most this long for a packet's answer")
	c.RegisterFlagCompletionFunc("topology", completeTopology)
	return c
}

// tracedRoute returns the route that a command's arguments name, and the hops of this
// route in plan p.
func tracedRoute(p *route.Plan, chips []string, plane int, other bool) (r fabric.Route, hops []fabric.Hop, err error) {
	for i, at := range []*wire.FabricNodeID{&r.Src, &r.Dst} {
		n, err := routeChips(p.Topology(), chips[i:i+1], 0)
		if err != nil {
			return r, nil, err
		}
		*at = n[0]
	}
	if r.Plane, err = spec.Plane(p.Topology(), plane); err != nil {
		return r, nil, err
	}
	r.Other = other
	hops, err = r.Hops(p)
	return r, hops, err
}

// traced opens the fabric and begins to trace packets along a route.
func traced(c *cobra.Command, r fabric.Route, timeout time.Duration) (*fabric.Tracer, error) {
	f, err := openFabric(c)
	if err != nil {
		return nil, err
	}
	return f.Trace(c.Context(), r, timeout)
}

// observe sends one packet along a route. To each planned hop, observe adds the port at
// which a chip saw the packet. If the packet got no answer, or took another hop, observe
// returns an error too. Without a planned hop, observe sends nothing.
func observe(c *cobra.Command, hops []fabric.Hop, way fabric.Route, timeout time.Duration) ([]fabric.Hop, error) {
	if len(hops) == 0 {
		return hops, nil
	}
	f, err := openFabric(c)
	if err != nil {
		return hops, err
	}
	hops, sent, err := f.TraceNow(c.Context(), way, timeout)
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
		return hops, assertf("the packet got no answer: %w", sent)
	case off > 0:
		return hops, assertf("the packet differed from the plan at %d of %d hops", off, len(hops))
	}
	return hops, nil
}

func printTrace(c *cobra.Command, hops []fabric.Hop, live bool) {
	head := []any{"Hop", "From", "Dir", "To", "VC"}
	if live {
		head = append(head, "Seen at", "VC", "TTL", "")
	}
	tw := newTable(c, head...)
	tw.Least("TTL", "VC", "Dir", "VC")
	for _, h := range hops {
		row := table.Row{h.Number, h.From, h.Dir, h.To, h.VC}
		if live {
			ttl := ""
			if h.Seen != "" {
				ttl = fmt.Sprint(h.SeenTTL)
			}
			row = append(row, h.Seen, h.SeenVC, ttl, h.Verdict())
		}
		tw.AppendRow(row)
	}
	tw.Render()
}
