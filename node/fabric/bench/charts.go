package bench

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"ttfabric/node/chart"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// UtilisationChart draws the payload's share of all bytes by packet size. Some lines show measured
// values. Other lines show values computed from our headers alone, or from the headers in the CCL
// guide. The argument "frame" is the largest frame payload of the link, in bytes. Without rows, the
// chart has no line.
func UtilisationChart(rows []LinkRow, frame int) *chart.Chart {
	c := &chart.Chart{Title: "Payload's share of the bytes that cross the cable", X: "packet size, bytes", Y: "share, %", LogX: true}
	if len(rows) == 0 {
		return c
	}
	low, high := rows[0].Size, rows[0].Size
	for _, r := range rows {
		low, high = min(low, r.Size), max(high, r.Size)
	}
	guide, ours := chart.Line{Name: "guide: 50 B on each 1500", Bare: true}, chart.Line{Name: "ours, headers alone", Bare: true}
	for size := low; size <= high; size += max(size/32, 1) {
		guide.X, guide.Y = append(guide.X, float64(size)), append(guide.Y, 100*GuideShare(size))
		ours.X, ours.Y = append(ours.X, float64(size)), append(ours.Y, 100*HeaderShare(size, frame))
	}
	c.Lines = append(linesByChannels(rows, func(r *LinkRow) float64 { return 100 * r.Share }), ours, guide)
	return c
}

// linesByChannels returns a chart's lines, one for each number of channels. A line
// shows the value that y returns, by packet size.
func linesByChannels(rows []LinkRow, y func(*LinkRow) float64) (ls []chart.Line) {
	var ns []int
	for _, r := range rows {
		if !slices.Contains(ns, r.Channels) {
			ns = append(ns, r.Channels)
		}
	}
	for _, n := range ns {
		l := chart.Line{Name: topo.Count(n, "channel")}
		for _, r := range rows {
			if r.Channels == n {
				l.X, l.Y = append(l.X, float64(r.Size)), append(l.Y, y(&r))
			}
		}
		ls = append(ls, l)
	}
	return ls
}

// LinkChart draws the bandwidth by packet size, with one line for each number of
// channels. If there are several numbers of channels, one more line shows the largest
// bandwidth at each packet size. The first chart of the CCL guide also has a line of the largest bandwidths.
func LinkChart(x, y wire.FabricNodeID, rows []LinkRow) *chart.Chart {
	c := &chart.Chart{Title: fmt.Sprintf("One link, %s and %s, both directions at once", x, y), X: "packet size, bytes", Y: "payload in each direction, Gb/s", LogX: true}
	c.Lines = linesByChannels(rows, func(r *LinkRow) float64 { return r.Gbps })
	most := map[int]float64{}
	var sizes []int
	for _, r := range rows {
		if most[r.Size] == 0 {
			sizes = append(sizes, r.Size)
		}
		most[r.Size] = max(most[r.Size], r.Gbps)
	}
	if len(c.Lines) > 1 {
		slices.Sort(sizes)
		l := chart.Line{Name: "largest bandwidth of all lines", Bare: true}
		for _, s := range sizes {
			l.X, l.Y = append(l.X, float64(s)), append(l.Y, most[s])
		}
		c.Lines = append(c.Lines, l)
	}
	return c
}

// RingChart draws the times of trips by packet size, with one line for each length of the trip and
// number of packets.
func RingChart(rows []RingRow) *chart.Chart {
	c := &chart.Chart{Title: "Packets round a ring of chips", X: "packet size, bytes", Y: "trip, median, µs", LogX: true}
	type key struct{ hops, n int }
	var keys []key
	for _, r := range rows {
		if k := (key{r.Hops, r.Batch}); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	for _, k := range keys {
		l := chart.Line{Name: fmt.Sprintf("%d hops, %s", k.hops, topo.Count(k.n, "packet"))}
		for _, r := range rows {
			if (key{r.Hops, r.Batch}) == k {
				l.X, l.Y = append(l.X, float64(r.Size)), append(l.Y, r.P50)
			}
		}
		c.Lines = append(c.Lines, l)
	}
	return c
}

// RTTChart draws the round trip and its parts by packet size.
func RTTChart(rs []RTTReport) *chart.Chart {
	c := &chart.Chart{Title: "One link's round trip and its parts", X: "packet size, bytes", Y: "µs"}
	parts := []struct {
		name string
		of   func(RTTReport) float64
	}{
		{"round trip, mean", func(r RTTReport) float64 { return r.Mean }},
		{"kernel and wake-up, each way", func(r RTTReport) float64 { return r.Transit }},
		{"send call", func(r RTTReport) float64 { return r.Call }},
		{"request, until handed over", func(r RTTReport) float64 { return r.Submit }},
		{"peer, until handed over", func(r RTTReport) float64 { return r.Far }},
		{"program told, after the round trip", func(r RTTReport) float64 { return r.Near }},
	}
	for _, p := range parts {
		l := chart.Line{Name: p.name}
		for _, r := range rs {
			l.X, l.Y = append(l.X, float64(r.Size)), append(l.Y, p.of(r))
		}
		c.Lines = append(c.Lines, l)
	}
	return c
}

// KernelChart draws the times of trips by payload size, with one line for each number of hops
// and each number of payloads.
func KernelChart(rows []RingRow) *chart.Chart {
	c := &chart.Chart{Title: "The guide's ring of kernels", X: "payload, bytes", Y: "trip, median, µs", LogX: true}
	at := map[string]int{}
	for _, r := range rows {
		name := fmt.Sprintf("%d hops", r.Hops)
		if r.Batch > 1 {
			name = fmt.Sprintf("%d hops, %d payloads", r.Hops, r.Batch)
		}
		i, ok := at[name]
		if !ok {
			i = len(c.Lines)
			at[name] = i
			c.Lines = append(c.Lines, chart.Line{Name: name})
		}
		l := &c.Lines[i]
		l.X, l.Y = append(l.X, float64(r.Size)), append(l.Y, r.P50)
	}
	return c
}

// Besides inserts "-" and the argument "what" before the ending of the file's name in path. If path is empty, Besides
// returns "".
func Besides(path, what string) string {
	if path == "" {
		return ""
	}
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + "-" + what + ext
}
