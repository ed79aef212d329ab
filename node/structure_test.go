package node_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers is the layer of each package. A package may import only packages of lower layers. Every
// new package needs an entry.
var layers = map[string]int{
	"wire": 1, "router/topo/yamldoc": 1, "router/topo/textproto": 0, "router/topo/arrange": 0, "router/topo/kinds": 0, "router/topo/umdfile": 1, "router/topo/mgd": 1, "router/topo/assign": 1, "router/topo/mapping": 3, "router/topo/health": 3, "wire/mono": 0, "wire/castagnoli": 0, "node/chart": 0, "node/snapshot": 2,
	"ttlink": 2, "ttlink/fault": 2, "router/topo": 2, "membership": 2, "node/noc": 2,
	"router/route": 3, "node/traffic": 3, "node/losses": 3, "router/topo/draw": 3, "router/topo/pick": 3,
	"router": 4, "router/control": 4, "node/collective": 3, "node/collective/tensor": 3, "node/flow": 3, "node/fifo": 3,
	"node/session/device": 4, "node/session/linear": 6, "node/session/mesh": 6,
	"node/kernel": 5, "node/firmware": 5, "node/kernel/guide": 6, "node/edm": 6, "node/edm/allgather": 7, "node/edm/reducescatter": 7, "node/edm/schedule": 7, "node/edm/edmtest": 8, "node/kernel/shipped": 8,
	"node/firmware/board": 4, "node/firmware/host": 9,
	"node/chip": 6, "node/scenario": 5,
	"node/traffic/client": 6,
	"node/model":          8, "node/sim": 7, "node/chip/record": 7, "node/sim/reliable": 4, "router/reliable/nexthop": 2, "node/sim/reliable/curves": 10,
	"wire/capture": 8, "wire/tracetest": 8, "ttlink/transport": 8, "node/archive": 8, "membership/keyring": 8, "membership/gossip": 9, "node/session": 8, "node/session/socket": 9, "node/session/collective": 9, "node/claim": 3, "node/netem": 8,
	"ttlink/transport/pki": 8, "ttlink/transport/transporttest": 9, "ttlink/transport/linktest": 9,
	"node": 9, "ttlink/transport/quicport": 9, "wire/capture/wireshark": 9,
	"node/admin/api": 9, "node/admin/attach": 9, "node/admin/barrier": 9, "node/admin/attach/server": 10, "node/fabric/spec": 9, "node/admin/api/schema": 8,
	"node/admin": 10, "node/fabric/folder": 10,
	"node/netem/ports": 10, "node/fabric/container": 11, "node/output": 11, "node/output/screen": 8, "node/output/fit": 8, "node/output/mapped": 9, "node/chip/record/replay": 11, "node/rank": 11, "node/rank/launched": 8,
	"node/fabric": 12, "node/doctor": 12, "node/process": 12,
	"node/fabric/bench": 13, "node/fabric/pipe": 13, "node/process/processtest": 13, "node/fabric/capture": 13, "node/fabric/watch": 13, "node/fabric/ranks": 13, "node/fabric/picture": 10, "node/fabric/picture/live": 14, "node/fabric/picture/still": 15, "node/fabric/dashboard": 15, "node/fabric/top": 15, "node/scenario/live": 13,
	"cmd/ttfabric": 16, "node/rank/shift": 14, "node/rank/allreduce": 14, "node/process/shift": 14, "node/edm/gather": 14, "scripts/compare": 14, "scripts/shim": 11, "scripts/garbage": 14, "scripts/hostile": 14, "scripts/lab": 14,
}

// lastPure is the highest layer of pure packages. Pure packages get the time and all input as
// arguments, and have no clock, goroutine, socket, lock or log.
const lastPure = 7

// impureImports are the packages that a pure package must not import. A pure package may import
// time for durations, but checkFile reports calls that read the clock.
var impureImports = []string{"os", "net", "sync", "log", "log/slog", "context", "syscall", "runtime", "crypto/rand", "golang.org/x/sys/unix"}

