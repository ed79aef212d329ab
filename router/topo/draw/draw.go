// Package draw makes pictures of a topology: its chips, meshes and cables. [Form].Draw returns a
// picture as bytes, and the caller writes the bytes to a file.
//
// A new form of picture needs a function that draws, and an entry in [Forms].
package draw

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// MaxChips is the largest number of chips of a topology that callers should draw. People cannot
// read larger pictures.
const MaxChips = 4096

// Form is a file format for pictures, with the function that draws them.
type Form struct {
	Name    string
	Endings []string // endings of the names of files in this form, with the dot, in lower case
	Draw    func(t *topo.Topology) []byte
}

// Forms lists all forms.
var Forms = []Form{
	{"dot", []string{".dot", ".gv"}, dot},
	{"mermaid", []string{".mmd", ".mermaid"}, mermaid},
	{"svg", []string{".svg"}, drawSVG},
}

// Names returns the names of all forms.
func Names() (names []string) {
	for _, f := range Forms {
		names = append(names, f.Name)
	}
	return names
}

// Endings returns the file endings of all forms.
func Endings() (endings []string) {
	for _, f := range Forms {
		endings = append(endings, f.Endings...)
	}
	return endings
}

// ByName returns the form with the given name, and true. If no form has the name, ByName returns
// false.
func ByName(name string) (Form, bool) {
	return find(func(f Form) bool { return f.Name == name })
}

// ByEnding returns the form for the ending of a file's name, in upper or lower case, and true. If
// no form has the ending, ByEnding returns false.
func ByEnding(file string) (Form, bool) {
	ending := strings.ToLower(filepath.Ext(file))
	return find(func(f Form) bool { return slices.Contains(f.Endings, ending) })
}

func find(is func(Form) bool) (Form, bool) {
	if i := slices.IndexFunc(Forms, is); i >= 0 {
		return Forms[i], true
	}
	return Form{}, false
}

// Choose returns the form with the given name. If name is "", the ending of the file's name decides, and
// without a file the form is svg.
func Choose(name, file string) (Form, error) {
	switch {
	case name == "" && file != "":
		if f, ok := ByEnding(file); ok {
			return f, nil
		}
		return Form{}, fmt.Errorf("--file %s: no drawing format has files with this ending; want a name that ends with one of %s, or choose a format with --format", file, strings.Join(Endings(), ", "))
	case name == "":
		name = "svg"
	}
	f, ok := ByName(name)
	if !ok {
		return f, fmt.Errorf("--format %q: want %s", name, strings.Join(Names(), ", "))
	}
	return f, nil
}

// edge stands for all cables between chips a and b that leave chip a in direction dir and chip b in
// direction back.
type edge struct {
	a, b         wire.FabricNodeID
	dir, back    wire.Direction
	used, unused int
}

func edgesOf(t *topo.Topology) (es []edge) {
	at := map[edge]int{}
	for _, c := range t.Cables {
		key := edge{a: c.A.Node, b: c.B.Node, dir: c.Dir, back: c.Back}
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

func (e edge) label() string {
	if e.unused > 0 {
		return fmt.Sprintf("%d+%d unused", e.used, e.unused)
	}
	return fmt.Sprint(e.used)
}

// wraps reports whether the edge joins the two ends of a row or column of a mesh.
func (e edge) wraps(t *topo.Topology) bool {
	a, _ := t.Chip(e.a)
	b, _ := t.Chip(e.b)
	return e.a.Mesh == e.b.Mesh && max(a.Row-b.Row, b.Row-a.Row)+max(a.Col-b.Col, b.Col-a.Col) > 1
}

// chipsOf returns the chips of a mesh, which are consecutive in the list of all chips.
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

// oneLine joins the lines of a name from a file, so that the name fits into a comment. oneLine
// turns each run of white space into one space. oneLine also replaces each character that is not
// printable.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r != ' ' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.Join(strings.Fields(s), " "))
}
