package wire

import (
	"fmt"
	"strconv"
)

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
