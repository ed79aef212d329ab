package main

import (
	"strings"
	"sync"
	"testing"
)

// TestTwoBenches runs each benchmark several times at once on one fabric. Each run measures, or is
// refused because of another run, and says so. At least one run measures. Afterwards, a run alone
// measures.
func TestTwoBenches(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.must("up", "mesh:2x2", "-d", unhurried)
	for _, x := range []struct{ args, refused string }{
		{"link M0D0 M0D1 --sizes 64 --channels 8 --time 300ms", "another command"},
		{"ring --hops 4 --sizes 16 --rounds 300", ""}, // several of these benchmarks may run on a chip at once
		{"ring --kernels --hops 4 --sizes 16 --rounds 300", "belongs to job"},
		{"rtt M0D0 M0D1 --rounds 300", ""},
	} {
		args := append([]string{"bench"}, strings.Fields(x.args)...)
		var mu sync.Mutex
		var wg sync.WaitGroup
		measured := 0
		for range 3 {
			wg.Go(func() {
				out, errs, code := c.run(args...)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case code == 0 && out != "":
					measured++
				case x.refused == "" || !strings.Contains(errs, x.refused):
					t.Errorf("%v beside itself: exit code %d: %s%s", args, code, out, errs)
				}
			})
		}
		wg.Wait()
		if measured == 0 {
			t.Errorf("%v: none of the runs measured", args)
		}
		c.must(args...)
	}
}
