package traffic

import (
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"
)

// subBits sets the histogram's resolution: 2^subBits = 32 buckets per doubling. A Histogram reports
// the middle of a bucket. The error is therefore at most half a bucket, 1/64 or 1.6 %.
const subBits = 5

// Histogram holds counts of durations in log-linear buckets: one bucket for each nanosecond below
// 32 ns, and 32 buckets for each doubling above. The zero value is empty. A Histogram that is
// encoded to JSON and decoded again is unchanged. Copies of a Histogram share their buckets.
type Histogram struct {
	N       uint64         `json:"n"`                 // number of durations counted
	Buckets map[int]uint64 `json:"buckets,omitempty"` // number of durations by bucket number; at most 1888 buckets
}

// Tally counts durations for a Histogram. A generator counts each packet that ends. So the counts lie
// in a slice, which is faster than a map. The zero value is empty.
type Tally []uint64 // number of durations by bucket number, up to the highest bucket with a duration

// Add counts the duration d. A negative d counts as 0.
func (t *Tally) Add(d time.Duration) {
	k := bucket(uint64(max(d, 0)))
	if k >= len(*t) {
		*t = append(*t, make([]uint64, k+1-len(*t))...)
	}
	(*t)[k]++
}

// Histogram returns the counts. The Histogram shares no memory with t.
func (t Tally) Histogram() (h Histogram) {
	for k, n := range t {
		if n == 0 {
			continue
		}
		if h.Buckets == nil {
			h.Buckets = map[int]uint64{}
		}
		h.Buckets[k] = n
		h.N += n
	}
	return h
}

// Merge adds all durations that o has counted.
func (h *Histogram) Merge(o *Histogram) {
	if h.Buckets == nil && len(o.Buckets) > 0 {
		h.Buckets = make(map[int]uint64, len(o.Buckets))
	}
	for k, n := range o.Buckets {
		h.Buckets[k] += n
	}
	h.N += o.N
}

// Quantile returns the smallest duration d for which at least the share q of the counted durations
// is at most d. The error is at most 1.6 %. The share q is 0 to 1. For an empty histogram, Quantile
// returns 0.
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

// bucket returns the number of the bucket for a duration of n nanoseconds.
func bucket(n uint64) int {
	if n < 1<<subBits {
		return int(n)
	}
	e := bits.Len64(n) - subBits - 1
	return e<<subBits + int(n>>e)
}

// middle returns the middle of bucket k. If bucket k does not exist, middle returns 0.
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
