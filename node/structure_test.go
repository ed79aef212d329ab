package node_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// layers is a statement of policy: a package imports only packages of lower
// layers (and, within a layer, those that it names in peers). A new package
// must be given its place here.
var layers = map[string]int{
	"wire": 1, "wire/mono": 0, "wire/castagnoli": 0, "node/chart": 0,
	"ttlink": 2, "ttlink/fault": 2, "router/topo": 2, "membership": 2, "node/noc": 2,
	"router/route": 3, "node/traffic": 3, "node/losses": 3,
	"router": 4, "router/control": 4, "node/flow": 4,
	"node/chip": 5, "node/scenario": 5,
	"node/traffic/client": 6,
	"node/sim":            7, "node/chip/record": 7,
	"wire/capture": 8, "ttlink/transport": 8, "node/archive": 8, "membership/gossip": 8, "node/session": 8, "node/netem": 8,
	"ttlink/transport/pki": 8, "ttlink/transport/transporttest": 9, "ttlink/transport/linktest": 9,
	"node": 9, "ttlink/transport/quicport": 9,
	"node/admin":   10,
	"cmd/ttfabric": 11, "scripts/garbage": 11, "scripts/lab": 11,
	"scripts/wireshark": 8, "scripts/wireshark/compare": 11,
}

// lastPure is the highest layer whose packages take time and input as arguments and hold no clock, goroutine, socket, lock or log.
const lastPure = 7

// impureImports are what a pure package must not import. time is allowed for durations; reading the clock is found in the code.
var impureImports = []string{"os", "net", "sync", "log", "log/slog", "context", "syscall", "runtime", "crypto/rand", "golang.org/x/sys/unix"}

// onlyImporter are the libraries that one package alone may import.
var onlyImporter = map[string]string{
	"github.com/hashicorp/memberlist": "membership/gossip",
	"github.com/quic-go/quic-go":      "ttlink/transport/quicport",
}

const (
	maxFileLines     = 500
	maxFunctionLines = 70
)

type listed struct {
	ImportPath, Dir  string
	Imports, GoFiles []string
}

func TestLayers(t *testing.T) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles", "ttfabric/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p listed
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		seen++
		checkPackage(t, &p)
	}
	if seen < 15 {
		t.Errorf("only %d packages were found", seen)
	}
}

func checkPackage(t *testing.T, p *listed) {
	name := strings.TrimPrefix(p.ImportPath, "ttfabric/")
	layer, known := layers[name]
	if !known {
		t.Errorf("%s has no place among the layers; give it one in this test", name)
		return
	}
	for _, imp := range p.Imports {
		if own, ok := strings.CutPrefix(imp, "ttfabric/"); ok && layers[own] >= layer {
			t.Errorf("%s (layer %d) imports %s (layer %d)", name, layer, own, layers[own])
		}
		if only := onlyImporter[imp]; only != "" && only != name {
			t.Errorf("%s imports %s; only %s may", name, imp, only)
		}
		if layer > lastPure {
			continue
		}
		for _, bad := range impureImports {
			if imp == bad {
				t.Errorf("%s is pure and imports %s", name, imp)
			}
		}
	}
	for _, f := range p.GoFiles {
		checkFile(t, filepath.Join(p.Dir, f), name+"/"+f, layer <= lastPure)
	}
}

func checkFile(t *testing.T, path, name string, pure bool) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if n := fset.File(f.Pos()).LineCount(); n > maxFileLines {
		t.Errorf("%s has %d lines; at most %d", name, n, maxFileLines)
	}
	imports := map[string]string{}
	for _, i := range f.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		imports[filepath.Base(p)] = p
		if strings.HasSuffix(p, "/v2") {
			imports[filepath.Base(filepath.Dir(p))] = p
		}
	}
	line := func(n ast.Node) int { return fset.Position(n.Pos()).Line }
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if l := fset.Position(n.End()).Line - line(n) + 1; l > maxFunctionLines {
				t.Errorf("%s:%d: %s has %d lines; at most %d", name, line(n), n.Name.Name, l, maxFunctionLines)
			}
			if n.Name.Name == "init" && n.Recv == nil {
				t.Errorf("%s:%d: an init function; say it where it happens", name, line(n))
			}
		case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
			if pure {
				t.Errorf("%s:%d: a goroutine or channel in a pure package", name, line(n))
			}
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok || !pure {
				break
			}
			switch imports[x.Name] {
			case "time":
				switch n.Sel.Name {
				case "Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker":
					t.Errorf("%s:%d: time.%s in a pure package", name, line(n), n.Sel.Name)
				}
			case "math/rand", "math/rand/v2":
				switch n.Sel.Name {
				case "New", "NewPCG", "NewChaCha8", "Rand", "PCG", "Source":
				default:
					t.Errorf("%s:%d: rand.%s uses global randomness in a pure package", name, line(n), n.Sel.Name)
				}
			}
		}
		return true
	})
}
