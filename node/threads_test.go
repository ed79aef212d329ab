package node_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoLockedThreads finds calls of runtime.LockOSThread. A goroutine that drives a chip must not be locked to a thread,
// because kernels are coroutines (iter.Pull), and the runtime aborts if a coroutine changes between a locked and
// another thread. The allowed files lock goroutines of their own.
func TestNoLockedThreads(t *testing.T) {
	allowed := map[string]bool{"node/netem/host_linux.go": true, "node/fabric/ranks/start_linux.go": true}
	files := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, "../"))
		if d.IsDir() && (name == "scripts" || strings.HasPrefix(d.Name(), ".") && path != "..") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		files++
		b, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(b), "runtime.LockOSThread()") && !allowed[name] {
			t.Errorf("%s locks a goroutine to a thread", name)
		}
		return err
	})
	if err != nil || files < 300 {
		t.Errorf("%d files, %v", files, err)
	}
}
