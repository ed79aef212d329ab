package reliable

import (
	"encoding/csv"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"ttfabric/node/chart"
	"ttfabric/wire"
)

var flagCurves = flag.String("reliable.curves", "", "measure the curves of latency over load, and write them into this directory")

// TestPaper prints the figures of the paper beside the figures of the model:
//
//	go test ./node/sim/reliable -run TestPaper -v
func TestPaper(t *testing.T) {
	numbers, err := Numbers(Mesh{8, 8}, 1)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%-66s %-12s %-7s %s\n", "mesh:8x8", "section", "paper", "model")
	for _, n := range numbers {
		text += fmt.Sprintf("%-66s %-12s %-7s %s\n", n.What, n.Section, n.Paper, n.Ours)
		if !n.OK {
			t.Errorf("%s: %s, the paper says %s", n.What, n.Ours, n.Paper)
		}
	}
	t.Log("\n" + text)
}

// sweep is a curve to measure.
type sweep struct {
	pattern string
	policy  Policy
	plain   bool
	failed  Failure
	booksim string // file in testdata/booksim with the corresponding curve, or ""
}

var (
	middle    = Failure{Link: true, At: Place{3, 3}, Dir: wire.East}
	loads     = []float64{0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4}
	loadTimes = [3]int{500, 2000, 2000} // warm, measure, drain, in flit times
)

const curveWords = 8 // with head and tail, packets of 10 flits

var sweeps = []sweep{
	{"uniform", Adaptive, true, Failure{}, "mesh8x8_min_adapt_vc3_buf16_uniform_hop4_len10.csv"},
	{"uniform", Adaptive, false, Failure{}, ""},
	{"uniform", Adaptive, true, middle, ""},
	{"uniform", Adaptive, false, middle, ""},
	{"uniform", Ordered, true, Failure{}, "mesh8x8_dor_vc1_buf16_uniform_hop4_len10.csv"},
	{"uniform", Ordered, false, Failure{}, ""},
	{"uniform", Ordered, true, middle, ""},
	{"uniform", Ordered, false, middle, ""},
	{"uniform", OrderedIn, true, Failure{}, "mesh8x8_dor_vc3_buf16_uniform_hop4_len10.csv"},
	{"uniform", OrderedIn, false, Failure{}, ""},
	{"transpose", Adaptive, true, Failure{}, "mesh8x8_min_adapt_vc3_buf16_transpose_hop4_len10.csv"},
	{"transpose", Adaptive, false, Failure{}, ""},
	{"transpose", Ordered, true, Failure{}, "mesh8x8_dor_vc1_buf16_transpose_hop4_len10.csv"},
	{"transpose", Ordered, false, Failure{}, ""},
}

func (s *sweep) name() string {
	name := s.pattern + ", " + s.policy.String()
	if !s.plain {
		name += ", tokens"
	}
	if s.failed.Link {
		name += ", one link failed"
	}
	return name
}

func (s *sweep) load(offered float64) Load {
	return Load{Config: Config{Mesh: Mesh{8, 8}, Policy: s.policy, NoTokens: s.plain, Phase: OnePhase, Seed: 1}, Pattern: s.pattern,
		Words: curveWords, Offered: offered, Failed: s.failed, Warm: loadTimes[0], Measure: loadTimes[1], Drain: loadTimes[2]}
}

