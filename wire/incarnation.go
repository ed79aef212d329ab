package wire

import (
	"fmt"
	"strconv"
)

// MarshalText renders an incarnation as 16 hexadecimal digits. Readers of JSON would round a number
// of 64 bits.
func (i Incarnation) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%016x", uint64(i)), nil }

// UnmarshalText reads what MarshalText writes.
func (i *Incarnation) UnmarshalText(b []byte) error {
	v, err := strconv.ParseUint(string(b), 16, 64)
	if err != nil {
		return fmt.Errorf("incarnation %q: want up to 16 hexadecimal digits", b)
	}
	*i = Incarnation(v)
	return nil
}
