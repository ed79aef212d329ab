package wire

import "testing"

// FuzzParseNocAddr reads texts as addresses. The text form of an address that was read must be read
// as the same address.
func FuzzParseNocAddr(f *testing.F) {
	for _, s := range []string{"1-1:0x1000", "63-63:0xfffffffff", "0-0:0", "1-2:10", "", ":", "-:", "64-0:0", "0-64:0", "1-1:0x1000000000", "1-1:-1", "1:1-1", "1-1-1:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseNocAddr(s)
		if err != nil {
			return
		}
		if b, err := ParseNocAddr(a.String()); b != a || err != nil {
			t.Errorf("%q is read as %s, which is read as %s: %v", s, a, b, err)
		}
	})
}

func TestParseNocAddr(t *testing.T) {
	for s, want := range map[string]NocAddr{"1-2:0x1000": NewNocAddr(1, 2, 4096), "63-0:4096": NewNocAddr(63, 0, 4096), "0-0:0xfffffffff": MaxNocOffset,
		"1-1:010": NewNocAddr(1, 1, 10), "1-1:0xABC": NewNocAddr(1, 1, 0xabc)} {
		if got, err := ParseNocAddr(s); got != want || err != nil {
			t.Errorf("%q is read as %s, want %s: %v", s, got, want, err)
		}
	}
	for _, s := range []string{"", "1-2", "1-2:", "64-0:0", "0-64:0", "0-0:0x1000000000", "-1-0:0", "a-0:0", "0-0:x", "1-1:0b11", "1-1:0o17", "1-1:1_0", "1-1:0x1_0", "1-1:0x", "1-1:0x0x1", "1-1:+1"} {
		if got, err := ParseNocAddr(s); err == nil {
			t.Errorf("%q is read as %s", s, got)
		}
	}
}
