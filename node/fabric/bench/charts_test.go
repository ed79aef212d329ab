package bench

import (
	"slices"
	"testing"

	"ttfabric/node/chart"
	"ttfabric/wire"
)

// TestCharts checks the lines of each chart: their names, and the values of the first line.
func TestCharts(t *testing.T) {
	links := []LinkRow{{Size: 64, Channels: 1, Gbps: 1, Share: .5}, {Size: 128, Channels: 1, Gbps: 4, Share: .6}, {Size: 64, Channels: 8, Gbps: 2, Share: .7}, {Size: 128, Channels: 8, Gbps: 3, Share: .8}}
	var x, y wire.FabricNodeID
	for _, c := range []struct {
		name  string
		chart *chart.Chart
		lines []string
		first []float64
	}{
		{"link", LinkChart(x, y, links), []string{"1 channel", "8 channels", "largest bandwidth of all lines"}, []float64{1, 4}},
		{"link, one number of channels", LinkChart(x, y, links[:2]), []string{"1 channel"}, []float64{1, 4}},
		{"link, no row", LinkChart(x, y, nil), nil, nil},
		{"utilisation", UtilisationChart(links, 1408), []string{"1 channel", "8 channels", "ours, headers alone", "guide: 50 B on each 1500"}, []float64{50, 60}},
		{"utilisation, no row", UtilisationChart(nil, 1408), nil, nil},
		{"ring", RingChart([]RingRow{{Hops: 8, Size: 16, Batch: 1, P50: 3}, {Hops: 8, Size: 16, Batch: 2, P50: 5}, {Hops: 8, Size: 64, Batch: 1, P50: 4}}), []string{"8 hops, 1 packet", "8 hops, 2 packets"}, []float64{3, 4}},
		{"kernels", KernelChart([]RingRow{{Hops: 4, Size: 16, P50: 6}, {Hops: 4, Size: 32, P50: 7}, {Hops: 8, Size: 16, P50: 9}, {Hops: 8, Size: 16, Batch: 2, P50: 11}}), []string{"4 hops", "8 hops", "8 hops, 2 payloads"}, []float64{6, 7}},
		{"rtt", RTTChart([]RTTReport{{Mean: 2}, {Size: 64, Mean: 3}}), []string{"round trip, mean", "kernel and wake-up, each way", "send call", "request, until handed over", "peer, until handed over", "program told, after the round trip"}, []float64{2, 3}},
	} {
		var names []string
		for _, l := range c.chart.Lines {
			names = append(names, l.Name)
			if len(l.X) != len(l.Y) {
				t.Errorf("%s: line %q has %d sizes and %d values", c.name, l.Name, len(l.X), len(l.Y))
			}
		}
		if !slices.Equal(names, c.lines) {
			t.Errorf("%s: lines %q, want %q", c.name, names, c.lines)
		}
		if len(names) > 0 && !slices.Equal(c.chart.Lines[0].Y, c.first) {
			t.Errorf("%s: first line %v, want %v", c.name, c.chart.Lines[0].Y, c.first)
		}
	}
	if top := LinkChart(x, y, links).Lines[2]; !slices.Equal(top.Y, []float64{2, 4}) {
		t.Errorf("the largest bandwidths are %v, want 2 and 4", top.Y)
	}
}

// TestPercentiles checks the median and the 99th percentile of 100 times, and of no time.
func TestPercentiles(t *testing.T) {
	var ns []int64
	for k := range int64(100) {
		ns = append(ns, (100-k)*1000)
	}
	if p50, p99 := percentiles(ns); p50 != 51 || p99 != 100 {
		t.Errorf("median %v µs, 99th percentile %v µs; want 51 and 100", p50, p99)
	}
	if p50, p99 := percentiles(nil); p50 != 0 || p99 != 0 {
		t.Errorf("no time: %v and %v", p50, p99)
	}
}
