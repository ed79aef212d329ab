package node_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// commandFolder is the folder of the program ttfabric. Each command of the program has a file of
// its own.
const commandFolder = "../cmd/ttfabric"

// commandFile is what the test needs from one Go file in commandFolder.
type commandFile struct {
	name    string
	command bool            // whether the file declares a function that returns *cobra.Command
	defines map[string]bool // identifiers that the file declares
	uses    map[string]bool // identifiers that the file uses and does not declare
}

// group returns the command that a file belongs to. For example, benchring.go belongs to the
// command in bench.go.
func (f *commandFile) group(all map[string]*commandFile) string {
	group := f.name
	for name, g := range all {
		if g.command && len(name) < len(group) && strings.HasPrefix(f.name, name) {
			group = name
		}
	}
	return group
}

func readCommandFile(t *testing.T, path string) *commandFile {
	parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := &commandFile{name: strings.TrimSuffix(filepath.Base(path), ".go"), defines: map[string]bool{}, uses: map[string]bool{}}
	for _, d := range parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				continue
			}
			f.defines[d.Name.Name] = true
			f.command = f.command || strings.HasPrefix(d.Name.Name, "new") && returnsCommand(d)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					f.defines[s.Name.Name] = true
				case *ast.ValueSpec:
					for _, n := range s.Names {
						f.defines[n.Name] = true
					}
				}
			}
		}
	}
	for _, id := range parsed.Unresolved {
		f.uses[id.Name] = true
	}
	return f
}

func returnsCommand(d *ast.FuncDecl) bool {
	if d.Type.Results == nil || len(d.Type.Results.List) != 1 {
		return false
	}
	star, ok := d.Type.Results.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	sel, ok := star.X.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Command"
}

// TestCommandFiles checks that no command's file uses a declaration of another command's file. The
// test also checks that files do not depend on each other in a cycle. With -v, the test prints
// which file uses which. The test does not check main.go, whose root command names every command,
// and man.go, which is part of no usual build.
func TestCommandFiles(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(commandFolder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files, home := map[string]*commandFile{}, map[string]string{}
	for _, p := range paths {
		if strings.HasSuffix(p, "_test.go") {
			continue
		}
		f := readCommandFile(t, p)
		files[f.name] = f
		for id := range f.defines {
			home[id] = f.name
		}
	}
	if len(files) < 20 {
		t.Fatalf("only %d files were found in %s", len(files), commandFolder)
	}
	arrows := map[string][]string{}
	for _, from := range slices.Sorted(maps.Keys(files)) {
		f := files[from]
		if from == "main" || from == "man" {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(f.uses)) {
			to, ok := home[id]
			if !ok || to == from {
				continue
			}
			if g := files[to]; f.group(files) == g.group(files) {
				continue
			} else if g.command {
				t.Errorf("%s.go uses %s of %s.go, which is another command's file; move the declaration to a file without a command", from, id, to)
			}
			if !slices.Contains(arrows[from], to) {
				arrows[from] = append(arrows[from], to)
			}
		}
		if testing.Verbose() {
			fmt.Printf("%-16s %s\n", from, strings.Join(arrows[from], " "))
		}
	}
	for _, knot := range knots(arrows) {
		t.Errorf("files depend on each other: %s", strings.Join(knot, ", "))
	}
}

// knots returns the sets of files that depend on each other in cycles: the strongly connected
// components of more than one file, by Tarjan's algorithm.
func knots(arrows map[string][]string) (out [][]string) {
	index, low, on := map[string]int{}, map[string]int{}, map[string]bool{}
	var stack []string
	var visit func(string)
	visit = func(v string) {
		index[v] = len(index) + 1
		low[v] = index[v]
		stack, on[v] = append(stack, v), true
		for _, w := range arrows[v] {
			if index[w] == 0 {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if on[w] {
				low[v] = min(low[v], index[w])
			}
		}
		if low[v] != index[v] {
			return
		}
		i := slices.Index(stack, v)
		if knot := slices.Clone(stack[i:]); len(knot) > 1 {
			slices.Sort(knot)
			out = append(out, knot)
		}
		for _, w := range stack[i:] {
			on[w] = false
		}
		stack = stack[:i]
	}
	for _, v := range slices.SortedFunc(maps.Keys(arrows), cmp.Compare[string]) {
		if index[v] == 0 {
			visit(v)
		}
	}
	return out
}

// TestKnots checks knots on a small graph.
func TestKnots(t *testing.T) {
	got := fmt.Sprint(knots(map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}))
	if want := "[[d e] [a b c]]"; got != want {
		t.Errorf("knots are %s, want %s", got, want)
	}
}
