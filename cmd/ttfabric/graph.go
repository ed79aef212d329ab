package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// maxDrawn is the most chips that are drawn; more are no picture for people.
const maxDrawn = 4096

// drawings are the forms of a graph.
var drawings = []struct {
	name    string
	endings []string // of files
	draw    func(t *topo.Topology) []byte
}{
	{"dot", []string{".dot", ".gv"}, drawDot},
	{"mermaid", []string{".mmd", ".mermaid"}, drawMermaid},
	{"svg", []string{".svg"}, drawSVG},
}

// drawnAs is the form that a file's ending stands for.
func drawnAs(file string) (string, error) {
	ending := strings.ToLower(filepath.Ext(file))
	var known []string
	for _, d := range drawings {
		if slices.Contains(d.endings, ending) {
			return d.name, nil
		}
		known = append(known, d.endings...)
	}
	return "", spec.Usagef("--file %s: its ending stands for no form: want %s, or --format", file, strings.Join(known, ", "))
}

func newGraph() *cobra.Command {
	var form, file string
	var names []string
	for _, d := range drawings {
		names = append(names, d.name)
	}
	c := &cobra.Command{
		Use:   "graph FILE|NAME",
		Short: "Draw a topology",
		Long: `graph draws the chips and cables of a topology: as a picture (svg), for Graphviz
(dot), or for Markdown pages (mermaid). It starts nothing.`,
		Example: `  ttfabric graph t3000 -f t3000.svg
  ttfabric graph spec-l1 --format dot | neato -n2 -Tpng > spec.png
  ttfabric graph cluster_desc.yaml --format mermaid`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTopology,
		RunE: func(c *cobra.Command, args []string) error {
			as, err := format(c)
			if err != nil {
				return err
			}
			if file != "" && !c.Flags().Changed("format") {
				if form, err = drawnAs(file); err != nil {
					return err
				}
			}
			for _, d := range drawings {
				if d.name != form {
					continue
				}
				t, err := loadTopology(c.Context(), args[0])
				if err != nil {
					return err
				}
				if len(t.Chips) > maxDrawn {
					return spec.Usagef("%s has %d chips; at most %d are drawn; 'ttfabric validate' has figures", t.Name, len(t.Chips), maxDrawn)
				}
				return writeResult(c, as, file, map[string]any{"name": t.Name, "format": form}, d.draw(t))
			}
			return spec.Usagef("--format %q: want %s", form, strings.Join(names, ", "))
		},
	}
	c.Flags().StringVar(&form, "format", "svg", strings.Join(names, ", ")+" (default with --file: as its ending says)")
	c.Flags().StringVarP(&file, "file", "f", "", "file to write (default: standard output)")
	completeFormat(c, names...)
	return c
}

// drawnEdge is the cables between two chips that leave the first in one direction and reach the second from one.
type drawnEdge struct {
	a, b         wire.FabricNodeID
	dir, back    wire.Direction
	used, unused int
}

func drawnEdges(t *topo.Topology) (es []drawnEdge) {
	at := map[drawnEdge]int{}
	for _, c := range t.Cables {
		key := drawnEdge{a: c.A.Node, b: c.B.Node, dir: c.Dir, back: c.Back}
		i, ok := at[key]
		if !ok {
			i = len(es)
			at[key], es = i, append(es, key)
		}
		if c.Unused {
			es[i].unused++
		} else {
			es[i].used++
		}
	}
	return es
}

func (e drawnEdge) label() string {
	if e.unused > 0 {
		return fmt.Sprintf("%d+%d unused", e.used, e.unused)
	}
	return fmt.Sprint(e.used)
}

// wraps reports whether the edge leads around its mesh.
func (e drawnEdge) wraps(t *topo.Topology) bool {
	a, _ := t.Chip(e.a)
	b, _ := t.Chip(e.b)
	return e.a.Mesh == e.b.Mesh && max(a.Row-b.Row, b.Row-a.Row)+max(a.Col-b.Col, b.Col-a.Col) > 1
}

