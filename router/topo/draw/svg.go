package draw

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Sizes of the picture, in pixels.
const (
	chipW, chipH = 74.0, 48.0
	pitchX       = 118.0 // horizontal distance between the centres of neighbouring chips
	pitchY       = 94.0  // vertical distance
	panelPad     = 34.0  // margin around the chips of a mesh, with room for cables that wrap
	panelHead    = 14.0  // additional margin above the chips, for the title of a mesh
	panelGap     = 64.0  // gap between meshes, with room for cables between meshes
	margin       = 24.0
	headH        = 54.0 // height of the picture's title
	legendH      = 34.0 // height of the legend
	cableGap     = 5.0  // gap between the cables of an edge
	stub         = 20.0 // a stub is 5 pixels shorter; the line of a wrap is about this far from the chips
	titleLetter  = 12.0 // approximate width of a letter of the picture's title
	letter       = 7.0  // approximate width of a letter of other texts
)

// planeColors lists the colours of planes 0 to 7. Higher planes use the same colours again. The
// first six colours are from the palette of Okabe and Ito, which most colour-blind people can
// distinguish.
var planeColors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7a5195", "#5f6b7a"}

const (
	unusedColor = "#a8b0ba"
	panelColor  = "#f6f8fb"
)

func planeColor(c topo.Cable) (color, dash string) {
	if c.Unused {
		return unusedColor, ` stroke-dasharray="3 3"`
	}
	return planeColors[int(c.Plane)%len(planeColors)], ""
}

type point struct{ x, y float64 }

func (p point) step(d wire.Direction, n float64) point {
	switch d {
	case wire.East:
		p.x += n
	case wire.West:
		p.x -= n
	case wire.North:
		p.y -= n
	case wire.South:
		p.y += n
	case wire.Z:
		p.x, p.y = p.x+n*diagonal, p.y+n*diagonal
	}
	return p
}

// diagonal is the share of a cable's length that a cable in direction Z goes East, and also South.
const diagonal = 0.7

// svg is a picture that is being drawn.
type svg struct {
	strings.Builder
	t      *topo.Topology
	origin map[wire.MeshID]point // for each mesh: position of the north-west corner of its chips
	cell   map[wire.MeshID]cell
	marks  *Marks
	at     map[wire.PortID]int // position of the cable whose end A is the port
	over   strings.Builder     // what lies on top of all cables
}

func drawSVG(t *topo.Topology) []byte { return SVG(t, nil) }

