package allgather

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ttfabric/node/edm"
	"ttfabric/wire"
)

// TestKilledChip kills one chip at many instants of an all-gather on the ring of a T3000's chips. The job must end on
// each other chip with an error that names the killed chip. Then the test runs an all-gather on the line of the
// survivors, whose pages must be right.
func TestKilledChip(t *testing.T) {
	ring := []wire.ChipID{0, 1, 2, 3, 7, 6, 5, 4}
	for instant := range 8 {
		killed := ring[(3*instant+2)%len(ring)]
		t.Run(fmt.Sprintf("chip %d after %d ms", killed, instant), func(t *testing.T) {
			b := newBench(t, "t3000", uint64(instant))
			p := b.path(true, 1, ring...)
			s := Settings{Scheme: Scheme(instant % 3), Workers: 1, Pages: 60, PageSize: 2048, Layout: edm.Sharded, Banks: 6, Patience: time.Hour}
			op, err := New(b.M, 1, p, s)
			if err != nil {
				t.Fatal(err)
			}
			b.Start(op.Parts)
			b.Run(time.Duration(instant)*time.Millisecond, func() bool { return false })
			node := wire.FabricNodeID{Chip: killed}
			if len(b.Chips[node].Jobs()) == 0 {
				t.Fatal("the all-gather ended before the chip was killed")
			}
			b.Kill(node)
			b.Run(30*time.Second, b.Quiet)
			var line []wire.ChipID
			for i := 1; i < len(ring); i++ {
				line = append(line, ring[(i+(3*instant+2))%len(ring)])
			}
			for _, c := range line {
				if got, want := b.Ends[wire.FabricNodeID{Chip: c}], "chip died, first at chip "+node.String(); !strings.Contains(got, want) {
					t.Errorf("chip %d: %q, want %q", c, got, want)
				}
			}
			b.check()
			b.run(b.path(false, 1, line...), Settings{Scheme: Halfway, Workers: 1, Pages: 12, PageSize: 1024, Banks: 4}, 5, nil)
		})
	}
}
