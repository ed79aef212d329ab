package wire

import "testing"

// FuzzParseNocAddr reads texts as addresses. The text form of an address that was read must be read
// as the same address.
func FuzzParseNocAddr(f *testing.F) {
	for _, s := range []string{"1-1:0x1000", "63-63:0xfffffffff", "0-0:0", "1-2:10", "", ":", "-:", "64-0:0", "0-64:0", "1-1:0x1000000000", "1-1:-1", "1:1-1", "1-1-1:1", "noc1:1-1:0", "1-1..2-2:0x10", "0-0..1-1:0"} {
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
		"1-1:010": NewNocAddr(1, 1, 10), "1-1:0xABC": NewNocAddr(1, 1, 0xabc),
		"noc1:8-11:0x10": NewNocAddr(8, 11, 16) | 1<<60, "1-2..4-5:0x10": NewNocAddr(4, 5, 16) | 1<<48 | 2<<54, "0-1..0-1:0": NewNocAddr(0, 1, 0) | 1<<54,
		"63-63..63-63:0xffffffff": NewNocAddr(63, 63, 1<<32-1) | 63<<48 | 63<<54} {
		if got, err := ParseNocAddr(s); got != want || err != nil {
			t.Errorf("%q is read as %s, want %s: %v", s, got, want, err)
		}
	}
	for _, s := range []string{"", "1-2", "1-2:", "64-0:0", "0-64:0", "0-0:0x1000000000", "-1-0:0", "a-0:0", "0-0:x", "1-1:0b11", "1-1:0o17", "1-1:1_0", "1-1:0x1_0", "1-1:0x", "1-1:0x0x1", "1-1:+1",
		"noc1:", "noc2:1-1:0", "noc1:1-1..2-2:0", "1-1..:0", "..1-1:0", "0-0..1-1:0", "2-2..1-2:0", "2-2..2-1:0", "1-1..64-1:0", "1-1..2-2:0x100000000", "1-1..2-2..3-3:0"} {
		if got, err := ParseNocAddr(s); err == nil {
			t.Errorf("%q is read as %s", s, got)
		}
	}
}

// Add changes only the offset, and leaves tile, rectangle and NoC.
func TestAddKeepsTheTile(t *testing.T) {
	rect, ok := NewNocRect(1, 2, 3, 4, 0x100)
	if !ok {
		t.Fatal("refused")
	}
	for _, a := range []NocAddr{NewNocAddr(5, 6, 0x100), NewNocAddr(5, 6, 0x100) | NocOne, rect} {
		if b := a.Add(0x20); b.Offset() != 0x120 || b&^MaxNocOffset != a&^MaxNocOffset {
			t.Errorf("%s + 0x20 is %s", a, b)
		}
		if b := a.Add(MaxNocOffset); b != a.Add(-1) {
			t.Errorf("%s + the largest offset is %s", a, b)
		}
	}
}

// A NoC multicast without a well-formed rectangle never becomes a packet that does something else.
func TestBadRectanglesAreRefused(t *testing.T) {
	good, _ := NewNocRect(1, 2, 3, 4, 0x100)
	for _, typ := range []NocSendType{NocMulticastWrite, NocMulticastInc} {
		for _, a := range []NocAddr{NewNocAddr(3, 4, 0x100), good | NocOne, good | 1<<32, NewNocAddr(1, 1, 0) | 2<<48 | 2<<54, good | 1<<63} {
			c := Command{Type: typ, Addr: a}
			var b [commandLen]byte
			c.put(b[:])
			if _, err := decodeCommand(typ, 0, b[:]); err == nil || c.CheckRect() == nil {
				t.Errorf("%v at %#x was accepted", typ, uint64(a))
			}
		}
		c := Command{Type: typ, Addr: good, Value: 7 * uint32(typ-NocMulticastWrite)}
		var b [commandLen]byte
		c.put(b[:])
		if got, err := decodeCommand(typ, 0, b[:]); err != nil || got != c || c.CheckRect() != nil {
			t.Errorf("%+v became %+v, %v", c, got, err)
		}
		for _, at := range []int{2, 3} { // no columns, no rows
			x := b
			x[map[NocSendType]int{NocMulticastWrite: rectOfWrite, NocMulticastInc: rectOfInc}[typ]+at] = 0
			if _, err := decodeCommand(typ, 0, x[:]); err == nil {
				t.Errorf("%v: an empty rectangle was accepted", typ)
			}
		}
	}
}
