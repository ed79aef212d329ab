package rank

import (
	"fmt"
	"hash/fnv"

	"ttfabric/node/kernel"
)

// JobID returns the number of the n-th job of kernels that the ranks run together. All ranks of an attempt get
// the same number. A later attempt gets another number: chips remember how the jobs of the failed attempt
// ended, and would end a job of the same number at once (see [kernel.EarlyMost]).
func (r *Rank) JobID(n int) kernel.JobID {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d %d", r.Job, r.Attempt, n)
	return kernel.JobID(h.Sum64()>>11 + 1) // numbers in JSON are exact up to 2^53
}