// SVG draws a topology with marks. If m is nil, SVG draws the topology alone.
func SVG(t *topo.Topology, m *Marks) []byte {
	if m == nil {
		m = &Marks{}
	}
	s := &svg{t: t, origin: map[wire.MeshID]point{}, cell: map[wire.MeshID]cell{}, marks: m, at: map[wire.PortID]int{}}
	for i, c := range t.Cables {
		s.at[c.A] = i
	}
	cells, xs, ys := arrange(t, func(m topo.Mesh) (int, int) {
		w, h := panelSize(m)
		return int(w + panelGap), int(h + panelGap)
	})
	var w, h float64
	var panels []point
	for i, m := range t.Meshes {
		p := point{margin + float64(xs[cells[i].col]), headH + margin + float64(ys[cells[i].row])}
		if len(t.Meshes) > 1 {
			p = p.step(wire.East, panelGap/2).step(wire.South, panelGap/2)
		}
		pw, ph := panelSize(m)
		panels = append(panels, p)
		s.cell[m.ID] = cells[i]
		s.origin[m.ID] = point{p.x + panelPad, p.y + panelPad + panelHead}
		w, h = max(w, p.x+pw), max(h, p.y+ph)
	}
	if len(t.Meshes) > 1 {
		w, h = w+panelGap/2, h+panelGap/2
	}
	name, rest, _ := strings.Cut(oneLine(t.String()), ": ")
	if rest += ", " + t.Arch.String(); m.Head != "" {
		rest = oneLine(m.Head)
	}
	h += margin + legendH
	exits := map[wire.FabricNodeID]bool{}
	for _, c := range t.Cables {
		if c.External() {
			exits[c.A.Node], exits[c.B.Node] = true, true
		}
	}
	legend, end := s.legend(h-legendH/2, len(exits) > 0)
	w = max(w, margin+titleLetter*float64(utf8.RuneCountInString(name)), margin+letter*float64(utf8.RuneCountInString(rest)), end) + margin
	fmt.Fprintf(s, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="Inter, 'Helvetica Neue', Helvetica, Arial, sans-serif">`+"\n", w, h, w, h)
	fmt.Fprintf(s, `<title>%s</title>`+"\n"+`<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n", html.EscapeString(oneLine(t.String())))
	fmt.Fprintf(s, `<text x="%.0f" y="38" font-size="20" font-weight="600" fill="#1b2733">%s</text>`+"\n", margin, html.EscapeString(name))
	fmt.Fprintf(s, `<text x="%.0f" y="58" font-size="13" fill="#5b6875">%s</text>`+"\n", margin, html.EscapeString(rest))
	for i, m := range t.Meshes {
		pw, ph := panelSize(m)
		fmt.Fprintf(s, `<rect x="%.0f" y="%.0f" width="%.0f" height="%.0f" rx="14" fill="%s" stroke="#d5dde6"/>`+"\n", panels[i].x, panels[i].y, pw, ph, panelColor)
	}
	s.cables()
	s.WriteString(s.over.String())
	for i, m := range t.Meshes {
		s.title(m, panels[i])
	}
	for i, c := range t.Chips {
		var mark ChipMark
		if i < len(m.Chips) {
			mark = m.Chips[i]
		}
		s.chip(c, exits[c.Node], mark)
	}
	s.WriteString(legend + "</svg>\n")
	return []byte(s.String())
}

func panelSize(m topo.Mesh) (w, h float64) {
	return float64(m.Cols-1)*pitchX + chipW + 2*panelPad, float64(m.Rows-1)*pitchY + chipH + 2*panelPad + panelHead
}

// title writes the name of mesh m at the top of its panel, whose north-west corner is at point p. A
// margin round the letters hides cables behind the text.
func (s *svg) title(m topo.Mesh, p point) {
	title := fmt.Sprintf("mesh %d · %s", m.ID, m.Shape())
	if n := s.t.MeshPlanes(m.ID); n > 0 && m.Rows*m.Cols > 4 {
		title += " · " + topo.Count(n, "plane")
	}
	fmt.Fprintf(s, `<text x="%.0f" y="%.0f" font-size="12" font-weight="600" fill="#5b6875" stroke="%s" stroke-width="5" paint-order="stroke">%s</text>`+"\n", p.x+14, p.y+21, panelColor, title)
}

// middle returns the centre of a chip.
func (s *svg) middle(n wire.FabricNodeID) point {
	c, _ := s.t.Chip(n)
	o := s.origin[n.Mesh]
	return point{o.x + float64(c.Col)*pitchX + chipW/2, o.y + float64(c.Row)*pitchY + chipH/2}
}

// side returns the point where a cable leaves a chip in direction d. The argument "off" is the
// distance in pixels of the point from the middle of the chip's side, to the south or east. A cable
// in direction Z leaves the chip at its south-east corner.
func (s *svg) side(n wire.FabricNodeID, d wire.Direction, off float64) point {
	p := s.middle(n)
	switch d {
	case wire.East, wire.West:
		p = p.step(d, chipW/2)
		p.y += off
	case wire.Z: // the corner in the south-east
		p = point{p.x + chipW/2 - 4 + off, p.y + chipH/2 - off/2}
	default:
		p = p.step(d, chipH/2)
		p.x += off
	}
	return p
}

// cables draws all cables. Cables of one edge lie side by side.
func (s *svg) cables() {
	total, seen := map[edge]int{}, map[edge]int{}
	key := func(c topo.Cable) edge { return edge{a: c.A.Node, b: c.B.Node, dir: c.Dir, back: c.Back} }
	for _, c := range s.t.Cables {
		total[key(c)]++
	}
	for _, within := range []bool{true, false} { // cables between meshes come last, so that they lie on top
		for _, c := range s.t.Cables {
			if c.External() == within {
				continue
			}
			k := key(c)
			off := (float64(seen[k]) - float64(total[k]-1)/2) * cableGap
			seen[k]++
			switch {
			case c.External():
				s.between(c, off)
			case k.wraps(s.t):
				s.wrap(c, off)
			default:
				a, b := s.side(c.A.Node, c.Dir, off), s.side(c.B.Node, c.Back, off)
				s.line(c, fmt.Sprintf("M%.1f %.1fL%.1f %.1f", a.x, a.y, b.x, b.y), 2)
				s.crossed(c, point{(a.x + b.x) / 2, (a.y + b.y) / 2})
			}
		}
	}
}

// line draws a cable as the given SVG path, in the colour of the cable's plane. When the pointer is
// over the path, a viewer shows the name of the cable.
func (s *svg) line(c topo.Cable, path string, width float64) {
	color, dashes := planeColor(c)
	what := fmt.Sprintf("%s %s – %s %s, plane %d", c.A.Short(), c.Dir, c.B.Short(), c.Back, c.Plane)
	if c.Unused {
		what += ", unused"
	}
	if m, ok := s.mark(c); ok {
		color, dashes, width = html.EscapeString(m.Color), dash(m.Dash), m.Width
		if m.Note != "" {
			what += ": " + html.EscapeString(oneLine(m.Note))
		}
		s.WriteString(halo(path, m.Routes))
	}
	fmt.Fprintf(s, `<path d="%s" fill="none" stroke="%s" stroke-width="%.1f" stroke-linecap="round"%s><title>%s</title></path>`+"\n", path, color, width, dashes, what)
}

// mark returns the mark of a cable, and true. If the picture has no marks, mark returns false.
func (s *svg) mark(c topo.Cable) (m CableMark, ok bool) {
	i, ok := s.at[c.A]
	if !ok || i >= len(s.marks.Cables) {
		return m, false
	}
	return s.marks.Cables[i], true
}

// crossed draws a cross at the point p if the cable's mark has one.
func (s *svg) crossed(c topo.Cable, p point) {
	if m, _ := s.mark(c); m.Cross {
		s.over.WriteString(cross(p, m.Color) + "\n")
	}
}

// wrap draws a cable that joins the two ends of a row or column. In a mesh of one row or one
// column, wrap draws a line round all chips. In other meshes, wrap draws a stub at both ends, see
// stubs.
func (s *svg) wrap(c topo.Cable, off float64) {
	m, _ := s.t.Mesh(c.A.Node.Mesh)
	a, b := s.side(c.A.Node, c.Dir, off), s.side(c.B.Node, c.Back, off) // end a is the lower end, and lies to the west or north of end b
	far := stub - 6 + off
	switch {
	case m.Rows == 1:
		y := s.middle(c.A.Node).y + chipH/2 + far
		s.line(c, fmt.Sprintf("M%.1f %.1fH%.1fQ%.1f %.1f %.1f %.1fV%.1fQ%.1f %.1f %.1f %.1fH%.1fQ%.1f %.1f %.1f %.1fV%.1fQ%.1f %.1f %.1f %.1fH%.1f",
			a.x, a.y, a.x-far+8, a.x-far, a.y, a.x-far, a.y+8, y-8, a.x-far, y, a.x-far+8, y, b.x+far-8, b.x+far, y, b.x+far, y-8, b.y+8, b.x+far, b.y, b.x+far-8, b.y, b.x), 2)
		s.crossed(c, point{(a.x + b.x) / 2, y})
	case m.Cols == 1:
		x := s.middle(c.A.Node).x + chipW/2 + far
		s.line(c, fmt.Sprintf("M%.1f %.1fV%.1fQ%.1f %.1f %.1f %.1fH%.1fQ%.1f %.1f %.1f %.1fV%.1fQ%.1f %.1f %.1f %.1fH%.1fQ%.1f %.1f %.1f %.1fV%.1f",
			a.x, a.y, a.y-far+8, a.x, a.y-far, a.x+8, a.y-far, x-8, x, a.y-far, x, a.y-far+8, b.y+far-8, x, b.y+far, x-8, b.y+far, b.x+8, b.x, b.y+far, b.x, b.y+far-8, b.y), 2)
		s.crossed(c, point{x, (a.y + b.y) / 2})
	default:
		s.stubs(c, off, 2, func(n wire.FabricNodeID) string { return fmt.Sprintf("D%d", n.Chip) })
	}
}

// The method "between" draws a cable between two meshes. If the meshes are neighbours in the
// picture and the cable leaves each mesh towards the other mesh, between draws a curve. If the
// meshes lie side by side in one row, some cables leave both meshes on the north side, or both on
// the south side. The method "between" also draws a curve for such a cable. In all other cases,
// between draws a stub at both ends, see stubs.
func (s *svg) between(c topo.Cable, off float64) {
	a, b := s.cell[c.A.Node.Mesh], s.cell[c.B.Node.Mesh]
	next := cell{a.row, a.col}
	switch c.Dir {
	case wire.East:
		next.col++
	case wire.West:
		next.col--
	case wire.North:
		next.row--
	case wire.South:
		next.row++
	}
	facing := next == b && c.Back == c.Dir.Opposite()
	arc := c.Dir == c.Back && (c.Dir == wire.North || c.Dir == wire.South) && a.row == b.row && max(a.col-b.col, b.col-a.col) == 1
	if !facing && !arc {
		s.stubs(c, off, 2.6, func(n wire.FabricNodeID) string { return n.String() })
		return
	}
	other, most := off, 150.0
	if arc { // the curves of one edge lie inside each other
		other, most = -off, 84-2*off
	}
	p, q := s.side(c.A.Node, c.Dir, off), s.side(c.B.Node, c.Back, other)
	reach := min(max(36, math.Hypot(p.x-q.x, p.y-q.y)/2.4), most)
	pc, qc := p.step(c.Dir, reach), q.step(c.Back, reach)
	s.line(c, fmt.Sprintf("M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f", p.x, p.y, pc.x, pc.y, qc.x, qc.y, q.x, q.y), 2.6)
	s.crossed(c, point{(p.x + 3*pc.x + 3*qc.x + q.x) / 8, (p.y + 3*pc.y + 3*qc.y + q.y) / 8}) // the middle of the curve
}

// stubs draws a short line at both ends of a cable. For a cable on plane 0, stubs also writes the
// text that the argument "name" returns for the chip at the other end.
func (s *svg) stubs(c topo.Cable, off, width float64, name func(wire.FabricNodeID) string) {
	for _, end := range []struct {
		chip, peer wire.FabricNodeID
		dir        wire.Direction
	}{{c.A.Node, c.B.Node, c.Dir}, {c.B.Node, c.A.Node, c.Back}} {
		p := s.side(end.chip, end.dir, off)
		to := p.step(end.dir, stub-5)
		s.line(c, fmt.Sprintf("M%.1f %.1fL%.1f %.1f", p.x, p.y, to.x, to.y), width)
		s.crossed(c, p.step(end.dir, stub/2))
		if c.Plane != 0 {
			continue
		}
		at, anchor := s.side(end.chip, end.dir, 0), "start"
		switch end.dir {
		case wire.East:
			at = point{at.x + 3, at.y + off - 5}
		case wire.West:
			at, anchor = point{at.x - 3, at.y + off - 5}, "end"
		case wire.North:
			at = point{at.x - off + 6, at.y - 6}
		case wire.South:
			at = point{at.x - off + 6, at.y + 13}
		case wire.Z:
			at = point{at.x + 12, at.y + 14}
		}
		fmt.Fprintf(s, `<text x="%.1f" y="%.1f" font-size="9" fill="#5b6875" text-anchor="%s">%s</text>`+"\n", at.x, at.y, anchor, name(end.peer))
	}
}

func (s *svg) chip(c topo.Chip, exit bool, mark ChipMark) {
	p := s.middle(c.Node)
	stroke, width := "#7d8c9b", 1.2
	if exit {
		stroke, width = "#1b2733", 2.4
	}
	if mark.Edge != "" {
		stroke, width = html.EscapeString(mark.Edge), 3
	}
	fill := "#ffffff"
	if mark.Fill != "" {
		fill = html.EscapeString(mark.Fill)
	}
	fmt.Fprintf(s, `<g><title>%s`, c.Node)
	if c.Board != "" {
		fmt.Fprintf(s, ", %s", html.EscapeString(oneLine(c.Board)))
	}
	if c.MMIO {
		s.WriteString(", reached by the host")
	}
	if mark.Note != "" {
		s.WriteString(": " + html.EscapeString(oneLine(mark.Note)))
	}
	fmt.Fprintf(s, `</title><rect x="%.1f" y="%.1f" width="%.0f" height="%.0f" rx="9" fill="%s" stroke="%s" stroke-width="%.1f"/>`, p.x-chipW/2, p.y-chipH/2, chipW, chipH, fill, stroke, width)
	y := p.y + 5
	if c.UMD != topo.NoUMD {
		y = p.y - 1
		fmt.Fprintf(s, `<text x="%.1f" y="%.1f" font-size="10.5" fill="#7a8794" text-anchor="middle">UMD %d</text>`, p.x, p.y+14, c.UMD)
	}
	fmt.Fprintf(s, `<text x="%.1f" y="%.1f" font-size="14" font-weight="600" fill="#1b2733" text-anchor="middle">%s</text></g>`+"\n", p.x, y, c.Node)
}

// legend returns SVG text at height y that explains the colours. legend also returns the position
// of the right end of the text.
func (s *svg) legend(y float64, exits bool) (text string, end float64) {
	if s.marks.Legend != nil {
		return s.marks.legendOf(y)
	}
	var b strings.Builder
	x, gap := margin, 0.0
	item := func(mark, what string) {
		x += gap
		fmt.Fprintf(&b, mark+`<text x="%.1f" y="%.1f" font-size="12" fill="#5b6875">%s</text>`+"\n", x, y, x+29, y+4, what)
		x, gap = x+29+letter*float64(len(what)), 17
	}
	line := func(color, dash, what string) {
		item(`<path d="M%.1f %.1fh22" stroke="`+color+`" stroke-width="3" stroke-linecap="round"`+dash+`/>`, what)
	}
	for p := range s.t.Planes() {
		color, dash := planeColor(topo.Cable{Plane: wire.Plane(p)})
		line(color, dash, fmt.Sprintf("plane %d", p))
	}
	if slices.ContainsFunc(s.t.Cables, func(c topo.Cable) bool { return c.Unused }) {
		line(unusedColor, ` stroke-dasharray="3 3"`, "unused")
	}
	if exits {
		item(`<rect x="%.1f" y="%.1f" width="20" height="13" rx="4" fill="#ffffff" stroke="#1b2733" stroke-width="2.4" transform="translate(0 -6.5)"/>`, "exit node")
	}
	return b.String(), x
}
