package collective_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	pure "ttfabric/node/collective"
	"ttfabric/node/session/collective"
	"ttfabric/node/sim"
	"ttfabric/router/control"
)

// killInstants is the number of instants of an operation at which TestKilled kills a chip.
const killInstants = 64

// TestKilled kills a chip at each of 64 instants of an operation. On each rank that is left, the operation has ended
// well before, or ends with an error that names the chip. The operation ends everywhere within the silence of a
// link, the time for which a port may be down before routes avoid it, and the grace period. The ranks that are left shrink the communicator. They all get the same ranks,
// and correct results. No rank of the failed operation disturbs them.
func TestKilled(t *testing.T) { eachMeans(t, allKilled) }

func allKilled(t *testing.T, means collective.Means) {
	for _, c := range []struct {
		machine string
		links   int
		dark    bool // the host of the dead chip answers nothing
		loss    bool // all cables lose 1 % of the datagrams
	}{{"mesh:2x2", 1, false, false}, {"mesh:1x4", 1, false, false}, {"t3000", 2, false, false}, {"t3000", 2, false, true}, {"mesh:2x2", 1, true, false}} {
		t.Run(fmt.Sprintf("%s, dark %v, loss %v", c.machine, c.dark, c.loss), func(t *testing.T) {
			begin, worst, failed := time.Now(), time.Duration(0), 0
			for i := range killInstants {
				if !*full && (i%16 != 7 || means == collective.EDM && i%32 != 7) {
					continue
				}
				for _, call := range []pure.Call{{Kind: pure.AllReduce, Count: 50000}, {Kind: pure.Kind(i % len(pure.Kinds())), Count: 20000, Root: 1}} {
					runBy(t, means, c.machine, uint64(i), func(t *testing.T, b *bubble) {
						b.dark = c.dark
						b.d.Dark(c.dark)
						if c.loss {
							lose(b.d)
						}
						took, ended := killed(t, b, b.links(c.links), call, i)
						worst, failed = max(worst, took), failed+ended
					})
				}
			}
			t.Logf("%d ranks failed; the slowest one %v after the death; took %v", failed, worst, time.Since(begin))
			if failed == 0 {
				t.Error("no operation failed")
			}
		})
	}
}

// killed performs a call twice. At instant i of the second time, killed kills a chip. The results are the longest
// time from the death to the end of the call on a rank, and the number of ranks with an error.
func killed(t *testing.T, b *bubble, links int, call pure.Call, i int) (took time.Duration, failed int) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cs := open(ctx, t, b, links)
	r := rand.New(rand.NewPCG(uint64(i), 3))
	begin := time.Now()
	check(ctx, t, cs, links, r, call)
	whole := time.Since(begin)
	n, dies := len(cs), i%len(cs)
	victim := cs[0].Chips()[dies]
	var death time.Time
	timer := time.AfterFunc(whole*time.Duration(i)/killInstants, func() {
		death = time.Now()
		b.kill(dies)
	})
	defer timer.Stop()
	ends := make([]time.Time, n)
	errs := errorsOf(n, func(rank int) error {
		e := call.Type.Size()
		err := cs[rank].Do(ctx, call, make([]byte, e*call.InCount(rank, n)), make([]byte, e*call.OutCount(rank, n)))
		ends[rank] = time.Now()
		return err
	})
	time.Sleep(whole) // the chip dies at last
	silence, grace := b.d.Silence()
	parts := b.parts(dies)
	var left []*collective.Comm
	for rank, err := range errs {
		if rank == dies {
			cs[rank].Close()
			continue
		}
		left = append(left, cs[rank])
		if err == nil {
			continue
		}
		failed++
		var dead *collective.DeadError
		if !errors.As(err, &dead) || dead.Chip != victim && slices.Contains(parts[rank], dead.Rank) {
			t.Errorf("instant %d, %s, rank %d: %v; want an error that names %s, or a chip behind it", i, call.Kind, rank, err, victim)
		}
		took = max(took, ends[rank].Sub(death))
	}
	most := silence + control.GoneHold + grace
	if b.dark { // a silent chip is late, and not dead, until GiveUp
		most = silence + control.GiveUp + grace
	}
	if took > most {
		t.Errorf("instant %d, %s: a rank ended %v after the death of %s, want at most %v", i, call.Kind, took, victim, most)
	}
	errs = errorsOf(len(left), func(k int) (err error) {
		left[k], err = left[k].Shrink(ctx)
		return err
	})
	b.comms = append(b.comms, left...)
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("instant %d, %s: Shrink: %v", i, call.Kind, err)
	}
	groups := map[int][]*collective.Comm{} // by the lowest rank
	for _, x := range left {
		rank := slices.Index(cs[0].Chips(), x.Chips()[x.Rank()])
		part := parts[rank]
		if x.Rank() != slices.Index(part, rank) || x.Size() != len(part) {
			t.Fatalf("instant %d: rank %d of %d after Shrink, want rank %d of %v", i, x.Rank(), x.Size(), slices.Index(part, rank), part)
		}
		groups[part[0]] = append(groups[part[0]], x)
	}
	for _, g := range groups {
		if b.means == collective.EDM && g[0].Path().Strided {
			refused(ctx, t, g)
			continue
		}
		for range 3 {
			check(ctx, t, g, links, r, draw(r, g))
		}
	}
	for _, x := range left {
		x.Close()
	}
	return took, failed
}

