package picture

import (
	"fmt"
	"math"
	"strings"
	"time"

	"ttfabric/router/topo"
	"ttfabric/router/topo/draw"
	"ttfabric/wire"
)

// By says what the colours of the cables in a still picture mean.
type By string

// The meanings of colours.
const (
	ByState By = "state" // the colour is the state of the cable
	ByLoad  By = "load"  // the colour and the width are the load of the busier direction
)

// Colours of cables by state, and of other marks. The page of the dashboard has the same colours.
var (
	stateColors = map[string]string{Up: "#00805e", Fallback: "#c27a00", Out: "#8793a0", Training: "#1f86c9", Held: "#b0528c", Off: "#5d6874", Unknown: "#b9c1ca", Unused: "#d7dde3"}
	stateDashes = map[string]string{Fallback: "9 4", Out: "3 4", Training: "5 4", Held: "2 4", Off: "1 5", Unknown: "1 6", Unused: "1 6"}
	loadColors  = [...][3]int{{0xc9, 0xd3, 0xdd}, {0xe8, 0xb2, 0x00}, {0xc8, 0x37, 0x1b}} // no load, half of the capacity, all of the capacity
	chipFills   = map[string]string{NoAnswer: "#e2e6eb", Absent: "#d0d6dd", Late: "#fbe7c3", Cornered: "#f6d3cc", Unwanted: "#efe0f0", Waiting: "#f1f3f6"}
)

const (
	cutColor      = "#c8371b"
	impairedColor = "#8a6d00"
)

// Marks returns how a still picture shows the state s and some routes.
func (m *Machine) Marks(s *State, by By, routes []Route) *draw.Marks {
	d := m.onRoutes(routes)
	for i := range s.Cables {
		c, mark := &s.Cables[i], &d.Cables[i]
		mark.Color, mark.Dash, mark.Width = stateColors[c.State], stateDashes[c.State], 2.4
		if by == ByLoad {
			use := max(c.AB.Use, c.BA.Use)
			mark.Color, mark.Width = loadColor(use), 2+3*use
		}
		mark.Note = c.text(m.Cables[i].Name)
		switch {
		case c.Cut:
			mark.Color, mark.Dash, mark.Cross = cutColor, "4 5", true
		case c.Impaired != "" && by == ByState:
			mark.Color = impairedColor
		}
	}
	for i := range s.Chips {
		c, mark := &s.Chips[i], &d.Chips[i]
		mark.Fill, mark.Note = chipFills[c.State], fmt.Sprintf("%s, %d of %d links up", c.State, c.LinksUp, c.Links)
	}
	d.Head = fmt.Sprintf("fabric %s at %s: %s", m.Fabric, s.Time.Format(time.DateTime), s.headline(len(m.Chips)))
	d.Legend = append(m.legend(s, by), d.Legend...)
	return d
}

// Planned returns how a still picture shows routes in a topology. The chips need not run.
func (m *Machine) Planned(routes []Route) *draw.Marks {
	d := m.onRoutes(routes)
	for i := range d.Cables {
		d.Cables[i].Color, d.Cables[i].Width = stateColors[Out], 1.6
	}
	d.Head = m.Summary
	return d
}

// onRoutes returns marks of the cables and ends of routes, with a legend for each route.
func (m *Machine) onRoutes(routes []Route) *draw.Marks {
	d := &draw.Marks{Cables: make([]draw.CableMark, len(m.Cables)), Chips: make([]draw.ChipMark, len(m.Chips)), Legend: []draw.LegendMark{}}
	chip := map[string]int{}
	for i := range m.Chips {
		chip[m.Chips[i].Name] = i
	}
	for k, r := range routes {
		color := draw.RouteColor(k)
		for _, h := range r.Hops {
			if h.Cable >= 0 {
				c := &d.Cables[h.Cable]
				c.Routes = append(c.Routes, color)
			}
		}
		d.Chips[chip[r.Src]].Edge, d.Chips[chip[r.Dst]].Edge = color, color
		d.Legend = append(d.Legend, draw.LegendMark{Cable: draw.CableMark{Routes: []string{color}}, Text: r.String()})
	}
	return d
}

