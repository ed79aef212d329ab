//go:build !noplot

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// line returns the style in which the line of a kind is drawn.
func line(kind string) draw.LineStyle {
	l := draw.LineStyle{Color: color.Black, Width: vg.Points(1.3)}
	if i := rank(kind); i < len(styles) {
		l.Color = styles[i].colour
		if styles[i].dashed {
			l.Dashes = []vg.Length{vg.Points(5), vg.Points(2.5)}
		}
	}
	return l
}

// chart is an SVG of panels side by side, with one legend.
type chart struct {
	panels []*plot.Plot
	legend map[string]plot.Thumbnailer // sample of the legend for each kind
}

// Sizes of a chart.
const (
	panelWidth  = 9 * vg.Centimeter
	panelHeight = 9 * vg.Centimeter
	margin      = 0.4 * vg.Centimeter
	wider       = 1.15 // factor by which a legend in another font may be wider than the measured width
)

func (c *chart) panel(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = vg.Points(6)
	c.panels = append(c.panels, p)
	return p
}

func (c *chart) name(kind string, t plot.Thumbnailer) {
	if c.legend == nil {
		c.legend = map[string]plot.Thumbnailer{}
	}
	c.legend[kind] = t
}

// key returns the legend and its width.
func (c *chart) key() (plot.Legend, vg.Length) {
	l := plot.NewLegend()
	l.Top, l.Left, l.ThumbnailWidth, l.Padding, l.YPosition = true, true, vg.Points(22), vg.Points(3), draw.PosCenter
	kinds := make([]string, 0, len(c.legend))
	for kind := range c.legend {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b string) int { return cmp.Or(rank(a)-rank(b), strings.Compare(a, b)) })
	for _, kind := range kinds {
		l.Add(kind, c.legend[kind])
	}
	return l, l.Rectangle(draw.Canvas{}).Size().X * wider
}

// abreast is the largest number of panels in a row: two are legible at the width of a page.
const abreast = 2

// write draws the chart into a file, in rows of panels.
func (c *chart) write(name string) error {
	l, width := c.key()
	cols := min(abreast, len(c.panels))
	rows := (len(c.panels) + cols - 1) / cols
	panels := panelWidth * vg.Length(cols)
	svg := vgsvg.New(panels+width+2*margin, panelHeight*vg.Length(rows))
	all := draw.New(svg)
	all.SetColor(color.White)
	all.Fill(all.Rectangle.Path())
	tiles := draw.Tiles{Rows: rows, Cols: cols, PadX: margin, PadY: margin, PadTop: margin, PadBottom: margin, PadLeft: margin, PadRight: margin}
	grid := make([][]*plot.Plot, rows)
	for i := range grid {
		grid[i] = make([]*plot.Plot, cols)
		copy(grid[i], c.panels[i*cols:])
	}
	at := plot.Align(grid, tiles, draw.Crop(all, 0, -width-margin, 0, 0))
	for i, p := range c.panels {
		p.Draw(at[i/cols][i%cols])
	}
	l.Draw(draw.Crop(all, panels+margin, -margin, 0, -3*margin))
	var b bytes.Buffer
	if _, err := svg.WriteTo(&b); err != nil {
		return err
	}
	// If the font is missing, another font without serifs is the nearest replacement.
	text := strings.ReplaceAll(b.String(), "font-family:Liberation Sans;", "font-family:Liberation Sans,Arial,Helvetica,sans-serif;")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "plot in", name)
	return nil
}

// spread holds the median of the figures of some rounds, and their smallest and largest value. The
// field x is the value of the varied parameter.
type spread struct{ x, mid, low, high float64 }

// spreads returns, for each kind, the spreads of the results for which pick returns true, sorted by
// x.
func spreads(rs []result, pick func(r *result) (x float64, ok bool)) map[string][]spread {
	vals := map[string]map[float64][]float64{}
	for i := range rs {
		x, ok := pick(&rs[i])
		if !ok {
			continue
		}
		if vals[rs[i].Kind] == nil {
			vals[rs[i].Kind] = map[float64][]float64{}
		}
		vals[rs[i].Kind][x] = append(vals[rs[i].Kind][x], rs[i].Value)
	}
	out := map[string][]spread{}
	for kind, byX := range vals {
		for x, v := range byX {
			out[kind] = append(out[kind], spread{x, median(v), slices.Min(v), slices.Max(v)})
		}
		slices.SortFunc(out[kind], func(a, b spread) int { return cmp.Compare(a.x, b.x) })
	}
	return out
}

// points converts spreads to the interfaces that gonum's plotters take.
type points []spread

func (p points) Len() int                    { return len(p) }
func (p points) XY(i int) (x, y float64)     { return p[i].x, p[i].mid }
func (p points) YError(i int) (a, b float64) { return p[i].mid - p[i].low, p[i].high - p[i].mid }

