package rank

import (
	"testing"

	"ttfabric/node/kernel"
)

// All ranks of an attempt agree on the number of a job. Other jobs, attempts and runs have other numbers.
func TestJobID(t *testing.T) {
	seen := map[kernel.JobID]bool{}
	for _, job := range []string{"abcdefgh", "abcdefgi"} {
		for attempt := range 3 {
			for n := range 20 {
				a, b := (&Rank{Rank: 0, Job: job, Attempt: attempt}).JobID(n), (&Rank{Rank: 7, Job: job, Attempt: attempt}).JobID(n)
				if a != b || a == 0 || a > 1<<53 || seen[a] {
					t.Errorf("job %d of attempt %d of %s: numbers %d and %d", n, attempt, job, a, b)
				}
				seen[a] = true
			}
		}
	}
}
