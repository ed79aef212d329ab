package curves

import (
	"bytes"
	"embed"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"ttfabric/node/chart"
	"ttfabric/node/sim/reliable"
)

//go:embed booksim/*.csv
var bookSim embed.FS

// has reports whether BookSim has measured a curve.
func has(name string) bool {
	_, err := bookSim.ReadFile("booksim/" + name)
	return err == nil
}

// file returns a curve that BookSim has measured.
func file(name string) ([]reliable.Point, error) {
	b, err := bookSim.ReadFile("booksim/" + name)
	if err != nil {
		return nil, err
	}
	return ReadBookSim(bytes.NewReader(b))
}

// ReadBookSim reads the results of BookSim's runs, one load in each line: the columns 2 to 4 are the
// offered load, the accepted rate and the mean latency. A line without a latency is unstable.
func ReadBookSim(r io.Reader) (out []reliable.Point, err error) {
	lines, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, err
	}
	for i, l := range lines {
		if i == 0 || len(l) < 4 {
			continue
		}
		var p reliable.Point
		if p.Offered, err = strconv.ParseFloat(l[1], 64); err != nil {
			return nil, err
		}
		if p.Accepted, err = strconv.ParseFloat(l[2], 64); err != nil {
			return nil, err
		}
		p.Mean, err = strconv.ParseFloat(l[3], 64)
		p.Unstable = err != nil
		out = append(out, p)
	}
	return out, nil
}

// head are the columns of [CSV].
const head = "curve,offered_flits_per_node_flittime,accepted_flits_per_node_flittime,latency_avg_flittimes,latency_p99_flittimes,hops_avg,fault_channel_share,unstable\n"

// CSV returns the rows of the model as a file. BookSim's rows have files of their own.
func CSV(rows []Row) string {
	var b strings.Builder
	b.WriteString(head)
	for _, r := range rows {
		if !r.BookSim {
			fmt.Fprintf(&b, "%q,%g,%.4f,%s,%s,%.4f,%.5f,%v\n", r.Curve, r.Offered, r.Accepted, text(r.Mean, 2), text(r.P99, 1), r.Hops, r.Fault, r.Unstable)
		}
	}
	return b.String()
}

// text returns a number with so many digits behind the point, or "NaN" for none.
func text(v *float64, digits int) string {
	if v == nil {
		return "NaN"
	}
	return strconv.FormatFloat(*v, 'f', digits, 64)
}

// chartTop is the largest latency in a chart, in flit times.
const chartTop = 200

// Charts returns the charts of the rows by file name: one for each pattern, and one that compares the
// curves with a failed link with the others.
func Charts(m reliable.Mesh, rows []Row) map[string]*chart.Chart {
	out := map[string]*chart.Chart{}
	for _, r := range rows {
		pattern, rest, _ := strings.Cut(r.Curve, ", ")
		rest = strings.NewReplacer("dimension-ordered", "ordered", "one link failed", "failed link").Replace(rest)
		failed := strings.Contains(r.Curve, "failed")
		if !failed {
			add(out, pattern+".svg", m, pattern, rest, &r)
		}
		if pairs := failed || !r.BookSim && !strings.Contains(r.Curve, "3 channels"); pairs {
			add(out, pattern+"-failed.svg", m, pattern, rest, &r)
		}
	}
	for name, c := range out {
		if strings.HasSuffix(name, "-failed.svg") && !strings.Contains(fmt.Sprint(c.Lines), "failed link") {
			delete(out, name)
		}
	}
	return out
}

// add adds a row to a line of a chart. A line ends before its first unstable point.
func add(charts map[string]*chart.Chart, file string, m reliable.Mesh, pattern, line string, r *Row) {
	c := charts[file]
	if c == nil {
		c = &chart.Chart{Title: fmt.Sprintf("Latency by load, %v, %s, packets of %d flits", m, pattern, Words+2), X: "flits that arrive per node and flit time", Y: "latency, mean, flit times"}
		charts[file] = c
	}
	if n := len(c.Lines); n == 0 || c.Lines[n-1].Name != line {
		c.Lines = append(c.Lines, chart.Line{Name: line})
	}
	if r.Mean == nil || r.Unstable || *r.Mean > chartTop {
		return
	}
	l := &c.Lines[len(c.Lines)-1]
	l.X, l.Y = append(l.X, r.Offered), append(l.Y, *r.Mean)
}

// Write writes the rows as curves.csv and the charts as SVG into a folder, which must exist.
func Write(folder string, m reliable.Mesh, rows []Row) error {
	files := map[string]string{"curves.csv": CSV(rows)}
	for name, c := range Charts(m, rows) {
		files[name] = c.SVG()
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Table returns the head and the rows of a table of curves.
func Table(rows []Row) (head []any, cells [][]any) {
	cell := func(v *float64) any {
		if v == nil {
			return "–"
		}
		return text(v, 1)
	}
	for _, r := range rows {
		hops, fault := any("–"), any("–")
		if !r.BookSim {
			hops, fault = fmt.Sprintf("%.2f", r.Hops), fmt.Sprintf("%.1f %%", 100*r.Fault)
		}
		stable := "yes"
		if r.Unstable {
			stable = "no"
		}
		cells = append(cells, []any{r.Curve, r.Offered, fmt.Sprintf("%.3f", r.Accepted), cell(r.Mean), cell(r.P99), hops, fault, stable})
	}
	return []any{"Curve", "Offered", "Accepted", "Mean", "P99", "Hops", "Fault hops", "Stable"}, cells
}

// NumberTable returns the head and the rows of a table of the paper's figures.
func NumberTable(ns []reliable.Number) (head []any, cells [][]any) {
	for _, n := range ns {
		ok := "yes"
		switch {
		case n.Paper == "":
			ok = ""
		case !n.OK:
			ok = "no"
		}
		cells = append(cells, []any{n.What, n.Section, n.Paper, n.Ours, ok})
	}
	return []any{"Figure", "Paper's section", "Paper", "Model", "Equal"}, cells
}
