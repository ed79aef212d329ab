package bench

import (
	"slices"
	"strings"
	"testing"

	"ttfabric/node/collective"
)

func TestParseCollective(t *testing.T) {
	c, sizes, err := ParseCollective("all-reduce", "bfloat16", "max", "both", "8", "1K", 4)
	if err != nil || c.Kind != collective.AllReduce || c.Type != collective.BFloat16 || c.Op != collective.Max || c.Scheme != collective.Both || !slices.Equal(sizes, []int{8, 32, 128, 512}) {
		t.Errorf("%+v, %v, %v", c, sizes, err)
	}
	for _, bad := range [][4]string{{"allreduce", "sum", "8", "8"}, {"barrier", "avg", "8", "8"}, {"barrier", "sum", "8T", "8"}, {"barrier", "sum", "K", "8"}, {"barrier", "sum", "8MM", "8"},
		{"barrier", "sum", "9", "8"}, {"barrier", "sum", "-8", "8"}, {"barrier", "sum", "8", "99999G"}} {
		if _, _, err := ParseCollective(bad[0], "float", bad[1], "auto", bad[2], bad[3], 2); err == nil {
			t.Errorf("%q: no error", bad)
		}
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
	if f := factor(collective.AllReduce, 4); f != 1.5 {
		t.Errorf("factor %v", f)
	}
}