// drawDot is for Graphviz; pos is for neato -n2, dot makes a layout of its own.
func drawDot(t *topo.Topology) []byte {
	const step, gap = 90, 60 // points
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
	for _, e := range drawnEdges(t) {
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

// drawMermaid is for Markdown pages.
func drawMermaid(t *topo.Topology) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%%%% ttfabric graph: %s\nflowchart LR\n", oneLine(t.String()))
	for _, m := range t.Meshes {
		fmt.Fprintf(&b, "  subgraph M%d[\"mesh %d: %s\"]\n", m.ID, m.ID, m.Shape())
		for _, c := range chipsOf(t, m.ID) {
			fmt.Fprintf(&b, "    %s[\"%s%s\"]\n", c.Node, c.Node, umdLabel(c, "<br/>"))
		}
		b.WriteString("  end\n")
	}
	for _, e := range drawnEdges(t) {
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

// chipsOf are the chips of a mesh, which stand together.
func chipsOf(t *topo.Topology, id wire.MeshID) []topo.Chip {
	first, end := 0, 0
	for i, c := range t.Chips {
		if c.Node.Mesh < id {
			first = i + 1
		}
		if c.Node.Mesh <= id {
			end = i + 1
		}
	}
	return t.Chips[first:end]
}

// oneLine keeps a name from a file within a comment, and what no form can hold out of it.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r != ' ' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.Join(strings.Fields(s), " "))
}

func quoteDot(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// cell is a mesh's place among the meshes of a picture.
type cell struct{ row, col int }

// arrange puts meshes beside each other as their exits point where it can, and
// returns for every mesh its cell, and for every column and row of cells where it begins, the sizes being given.
func arrange(t *topo.Topology, size func(topo.Mesh) (w, h int)) (cells []cell, x, y []int) {
	cells = cellsOf(t)
	low := cell{cells[0].row, cells[0].col}
	for _, c := range cells {
		low.row, low.col = min(low.row, c.row), min(low.col, c.col)
	}
	grow := func(list []int, n, v int) []int {
		for len(list) <= n {
			list = append(list, 0)
		}
		list[n] = max(list[n], v)
		return list
	}
	for i, m := range t.Meshes {
		cells[i].row -= low.row
		cells[i].col -= low.col
		w, h := size(m)
		x, y = grow(x, cells[i].col, w), grow(y, cells[i].row, h)
	}
	for _, list := range [2][]int{x, y} {
		at := 0
		for i, v := range list {
			list[i] = at
			at += v
		}
	}
	return cells, x, y
}

// cellsOf places the first mesh, then its peers on the side that the exits
// point to, beside it where the two ends don't face each other, and so on;
// where that is taken, the nearest free cell to the right and below.
func cellsOf(t *topo.Topology) []cell {
	type peer struct {
		mesh int
		dir  wire.Direction
	}
	index, peers := map[wire.MeshID]int{}, make([][]peer, len(t.Meshes))
	for i, m := range t.Meshes {
		index[m.ID] = i
	}
	es := drawnEdges(t)
	slices.SortStableFunc(es, func(e, f drawnEdge) int { // ends that face each other count first
		return int(e.dir^e.back.Opposite()) - int(f.dir^f.back.Opposite())
	})
	for _, e := range es {
		if a, b := index[e.a.Mesh], index[e.b.Mesh]; a != b {
			if e.back != e.dir.Opposite() {
				e.dir, e.back = wire.East, wire.West
			}
			peers[a], peers[b] = append(peers[a], peer{b, e.dir}), append(peers[b], peer{a, e.back})
		}
	}
	at, taken, placed := make([]cell, len(t.Meshes)), map[cell]bool{}, make([]bool, len(t.Meshes))
	put := func(i int, want cell) {
		for far := 0; !placed[i]; far++ {
			for down := range far + 1 {
				if c := (cell{want.row + down, want.col + far - down}); !taken[c] && !placed[i] {
					at[i], placed[i], taken[c] = c, true, true
				}
			}
		}
	}
	for i := range t.Meshes {
		if placed[i] {
			continue
		}
		put(i, cell{})
		for todo := []int{i}; len(todo) > 0; todo = todo[1:] {
			for _, p := range peers[todo[0]] {
				if placed[p.mesh] {
					continue
				}
				c := at[todo[0]]
				switch p.dir {
				case wire.East:
					c.col++
				case wire.West:
					c.col--
				case wire.South:
					c.row++
				case wire.North:
					c.row--
				}
				put(p.mesh, c)
				todo = append(todo, p.mesh)
			}
		}
	}
	return at
}
