package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"ttfabric/node/chart"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// The guide's figures of an ethernet link (CCL guide, "Ethernet Link"), in
// bytes: 14 of the raw packet's header, 16 of the packet's, 16 of the MAC's and 4
// of the CRC on each packet of 1500 at most; those of the FEC it doesn't number.
const (
	guideOverhead = 14 + 16 + 16 + 4
	guidePacket   = 1500
)

// guideShare is the share of payload in what crosses the guide's link, by
// which it draws its utilisation curve: a payload of so many bytes, cut into its packets.
func guideShare(size int) float64 {
	packets := (size + guidePacket - 1) / guidePacket
	return float64(size) / float64(size+packets*guideOverhead)
}

// headerShare is the same of our link, with frames that carry so many bytes:
// a packet's header for one hop, the frames' own, and padding; no acknowledgements or completions.
func headerShare(size, frame int) float64 {
	header, ok := wire.HeaderLenFor(1)
	if !ok || frame <= 0 {
		return 0
	}
	n := (header + size + frame - 1) / frame
	each := (header + size + n - 1) / n
	return float64(size) / float64(n*(wire.FrameOverhead+wire.PadTo(each)))
}

// utilisationChart is the share of payload by packet size: as measured, as
// headers alone would have it, and as the guide's headers do.
func utilisationChart(rows []linkRow, frame int) *chart.Chart {
	c := &chart.Chart{Title: "Payload in what crosses the cable", X: "packet size, bytes", Y: "share, %", LogX: true}
	low, high := rows[0].Size, rows[0].Size
	for _, r := range rows {
		low, high = min(low, r.Size), max(high, r.Size)
	}
	guide, ours := chart.Line{Name: "guide: 50 B on each 1500", Bare: true}, chart.Line{Name: "ours, headers alone", Bare: true}
	for size := low; size <= high; size += max(size/32, 1) {
		guide.X, guide.Y = append(guide.X, float64(size)), append(guide.Y, 100*guideShare(size))
		ours.X, ours.Y = append(ours.X, float64(size)), append(ours.Y, 100*headerShare(size, frame))
	}
	c.Lines = append(linesByChannels(rows, func(r *linkRow) float64 { return 100 * r.Share }), ours, guide)
	return c
}

// linesByChannels is a line by packet size for each number of channels.
func linesByChannels(rows []linkRow, y func(*linkRow) float64) (ls []chart.Line) {
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

// linkChart is the bandwidth, and the most that any number of channels achieved, as the guide has it first.
func linkChart(x, y wire.FabricNodeID, rows []linkRow) *chart.Chart {
	c := &chart.Chart{Title: fmt.Sprintf("One link, %s and %s, both directions at once", x, y), X: "packet size, bytes", Y: "payload each way, Gb/s", LogX: true}
	c.Lines = linesByChannels(rows, func(r *linkRow) float64 { return r.Gbps })
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
		l := chart.Line{Name: "the most of them", Bare: true}
		for _, s := range sizes {
			l.X, l.Y = append(l.X, float64(s)), append(l.Y, most[s])
		}
		c.Lines = append(c.Lines, l)
	}
	return c
}

// besides is a file's name with something more before its ending.
func besides(path, what string) string {
	if path == "" {
		return ""
	}
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + "-" + what + ext
}
