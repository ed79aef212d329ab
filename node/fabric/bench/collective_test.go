package bench

import (
	"slices"
	"strings"
	"testing"

	"ttfabric/node/collective"
	blocking "ttfabric/node/session/collective"
	"ttfabric/wire"
)

func TestCollectiveOptions(t *testing.T) {
	var run CollectiveRun
	err := (&CollectiveOptions{Type: "bfloat16", Redop: "max", Scheme: "both", Means: "edm", Least: "8", Most: "1K", Times: 4, Root: 3}).Apply("all-reduce", &run)
	c, sizes := run.Call, run.Sizes
	if err != nil || run.Means != blocking.EDM || c.Root != 3 || c.Kind != collective.AllReduce || c.Type != collective.BFloat16 || c.Op != collective.Max || c.Scheme != collective.Both || !slices.Equal(sizes, []int{8, 32, 128, 512}) {
		t.Errorf("%+v, %v, %v", c, sizes, err)
	}
	for _, bad := range [][4]string{{"allreduce", "sum", "8", "8"}, {"barrier", "avg", "8", "8"}, {"barrier", "sum", "8T", "8"}, {"barrier", "sum", "K", "8"}, {"barrier", "sum", "8MM", "8"},
		{"barrier", "sum", "9", "8"}, {"barrier", "sum", "-8", "8"}, {"barrier", "sum", "8", "99999G"}} {
		if err := (&CollectiveOptions{Type: "float", Redop: bad[1], Scheme: "auto", Means: "fabric", Least: bad[2], Most: bad[3], Times: 2}).Apply(bad[0], &run); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
	if err := (&CollectiveOptions{Type: "float", Redop: "sum", Scheme: "auto", Means: "tcp", Least: "8", Most: "8", Times: 2}).Apply("barrier", &run); err == nil || !strings.Contains(err.Error(), `"tcp" moves no data`) {
		t.Errorf("means tcp: %v", err)
	}
}

// TestCollectiveTable compares the columns of the rows with the columns of the head.
func TestCollectiveTable(t *testing.T) {
	r := CollectiveRow{Size: 64 << 20, Count: 16 << 20, Type: "float", Redop: "sum", Root: -1, Ranks: 8, OutOfPlace: CollectiveTime{Micros: 218000, AlgBW: 0.3, BusBW: 0.525}}
	head := strings.Split(CollectiveHead(&CollectiveRun{Sizes: []int{8}}), "\n")
	line := r.Line()
	r.InPlace = &CollectiveTime{Micros: 12.5, Wrong: 3}
	for _, l := range []string{line, r.Line()} {
		if len(l)-1 != len(head[3]) || len(strings.Fields(l)) != 15 {
			t.Errorf("%q does not fit the head %q", l, head[3])
		}
	}
	if text, wrong := CollectiveFoot([]CollectiveRow{r}); wrong != 3 || !strings.Contains(text, "FAILED") {
		t.Errorf("%d wrong elements: %s", wrong, text)
	}
	r.Path, r.Chips = "a ring", []CollectiveChip{{Rank: 0, Chip: wire.FabricNodeID{}, Duration: 12}, {Rank: 1, Chip: wire.FabricNodeID{Chip: 1}, Start: 3.5, Duration: 10, Last: true}}
	for _, want := range []string{"#     0      M0D0           0.0        12.0\n", "#     1      M0D1           3.5        10.0  began last\n"} {
		if text, _ := CollectiveFoot([]CollectiveRow{r}); !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	if f := factor(collective.AllReduce, 4); f != 1.5 {
		t.Errorf("factor %v", f)
	}
}

// TestCollectiveCharts checks the lines of the charts by size and by the number of ranks.
func TestCollectiveCharts(t *testing.T) {
	var rows []CollectiveRow
	for i, ranks := range []int{2, 4, 8} {
		for k, size := range []int{8, 1024} {
			rows = append(rows, CollectiveRow{Op: "all-reduce", Means: "edm", Ranks: ranks, Size: size, OutOfPlace: CollectiveTime{BusBW: float64(10*i + k)}})
		}
	}
	x, y := CollectiveBySize(rows), CollectiveByRanks(rows)
	if len(x.Lines) != 3 || x.Lines[1].Name != "4 ranks" || !slices.Equal(x.Lines[1].X, []float64{8, 1024}) || !slices.Equal(x.Lines[1].Y, []float64{10, 11}) {
		t.Errorf("by size: %+v", x.Lines)
	}
	if len(y.Lines) != 2 || y.Lines[1].Name != "1024 B" || !slices.Equal(y.Lines[1].X, []float64{2, 4, 8}) || !slices.Equal(y.Lines[1].Y, []float64{1, 11, 21}) {
		t.Errorf("by ranks: %+v", y.Lines)
	}
	if y.Title != "all-reduce, out-of-place, by edm" {
		t.Error(y.Title)
	}
}
