package transport_test

import (
	"strings"
	"testing"

	"ttfabric/ttlink/transport"
)

// TestKeyLog checks that a KeyLog keeps whole lines up to MaxKeyLog, and that Since returns the
// lines from an offset on.
func TestKeyLog(t *testing.T) {
	var k transport.KeyLog
	line := strings.Repeat("x", 999) + "\n"
	at := 0
	for i := range 8000 {
		k.Write([]byte(line))
		if i == 9 {
			var b []byte
			if b, at = k.Since(0); string(b) != strings.Repeat(line, 10) {
				t.Fatalf("%d bytes", len(b))
			}
		}
	}
	b, end := k.Since(at)
	if len(b) > transport.MaxKeyLog || len(b) < transport.MaxKeyLog-1000 || len(b)%1000 != 0 || end != 8_000_000 {
		t.Errorf("%d bytes up to %d", len(b), end)
	}
	if b, n := k.Since(end); len(b) != 0 || n != end {
		t.Errorf("%d bytes", len(b))
	}
	if b, n := (*transport.KeyLog)(nil).Since(3); b != nil || n != 3 {
		t.Error("a nil KeyLog returns lines")
	}
}
