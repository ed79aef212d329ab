package server

import "testing"

func TestOnlyTheUserAndRootAreAdmitted(t *testing.T) {
	for _, c := range []struct {
		uid, self uint32
		ok        bool
	}{{1000, 1000, true}, {0, 1000, true}, {1001, 1000, false}, {1000, 0, false}, {7, 1000, true}, {7, 0, true}} {
		if err := admits(c.uid, c.self, []uint32{6, 7}); (err == nil) != c.ok {
			t.Errorf("user %d at the chip of user %d: %v", c.uid, c.self, err)
		}
	}
}
