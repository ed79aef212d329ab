// Package figures has the formulas, routes and charts of 'ttfabric bench': the figures of Tenstorrent's
// CCL developer guide beside ours.
package figures

import (
	"fmt"
	"slices"

	"ttfabric/node/chart"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Point is one measurement of a link's bandwidth.
type Point struct {
	Size     int     // length of the payload of each packet, in bytes
	Channels int     // packets under way in each direction
	Gbps     float64 // rate of the payload, in 10^9 bits per second
	Share    float64 // payload's share of the bytes on the wire, from 0 to 1
}

// Figures of an ethernet link in Tenstorrent's CCL developer guide, chapter "Ethernet
// Link", in bytes. The guide gives no figure for the forward error correction.
const (
	guideOverhead = 14 + 16 + 16 + 4 // raw packet header, packet header, MAC and CRC of each packet
	guidePacket   = 1500             // largest packet
)

// GuideShare returns the payload's share of the bytes that cross the guide's link, from 0 to 1. A
// sender cuts a payload of the given size into packets of at most guidePacket bytes. The guide
// draws its utilisation curve by this formula.
func GuideShare(size int) float64 {
	packets := (size + guidePacket - 1) / guidePacket
	return float64(size) / float64(size+packets*guideOverhead)
}

// HeaderShare returns the payload's share of the bytes that cross a TT-link. The argument "size" is
// the length of the payload, and the argument "frame" is the largest frame payload, both in bytes.
// HeaderShare counts the packet's header for one hop, the frame headers and padding. HeaderShare
// leaves out acknowledgements and completions. If frame is not above 0, HeaderShare returns 0.
func HeaderShare(size, frame int) float64 {
	header, ok := wire.HeaderLenFor(1)
	if !ok || frame <= 0 {
		return 0
	}
	n := (header + size + frame - 1) / frame
	each := (header + size + n - 1) / n
	return float64(size) / float64(n*(wire.FrameOverhead+wire.PadTo(each)))
}

// UtilisationChart draws the payload's share of all bytes by packet size. Some lines show measured
// values. Other lines are computed from our headers alone, or from the headers in the CCL guide.
func UtilisationChart(ps []Point, frame int) *chart.Chart {
	c := &chart.Chart{Title: "Payload's share of the bytes that cross the cable", X: "packet size, bytes", Y: "share, %", LogX: true}
	low, high := ps[0].Size, ps[0].Size
	for _, r := range ps {
		low, high = min(low, r.Size), max(high, r.Size)
	}
	guide, ours := chart.Line{Name: "guide: 50 B on each 1500", Bare: true}, chart.Line{Name: "ours, headers alone", Bare: true}
	for size := low; size <= high; size += max(size/32, 1) {
		guide.X, guide.Y = append(guide.X, float64(size)), append(guide.Y, 100*GuideShare(size))
		ours.X, ours.Y = append(ours.X, float64(size)), append(ours.Y, 100*HeaderShare(size, frame))
	}
	c.Lines = append(linesByChannels(ps, func(p *Point) float64 { return 100 * p.Share }), ours, guide)
	return c
}

// linesByChannels returns a chart's lines, one for each number of channels. A line
// shows the value that y returns, by packet size.
func linesByChannels(ps []Point, y func(*Point) float64) (ls []chart.Line) {
	var ns []int
	for _, r := range ps {
		if !slices.Contains(ns, r.Channels) {
			ns = append(ns, r.Channels)
		}
	}
	for _, n := range ns {
		l := chart.Line{Name: topo.Count(n, "channel")}
		for _, r := range ps {
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
// bandwidth at each packet size. The first chart of the CCL guide has such a line too.
func LinkChart(x, y wire.FabricNodeID, ps []Point) *chart.Chart {
	c := &chart.Chart{Title: fmt.Sprintf("One link, %s and %s, both directions at once", x, y), X: "packet size, bytes", Y: "payload in each direction, Gb/s", LogX: true}
	c.Lines = linesByChannels(ps, func(p *Point) float64 { return p.Gbps })
	most := map[int]float64{}
	var sizes []int
	for _, r := range ps {
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
