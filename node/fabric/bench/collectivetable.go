package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"ttfabric/node/chart"
	"ttfabric/node/collective"
	"ttfabric/node/fabric/spec"
	blocking "ttfabric/node/session/collective"
	"ttfabric/router/topo"
)

// CollectiveHead returns the first lines of the table that nccl-tests prints, with a column for the efficiency.
func CollectiveHead(run *CollectiveRun) string {
	least, most := 0, 0
	if len(run.Sizes) > 0 {
		least, most = run.Sizes[0], run.Sizes[len(run.Sizes)-1]
	}
	return fmt.Sprintf("# minBytes %d maxBytes %d warmup iters: %d iters: %d validation: 1 means: %s\n#\n", least, most, run.Warm, run.Rounds, run.Means) +
		fmt.Sprintf("#%62s%42s\n", "out-of-place", "in-place") +
		fmt.Sprintf("#%11s%13s%10s%8s%8s%9s%8s%8s%7s%6s%9s%8s%8s%7s%6s\n", "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "eff", "time", "algbw", "busbw", "#wrong", "eff") +
		fmt.Sprintf("#%11s%13s%10s%8s%8s%9s%8s%8s%7s%6s%9s%8s%8s%7s%6s\n", "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "", "(us)", "(GB/s)", "(GB/s)", "", "")
}

// Line returns the row as nccl-tests prints it.
func (r *CollectiveRow) Line() string {
	s := fmt.Sprintf("%12d%13d%10s%8s%8d%s", r.Size, r.Count, r.Type, r.Redop, r.Root, r.OutOfPlace.line())
	if r.InPlace == nil {
		return s + fmt.Sprintf("%9s%8s%8s%7s%6s\n", "N/A", "N/A", "N/A", "N/A", "N/A")
	}
	return s + r.InPlace.line() + "\n"
}

func (t *CollectiveTime) line() string {
	micros := fmt.Sprintf("%.2f", t.Micros)
	if t.Micros >= 10000 {
		micros = fmt.Sprintf("%.0f", t.Micros)
	}
	return fmt.Sprintf("%9s%8.3f%8.3f%7d%6.2f", micros, t.AlgBW, t.BusBW, t.Wrong, t.Efficiency)
}

// CollectiveFoot returns the last lines of the table, and the number of wrong elements of all rows.
func CollectiveFoot(rows []CollectiveRow) (text string, wrong int) {
	sum, n := 0.0, 0
	for _, r := range rows {
		for _, t := range []*CollectiveTime{&r.OutOfPlace, r.InPlace} {
			if t != nil {
				sum, n, wrong = sum+t.BusBW, n+1, wrong+t.Wrong
			}
		}
	}
	ok := "OK"
	if wrong > 0 {
		ok = "FAILED"
	}
	if len(rows) > 0 {
		text = rows[len(rows)-1].report()
	}
	return text + fmt.Sprintf("# Out of bounds values : %d %s\n# Avg bus bandwidth    : %.6g\n", wrong, ok, sum/float64(max(n, 1))), wrong
}

// report returns the times of each chip. The chip that began last did not wait for other chips (CCL guide, "Measuring Op
// Performance").
func (r *CollectiveRow) report() string {
	text := fmt.Sprintf("# %d ranks on %s; a link carries %.3f GB/s in one direction\n", r.Ranks, r.Path, r.LinkGBps)
	text += fmt.Sprintf("# Calls of %d B, out-of-place, by chip:\n#%6s%10s%14s%12s\n", r.Size, "rank", "chip", "start (us)", "time (us)")
	for _, c := range r.Chips {
		text += fmt.Sprintf("#%6d%10s%14.1f%12.1f", c.Rank, c.Chip, c.Start, c.Duration)
		if c.Last {
			text += "  began last"
		}
		text += "\n"
	}
	return text
}

// CollectiveOptions are the texts and numbers that describe a [CollectiveRun]. The sizes go from Least to Most bytes. Each
// size is the size before it, multiplied by Times. The texts Least and Most may end in K, M or G, for 2^10, 2^20 or 2^30.
type CollectiveOptions struct {
	Type, Redop, Scheme, Means string
	Least, Most                string
	Times, Root                int
}

// Apply sets the call, the sizes and the means of a run.
func (o *CollectiveOptions) Apply(kind string, run *CollectiveRun) (err error) {
	var errs [7]error
	var a, b int
	c := &run.Call
	c.Root = o.Root
	c.Kind, errs[0] = collective.ParseKind(kind)
	c.Type, errs[1] = collective.ParseType(o.Type)
	c.Op, errs[2] = collective.ParseOp(o.Redop)
	c.Scheme, errs[3] = collective.ParseScheme(o.Scheme)
	run.Means, errs[4] = blocking.ParseMeans(o.Means)
	a, errs[5] = parseBytes(o.Least)
	b, errs[6] = parseBytes(o.Most)
	if err := errors.Join(errs[:]...); err != nil {
		return spec.Usagef("%v", err)
	}
	run.Sizes, err = CollectiveSizes(a, b, o.Times)
	if c.Kind == collective.Barrier {
		run.Sizes = run.Sizes[:min(1, len(run.Sizes))] // a barrier has no data
	}
	return err
}

// CollectiveTable is like [Target.Collective], and also writes the table to out, if out is not nil. The function "told" gets
// the number of rows so far. CollectiveTable returns the rows, also after an error.
func (b *Target) CollectiveTable(ctx context.Context, run CollectiveRun, out io.Writer, told func(rows int)) (rows []CollectiveRow, err error) {
	write := func(text string) {
		if out != nil {
			fmt.Fprint(out, text)
		}
	}
	write(CollectiveHead(&run))
	err = b.Collective(ctx, run, func(r CollectiveRow) {
		if len(run.Ranks) > 1 && (len(rows) == 0 || rows[len(rows)-1].Ranks != r.Ranks) {
			write(fmt.Sprintf("# %s\n", topo.Count(r.Ranks, "rank")))
		}
		rows = append(rows, r)
		write(r.Line())
		told(len(rows))
	})
	return rows, err
}

// parseBytes returns a number of bytes such as 8, 64K or 64M.
func parseBytes(text string) (int, error) {
	digits, shift := strings.TrimRight(text, "KMGkmg"), 0
	if i := strings.Index("KMG", strings.ToUpper(text[len(digits):])); len(text) > len(digits) {
		if shift = 10 * (i + 1); i < 0 || len(text) > len(digits)+1 {
			return 0, fmt.Errorf("%q is no number of bytes: want a number, perhaps with K, M or G", text)
		}
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || n > collective.MaxCount>>shift {
		return 0, fmt.Errorf("%q is no number of bytes: want 0 to %d, perhaps with K, M or G", text, collective.MaxCount)
	}
	return n << shift, nil
}

// CollectiveSizes returns the sizes from "least" to "most". Each size is the size before it, multiplied by
// "times".
func CollectiveSizes(least, most, times int) ([]int, error) {
	if least < 1 || most < least || most > collective.MaxCount || times < 2 {
		return nil, spec.Usagef("sizes from %d to %d bytes with factor %d: want sizes from 1 to %d, the smallest one first, and a factor of at least 2", least, most, times, collective.MaxCount)
	}
	var out []int
	for n := least; ; n *= times {
		out = append(out, n)
		if n > most/times { // the next size would be too large
			return out, nil
		}
	}
}

// CollectiveBySize draws the bus bandwidth by size, with one line for each number of ranks.
func CollectiveBySize(rows []CollectiveRow) *chart.Chart {
	c := &chart.Chart{Title: collectiveTitle(rows), X: "size, bytes", Y: "busbw, GB/s", LogX: true}
	c.Lines = collectiveLines(rows, func(r *CollectiveRow) (line string, x int) { return topo.Count(r.Ranks, "rank"), r.Size })
	return c
}

// CollectiveByRanks draws the bus bandwidth by the number of ranks, with one line for each size.
func CollectiveByRanks(rows []CollectiveRow) *chart.Chart {
	c := &chart.Chart{Title: collectiveTitle(rows), X: "ranks", Y: "busbw, GB/s"}
	c.Lines = collectiveLines(rows, func(r *CollectiveRow) (line string, x int) { return fmt.Sprintf("%d B", r.Size), r.Ranks })
	return c
}

func collectiveTitle(rows []CollectiveRow) string {
	if len(rows) == 0 {
		return "no operation"
	}
	return fmt.Sprintf("%s, out-of-place, by %s", rows[0].Op, rows[0].Means)
}

// collectiveLines returns the lines of a chart. The function "of" returns the name of a row's line, and the row's place.
func collectiveLines(rows []CollectiveRow, of func(*CollectiveRow) (line string, x int)) (ls []chart.Line) {
	at := map[string]int{}
	for i := range rows {
		name, x := of(&rows[i])
		k, ok := at[name]
		if !ok {
			k = len(ls)
			at[name] = k
			ls = append(ls, chart.Line{Name: name})
		}
		ls[k].X, ls[k].Y = append(ls[k].X, float64(x)), append(ls[k].Y, rows[i].OutOfPlace.BusBW)
	}
	return ls
}
