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

// Lives says which lives of its destination may begin a packet's flow epoch.
type Lives struct {
	Known bool // the source has had an answer from every destination in the epoch; a destination that does not know the epoch has restarted, and performs no request of the epoch
	Life  Life // for unicast: only this life of the destination performs requests of the epoch; 0: any life
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
