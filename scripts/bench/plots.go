//go:build !noplot

package main

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// plotSizes plots goodput by message size.
func (p *report) plotSizes(base string) error {
	data := spreads(p.Results, func(r *result) (float64, bool) {
		return float64(r.Size), r.Size > 0 && strings.HasPrefix(r.Bench, "goodput ")
	})
	sizes := xs(data)
	if len(sizes) < 2 {
		return nil
	}
	var c chart
	panel := c.panel("Goodput by message size", "message, bytes", "goodput, Gb/s")
	grid(panel)
	if err := c.lines(panel, data, func(x float64, k, n int) float64 { return x * math.Pow(1.02, float64(2*k-n)/2) }); err != nil {
		return err
	}
	panel.X.Scale, panel.X.Tick.Marker = plot.LogScale{}, named(sizes)
	return c.write(base + "-goodput.svg")
}

// byLoss draws a panel of goodput by loss.
func (c *chart) byLoss(title string, data map[string][]spread) (*plot.Plot, error) {
	panel := c.panel(title, "packets lost, %", "goodput, Gb/s")
	grid(panel)
	losses := xs(data)
	if err := c.lines(panel, data, func(x float64, k, n int) float64 { return x + 0.03*float64(2*k-n)/2 }); err != nil {
		return nil, err
	}
	panel.X.Tick.Marker = named(losses)
	panel.X.Min, panel.X.Max = losses[0]-0.2, losses[len(losses)-1]+0.2
	return panel, nil
}

// plotLoss plots goodput over a loopback that loses packets.
func (p *report) plotLoss(base string) error {
	data := spreads(p.Results, func(r *result) (float64, bool) { return r.Loss, strings.HasPrefix(r.Bench, "loopback, ") })
	if len(xs(data)) < 2 {
		return nil
	}
	var c chart
	if _, err := c.byLoss("Loopback, 4 KiB messages", data); err != nil {
		return err
	}
	return c.write(base + "-loss.svg")
}

// delays returns the delays of the results over the wire, in microseconds.
func (p *report) delays() []float64 {
	var out []float64
	for _, r := range p.Results {
		if strings.HasPrefix(r.Bench, wirePrefix) && !slices.Contains(out, r.Delay) {
			out = append(out, r.Delay)
		}
	}
	slices.Sort(out)
	return out
}

func micros(us float64) time.Duration { return time.Duration(us * float64(time.Microsecond)) }

func delayTitle(us float64) string {
	if us == 0 {
		return "no delay"
	}
	return delayName(micros(us)) + " one way"
}

// plotWire plots goodput by loss for each delay of the wire, with the curves of the theory.
func (p *report) plotWire(base string) error {
	var c chart
	for _, delay := range p.delays() {
		of := func(r *result, unit string) bool {
			return strings.HasPrefix(r.Bench, wirePrefix) && r.Delay == delay && r.Unit == unit
		}
		data := spreads(p.Results, func(r *result) (float64, bool) { return r.Loss, r.Size == wanSize && of(r, "Gb/s") })
		if len(xs(data)) < 2 {
			continue
		}
		frames := spreads(p.Results, func(r *result) (float64, bool) { return 0, of(r, "frames") })
		for kind, w := range frames {
			data[kind] = curve(data[kind], w[0].mid)
		}
		panel, err := c.byLoss("4 KiB messages, "+delayTitle(delay), data)
		if err != nil {
			return err
		}
		panel.X.Tick.Marker = named([]float64{0, 1, 2, 3, 4, 5})
	}
	if len(c.panels) == 0 {
		return nil
	}
	low, high := c.panels[0].Y.Min, c.panels[0].Y.Max
	for _, panel := range c.panels {
		low, high = min(low, panel.Y.Min), max(high, panel.Y.Max)
	}
	for _, panel := range c.panels {
		panel.Y.Min, panel.Y.Max = low, high
	}
	return c.write(base + "-wire.svg")
}

// curve computes the formula of go-back-N for losses from 0 to the largest measured loss. The first
// of the given spreads has the goodput without loss.
func curve(at []spread, frames float64) []spread {
	rate, most := at[0].mid, at[len(at)-1].x
	const steps = 100
	var out []spread
	for i := range steps + 1 {
		p := most * float64(i) / steps
		v := rate * efficiency(p/100, frames)
		out = append(out, spread{p, v, v, v})
	}
	return out
}

// percentiles lists the two figures of a round trip.
var percentiles = []struct {
	name string
	fill uint8 // opacity
}{{"p50", 255}, {"p99", 110}}

