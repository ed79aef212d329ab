package process

import (
	"os"
	"path/filepath"
	"testing"

	"ttfabric/node/fabric/folder"
)

// TestMakeToken lets 16 chips make the token in one file at once. All chips must get the
// same token.
func TestMakeToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	tokens := make(chan string)
	for range 16 {
		go func() {
			token, err := (&Options{TokenFile: path}).token()
			if err != nil {
				t.Error(err)
			}
			tokens <- token
		}()
	}
	first := <-tokens
	for range 15 {
		if next := <-tokens; next != first {
			t.Errorf("%q and %q", first, next)
		}
	}
	fi, err := os.Stat(path)
	if err != nil || fi.Mode().Perm() != 0o600 || len(first) < 2*folder.MinToken {
		t.Errorf("token %q, %v, %v", first, fi.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
