package folder

import (
	"path/filepath"
	"testing"
)

// TestRelativeRunFolder has XDG_RUNTIME_DIR relative, which its specification has programs ignore.
func TestRelativeRunFolder(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "run")
	if d := Root(); !filepath.IsAbs(d) {
		t.Errorf("the fabrics' folder depends on where a command is called: %s", d)
	}
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/7")
	if d := Root(); d != "/run/user/7/ttfabric" {
		t.Errorf("the fabrics' folder is %s", d)
	}
}
