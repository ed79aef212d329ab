package ttlink

import (
	"testing"
	"time"

	"ttfabric/ttlink/fault"
)

// TestSlowPath reduces the rate of a path with a long queue after the link has come up on the fast
// path. Retransmissions and hellos must not fill the queue, because acknowledgements and answers
// would then come too late. All packets must arrive in three times the time that the path needs for
// them.
func TestSlowPath(t *testing.T) {
	for _, p := range []Profile{ProfileLAN, ProfileCrowded, ProfilePaced} {
		for _, rate := range []int64{2_000_000, 512_000, 256_000, 128_000, 64_000} {
			for seed := range uint64(3) {
				w := newWorld(t, seed+1, fault.Options{Delay: time.Millisecond}, func(_ int, c *Config) { c.Profile = p })
				w.start()
				if !w.until(30*time.Second, w.bothUp) {
					w.fail("not up")
				}
				for i := range w.cable {
					if err := w.cable[i].Set(fault.Options{Delay: time.Millisecond, Rate: rate}); err != nil {
						t.Fatal(err)
					}
				}
				w.load(200)
				begin := w.now
				w.mustQuiet(10 * time.Minute)
				bits := 8 * max(w.ends[0].link.Counters().PayloadSent, w.ends[1].link.Counters().PayloadSent)
				if took, needs := w.now.Sub(begin), time.Duration(bits)*time.Second/time.Duration(rate); took > 3*needs {
					w.fail("%s at %d bit/s: the packets took %v, and the path needs %v", p.Name, rate, took, needs)
				}
			}
		}
	}
}
