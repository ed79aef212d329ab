// Package mono has the type [Time] of instants. The parts of ttfabric that read no clock take the
// present instant as an argument.
//
// An instant is a number of nanoseconds since an origin that the caller chooses. In a live node,
// the origin is the start of the process. In a simulation, the origin is the start of the
// simulation. The package reads no clock. In a live node, the chip's main loop reads the clock each
// time it wakes up. The loop passes the instant to the parts that it calls.
package mono

import "time"

// Time is a monotonic instant, in nanoseconds since an origin that the caller chooses. The zero
// Time is the origin. No instant is before the origin.
type Time int64

// Never is an instant later than all others. A deadline of Never means that nothing is due.
const Never Time = 1<<63 - 1

// Add returns t+d, or [Never] if t is [Never].
func (t Time) Add(d time.Duration) Time {
	if t == Never {
		return Never
	}
	return t + Time(d)
}

// Sub returns the duration t-u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Before reports whether t is earlier than u.
func (t Time) Before(u Time) bool { return t < u }

// After reports whether t is later than u.
func (t Time) After(u Time) bool { return t > u }

// Min returns the earlier of t and u.
func Min(t, u Time) Time {
	if u < t {
		return u
	}
	return t
}

// String returns the duration from the origin to t, such as "1.5s", or "never" for [Never].
func (t Time) String() string {
	if t == Never {
		return "never"
	}
	return time.Duration(t).String()
}
