package collective_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	pure "ttfabric/node/collective"
	"ttfabric/node/session/collective"
)

// TestNothingLeaks kills a chip during an operation, and compares the next operations of the other ranks with the
// schedules. Nothing of the failed operation may be seen. With a sabotage, all generations of the communicator use the
// same memory. The comparison must find this sabotage.
func TestNothingLeaks(t *testing.T) {
	for _, sabotage := range []bool{false, true} {
		t.Run(fmt.Sprintf("one memory %v", sabotage), func(t *testing.T) {
			collective.ShareMemory(sabotage)
			defer collective.ShareMemory(false)
			found, runs := 0, 0
			for i := range killInstants {
				if !*full && i%8 != 5 || sabotage && found > 0 {
					continue
				}
				run(t, "mesh:2x2", uint64(i), func(t *testing.T, b *bubble) {
					runs++
					err := leaked(t, b, i)
					if err != nil {
						found++
					}
					if err != nil && !sabotage {
						t.Errorf("instant %d: %v", i, err)
					}
				})
			}
			t.Logf("something leaked in %d of %d runs", found, runs)
			if sabotage && found == 0 {
				t.Error("the test does not find that the generations share their memory")
			}
		})
	}
}

// leaked kills a chip at instant i of an operation, shrinks the communicator, and returns an error if a later operation
// fails or has wrong results.
func leaked(t *testing.T, b *bubble, i int) error {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // an operation that takes a message of the failed one may hang
	defer cancel()
	cs := open(ctx, t, b, 1)
	r := rand.New(rand.NewPCG(uint64(i), 4))
	call := pure.Call{Kind: pure.AllToAll, Count: 300000, Type: pure.Uint8}
	begin := time.Now()
	check(ctx, t, cs, 1, r, call)
	whole := time.Since(begin)
	n, dies := len(cs), i%len(cs)
	timer := time.AfterFunc(whole*time.Duration(i)/killInstants, func() { b.kill(dies) })
	defer timer.Stop()
	left := make([]*collective.Comm, n)
	errs := errorsOf(n, func(rank int) (err error) {
		if err = cs[rank].Do(ctx, call, make([]byte, n*call.Count), make([]byte, n*call.Count)); rank == dies {
			return nil
		}
		if err == nil {
			time.Sleep(whole) // the chip dies at last
		}
		left[rank], err = cs[rank].Shrink(ctx) // each rank shrinks at once, and does not wait for the others
		return err
	})
	time.Sleep(whole)
	cs[dies].Close()
	left = append(left[:dies], left[dies+1:]...)
	b.comms = append(b.comms, left...)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return compare(ctx, left, 1, r, call, pure.Call{Kind: pure.AllReduce, Count: 50000}, call)
}
