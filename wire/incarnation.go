package wire

import (
	"fmt"
	"strconv"
)

// Life returns the life of the process that has the incarnation.
func (i Incarnation) Life() Life { return Life(uint32(i)) }

// Renewed returns another incarnation of the same life. The argument r is a random number. For the
// new incarnation, [NewSessionID] returns another id, because two inputs that differ in at most 32
// consecutive bits have different CRC-32Cs.
func (i Incarnation) Renewed(r uint32) Incarnation { return i + Incarnation(r|1)<<32 }

// Lives are the fields of a request or probe that say in which lives the destination performs
// requests of the packet's flow epoch.
type Lives struct {
	Known bool // every destination has answered in the epoch; a destination that does not know the epoch has therefore restarted, and performs no request of the epoch
	Life  Life // for unicast: the destination performs requests of the epoch only in this life; 0: in any life
}

// MarshalText returns the incarnation as 16 hexadecimal digits. The text form is for JSON, because
// many JSON readers would round a number of 64 bits.
func (i Incarnation) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%016x", uint64(i)), nil }

// UnmarshalText reads an incarnation of up to 16 hexadecimal digits.
func (i *Incarnation) UnmarshalText(b []byte) error {
	v, err := strconv.ParseUint(string(b), 16, 64)
	if err != nil {
		return fmt.Errorf("incarnation %q: want up to 16 hexadecimal digits", b)
	}
	*i = Incarnation(v)
	return nil
}
