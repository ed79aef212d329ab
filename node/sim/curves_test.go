package sim

import (
	"encoding/csv"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"ttfabric/node/chart"
	"ttfabric/node/sim/reliable/curves"
	"ttfabric/router"
)

var flagCurves = flag.String("sim.curves", "", "measure the curves of latency over load, and write the curves into this directory")

// TestLatencyAndLoad checks the laboratory on four setups. In an almost empty fabric, a packet must
// take the time of one hop for each hop. Below the bound of the routes, chips must deliver all
// packets of the load. No load may deliver more packets than the bound, and no cable may lose
// packets because of its rate.
func TestLatencyAndLoad(t *testing.T) {
	ph := phases{200, 600, 600}
	for _, c := range []setup{
		{"mesh:4x4", "uniform", 4096, 3, router.SlotSpec}, {"torus:4x4", "uniform", 4096, 4, router.SlotSpec}, {"mesh:4x4", "uniform", 64, 2, router.SlotSpec}, {"ring:8", "bit-complement", 4096, 3, router.SlotSpec},
	} {
		l, err := newLab(c)
		if err != nil {
			t.Fatal(err)
		}
		ideal, shared, err := l.bounds(c.size)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []float64{0.03, 0.6, 2} {
			p, err := try(c, part*shared, ph)
			if err != nil {
				t.Fatal(err)
			}
			if p.Resent != 0 || p.Wrong != 0 {
				t.Errorf("%v: %+v", c, p)
			}
			free := p.Distance * float64(c.hop)
			few := 3 / math.Sqrt(p.Load*float64(ph.measure*len(l.s.machines))) // three standard deviations of a count
			switch {
			case part < 1 && (p.Unstable || math.Abs(p.Accepted/p.Load-1) > few):
				t.Errorf("%v: not all packets of a small load were delivered: %+v", c, p)
			case part < 0.1 && math.Abs(p.Mean/free-1) > 0.08:
				t.Errorf("%v: the latency in an almost empty fabric is %.2f cycles, want %.2f", c, p.Mean, free)
			case part < 1 && p.Mean < free*0.92:
				t.Errorf("%v: the latency is less than the time of the hops, %.2f cycles: %+v", c, free, p)
			case part > 1 && (p.Accepted > ideal || p.Accepted < shared/2 || !p.Unstable):
				t.Errorf("%v: %.3f packets per cycle were delivered under a load above the bounds %.3f and %.3f", c, p.Accepted, ideal, shared)
			}
		}
	}
}

// sweep is a curve to measure. A hop takes as long as in the corresponding run of BookSim. There, a
// router takes two cycles, and a channel takes one cycle on the mesh and two on the torus.
type sweep struct {
	setup
	loads   []float64
	booksim string // file in testdata/booksim
}

const (
	meshRun  = "mesh8x8_dor_vc1_buf16_uniform_fast.csv"
	torusRun = "torus8x8_dor_vc2_buf16_uniform_fast.csv"
)

var sweeps = []sweep{
	{setup{"mesh:8x8", "uniform", 4096, 3, router.SlotSpec}, []float64{0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.32, 0.35, 0.36, 0.38, 0.4, 0.41, 0.42, 0.43, 0.45, 0.6}, meshRun},
	{setup{"mesh:8x8", "uniform", 64, 3, router.SlotSpec}, []float64{0.02, 0.05, 0.1, 0.15, 0.2, 0.22, 0.24, 0.26, 0.28, 0.3, 0.31, 0.32, 0.35, 0.5}, meshRun},
	{setup{"torus:8x8", "uniform", 4096, 4, router.SlotSpec}, []float64{0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.54, 0.57, 0.6, 0.625, 0.65, 0.66, 0.67, 0.68, 0.7, 0.72, 0.75, 0.8, 0.85, 0.9, 1}, torusRun},
	{setup{"torus:8x8", "uniform", 64, 4, router.SlotSpec}, []float64{0.02, 0.05, 0.1, 0.15, 0.2, 0.24, 0.26, 0.28, 0.3, 0.32, 0.35, 0.4, 0.43, 0.44, 0.45, 0.46, 0.48, 0.5, 0.6}, torusRun},
	{setup{"mesh:8x8", "uniform", 4096, 3, router.SlotFast}, []float64{0.02, 0.2, 0.3, 0.35, 0.4, 0.43, 0.45, 0.46, 0.47, 0.48, 0.5}, meshRun},
	{setup{"torus:8x8", "uniform", 4096, 4, router.SlotFast}, []float64{0.02, 0.2, 0.4, 0.5, 0.6, 0.65, 0.7, 0.72, 0.74, 0.76, 0.8, 0.85, 0.9, 1}, torusRun},
	{setup{"mesh:8x8", "transpose", 4096, 3, router.SlotSpec}, []float64{0.02, 0.05, 0.08, 0.1, 0.11, 0.12, 0.13, 0.14, 0.15, 0.16, 0.2, 0.3}, ""},
}

