package collective_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	pure "ttfabric/node/collective"
	"ttfabric/node/session/collective"
	"ttfabric/node/sim"
)

// ofRank performs a call on one rank, and throws the output away.
func ofRank(ctx context.Context, c *collective.Comm, call pure.Call) error {
	e, n := call.Type.Size(), c.Size()
	return c.Do(ctx, call, make([]byte, e*call.InCount(c.Rank(), n)), make([]byte, e*call.OutCount(c.Rank(), n)))
}

// TestEDMMismatch lets one rank make another call than the others: another reduction, another count, or another
// operation. The call must end with an error on all ranks. An error must name the reason.
func TestEDMMismatch(t *testing.T) {
	call := pure.Call{Kind: pure.AllReduce, Count: 5000}
	for _, other := range []pure.Call{{Kind: pure.AllReduce, Count: 5000, Op: pure.Max}, {Kind: pure.AllReduce, Count: 5004}, {Kind: pure.AllGather, Count: 5000}} {
		runBy(t, collective.EDM, "mesh:2x2", 1, func(t *testing.T, b *bubble) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cs := open(ctx, t, b, 1)
			named := false
			for r, err := range errorsOf(len(cs), func(r int) error {
				if r == 2 {
					return ofRank(ctx, cs[r], other)
				}
				return ofRank(ctx, cs[r], call)
			}) {
				var left *collective.AbandonedError
				if !errors.As(err, &left) {
					t.Errorf("rank %d: %v", r, err)
				} else if left.Err != nil {
					named = named || strings.Contains(err.Error(), "the other end performs another operation")
				}
			}
			if !named {
				t.Error("no error says that the ranks made different calls")
			}
		})
	}
}

// TestEDMLateRank lets one rank come to an operation five minutes after the others.
func TestEDMLateRank(t *testing.T) {
	runBy(t, collective.EDM, "mesh:1x3", 1, func(t *testing.T, b *bubble) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		cs := open(ctx, t, b, 1)
		for late := range cs {
			onAll(t, len(cs), func(r int) error {
				if r == late {
					time.Sleep(5 * time.Minute)
				}
				return ofRank(ctx, cs[r], pure.Call{Kind: pure.AllReduce, Count: 5000})
			})
		}
		check(ctx, t, cs, 1, rand.New(rand.NewPCG(1, 1)), pure.Call{Kind: pure.AllReduce, Count: 5000})
		b.settled(t)
	})
}

// TestEDMLeft ends the context of one rank during an operation. The operation ends on all other ranks, and names this
// rank.
func TestEDMLeft(t *testing.T) {
	runBy(t, collective.EDM, "mesh:2x2", 1, func(t *testing.T, b *bubble) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cs := open(ctx, t, b, 1)
		begin := time.Now()
		for r, err := range errorsOf(len(cs), func(r int) error {
			if r == 3 {
				time.Sleep(time.Second)
				return nil
			}
			mine := ctx
			if r == 1 {
				short, stop := context.WithTimeout(ctx, 300*time.Millisecond)
				defer stop()
				mine = short
			}
			return ofRank(mine, cs[r], pure.Call{Kind: pure.AllReduce, Count: 5000})
		}) {
			var left *collective.AbandonedError
			if r != 3 && (!errors.As(err, &left) || left.Rank != 1) {
				t.Errorf("rank %d: %v; want an error that names rank 1", r, err)
			}
		}
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("the operation ended after %v", took)
		}
	})
}

// TestEDMReroute cuts all cables between two neighbours during an operation. Packets take other routes, and no chip
// dies. The EDM needs the link, so the operation ends on all ranks, and an error names the link. After the repair, all
// ranks go on by Shrink.
func TestEDMReroute(t *testing.T) {
	runBy(t, collective.EDM, "t3000", 3, func(t *testing.T, b *bubble) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		cs := open(ctx, t, b, 1)
		call, r := pure.Call{Kind: pure.AllReduce, Count: 100000}, rand.New(rand.NewPCG(2, 1))
		begin := time.Now()
		check(ctx, t, cs, 1, r, call)
		cut := func(on bool) {
			b.do(func(d *sim.Driven) {
				for k := range d.Cables() {
					if x, y := d.Joins(k); min(x, y) == 0 && max(x, y) == 1 {
						d.Cut(k, on)
					}
				}
			})
		}
		half := time.Since(begin) / 2
		defer time.AfterFunc(half, func() { cut(true) }).Stop()
		named := false
		for r, err := range errorsOf(len(cs), func(r int) error { return ofRank(ctx, cs[r], call) }) {
			var left *collective.AbandonedError
			if !errors.As(err, &left) {
				t.Errorf("rank %d: %v", r, err)
			}
			for _, link := range []string{"link M0D0:0 to M0D1:8", "link M0D1:8 to M0D0:0"} { // the chip at either end may notice first
				named = named || err != nil && strings.Contains(err.Error(), link+": the tables lead round the link")
			}
		}
		if !named {
			t.Error("no error names the link")
		}
		cut(false)
		time.Sleep(5 * time.Second) // the link trains again
		onAll(t, len(cs), func(r int) (err error) {
			cs[r], err = cs[r].Shrink(ctx)
			return err
		})
		b.comms = append(b.comms, cs...)
		check(ctx, t, cs, 1, r, call)
	})
}

// TestEDMTooLarge checks that an operation is refused that needs more memory than the communicator has on a chip.
func TestEDMTooLarge(t *testing.T) {
	runBy(t, collective.EDM, "mesh:1x2", 1, func(t *testing.T, b *bubble) {
		cs := open(t.Context(), t, b, 1)
		n := 600 << 20
		err := cs[0].AllReduce(t.Context(), collective.Sum, collective.Uint8, make([]byte, n), make([]byte, n))
		if err == nil || !strings.Contains(err.Error(), "a chip holds at most 1073741824 bytes of an operation") {
			t.Error(err)
		}
	})
}
