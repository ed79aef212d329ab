package ranks

import (
	"bytes"
	"strings"
	"sync"
	"testing"
)

// TestLines writes a text in pieces of each length. The lines must not depend on the pieces.
func TestLines(t *testing.T) {
	long := strings.Repeat("x", MaxLine)
	text := "one\n\nthree\n" + long + "\n" + long + "yz\nend"
	want := "[7] one\n[7] \n[7] three\n[7] " + long + "\n[7] " + long + "\n[7] yz\n[7] end\n"
	for _, n := range []int{1, 2, 3, 5, 4096, MaxLine, len(text)} {
		var got bytes.Buffer
		l := &lines{to: &got, prefix: "[7] ", mu: new(sync.Mutex)}
		for b := []byte(text); len(b) > 0; b = b[min(n, len(b)):] {
			if k, err := l.Write(b[:min(n, len(b))]); err != nil || k != min(n, len(b)) {
				t.Fatal(k, err)
			}
		}
		l.flush()
		if got.String() != want {
			t.Errorf("pieces of %d bytes: the output differs, %d bytes, want %d", n, got.Len(), len(want))
		}
	}
}
