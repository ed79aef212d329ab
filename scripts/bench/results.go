package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// result is one figure of one round.
type result struct {
	Bench string  `json:"bench"`
	Kind  string  `json:"kind"`
	Unit  string  `json:"unit"`
	Round int     `json:"round"`
	Value float64 `json:"value"`

	// The parameters that the measurement varied. A parameter that the measurement did not vary is
	// zero.
	Size  int     `json:"size,omitempty"`         // size of a message, in bytes
	Delay float64 `json:"delay_us,omitempty"`     // delay of the path in one direction, in microseconds
	Loss  float64 `json:"loss_percent,omitempty"` // share of packets lost in each direction, in percent
}

func figure(bench, kind, unit string, round int, v float64) result {
	return result{Bench: bench, Kind: kind, Unit: unit, Round: round, Value: v}
}

// machine describes the machine and the run on which the figures depend.
type machine struct {
	Kernel     string    `json:"kernel"`
	CPU        string    `json:"cpu"`
	Cores      int       `json:"cores"`
	Go         string    `json:"go"`
	Congestion string    `json:"tcp_congestion_control"` // congestion control that the kind "tcp" uses
	Date       time.Time `json:"date"`
	Command    string    `json:"command"`
}

// report is the content of a results file.
type report struct {
	Machine machine  `json:"machine"`
	Results []result `json:"results"`
}

// commandEnv names an environment variable. If a script runs this program, this variable holds the
// command that the person typed.
const commandEnv = "TTFABRIC_BENCH_COMMAND"

// facts returns the facts about this machine. A field whose fact cannot be read stays empty.
func facts() machine {
	read := func(name string) string {
		b, _ := os.ReadFile(name)
		return strings.TrimSpace(string(b))
	}
	m := machine{Kernel: read("/proc/sys/kernel/osrelease"), Cores: runtime.NumCPU(), Go: runtime.Version(),
		Congestion: read("/proc/sys/net/ipv4/tcp_congestion_control"), Date: time.Now().UTC().Truncate(time.Second),
		Command: os.Getenv(commandEnv)}
	if m.Command == "" {
		m.Command = strings.Join(append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...), " ")
	}
	for line := range strings.Lines(read("/proc/cpuinfo")) {
		if name, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			m.CPU = strings.TrimSpace(v)
			break
		}
	}
	return m
}

func (m *machine) String() string {
	return fmt.Sprintf("%s, %d cores, Linux %s, %s, TCP with %s, %s: %s", m.CPU, m.Cores, m.Kernel, m.Go, m.Congestion,
		m.Date.Format("2006-01-02 15:04 UTC"), m.Command)
}

func load(name string) (*report, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var p report
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, fmt.Errorf("%s is not a results file: %w; this program cannot read files of an older form, so measure again", name, err)
	}
	if len(p.Results) == 0 {
		return nil, fmt.Errorf("%s holds no results", name)
	}
	return &p, nil
}

func (p *report) add(rs ...result) { p.Results = append(p.Results, rs...) }

// save writes the results, and the plots beside them.
func (p *report) save(name string) error {
	b, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(name, append(b, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "results in", name)
	return p.plot(strings.TrimSuffix(name, ".json"))
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	n := len(v)
	switch {
	case n == 0:
		return math.NaN()
	case n%2 == 1:
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}

// natural compares two names. Whole numbers within the names are compared by value.
func natural(a, b string) int {
	digits := func(s string) int {
		return len(s) - len(strings.TrimLeft(s, "0123456789"))
	}
	for a != "" && b != "" {
		n, m := digits(a), digits(b)
		if n > 0 && m > 0 {
			if c := cmp.Or(cmp.Compare(n, m), strings.Compare(a[:n], b[:m])); c != 0 {
				return c
			}
			a, b = a[n:], b[m:]
			continue
		}
		if a[0] != b[0] {
			break
		}
		a, b = a[1:], b[1:]
	}
	return strings.Compare(a, b)
}

// digits writes a figure with at most three significant digits. A figure of 1000 or more keeps all
// digits before the point.
func digits(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// print prints a Markdown table with the median, the smallest and the largest value of each
// measurement. The last column is our figure divided by the figure of the row, as the median over
// the rounds. If there is no such ratio, the column has the sign –.
func (p *report) print() error {
	if len(p.Results) == 0 {
		return errors.New("nothing was measured, because the measurement of -only uses none of the transports of -kinds")
	}
	type key struct{ bench, kind string }
	vals := map[key][]float64{}
	var order []key
	unit := map[string]string{}
	for _, r := range p.Results {
		k := key{r.Bench, r.Kind}
		if vals[k] == nil {
			order = append(order, k)
		}
		vals[k] = append(vals[k], r.Value)
		unit[r.Bench] = r.Unit
	}
	slices.SortStableFunc(order, func(a, b key) int {
		if c := natural(a.bench, b.bench); c != 0 {
			return c
		}
		return rank(a.kind) - rank(b.kind)
	})
	ours := func(bench string) []float64 {
		for _, kind := range []string{"ttlink-fast", "session", "session, 1 hop", "fabric ping", ourRanks} {
			if v := vals[key{bench, kind}]; v != nil {
				return v
			}
		}
		return nil
	}
	fmt.Printf("%s\n\n", &p.Machine)
	fmt.Println("| measurement | of | median | min–max | unit | ours / this |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, k := range order {
		v := vals[k]
		ratio := "–"
		if ours := ours(k.bench); ours != nil && len(ours) == len(v) {
			each := make([]float64, len(v))
			for i := range v {
				each[i] = ours[i] / v[i]
			}
			if m := median(each); !math.IsInf(m, 0) && !math.IsNaN(m) { // a row whose figures are 0 has no ratio
				ratio = fmt.Sprintf("%.2f", m)
			}
		}
		fmt.Printf("| %s | %s | %s | %s–%s | %s | %s |\n", k.bench, k.kind, digits(median(v)), digits(slices.Min(v)), digits(slices.Max(v)), unit[k.bench], ratio)
	}
	return nil
}
