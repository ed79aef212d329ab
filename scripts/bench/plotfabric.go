//go:build !noplot

package main

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Colours of bars: one for this project, one for its peers.
var (
	oursColour  = color.NRGBA{0xD5, 0x5E, 0x00, 255}
	peersColour = color.NRGBA{0x00, 0x72, 0xB2, 255}
)

// isOurs reports whether a kind is part of this project. Other kinds are the peers with which this
// project is compared.
func isOurs(kind string) bool {
	return slices.ContainsFunc([]string{"ttlink", "session", "fabric"}, func(s string) bool { return strings.HasPrefix(kind, s) }) || strings.HasSuffix(kind, " traffic")
}

// columns draws a bar with an error bar for each kind of one measurement. If the results lack the
// measurement, columns draws nothing.
func (c *chart) columns(title, bench string, rs []result) error {
	data := spreads(rs, func(r *result) (float64, bool) { return 0, r.Bench == bench })
	if len(data) == 0 {
		return nil
	}
	unit := ""
	var kinds []string
	for _, r := range rs {
		if r.Bench == bench {
			unit = r.Unit
			if !slices.Contains(kinds, r.Kind) {
				kinds = append(kinds, r.Kind)
			}
		}
	}
	slices.Sort(kinds)
	panel := c.panel(title, "", unit)
	g := plotter.NewGrid()
	g.Vertical.Width, g.Horizontal.Color = 0, color.Gray{0xE0}
	panel.Add(g)
	ticks := make(plot.ConstantTicks, len(kinds))
	const half = 0.3 // half of the width of a bar, if each kind has a width of 1
	for k, kind := range kinds {
		s := data[kind][0]
		s.x = float64(k)
		bar, err := plotter.NewPolygon(plotter.XYs{{X: s.x - half, Y: 0}, {X: s.x - half, Y: s.mid}, {X: s.x + half, Y: s.mid}, {X: s.x + half, Y: 0}})
		if err != nil {
			return fmt.Errorf("plotting %s: %w", kind, err)
		}
		errors, err := plotter.NewYErrorBars(points{s})
		if err != nil {
			return fmt.Errorf("plotting %s: %w", kind, err)
		}
		name := "peers"
		if bar.Color = peersColour; isOurs(kind) {
			bar.Color, name = oursColour, "ours"
		}
		bar.LineStyle.Width, errors.CapWidth = 0, vg.Points(4)
		panel.Add(bar, errors)
		c.name(name, bar)
		ticks[k] = plot.Tick{Value: s.x, Label: kind}
	}
	panel.X.Tick.Marker, panel.X.Tick.Length, panel.X.Tick.LineStyle.Color = ticks, vg.Points(8), color.Transparent
	panel.X.Tick.Label.Rotation, panel.X.Tick.Label.XAlign, panel.X.Tick.Label.YAlign = math.Pi/4, draw.XRight, draw.YCenter
	panel.X.Min, panel.X.Max, panel.Y.Min = -0.6, float64(len(kinds))-0.4, 0
	panel.Y.Max *= 1.05
	return nil
}

// plotFabric plots the figures of whole fabrics: blocks, hops, single writes, and the cost of an
// idle fabric.
func (p *report) plotFabric(base string) error {
	var c chart
	for _, m := range []struct{ title, bench string }{
		{"Writes of 1 MiB blocks", "blocks of 1 MiB"},
		{"One hop of eight processes", "one hop of eight processes"},
		{"Write of 64 B, one core, p50", "write of 64 B, one core p50"},
		{"Write of 64 B, one core, p99", "write of 64 B, one core p99"},
		{"32 idle chips, in sum", "idle CPU of 32 chips in sum"},
		{"Memory (PSS) per idle chip", "idle memory (PSS) per chip"},
	} {
		if err := c.columns(m.title, m.bench, p.Results); err != nil {
			return err
		}
	}
	if len(c.panels) == 0 {
		return nil
	}
	return c.write(base + "-fabric.svg")
}
