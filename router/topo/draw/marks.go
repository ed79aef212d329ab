package draw

import (
	"fmt"
	"html"
	"strings"
)

// Marks says how a picture shows a topology whose chips run.
type Marks struct {
	Head   string       // the line below the title; "": figures of the topology
	Cables []CableMark  // by the position of the cable in the topology; nil: all cables have the colours of their planes
	Chips  []ChipMark   // by the position of the chip in the topology; nil: all chips are white
	Legend []LegendMark // explains the marks; nil: the colours of the planes
}

// CableMark says how a picture shows one cable.
type CableMark struct {
	Color  string   // colour in SVG's notation, such as #0072b2
	Dash   string   // lengths of dashes and gaps in pixels, such as 4 5; "": a whole line
	Width  float64  // width of the line in pixels
	Routes []string // colours of the wide pale lines below the cable, one for each route that takes the cable
	Cross  bool     // whether a cross lies on the middle of the cable
	Note   string   // what a viewer shows beside the name of the cable when the pointer is over the cable
}

// ChipMark says how a picture shows one chip.
type ChipMark struct {
	Fill string // colour of the chip; "": white
	Edge string // colour of the chip's edge, if a route begins or ends at the chip
	Note string // what a viewer shows beside the name of the chip
}

// LegendMark explains one mark: a sample of the line, and its meaning.
type LegendMark struct {
	Cable CableMark
	Text  string
}

// RouteColor returns the colour of the route with the given number, from 0.
func RouteColor(n int) string { return routeColors[n%len(routeColors)] }

var routeColors = []string{"#0a5ca8", "#c8371b", "#009e73", "#cc79a7", "#e69f00", "#7a5195", "#56b4e9", "#5f6b7a"}

// halo returns the SVG text of the wide pale lines below a path. The line of the first route is the widest.
func halo(path string, colors []string) string {
	text := ""
	for i, c := range colors {
		text += fmt.Sprintf(`<path d="%s" fill="none" stroke="%s" stroke-width="%d" stroke-opacity=".35"/>`+"\n", path, html.EscapeString(c), 10+5*(len(colors)-1-i))
	}
	return text
}

// dash returns the attribute for the dashes of a line.
func dash(lengths string) string {
	if lengths == "" {
		return ""
	}
	return ` stroke-dasharray="` + html.EscapeString(lengths) + `"`
}

// legendOf returns SVG text at height y that explains the marks, and the position of the text's right
// end.
func (m *Marks) legendOf(y float64) (text string, end float64) {
	var b strings.Builder
	x := margin
	for i, l := range m.Legend {
		if i > 0 {
			x += 17
		}
		b.WriteString(halo(fmt.Sprintf("M%.1f %.1fh22", x, y), l.Cable.Routes))
		if l.Cable.Color != "" {
			fmt.Fprintf(&b, `<path d="M%.1f %.1fh22" stroke="%s" stroke-width="3"%s/>`, x, y, html.EscapeString(l.Cable.Color), dash(l.Cable.Dash))
		}
		if l.Cable.Cross {
			b.WriteString(cross(point{x + 11, y}, l.Cable.Color))
		}
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" font-size="12" fill="#5b6875">%s</text>`+"\n", x+29, y+4, html.EscapeString(l.Text))
		x += 29 + letter*float64(len(l.Text))
	}
	return b.String(), x
}

// cross returns the SVG text of a cross at the point p, with a pale edge.
func cross(p point, color string) string {
	path := fmt.Sprintf("M%.1f %.1fl10 10m0 -10l-10 10", p.x-5, p.y-5)
	return fmt.Sprintf(`<path d="%s" fill="none" stroke="%s" stroke-width="5"/><path d="%s" fill="none" stroke="%s" stroke-width="2.4"/>`, path, panelColor, path, html.EscapeString(color))
}
