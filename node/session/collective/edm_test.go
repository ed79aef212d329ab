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
