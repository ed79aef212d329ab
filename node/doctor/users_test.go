package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestOtherUsers looks at folders like those in /proc. Only folders of other people count.
func TestOtherUsers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make folders of other users")
	}
	proc := t.TempDir()
	for name, uid := range map[string]int{"1": 0, "20": 1002, "21": 1001, "22": 1001, "33": 33, "44": 65534, "self": 1005} {
		path := filepath.Join(proc, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	if ids := OtherUsers(proc); !slices.Equal(ids, []uint32{1001, 1002}) {
		t.Errorf("other users %v", ids)
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
