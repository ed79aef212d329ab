// Package mono has the type of the instant that every pure machine of ttfabric takes as an
// argument.
//
// An instant is a number of nanoseconds since an origin that the caller chooses: the start of the
// process in a live node, zero in a simulation. The package holds no clock. The owner of the loop
// reads the clock once per wake-up and passes the instant down.
package mono

import "time"

// Time is a monotonic instant, in nanoseconds since an origin of the caller's choice. The zero Time
// is that origin. Instants before the origin are not used.
type Time int64

// Never is later than every instant that a machine may return as its deadline.
const Never Time = 1<<63 - 1

// Add returns t+d. Adding to [Never] yields [Never].
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

// String renders t as the duration since its origin, for traces.
func (t Time) String() string {
	if t == Never {
		return "never"
	}
	return time.Duration(t).String()
}
