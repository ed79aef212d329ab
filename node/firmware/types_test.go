package firmware

import "testing"

// TestRequestTypes counts the flags of each type, over all flags that a host can set. Exactly the eight types
// of the table are requests (BDMS, "Request types"); Ordered and NocID change no type.
func TestRequestTypes(t *testing.T) {
	seen := map[RequestType]int{}
	for bits := range 1 << 15 {
		f := Flags(bits)
		k := f.Type()
		if seen[k]++; k != (f | Ordered | NocID).Type() {
			t.Errorf("%#x with Ordered and NocID has another type", bits)
		}
		write, block := f&WrReq != 0, f&DataBlock != 0
		if k != WrongRequest && (write != (k >= WordWrite) || block == (k == WordRead || k == WordWrite)) {
			t.Errorf("%#x has the type %s", bits, k)
		}
	}
	for k := WordRead; k < NumRequestTypes; k++ {
		if seen[k] != 4 {
			t.Errorf("%d flags have the type %s, want 4", seen[k], k)
		}
	}
}