// refused performs an operation of the EDM on ranks that form no line. All ranks get an error that names the order.
func refused(ctx context.Context, t *testing.T, g []*collective.Comm) {
	t.Helper()
	for _, err := range errorsOf(len(g), func(k int) error { return g[k].AllGather(ctx, []byte{1}, make([]byte, len(g))) }) {
		if err == nil || !strings.Contains(err.Error(), "the ranks form a line over routes of several hops") {
			t.Errorf("an all-gather of the EDM without a line: %v", err)
		}
	}
}

func lose(d *sim.Driven) { d.Lose(0.01) }

// parts returns, for each chip, the chips that it can reach without one chip, in order.
func (b *bubble) parts(without int) [][]int {
	n := len(b.topo.Chips)
	parts := make([][]int, n)
	for i := range n {
		seen := map[int]bool{i: true}
		for grown := true; grown; {
			grown = false
			for k := range b.d.Cables() {
				x, y := b.d.Joins(k)
				if x != without && y != without && seen[x] != seen[y] {
					seen[x], seen[y], grown = true, true, true
				}
			}
		}
		parts[i] = slices.Sorted(maps.Keys(seen))
	}
	return parts
}

// TestFaults performs random calls under loss, and while links train anew, while frames take the cables of other
// links, and while packets take other routes. All outputs must be right, byte for byte.
func TestFaults(t *testing.T) { eachMeans(t, faults) }

func faults(t *testing.T, means collective.Means) {
	for _, c := range []struct {
		name string
		do   func(d *sim.Driven, cable int, on bool)
		hit  func(tables, downs int, resent uint64) bool // whether the faults had an effect
	}{
		{"loss of 1 %", func(d *sim.Driven, _ int, _ bool) { lose(d) }, func(_, _ int, resent uint64) bool { return resent > 10 }},
		{"retrains", func(d *sim.Driven, cable int, _ bool) { d.Retrain(cable) }, func(_, downs int, _ uint64) bool { return downs >= 10 }},
		{"fallback", func(d *sim.Driven, cable int, on bool) { d.Avoid(cable, on) }, func(_, _ int, _ uint64) bool { return true }},
		{"reroute", func(d *sim.Driven, cable int, on bool) { // all cables between two chips
			x, y := d.Joins(cable)
			for k := range d.Cables() {
				if p, q := d.Joins(k); p == x && q == y || p == y && q == x {
					d.Cut(k, on)
				}
			}
		}, func(tables, _ int, _ uint64) bool { return tables >= 10 }},
	} {
		if means == collective.EDM && c.name == "reroute" {
			continue // an EDM ends with its link, see TestEDMReroute
		}
		t.Run(c.name, func(t *testing.T) {
			begin := time.Now()
			runBy(t, means, "t3000", 5, func(t *testing.T, b *bubble) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				links := b.links(2)
				cs := open(ctx, t, b, links)
				r := rand.New(rand.NewPCG(5, 5))
				tables, downs, _ := b.counters()
				calls := 40
				if means == collective.EDM {
					calls = 12
				}
				if *full {
					calls = 1000
				}
				cable := 0
				for i := range calls {
					if i%4 == 0 {
						cable = r.IntN(b.d.Cables())
						on := time.AfterFunc(time.Duration(r.IntN(200))*time.Microsecond, func() { b.do(func(d *sim.Driven) { c.do(d, cable, true) }) })
						defer on.Stop()
					}
					if check(ctx, t, cs, links, r, draw(r, cs)); i%4 == 3 {
						b.do(func(d *sim.Driven) { c.do(d, cable, false) })
					}
				}
				nowTables, nowDowns, resent := b.counters()
				if !c.hit(nowTables-tables, nowDowns-downs, resent) {
					t.Errorf("the faults had no effect: %d tables, %d links down, %d frames again", nowTables-tables, nowDowns-downs, resent)
				}
				for _, x := range cs {
					x.Close()
				}
				t.Logf("%d calls in %v: %d tables, %d links down, %d frames again", calls, time.Since(b.begun), nowTables-tables, nowDowns-downs, resent)
			})
			t.Logf("took %v", time.Since(begin))
		})
	}
}