// String returns a route in one line, such as "M0D0 to M0D6, plane 0: 3 hops by M0D1, M0D2".
func (r Route) String() string {
	text := fmt.Sprintf("%s to %s, plane %d: ", r.Src, r.Dst, r.Plane)
	switch {
	case r.None != "":
		return text + r.None
	case r.All:
		return r.tree()
	}
	var through []string
	for _, h := range r.Hops[1:] {
		through = append(through, h.From)
	}
	switch {
	case len(r.Hops) == 1:
		return text + "1 hop"
	case len(through) > 6:
		return text + fmt.Sprintf("%d hops", len(r.Hops))
	}
	return text + fmt.Sprintf("%d hops by %s", len(r.Hops), strings.Join(through, ", "))
}

// tree returns a multicast in one line.
func (r Route) tree() string {
	members := 0
	for i := range r.Hops {
		if r.Hops[i].Member {
			members++
		}
	}
	a, _ := wire.ParseFabricNodeID(r.Src)
	b, _ := wire.ParseFabricNodeID(r.Dst)
	where := fmt.Sprintf("of the rectangle with %s", r.Dst)
	if a.Mesh != b.Mesh {
		where = fmt.Sprintf("of mesh %d", b.Mesh)
	}
	return fmt.Sprintf("%s to %s %s, plane %d: a tree of %s", r.Src, topo.Count(members, "chip"), where, r.Plane, topo.Count(len(r.Hops), "hop"))
}

// text returns the state of a cable in one line.
func (c *CableState) text(name string) string {
	text := name + " " + c.State
	for _, x := range []struct {
		is   bool
		what string
	}{{c.Cut, "cut"}, {c.Impaired != "", "impaired: " + c.Impaired}, {c.By != "", "frames go by " + c.By}, {c.Silent, "silent"}, {c.Avoided, "taken out by an operator"}, {c.Router != "", "router " + c.Router}} {
		if x.is {
			text += ", " + x.what
		}
	}
	return text + fmt.Sprintf(", %s one way and %s the other", Rate(c.AB.Bytes), Rate(c.BA.Bytes))
}

// headline sums a state up in one line.
func (s *State) headline(chips int) string {
	var parts []string
	for _, name := range CableStates {
		if n := s.Total.States[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, name))
		}
	}
	text := fmt.Sprintf("%d of %d chips answer, cables: %s", s.Total.Answer, chips, strings.Join(parts, ", "))
	if s.Total.Cut > 0 {
		text += fmt.Sprintf(", %d cut", s.Total.Cut)
	}
	return text + ", " + Rate(s.Total.Bytes) + " over all cables"
}

// legend explains the marks of cables in state s.
func (m *Machine) legend(s *State, by By) (out []draw.LegendMark) {
	if by == ByLoad {
		for _, use := range []float64{0, .5, 1} {
			out = append(out, draw.LegendMark{Cable: draw.CableMark{Color: loadColor(use)}, Text: fmt.Sprintf("%.0f %%", 100*use)})
		}
		out[2].Text += " of " + Rate(s.Total.Scale)
	} else {
		for _, name := range CableStates {
			if s.Total.States[name] > 0 {
				out = append(out, draw.LegendMark{Cable: draw.CableMark{Color: stateColors[name], Dash: stateDashes[name]}, Text: name})
			}
		}
		if s.Total.Impaired > 0 {
			out = append(out, draw.LegendMark{Cable: draw.CableMark{Color: impairedColor}, Text: "impaired"})
		}
	}
	if s.Total.Cut > 0 {
		out = append(out, draw.LegendMark{Cable: draw.CableMark{Color: cutColor, Dash: "4 5", Cross: true}, Text: "cut"})
	}
	return out
}

// loadColor returns the colour of a share of the capacity, 0 to 1.
func loadColor(use float64) string {
	use = min(max(use, 0), 1) * 2
	k := min(int(use), 1)
	var c [3]int
	for i := range c {
		a, b := loadColors[k][i], loadColors[k+1][i]
		c[i] = int(math.Round(float64(a) + float64(b-a)*(use-float64(k))))
	}
	return fmt.Sprintf("#%02x%02x%02x", c[0], c[1], c[2])
}

// Rate returns bytes per second as bits per second, for people.
func Rate(bytes int) string {
	n, units := float64(bytes)*8, []string{"b/s", "kb/s", "Mb/s", "Gb/s"}
	i := 0
	for n >= 1000 && i < len(units)-1 {
		n /= 1000
		i++
	}
	if i == 0 || n >= 100 {
		return fmt.Sprintf("%.0f %s", n, units[i])
	}
	return fmt.Sprintf("%.3g %s", n, units[i])
}
