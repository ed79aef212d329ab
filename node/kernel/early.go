package kernel

import (
	"slices"
	"time"

	"ttfabric/wire/mono"
)

// The chips of a job start their parts in no order. So a chip may hear that a job has ended early
// before this chip has started its part. The machine keeps such an end, and the part then ends at once.

// Limits of early ends, our own choices.
const (
	MaxEarly  = 256              // largest number of ends that the machine keeps for jobs that have not started on this chip; the machine forgets the oldest end first
	EarlyMost = 10 * time.Minute // longest time for which the machine keeps such an end
	maxOver   = 256              // largest number of ended jobs whose numbers the machine keeps
)

// early is the end of a job that has not started on this chip.
type early struct {
	job   JobID
	end   End
	until mono.Time
}

// earlyEnds holds the early ends, and the numbers of jobs that ended on this chip.
type earlyEnds struct {
	ends []early // oldest first
	over []JobID // jobs that ended on this chip, oldest first: the machine ignores later notices about these jobs
}

// hear keeps the end of a job that does not run here.
func (l *earlyEnds) hear(now mono.Time, id JobID, e End) {
	if slices.Contains(l.over, id) || slices.ContainsFunc(l.ends, func(x early) bool { return x.job == id && x.until.After(now) }) {
		return
	}
	l.ends = slices.DeleteFunc(l.ends, func(x early) bool { return !x.until.After(now) })
	if len(l.ends) == MaxEarly {
		l.ends = slices.Delete(l.ends, 0, 1)
	}
	l.ends = append(l.ends, early{id, e, now.Add(EarlyMost)})
}

// started returns and removes the end of a job that another chip reported before the job's start on
// this chip.
func (l *earlyEnds) started(now mono.Time, id JobID) (e End, ok bool) {
	l.over = slices.DeleteFunc(l.over, func(x JobID) bool { return x == id })
	for i, x := range l.ends {
		if x.job == id {
			l.ends = slices.Delete(l.ends, i, i+1)
			return x.end, x.until.After(now)
		}
	}
	return End{}, false
}

// ended notes that a job has ended on this chip.
func (l *earlyEnds) ended(id JobID) {
	if len(l.over) == maxOver {
		l.over = slices.Delete(l.over, 0, 1)
	}
	l.over = append(l.over, id)
}

// Hear takes another chip's notice of the end of a job. If the job runs, Hear ends the job.
// Otherwise the machine keeps the end for [EarlyMost], and the job ends as soon as it starts on
// this chip. Hear returns true if the job ran.
func (m *Machine) Hear(now mono.Time, id JobID, e End) bool {
	if m.End(now, id, e) {
		return true
	}
	m.early.hear(now, id, e)
	return false
}