// onlyImporter maps a library to the only package that may import the library.
var onlyImporter = map[string]string{
	"github.com/hashicorp/memberlist": "membership/gossip",
	"github.com/quic-go/quic-go":      "ttlink/transport/quicport",
	"github.com/spf13/cobra":          "cmd/ttfabric",
	"github.com/spf13/pflag":          "cmd/ttfabric",
}

const (
	maxFileLines     = 500
	maxFunctionLines = 70
	maxStructFields  = 19   // limit for a struct without field tags
	maxPackageLines  = 6000 // limit for a package, without tests
	maxCommandLines  = 9000 // limit for cmd/ttfabric, without tests; the package has a file for each command
)

// largeStructs are the structs with more than maxStructFields fields, and their numbers of fields.
// These structs must not grow. If a struct shrinks, its number here must shrink too.
var largeStructs = map[string]int{
	"membership/gossip.Pool": 21, "node.Node": 24, "node/scenario.Run": 33,
	"node/sim.Report": 20, "node/sim.op": 20, "ttlink.Counters": 40, "ttlink.Link": 22, "ttlink.Status": 29, "ttlink.sender": 26,
	"ttlink/transport.Stats": 24, "ttlink/transport/linktest.end": 22, "ttlink/transport/quicport.port": 30,
	"wire.MailboxStatus": 36, "wire.Packet": 25,
}

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

// notInClients are packages that a program must not link if the program only controls and uses a
// fabric.
var notInClients = []string{"github.com/prometheus/client_golang/prometheus", "github.com/quic-go/quic-go", "github.com/google/gopacket",
	"github.com/hashicorp/memberlist", "github.com/spf13/cobra", "ttfabric/node", "ttfabric/node/admin"}

func TestClientsLinkLittle(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "ttfabric/node/fabric", "ttfabric/node/session").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		if slices.Contains(notInClients, dep) {
			t.Errorf("a program that opens a fabric links %s", dep)
		}
	}
}

func checkPackage(t *testing.T, p *listed) {
	name := strings.TrimPrefix(p.ImportPath, "ttfabric/")
	layer, known := layers[name]
	if !known {
		t.Errorf("package %s has no layer; add the package to the table of layers in this test", name)
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
	lines := 0
	for _, f := range p.GoFiles {
		lines += checkFile(t, filepath.Join(p.Dir, f), name+"/"+f, layer <= lastPure)
	}
	most := maxPackageLines
	if name == "cmd/ttfabric" {
		most = maxCommandLines
	}
	if lines > most {
		t.Errorf("%s has %d lines; at most %d", name, lines, most)
	}
}

// checkStruct checks the number of fields of a struct without field tags.
func checkStruct(t *testing.T, where string, line int, spec *ast.TypeSpec) {
	s, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	n := 0
	for _, f := range s.Fields.List {
		if f.Tag != nil {
			return
		}
		n += max(1, len(f.Names))
	}
	name := filepath.Dir(where) + "." + spec.Name.Name
	switch most, large := largeStructs[name]; {
	case large && n != most:
		t.Errorf("%s:%d: %s has %d fields, and largeStructs says %d", where, line, name, n, most)
	case !large && n > maxStructFields:
		t.Errorf("%s:%d: %s has %d fields; at most %d", where, line, name, n, maxStructFields)
	}
}

// checkFile checks one file, and returns the number of its lines.
func checkFile(t *testing.T, path, name string, pure bool) int {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	lines := fset.File(f.Pos()).LineCount()
	if lines > maxFileLines {
		t.Errorf("%s has %d lines; at most %d", name, lines, maxFileLines)
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
				t.Errorf("%s:%d: an init function; call the code explicitly instead", name, line(n))
			}
		case *ast.TypeSpec:
			checkStruct(t, name, line(n), n)
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
	return lines
}
