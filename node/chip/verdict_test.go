package chip

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/node/kernel"
	"ttfabric/wire"
)

// TestTrueReasons breaks a link or a chip while a job runs whose chips 0 and 1 use the link between
// them. The job's end must name the failed link and its cable, the chip that died, or the chip that
// started anew. The job's end must name the same even if the tables already led round the link. A
// job that does not use the link must go on if only the link fails.
func TestTrueReasons(t *testing.T) {
	const link, other = 1, 2 // the job that uses the link, and the job that does not
	toEast := func(w *fabric, on bool) { w.cut(w.chips[0], wire.East, on) }
	all := func(w *fabric, on bool) {
		for _, d := range []wire.Direction{wire.East, wire.West, wire.North, wire.South} {
			w.cut(w.chips[1], d, on)
		}
	}
	for name, c := range map[string]struct {
		do    func(w *fabric)
		link  string // end of the job that uses the link
		other string // end of the job that does not use the link; empty: the job goes on
	}{
		"cable": {func(w *fabric) { toEast(w, true) },
			"link session ended, first at chip M0D0: link M0D0:%d to M0D1:%d: the tables lead round the link", ""},
		"cable, and back": {func(w *fabric) { toEast(w, true); w.run(2 * time.Second); toEast(w, false) },
			"link session ended, first at chip M0D0: link M0D0:%d to M0D1:%d: the tables lead round the link", ""},
		"restart": {func(w *fabric) { w.restart(1, 77) },
			"chip started anew, first at chip M0D1", "chip started anew, first at chip M0D1"},
		"restart behind a cut": {func(w *fabric) { toEast(w, true); w.run(20 * time.Millisecond); w.restart(1, 77) },
			"chip started anew, first at chip M0D1", "chip started anew, first at chip M0D1"},
		"death": {func(w *fabric) { all(w, true) },
			"chip died, first at chip M0D1", "chip died, first at chip M0D1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := jobFabric(t, "mesh:2x3", 0)
			channels := [2]wire.Channel{w.channel(0, wire.East), w.channel(1, wire.West)}
			for i, c := range w.chips {
				for id, tile := range map[kernel.JobID]kernel.Tile{link: shiftTile, other: {X: 2, Y: 2}} {
					b := kernel.NewBuilder(w.m)
					b.CreateKernel("wait", tile)
					j, err := b.Job(id, w.m)
					if j.Channels = nil; id == link && i < 2 {
						j.Channels = channels[i : i+1]
					}
					if err == nil {
						err = c.StartJob(w.now, j)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			w.run(20 * time.Millisecond)
			gone := w.chips[1]
			sends := func() { // the session of the link ends only with frames under way
				w.chips[0].HandleRequest(w.now, flow.Request{Dst: w.chips[1].Node(), Payload: make([]byte, 64),
					Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(3, 3, 0)}})
			}
			w.silence(w.chips[0], wire.East, true)
			sends()
			w.run(time.Millisecond)
			w.silence(w.chips[0], wire.East, false)
			c.do(w)
			w.run(5 * time.Second)
			for i, x := range w.chips {
				if x != gone && i == 1 || name == "death" && i == 1 {
					continue // the chip is new, or cannot hear the others
				}
				got := w.kernelEvents(i)
				for id, want := range map[int]string{link: c.link, other: c.other} {
					if strings.Contains(want, "%d") {
						want = fmt.Sprintf(want, channels[0], channels[1])
					}
					if ends := strings.Count(got, fmt.Sprintf("job %d ended: ", id)); want == "" && ends != 0 || want != "" && ends != 1 ||
						!strings.Contains(got, fmt.Sprintf("job %d ended: %s", id, want)) && want != "" {
						t.Errorf("chip %d: want the end %q of job %d in the events:\n%s", i, want, id, got)
					}
				}
				if n := len(x.kernels.verdicts); n != 0 {
					t.Errorf("chip %d still searches for %d reasons", i, n)
				}
			}
		})
	}
}