// bars draws a pair of bars with error bars for each kind: the median and the 99th percentile.
func (c *chart) bars(title string, rs []result, bench string) error {
	panel := c.panel(title, "", "round trip of 64 B, µs")
	g := plotter.NewGrid()
	g.Vertical.Width, g.Horizontal.Color = 0, color.Gray{0xE0}
	panel.Add(g)
	data := make([]map[string][]spread, len(percentiles))
	var kinds []string
	for i, pc := range percentiles {
		data[i] = spreads(rs, func(r *result) (float64, bool) { return 0, r.Bench == bench+" "+pc.name })
		for kind := range data[i] {
			if !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	slices.SortFunc(kinds, func(a, b string) int { return rank(a) - rank(b) })
	const width = 0.36 // width of a bar, if each kind has a width of 1
	for k, kind := range kinds {
		for i, pc := range percentiles {
			if len(data[i][kind]) == 0 {
				continue
			}
			s := data[i][kind][0]
			s.x = float64(k) + width*(float64(i)-0.5)
			colour := color.NRGBA{0x00, 0x72, 0xB2, pc.fill}
			if strings.HasPrefix(kind, "ttlink") {
				colour = color.NRGBA{0xD5, 0x5E, 0x00, pc.fill}
			}
			bar, err := plotter.NewPolygon(plotter.XYs{{X: s.x - width/2, Y: 0}, {X: s.x - width/2, Y: s.mid}, {X: s.x + width/2, Y: s.mid}, {X: s.x + width/2, Y: 0}})
			if err != nil {
				return fmt.Errorf("plotting %s: %w", kind, err)
			}
			bar.Color, bar.LineStyle.Width = colour, 0
			errors, err := plotter.NewYErrorBars(points{s})
			if err != nil {
				return fmt.Errorf("plotting %s: %w", kind, err)
			}
			errors.CapWidth = vg.Points(4)
			panel.Add(bar, errors)
			c.name(map[bool]string{true: "ours, ", false: "peers, "}[strings.HasPrefix(kind, "ttlink")]+pc.name, bar)
		}
	}
	ticks := make(plot.ConstantTicks, len(kinds))
	for k, kind := range kinds {
		ticks[k] = plot.Tick{Value: float64(k), Label: kind}
	}
	panel.X.Tick.Marker, panel.X.Tick.Length, panel.X.Tick.LineStyle.Color = ticks, vg.Points(8), color.Transparent // the ticks are invisible; their length sets the distance between the axis and the labels
	panel.X.Tick.Label.Rotation, panel.X.Tick.Label.XAlign, panel.X.Tick.Label.YAlign = math.Pi/4, draw.XRight, draw.YCenter
	panel.X.Min, panel.X.Max, panel.Y.Min = -0.6, float64(len(kinds))-0.4, 0
	panel.Y.Max *= 1.05
	panel.Y.Tick.Marker = plot.TickerFunc(func(low, high float64) []plot.Tick {
		ticks := plot.DefaultTicks{}.Ticks(low, high)
		for i := range ticks {
			if ticks[i].Label != "" {
				ticks[i].Label = strconv.FormatFloat(ticks[i].Value, 'f', -1, 64)
			}
		}
		return ticks
	})
	return nil
}

// plotTrips plots the round trips on loopback, for each seat. A seat is a choice of the cores on
// which the two ends run.
func (p *report) plotTrips(base string) error {
	var c chart
	for _, s := range p.seatNames() {
		if err := c.bars("Loopback, "+s, p.Results, "round trip 64 B, "+s); err != nil {
			return err
		}
	}
	if len(c.panels) == 0 {
		return nil
	}
	return c.write(base + "-latency.svg")
}

// seatNames returns the names of the seats (choices of cores) for which round trips were measured.
func (p *report) seatNames() (names []string) {
	for _, r := range p.Results {
		name, ok := strings.CutPrefix(strings.TrimSuffix(r.Bench, " p50"), "round trip 64 B, ")
		if ok && strings.HasSuffix(r.Bench, " p50") && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// plotWireTrips plots the round trips over the wire, for each delay.
func (p *report) plotWireTrips(base string) error {
	var c chart
	for _, delay := range p.delays() {
		bench := wireName(micros(delay)) + ", round trip 64 B"
		if !slices.ContainsFunc(p.Results, func(r result) bool { return strings.HasPrefix(r.Bench, bench) }) {
			continue
		}
		if err := c.bars(delayTitle(delay), p.Results, bench); err != nil {
			return err
		}
	}
	if len(c.panels) == 0 {
		return nil
	}
	return c.write(base + "-wire-latency.svg")
}

// plotGrowth plots how the figures of a fabric change with the number of its processes.
func (p *report) plotGrowth(base string) error {
	return p.plotByChips(growthPrefix, base+"-growth.svg")
}

// plotMany plots what fabrics of up to 256 processes cost.
func (p *report) plotMany(base string) error { return p.plotByChips(manyPrefix, base+"-many.svg") }

// plotByChips plots each measurement whose name begins with prefix, by the number of chips. If there
// is no such measurement, plotByChips writes no file.
func (p *report) plotByChips(prefix, file string) error {
	var whats []string
	units := map[string]string{}
	for _, r := range p.Results {
		if what, ok := strings.CutPrefix(r.Bench, prefix); ok && units[what] == "" {
			whats = append(whats, what)
			units[what] = r.Unit
		}
	}
	if len(whats) == 0 {
		return nil
	}
	slices.Sort(whats)
	var c chart
	for _, what := range whats {
		all := spreads(p.Results, func(r *result) (float64, bool) { return float64(r.Size), r.Bench == prefix+what })
		data := map[string][]spread{}
		for _, ss := range all { // one line over all machines
			data["ttfabric"] = append(data["ttfabric"], ss...)
		}
		slices.SortFunc(data["ttfabric"], func(a, b spread) int { return int(a.x - b.x) })
		panel := c.panel(what, "chips, a process each", units[what])
		grid(panel)
		if err := c.lines(panel, data, func(x float64, _, _ int) float64 { return x }); err != nil {
			return err
		}
		panel.X.Scale, panel.X.Tick.Marker = plot.LogScale{}, namedOnLog(xs(data))
	}
	return c.write(file)
}
