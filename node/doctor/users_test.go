package doctor

import (
	"slices"
	"strings"
	"testing"
)

// TestPeople chooses the people among the owners of processes. System accounts and the caller do not
// count.
func TestPeople(t *testing.T) {
	if ids := people([]uint32{0, 1002, 33, 1001, 65534, 1001, 60000, 1005}, 1005); !slices.Equal(ids, []uint32{1001, 1002, 60000}) {
		t.Errorf("other users %v", ids)
	}
	if ids := people([]uint32{0, 1001}, 1001); len(ids) != 0 {
		t.Errorf("the caller alone: %v", ids)
	}
}

// TestUnsealed checks what users read about links without authentication.
func TestUnsealed(t *testing.T) {
	if text := Unsealed(nil); text != "" {
		t.Errorf("without other users: %q", text)
	}
	if text := Unsealed([]uint32{1001, 1002, 1003, 1004, 1005}); !strings.Contains(text, "uid 1001, 1002, 1003, 1004, …)") || !strings.Contains(text, "--auth none") {
		t.Errorf("with five other users: %q", text)
	}
}
