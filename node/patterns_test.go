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

// carriedLive are the requests that each direction out of each chip has carried.
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

// Every pattern of the literature with an offered load, over real sockets: all
// packets arrive exactly once, whole and in order, and each cable carries what
// the routes say.
func TestPatternsLive(t *testing.T) {
	m, _, ns := fabricWith(t, "mesh:4x4", func(c *node.Config) { c.Profile = ttlink.ProfileCrowded })
	plan, err := route.New(m, route.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for run, pattern := range []string{"uniform", "transpose", "bit-complement", "bit-reverse", "tornado", "shuffle", "neighbour", "hotspot"} {
		t.Run(pattern, func(t *testing.T) {
			p, err := traffic.PatternByName(pattern)
			if err != nil {
				t.Fatal(err)
			}
			pairs, err := p.Pairs(m, traffic.Options{})
			if err != nil {
				t.Fatal(err)
			}
			spec := traffic.Spec{Run: uint64(run + 1), Pattern: pattern, Packets: 1920, Size: 300, Planes: 2, Window: 32, Seed: 1, Load: 1000}
			if err := spec.Validate(); err != nil {
				t.Fatal(err)
			}
			before := carriedLive(ns)
			clients := make([]*client.Client, len(ns))
			set := func(sending bool) {
				for i, x := range ns {
					x.WithChip(func(_ mono.Time, c *chip.Chip) {
						if clients[i] == nil {
							clients[i] = client.New(spec, x.Self(), pairs)
						}
						clients[i].Sending = sending
						c.SetClient(clients[i])
					})
				}
			}
			set(false) // all verify before any sends
			set(true)
			var result traffic.Result
			for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
				var reports []traffic.Report
				finished := true
				for i, x := range ns {
					x.WithChip(func(mono.Time, *chip.Chip) {
						reports = append(reports, traffic.NewReport(clients[i].Gen, clients[i].Ver))
					})
					finished = finished && reports[i].Finished
				}
				if result = traffic.Merge(spec, pairs, reports); finished {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("not done in time: %+v", result)
				}
			}
			if !result.OK() {
				t.Fatalf("%+v, %d misdirected", result.Total, result.Misdirected)
			}
			var flows []route.Flow
			for _, p := range result.Rows {
				flows = append(flows, route.Flow{Src: p.Src, Dst: p.Dst, Rate: float64(p.Sent)})
			}
			want, err := plan.Loads(wire.ClassRequest, 0, flows)
			if err != nil {
				t.Fatal(err)
			}
			got := carriedLive(ns)
			for o, n := range want.Channels { // probes come on top, where completions are late
				if got[o]-before[o] < n {
					t.Errorf("%s %s carried %v requests, by the routes %v", o.At, o.Dir, got[o]-before[o], n)
				}
			}
		})
	}
}
