package curves

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"ttfabric/node/sim/reliable"
	"ttfabric/router/topo"
)

var (
	rewrite = flag.Bool("rewrite", false, "write the charts of curves.csv anew")
	all     = flag.Bool("all", false, "measure the first point of every committed curve, not of every fifth")
)

var eight = reliable.Mesh{W: 8, H: 8}

// options are those of the committed curves.
var options = Options{Seed: 1}

// committed returns the rows of curves.csv with BookSim's rows between them.
func committed(t *testing.T) (rows []Row) {
	t.Helper()
	b, err := os.ReadFile("curves.csv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	for _, c := range Of(eight, options) {
		for _, l := range lines[1:] {
			rest, ok := strings.CutPrefix(l, strconv.Quote(c.Name())+",")
			if !ok {
				continue
			}
			var r Row
			var mean, p99 float64
			f := strings.Split(rest, ",")
			if _, err := fmt.Sscan(strings.Join(f, " "), &r.Offered, &r.Accepted, &mean, &p99, &r.Hops, &r.Fault, &r.Unstable); err != nil {
				t.Fatalf("%s: %v", l, err)
			}
			r.Curve, r.Mean, r.P99 = c.Name(), number(mean), number(p99)
			rows = append(rows, r)
		}
		rows = append(rows, bookSimRows(t, &c)...)
	}
	return rows
}

func bookSimRows(t *testing.T, c *Curve) (rows []Row) {
	t.Helper()
	if c.booksim == "" {
		return nil
	}
	rows, err := c.bookSim()
	if err != nil || len(rows) < 3 {
		t.Fatal(len(rows), err)
	}
	return rows
}

// TestCommittedCharts draws the charts of the committed curves, and compares them with the files.
func TestCommittedCharts(t *testing.T) {
	rows := committed(t)
	if *rewrite {
		if err := Write(".", eight, rows); err != nil {
			t.Fatal(err)
		}
	}
	charts := Charts(eight, rows)
	charted := map[string]int{"uniform.svg": 9, "uniform-failed.svg": 8, "transpose.svg": 6}
	for name, c := range charts {
		b, err := os.ReadFile(name)
		if err != nil || string(b) != c.SVG() || len(c.Lines) != charted[name] {
			t.Errorf("%s with %d lines differs from curves.csv: 'go test ./node/sim/reliable/curves -rewrite' writes the file (%v)", name, len(c.Lines), err)
		}
	}
	if len(charts) != len(charted) {
		t.Errorf("%d charts", len(charts))
	}
	if b, err := os.ReadFile("curves.csv"); err != nil || string(b) != CSV(rows) {
		t.Errorf("curves.csv is not what CSV writes (%v)", err)
	}
}

// TestCommittedCurves measures the first point of each fifth curve, or with -all of all curves. The
// result must be that of the committed file, digit by digit, because the model is deterministic.
func TestCommittedCurves(t *testing.T) {
	first := map[string]*Row{}
	rows := committed(t)
	for i, r := range rows {
		if first[r.Curve] == nil {
			first[r.Curve] = &rows[i]
		}
	}
	for i, c := range Of(eight, options) {
		r := first[c.Name()]
		if r == nil {
			t.Errorf("%s is not in the file: measure all curves again, see README.md of node/sim/reliable", c.Name())
			continue
		}
		if i%5 != 0 && !*all {
			continue
		}
		t.Run(c.Name(), func(t *testing.T) {
			t.Parallel()
			p, err := c.Load(Loads[0]).Run()
			if err != nil {
				t.Fatal(err)
			}
			if got, want := CSV([]Row{rowOf(&c, &p)}), CSV([]Row{*r}); got != want {
				t.Errorf("measured %s, but the file has %s: measure all curves again, see README.md of node/sim/reliable", got, want)
			}
		})
	}
}

// TestRun measures curves of a small mesh. Two runs must give the same rows and report all points,
// and a load above what links carry must end a curve.
func TestRun(t *testing.T) {
	m := reliable.Mesh{W: 4, H: 3}
	var was []Row
	for range 2 {
		last, total := 0, 0
		rows, err := Run(t.Context(), m, Options{Patterns: []string{"uniform"}, Loads: []float64{0.05, 0.95, 1}, Seed: 3}, func(done, of int) { last, total = done, of })
		if err != nil || last != total || total != 3*10 {
			t.Fatalf("%d of %d points, %v", last, total, err)
		}
		seen := map[string][]Row{}
		for _, r := range rows {
			seen[r.Curve] = append(seen[r.Curve], r)
		}
		if len(seen) != 10 {
			t.Errorf("%d curves", len(seen))
		}
		for name, rs := range seen {
			if rs[0].Unstable || rs[0].Mean == nil || *rs[0].Mean < 4 || len(rs) < 2 || !rs[1].Unstable && *rs[1].Mean < 2**rs[0].Mean {
				t.Errorf("%s: %+v", name, rs)
			}
		}
		if was != nil && !reflect.DeepEqual(was, rows) {
			t.Error("two runs with one seed differ")
		}
		was = rows
		dir := t.TempDir()
		if err := Write(dir, m, rows); err != nil {
			t.Fatal(err)
		}
		if files, _ := filepath.Glob(dir + "/*"); len(files) != 3 {
			t.Errorf("files %v", files)
		}
	}
	for _, o := range []Options{{Loads: []float64{2}}, {Loads: []float64{0.2, 0.1}}, {Patterns: []string{"nonsense"}}, {Loads: []float64{0}}} {
		if _, err := Run(t.Context(), m, o, func(int, int) {}); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

// TestMesh takes the topologies that the Reliable Router can have.
func TestMesh(t *testing.T) {
	for name, want := range map[string]reliable.Mesh{"mesh:4x8": {W: 8, H: 4}, "t3000": {W: 4, H: 2}, "torus:4x4": {}, "line:4": {}, "ring:8": {}, "2xt3000": {}, "mesh:2x64": {}} {
		top, err := topo.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := Mesh(top); m != want || (err == nil) != (want != reliable.Mesh{}) {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
}