// The constant "least" is the smallest goodput that is drawn, in Gb/s. A stall is drawn at this
// value.
const least = 1e-4

// onLog returns the places of spreads on a logarithmic axis, each moved aside by shift. The axis
// itself is linear, since gonum's logarithmic axis leaves room for half of its label above the
// plot.
func onLog(ss []spread, shift func(float64) float64) points {
	log := func(v float64) float64 { return math.Log10(max(v, least)) }
	out := make(points, len(ss))
	for i, s := range ss {
		out[i] = spread{shift(s.x), log(s.mid), log(s.low), log(s.high)}
	}
	return out
}

// lines draws each kind as a line with error bars, with a logarithmic y axis. The function "shift"
// moves the k-th of n kinds aside, so that the bars do not hide each other.
func (c *chart) lines(p *plot.Plot, data map[string][]spread, shift func(x float64, k, n int) float64) error {
	kinds := make([]string, 0, len(data))
	for kind := range data {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b string) int { return cmp.Or(rank(a)-rank(b), strings.Compare(a, b)) })
	for k, kind := range kinds {
		pts := onLog(data[kind], func(x float64) float64 { return shift(x, k, len(kinds)) })
		l, err := plotter.NewLine(pts)
		if err != nil {
			return fmt.Errorf("plotting %s: %w", kind, err)
		}
		l.LineStyle = line(kind)
		p.Add(l)
		c.name(kind, l)
		if kind == theory || kind == worst {
			continue // the whole line is drawn from its formula, see plotWire
		}
		bars, err := plotter.NewYErrorBars(pts)
		if err != nil {
			return fmt.Errorf("plotting %s: %w", kind, err)
		}
		bars.LineStyle = draw.LineStyle{Color: l.Color, Width: vg.Points(0.8)}
		bars.CapWidth = vg.Points(4)
		dots, err := plotter.NewScatter(pts)
		if err != nil {
			return fmt.Errorf("plotting %s: %w", kind, err)
		}
		dots.GlyphStyle = draw.GlyphStyle{Color: l.Color, Radius: vg.Points(2), Shape: draw.CircleGlyph{}}
		p.Add(bars, dots)
	}
	p.Y.Tick.Marker = plot.TickerFunc(logTicks)
	p.Y.Min, p.Y.Max = p.Y.Min-0.1, p.Y.Max+0.1
	return nil
}

// logTicks returns marks at 1, 2 and 5 times each power of ten, for an axis whose values are
// logarithms. The marks at the powers of ten have names. If the axis covers less than 2.3 powers of
// ten, all marks have names. If the axis covers less than half a power of ten, each digit has a mark.
func logTicks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	digits := []float64{1, 2, 5}
	if high-low < 0.5 {
		digits = []float64{1, 1.2, 1.5, 2, 3, 4, 5, 6, 7, 8, 9}
	}
	for power := math.Floor(low); power <= high; power++ {
		for _, n := range digits {
			v := n * math.Pow(10, power)
			t := plot.Tick{Value: math.Log10(v)}
			if t.Value < low || t.Value > high {
				continue
			}
			if n == 1 || high-low < 2.3 {
				t.Label = strconv.FormatFloat(v, 'f', max(0, int(2-power)), 64)
				if strings.Contains(t.Label, ".") {
					t.Label = strings.TrimRight(strings.TrimRight(t.Label, "0"), ".")
				}
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// named returns marks with names at exactly the given values.
func named(values []float64) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, v := range values {
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', -1, 64)})
	}
	return ticks
}

// namedOnLog is named for a logarithmic axis. A mark has no name if the next value is less than 1.4
// times as large, because the two names would overlap.
func namedOnLog(values []float64) plot.ConstantTicks {
	ticks := named(values)
	for i := range ticks[:max(0, len(ticks)-1)] {
		if values[i+1] < 1.4*values[i] {
			ticks[i].Label = ""
		}
	}
	return ticks
}

// xs returns all values of the varied parameter, sorted.
func xs(data map[string][]spread) []float64 {
	var out []float64
	for _, ss := range data {
		for _, s := range ss {
			if !slices.Contains(out, s.x) {
				out = append(out, s.x)
			}
		}
	}
	slices.Sort(out)
	return out
}

func grid(p *plot.Plot) {
	g := plotter.NewGrid()
	g.Vertical.Color, g.Horizontal.Color = color.Gray{0xE0}, color.Gray{0xE0}
	p.Add(g)
}

// plot writes an SVG for each kind of measurement that the results hold. The name of each file
// begins with base.
func (p *report) plot(base string) error {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	for _, f := range []func(base string) error{p.plotSizes, p.plotLoss, p.plotWire, p.plotTrips, p.plotWireTrips, p.plotFabric, p.plotGrowth, p.plotMany} {
		if err := f(base); err != nil {
			return err
		}
	}
	return nil
}