// curvePhases are the phases of the experiment for each point of a curve, in cycles.
var curvePhases = phases{2000, 4000, 3000}

// kneeTimes defines saturation: the latency is kneeTimes the latency of an empty fabric.
const kneeTimes = 3

// TestLoadCurves measures the curves that README.md shows. The test takes minutes, and runs only
// with this flag:
//
//	go test ./node/sim -run TestLoadCurves -sim.curves curves -timeout 60m
func TestLoadCurves(t *testing.T) {
	if *flagCurves == "" {
		t.Skip("the flag -sim.curves DIR measures the curves")
	}
	results := make([][]point, len(sweeps))
	limit := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for i, c := range sweeps {
		results[i] = make([]point, len(c.loads))
		for k, load := range c.loads {
			wg.Go(func() {
				limit <- struct{}{}
				defer func() { <-limit }()
				var err error
				if results[i][k], err = try(c.setup, load, curvePhases); err != nil {
					t.Errorf("%v under %v: %v", c.setup, load, err)
				}
				if p := results[i][k]; p.Wrong != 0 {
					t.Errorf("%v under %v: %d packets arrived damaged, twice or out of order", c.setup, load, p.Wrong)
				}
			})
		}
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for i, c := range sweeps {
		write(t, c.file()+".csv", curveCSV(c.setup, results[i]))
	}
	write(t, "summary.csv", summary(t, results))
	for _, machine := range []string{"mesh:8x8", "torus:8x8"} {
		ch := curvesChart(t, machine, results)
		write(t, strings.ReplaceAll(machine, ":", "")+".svg", ch.SVG())
	}
}

// TestCommittedCurves measures the first point of each curve that README.md shows, or of every third
// curve without -sim.more. The result must differ from the committed file by less than a hundredth.
func TestCommittedCurves(t *testing.T) {
	for i, c := range sweeps {
		if i%many(3, 1) != 0 {
			continue
		}
		t.Run(c.file(), func(t *testing.T) {
			t.Parallel()
			f, err := os.Open(filepath.Join("curves", c.file()+".csv"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			lines, err := csv.NewReader(f).ReadAll()
			if err != nil || len(lines) != len(c.loads)+1 {
				t.Fatalf("%d lines for %d loads: %v", len(lines), len(c.loads), err)
			}
			p, err := try(c.setup, c.loads[0], curvePhases)
			if err != nil {
				t.Fatal(err)
			}
			for k, got := range map[int]float64{4: p.Load, 5: p.Accepted, 6: p.Mean, 8: p.Distance} {
				was, err := strconv.ParseFloat(lines[1][k], 64)
				if err != nil || math.Abs(got/was-1) > 0.01 {
					t.Errorf("%s: measured %v, but the file has %v (%v): measure all curves again, see TestLoadCurves", lines[0][k], got, was, err)
				}
			}
		})
	}
}

func (c *sweep) file() string {
	return fmt.Sprintf("%s_%s_%d_%s", strings.ReplaceAll(c.machine, ":", ""), c.pattern, c.size, c.slots.Name)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(*flagCurves, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func curveCSV(c setup, ps []point) string {
	var b strings.Builder
	b.WriteString("topology,pattern,payload_bytes,slots,offered_packets_per_node_cycle,accepted_packets_per_node_cycle,latency_avg_cycles,latency_p99_cycles,distance_avg_hops,frames_resent,unstable\n")
	for _, p := range ps {
		unstable := 0
		if p.Unstable {
			unstable = 1
		}
		fmt.Fprintf(&b, "%s,%s,%d,%s,%g,%.4f,%.2f,%.1f,%.4f,%d,%d\n", c.machine, c.pattern, c.size, c.slots.Name, p.Load, p.Accepted, p.Mean, p.P99, p.Distance, p.Resent, unstable)
	}
	return b.String()
}

// knee returns the load at which a curve reaches a latency, interpolated between two points. The
// first unstable point counts as a point with a greater latency.
func knee(ps []point, latency float64) float64 {
	for i, p := range ps {
		if !p.Unstable && p.Mean < latency {
			continue
		}
		if i == 0 {
			return 0
		}
		a := ps[i-1]
		return a.Load + (p.Load-a.Load)*min(1, (latency-a.Mean)/(p.Mean-a.Mean))
	}
	return math.Inf(1)
}

// summary returns a table with one line for each curve: the bounds, our results, and the results of
// BookSim.
func summary(t *testing.T, results [][]point) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("topology,pattern,payload_bytes,slots,bound,bound_with_completions,latency_empty_computed,latency_at_0.02,load_at_3x_empty,accepted_most,accepted_at_highest_load,booksim_latency_at_0.02,booksim_load_at_3x_empty,booksim_accepted_most\n")
	for i, c := range sweeps {
		l, err := newLab(c.setup)
		if err != nil {
			t.Fatal(err)
		}
		ideal, shared, err := l.bounds(c.size)
		if err != nil {
			t.Fatal(err)
		}
		ps := results[i]
		free := ps[0].Distance * float64(c.hop)
		fmt.Fprintf(&b, "%s,%s,%d,%s,%.3f,%.3f,%.2f,%.2f,%.3f,%.3f,%.3f,", c.machine, c.pattern, c.size, c.slots.Name, ideal, shared, free, ps[0].Mean, knee(ps, kneeTimes*free), most(ps), ps[len(ps)-1].Accepted)
		if c.booksim == "" {
			b.WriteString(",,\n")
			continue
		}
		bs := booksim(t, c.booksim)
		fmt.Fprintf(&b, "%.2f,%.3f,%.3f\n", bs[0].Mean, knee(bs, kneeTimes*bs[0].Mean), most(bs))
	}
	return b.String()
}

func most(ps []point) (a float64) {
	for _, p := range ps {
		a = max(a, p.Accepted)
	}
	return a
}

// booksim reads a curve that BookSim has measured. The first point has a load of 0.02.
func booksim(t *testing.T, name string) (out []point) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata/booksim", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ps, err := curves.ReadBookSim(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range ps {
		if p.Offered >= 0.02 {
			out = append(out, point{Load: p.Offered, Accepted: p.Accepted, Mean: p.Mean, Unstable: p.Unstable})
		}
	}
	return out
}

// chartTop is the largest latency in the chart, in cycles.
const chartTop = 80

// curvesChart draws our curves and BookSim's curves of a machine, and the bounds.
func curvesChart(t *testing.T, machine string, results [][]point) *chart.Chart {
	t.Helper()
	ch := &chart.Chart{Title: "Latency by load, " + machine, X: "packets that arrive per chip and cycle", Y: "latency, mean, cycles"}
	add := func(name string, ps []point) {
		l := chart.Line{Name: name}
		for i, p := range ps {
			y := p.Mean
			if p.Unstable || y > chartTop { // the point at which the curve leaves the chart
				a := ps[max(i-1, 0)]
				x := a.Load + (p.Load-a.Load)/2
				if p.Mean > chartTop {
					x = a.Load + (p.Load-a.Load)*(chartTop-a.Mean)/(p.Mean-a.Mean)
				}
				l.X, l.Y = append(l.X, x), append(l.Y, chartTop)
				break
			}
			l.X, l.Y = append(l.X, p.Load), append(l.Y, y)
		}
		ch.Lines = append(ch.Lines, l)
	}
	seen := map[string]bool{}
	for i, c := range sweeps {
		if c.machine != machine {
			continue
		}
		add(fmt.Sprintf("%s, %d B, slots %s", c.pattern, c.size, c.slots.Name), results[i])
		if c.booksim != "" && !seen[c.booksim] {
			seen[c.booksim] = true
			add(c.pattern+", BookSim", booksim(t, c.booksim))
		}
	}
	for _, c := range sweeps {
		if c.machine == machine && c.size > 64 && c.slots.Name == router.SlotSpec.Name {
			l, err := newLab(c.setup)
			if err != nil {
				t.Fatal(err)
			}
			ideal, _, err := l.bounds(c.size)
			if err != nil {
				t.Fatal(err)
			}
			ch.Lines = append(ch.Lines, chart.Line{Name: c.pattern + ", bound of our routes", X: []float64{ideal, ideal}, Y: []float64{0, chartTop}, Bare: true})
		}
	}
	return ch
}
