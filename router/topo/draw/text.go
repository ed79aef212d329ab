package draw

import (
	"fmt"
	"strings"

	"ttfabric/router/topo"
)

// dot draws a topology in the language of Graphviz. Graphviz's program neato with the option -n2
// places chips by the attribute pos. Graphviz's program dot ignores pos and places chips itself.
func dot(t *topo.Topology) []byte {
	const step, gap = 90, 60 // distances between chips and between meshes, in points
	var b strings.Builder
	fmt.Fprintf(&b, "// ttfabric graph: %s\ngraph %s {\n", oneLine(t.String()), quoteDot(oneLine(t.Name)))
	b.WriteString("  graph [fontname=\"Helvetica\", splines=true];\n  node [shape=box, style=\"rounded,filled\", fillcolor=\"#f4f7fb\", fontname=\"Helvetica\"];\n  edge [fontname=\"Helvetica\", fontsize=10];\n")
	cells, x, y := arrange(t, func(m topo.Mesh) (int, int) { return m.Cols*step + gap, m.Rows*step + gap })
	for i, m := range t.Meshes {
		fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=\"mesh %d: %s\"; style=rounded; color=\"#9aa5b1\";\n", m.ID, m.ID, m.Shape())
		for _, c := range chipsOf(t, m.ID) {
			fmt.Fprintf(&b, "    %s [label=\"%s%s\", pos=\"%d,%d!\"];\n", c.Node, c.Node, umdLabel(c, "\\n"), x[cells[i].col]+c.Col*step, -(y[cells[i].row] + c.Row*step))
		}
		b.WriteString("  }\n")
	}
	for _, e := range edgesOf(t) {
		style := ""
		switch {
		case e.a.Mesh != e.b.Mesh:
			style = fmt.Sprintf(", color=\"#c2410c\", penwidth=2, taillabel=%q, headlabel=%q", e.dir, e.back)
		case e.wraps(t):
			style = ", style=dashed, constraint=false"
		}
		fmt.Fprintf(&b, "  %s -- %s [label=%q%s];\n", e.a, e.b, e.label(), style)
	}
	b.WriteString("}\n")
	return []byte(b.String())
}

// mermaid draws a topology in the language of Mermaid, which Markdown pages can show.
func mermaid(t *topo.Topology) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%%%% ttfabric graph: %s\nflowchart LR\n", oneLine(t.String()))
	for _, m := range t.Meshes {
		fmt.Fprintf(&b, "  subgraph M%d[\"mesh %d: %s\"]\n", m.ID, m.ID, m.Shape())
		for _, c := range chipsOf(t, m.ID) {
			fmt.Fprintf(&b, "    %s[\"%s%s\"]\n", c.Node, c.Node, umdLabel(c, "<br/>"))
		}
		b.WriteString("  end\n")
	}
	for _, e := range edgesOf(t) {
		line := "---"
		switch {
		case e.a.Mesh != e.b.Mesh:
			line = "==="
		case e.wraps(t):
			line = "-.-"
		}
		fmt.Fprintf(&b, "  %s %s|%s| %s\n", e.a, line, e.label(), e.b)
	}
	return []byte(b.String())
}

func umdLabel(c topo.Chip, newline string) string {
	if c.UMD == topo.NoUMD {
		return ""
	}
	return fmt.Sprintf("%sUMD %d", newline, c.UMD)
}

func quoteDot(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
