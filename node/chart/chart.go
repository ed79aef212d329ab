// Package chart draws line charts as SVG. The package returns each chart as a text and writes no
// files.
package chart

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Chart is a line chart.
type Chart struct {
	Title      string
	X, Y       string // titles of the axes
	LogX, LogY bool   // whether the axis is logarithmic, to the base 2
	Lines      []Line
}

// Line is one series of a chart. A polyline connects the points in the order of X and Y, two lists
// of the same length. From the ninth line on, the colours repeat and the lines are dashed.
type Line struct {
	Name string
	X, Y []float64
	Bare bool // the chart draws the line dashed and without dots, as for computed values
}

// Sizes of a chart's parts in pixels, the wanted number of ticks of an axis, the font, and colours.
const (
	chartW, chartH           = 860, 460
	chartLeft, chartRight    = 70, 240
	chartTop, chartBottom    = 44, 52
	plotW                    = chartW - chartLeft - chartRight
	plotH                    = chartH - chartTop - chartBottom
	ticksWanted              = 6
	chartFont                = `font-family="DejaVu Sans, Helvetica, Arial, sans-serif"`
	chartGrid, chartInk      = "#e3e3e3", "#333333"
	chartLineWidth, chartDot = 2, 3
)

// chartColours are the colours of the lines. People with colour blindness can distinguish these
// colours too (Okabe and Ito).
var chartColours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"}

// axis is the range, scale and ticks of an axis.
type axis struct {
	low, high float64
	log       bool
	ticks     []float64
}

func newAxis(vs []float64, log bool) axis {
	a := axis{low: math.Inf(1), high: math.Inf(-1), log: log}
	for _, v := range vs {
		a.low, a.high = min(a.low, v), max(a.high, v)
	}
	if math.IsInf(a.low, 0) {
		a.low, a.high = 0, 1
	}
	if log {
		a.low = math.Pow(2, math.Floor(math.Log2(max(a.low, 1e-9))))
		a.high = math.Pow(2, math.Ceil(math.Log2(max(a.high, 2*a.low))))
		step := math.Max(1, math.Ceil(math.Log2(a.high/a.low)/8))
		for e := 0.0; a.low*math.Pow(2, e) <= a.high*1.001; e += step {
			a.ticks = append(a.ticks, a.low*math.Pow(2, e))
		}
		return a
	}
	a.low = min(a.low, 0)
	if a.high <= a.low {
		a.high = a.low + 1
	}
	step := math.Pow(10, math.Floor(math.Log10((a.high-a.low)/ticksWanted)))
	for _, k := range []float64{1, 2, 5, 10} {
		if (a.high-a.low)/(step*k) <= ticksWanted {
			step *= k
			break
		}
	}
	a.high = math.Ceil(a.high/step-1e-9) * step
	for v := a.low; v <= a.high+step/2; v += step {
		a.ticks = append(a.ticks, v)
	}
	return a
}

// The method "at" returns the position of the value v on the axis, from 0 for low to 1 for high. On
// a logarithmic axis, values below low have the position 0.
func (a axis) at(v float64) float64 {
	if a.log {
		return math.Log(max(v, a.low)/a.low) / math.Log(a.high/a.low)
	}
	return (v - a.low) / (a.high - a.low)
}

// SVG returns the chart as an SVG document.
func (c *Chart) SVG() string {
	var xs, ys []float64
	for _, l := range c.Lines {
		xs, ys = append(xs, l.X...), append(ys, l.Y...)
	}
	ax, ay := newAxis(xs, c.LogX), newAxis(ys, c.LogY)
	px := func(v float64) float64 { return chartLeft + ax.at(v)*plotW }
	py := func(v float64) float64 { return chartTop + plotH - ay.at(v)*plotH }
	var b strings.Builder
	put := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	put(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" %s font-size="12" fill="%s">`, chartW, chartH, chartW, chartH, chartFont, chartInk)
	put(`<rect width="100%%" height="100%%" fill="white"/>`)
	put(`<text x="%d" y="24" font-size="15">%s</text>`, chartLeft, html.EscapeString(c.Title))
	for _, v := range ay.ticks {
		put(`<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="%s"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`,
			chartLeft, py(v), chartLeft+plotW, py(v), chartGrid, chartLeft-8, py(v)+4, tick(v))
	}
	for _, v := range ax.ticks {
		put(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`,
			px(v), chartTop, px(v), chartTop+plotH, chartGrid, px(v), chartTop+plotH+18, tick(v))
	}
	put(`<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="%s"/>`, chartLeft, chartTop, plotW, plotH, chartInk)
	put(`<text x="%d" y="%d" text-anchor="middle">%s</text>`, chartLeft+plotW/2, chartH-14, html.EscapeString(c.X))
	put(`<text transform="translate(18 %d) rotate(-90)" text-anchor="middle">%s</text>`, chartTop+plotH/2, html.EscapeString(c.Y))
	for i, l := range c.Lines {
		colour, dash := chartColours[i%len(chartColours)], ""
		if l.Bare || i >= len(chartColours) {
			dash = ` stroke-dasharray="6 4"`
		}
		var pts []string
		for k := range l.X {
			pts = append(pts, fmt.Sprintf("%.1f,%.1f", px(l.X[k]), py(l.Y[k])))
			if !l.Bare {
				put(`<circle cx="%.1f" cy="%.1f" r="%d" fill="%s"/>`, px(l.X[k]), py(l.Y[k]), chartDot, colour)
			}
		}
		put(`<polyline points="%s" fill="none" stroke="%s" stroke-width="%d"%s/>`, strings.Join(pts, " "), colour, chartLineWidth, dash)
		y := chartTop + 12 + 20*i
		put(`<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="%d"%s/><text x="%d" y="%d">%s</text>`,
			chartLeft+plotW+14, y, chartLeft+plotW+38, y, colour, chartLineWidth, dash, chartLeft+plotW+44, y+4, html.EscapeString(l.Name))
	}
	put(`</svg>`)
	return b.String()
}

// tick returns the label of an axis at the value v, with the unit prefix Ki or M for large values.
func tick(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1024 && math.Mod(v, 1024) == 0:
		return fmt.Sprintf("%gKi", v/1024)
	case a >= 1e6:
		return fmt.Sprintf("%.3gM", v/1e6)
	}
	return fmt.Sprintf("%.4g", v)
}
