package node_test

import (
	"testing"
	"time"

	"ttfabric/node"
	"ttfabric/node/chip"
	"ttfabric/node/traffic"
	"ttfabric/node/traffic/client"
	"ttfabric/router/route"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// carriedLive returns the number of requests that each chip has sent in each direction.
func carriedLive(ns []*node.Node) map[route.Out]float64 {
	out := map[route.Out]float64{}
	for _, x := range ns {
		s, _ := x.Status()
		for _, p := range s.Ports {
			if n := p.Router.Classes[wire.ClassRequest].Sent; n > 0 {
				out[route.Out{At: x.Self(), Dir: p.Dir}] += float64(n)
			}
		}
	}
	return out
}

// TestPatternsLive runs traffic patterns of the literature over real sockets. All packets must
// arrive exactly once, whole and in order, and each cable must carry the packets that the routes
// predict. If both directions round a ring of a torus are equally long, packets take them in turn.
// No cable then carries more than the analytic bound.
func TestPatternsLive(t *testing.T) {
	for machine, patterns := range map[string][]string{
		"mesh:4x4":  {"uniform", "transpose", "bit-complement", "bit-reverse", "tornado", "shuffle", "neighbour", "hotspot"},
		"torus:4x4": {"transpose", "bit-reverse", "bit-complement"},
	} {
		t.Run(machine, func(t *testing.T) {
			m, _, ns := fabricWith(t, machine, func(c *node.Config) { c.Profile = ttlink.ProfileCrowded })
			plan, err := route.New(m, route.Config{})
			if err != nil {
				t.Fatal(err)
			}
			for run, pattern := range patterns {
				t.Run(pattern, func(t *testing.T) {
					spec := traffic.Spec{Run: uint64(run + 1), Pattern: pattern, Packets: 1920, Size: 300, Planes: 2, Ways: traffic.MaxWays, Window: 32, Seed: 1, Load: 1000}
					patternLive(t, ns, plan, spec)
				})
			}
		})
	}
}

// bounds4 are the loads of the busiest cable of a 4×4 torus if each chip sends at a rate of 1
// (node/traffic/testdata/analytic_bounds.csv).
var bounds4 = map[string]float64{"transpose": 1.5, "bit-reverse": 1.5, "bit-complement": 1}

// patternLive runs a pattern on live chips, and compares the number of packets on each cable with
// the plan of routes.
func patternLive(t *testing.T, ns []*node.Node, plan *route.Plan, spec traffic.Spec) {
	p, err := traffic.PatternByName(spec.Pattern)
	if err != nil {
		t.Fatal(err)
	}
	pairs, err := p.Pairs(plan.Topology(), traffic.Options{Ways: plan.WaysBetween})
	if err != nil {
		t.Fatal(err)
	}
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	before, probes := carriedLive(ns), probesLive(ns)
	begin := time.Now()
	result := runLive(t, ns, spec, pairs)
	if !result.OK() {
		history(t, ns, begin)
		t.Fatalf("%+v, %d misdirected", result.Total, result.Misdirected)
	}
	var flows []route.Flow
	for _, p := range result.Rows {
		flows = append(flows, route.Flow{Src: p.Src, Dst: p.Dst, Rate: float64(p.Sent), Split: true})
	}
	want, err := plan.Loads(wire.ClassRequest, 0, flows)
	if err != nil {
		t.Fatal(err)
	}
	got, extra := carriedLive(ns), probesLive(ns)-probes
	for o := range got { // the count includes probes, which chips send if completions are late
		if n := got[o] - before[o]; n < want.Channels[o] || n > want.Channels[o]+extra {
			t.Errorf("%s %s carried %v requests; the routes predict %v requests and at most %v probes", o.At, o.Dir, n, want.Channels[o], extra)
		}
	}
	each := float64(result.Rows[0].Sent) // packets that each chip sends; equal for all chips of a permutation
	if bound := bounds4[spec.Pattern]; plan.Other() != plan && want.Max != bound*each {
		t.Errorf("the busiest cable carries %v packets for each packet of a chip; the bound is %v", want.Max/each, bound)
	}
}

// history logs what the chips reported since the time "begin".
func history(t *testing.T, ns []*node.Node, begin time.Time) {
	for i, n := range ns {
		events, end := n.Events()
		for range len(events) {
			switch e := <-events; {
			case e.Time.Before(begin):
			case e.Chip != nil:
				t.Logf("%s chip %d: %+v", e.Time.Format("05.000"), i, *e.Chip)
			case e.Starved != nil:
				t.Logf("%s chip %d: %+v", e.Time.Format("05.000"), i, *e.Starved)
			}
		}
		end()
	}
}

// probesLive returns the number of probes that the chips have sent.
func probesLive(ns []*node.Node) (sum float64) {
	for _, x := range ns {
		x.WithChip(func(_ mono.Time, c *chip.Chip) { sum += float64(c.Status().Counters.Probes) })
	}
	return sum
}

// runLive runs traffic between live chips to its end.
func runLive(t *testing.T, ns []*node.Node, spec traffic.Spec, pairs []traffic.Pair) (result traffic.Result) {
	clients := make([]*client.Client, len(ns))
	set := func(sending bool) {
		for i, x := range ns {
			x.WithChip(func(_ mono.Time, c *chip.Chip) {
				if clients[i] == nil {
					clients[i] = client.New(spec, x.Self(), pairs, x.Topology())
				}
				clients[i].Sending = sending
				c.SetClient(clients[i])
			})
		}
	}
	set(false) // every chip has a verifier before any chip sends
	set(true)
	moved, last := time.Now(), traffic.Result{} // when packets were last delivered: a busy machine is slow, but it makes progress
	over := false                               // every chip had finished when the reports before were taken
	for ; ; time.Sleep(10 * time.Millisecond) {
		var reports []traffic.Report
		finished := true
		for i, x := range ns {
			x.WithChip(func(mono.Time, *chip.Chip) {
				reports = append(reports, traffic.NewReport(clients[i].Gen, clients[i].Ver))
			})
			finished = finished && reports[i].Finished
		}
		// The chips report one after the other. So a destination may have reported before the last packet
		// of a source that reported later. Only the reports that follow the end of all sources are complete.
		if result = traffic.Merge(spec, pairs, reports); over {
			return result
		}
		over = finished
		if result.Total.Delivered != last.Total.Delivered {
			moved, last = time.Now(), result
		}
		if time.Since(moved) > patience {
			t.Fatalf("no packet delivered for %v: %+v", patience, result)
		}
	}
}
