package traffic

import (
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"
)

// subBits sets the histogram's resolution: 32 buckets per doubling. A bucket is reported by its
// middle, so the error is at most half a bucket, 1/64 or 1.6 %.
const subBits = 5

// Histogram counts durations in log-linear buckets: one bucket for each nanosecond below 32 ns, and
// 32 buckets for each doubling above. The zero value is empty. Encoding to JSON and back does not
// change a Histogram. Copies share their buckets.
type Histogram struct {
	N       uint64         `json:"n"`                 // durations counted
	Buckets map[int]uint64 `json:"buckets,omitempty"` // by bucket number, at most 1888 of them
}

// Add counts d; a negative one counts as 0.
func (h *Histogram) Add(d time.Duration) {
	if h.Buckets == nil {
		h.Buckets = map[int]uint64{}
	}
	h.Buckets[bucket(uint64(max(d, 0)))]++
	h.N++
}

// Merge adds what o has counted.
func (h *Histogram) Merge(o *Histogram) {
	if h.Buckets == nil && len(o.Buckets) > 0 {
		h.Buckets = make(map[int]uint64, len(o.Buckets))
	}
	for k, n := range o.Buckets {
		h.Buckets[k] += n
	}
	h.N += o.N
}

func (h *Histogram) clone() Histogram { return Histogram{h.N, maps.Clone(h.Buckets)} }

// Quantile returns a duration that is at least as long as a share q, from 0 to 1, of all durations.
// Quantile is exact to 1.6 %, and 0 for an empty histogram.
func (h *Histogram) Quantile(q float64) time.Duration {
	want := max(1, uint64(math.Ceil(q*float64(h.N))))
	var seen uint64
	for _, k := range slices.Sorted(maps.Keys(h.Buckets)) {
		if seen += h.Buckets[k]; seen >= want {
			return middle(k)
		}
	}
	return 0
}

// bucket is the number of the bucket that n nanoseconds fall into.
func bucket(n uint64) int {
	if n < 1<<subBits {
		return int(n)
	}
	e := bits.Len64(n) - subBits - 1
	return e<<subBits + int(n>>e)
}

// middle is the middle of a bucket. middle is 0 if no bucket has that number.
func middle(k int) time.Duration {
	switch {
	case k < 0 || k > bucket(math.MaxInt64):
		return 0
	case k < 1<<subBits:
		return time.Duration(k)
	}
	e := k>>subBits - 1
	return time.Duration(uint64(k-e<<subBits)<<e + (1<<e)/2)
}
