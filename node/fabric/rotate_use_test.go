package fabric

import (
	"strings"
	"testing"
)

// The use of a gossip key that the fabric does not have is an error.
func TestUseOfUnknownKey(t *testing.T) {
	k := &KeyChange{Keys: [][]byte{make([]byte, 32)}, Force: true}
	if err := k.Use(t.Context(), "no-such-key"); err == nil || !strings.Contains(err.Error(), "no-such-key") {
		t.Errorf("Use: %v", err)
	}
}