// TestLoadCurves measures the curves that README.md shows, up to the first unstable point of each. The
// test takes minutes, and runs only with this flag:
//
//	go test ./node/sim/reliable -run TestLoadCurves -reliable.curves curves -timeout 60m
func TestLoadCurves(t *testing.T) {
	if *flagCurves == "" {
		t.Skip("the flag -reliable.curves DIR measures the curves")
	}
	results := make([][]Point, len(sweeps))
	limit := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for i, s := range sweeps {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			for _, offered := range loads {
				p, err := s.load(offered).Run()
				if err != nil {
					t.Errorf("%s at %v: %v", s.name(), offered, err)
				}
				if results[i] = append(results[i], p); p.Unstable || err != nil {
					break
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(*flagCurves, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("curves.csv", curvesCSV(results))
	write("uniform.svg", curvesChart(t, "uniform", false, results).SVG())
	write("failed.svg", curvesChart(t, "uniform", true, results).SVG())
	write("transpose.svg", curvesChart(t, "transpose", false, results).SVG())
}

func curvesCSV(results [][]Point) string {
	var b strings.Builder
	b.WriteString("curve,pattern,policy,tokens,failed,offered_flits_per_node_flittime,accepted_flits_per_node_flittime,latency_avg_flittimes,latency_p99_flittimes,hops_avg,fault_channel_share,unstable\n")
	for i, s := range sweeps {
		for _, p := range results[i] {
			fmt.Fprintf(&b, "%q,%s,%q,%v,%v,%s\n", s.name(), s.pattern, s.policy, !s.plain, s.failed.Link, strings.Join(row(p), ","))
		}
	}
	return b.String()
}

// row returns the last columns of a point's line in the file.
func row(p Point) []string {
	return strings.Split(fmt.Sprintf("%g,%.4f,%.2f,%.1f,%.4f,%.5f,%v", p.Offered, p.Accepted, p.Mean, p.P99, p.Hops, p.Fault, p.Unstable), ",")
}

// TestCommittedCurves measures the first point of each fifth curve, or with a small -reliable.each of
// all curves. The result must be that of the committed file, digit by digit, because the model is deterministic.
func TestCommittedCurves(t *testing.T) {
	f, err := os.Open("curves/curves.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	first := map[string][]string{}
	for _, l := range lines[1:] {
		if first[l[0]] == nil {
			first[l[0]] = l
		}
	}
	for i, s := range sweeps {
		l := first[s.name()]
		if l == nil {
			t.Errorf("%s is not in the file: measure all curves again, see TestLoadCurves", s.name())
			continue
		}
		if i%5 != 0 && *each >= 100 {
			continue
		}
		p, err := s.load(loads[0]).Run()
		if err != nil {
			t.Fatal(err)
		}
		for k, got := range row(p) {
			if was := l[len(l)-len(row(p))+k]; was != got {
				t.Errorf("%s, %s: measured %s, but the file has %s: measure all curves again, see TestLoadCurves", s.name(), lines[0][len(l)-len(row(p))+k], got, was)
			}
		}
	}
}

// booksim reads a curve that BookSim has measured.
func booksim(t *testing.T, name string) (out []Point) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata/booksim", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines[1:] {
		var p Point
		p.Offered, _ = strconv.ParseFloat(l[1], 64)
		p.Accepted, _ = strconv.ParseFloat(l[2], 64)
		p.Mean, err = strconv.ParseFloat(l[3], 64)
		p.Unstable = err != nil
		out = append(out, p)
	}
	return out
}

// chartTop is the largest latency in a chart, in flit times.
const chartTop = 200

// curvesChart draws the curves of a pattern. The chart of the curves with a failed link has the
// corresponding curves without failure, too.
func curvesChart(t *testing.T, pattern string, failed bool, results [][]Point) *chart.Chart {
	t.Helper()
	ch := &chart.Chart{Title: "Latency by load, mesh:8x8, " + pattern + ", packets of 10 flits", X: "flits that arrive per node and flit time", Y: "latency, mean, flit times"}
	add := func(name string, ps []Point) {
		l := chart.Line{Name: name}
		for _, p := range ps {
			if p.Unstable || p.Mean > chartTop {
				break
			}
			l.X, l.Y = append(l.X, p.Offered), append(l.Y, p.Mean)
		}
		ch.Lines = append(ch.Lines, l)
	}
	for i, s := range sweeps {
		if s.pattern != pattern || s.failed.Link && !failed || failed && !s.failed.Link && s.policy == OrderedIn {
			continue
		}
		name := strings.NewReplacer(pattern+", ", "", "dimension-ordered", "ordered", "one link failed", "failed link").Replace(s.name())
		add(name, results[i])
		if s.booksim != "" && !failed {
			add("BookSim, "+strings.Join(strings.Split(s.booksim, "_")[1:3], " "), booksim(t, s.booksim))
		}
	}
	return ch
}
