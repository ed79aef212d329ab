package server_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestPython runs the tests of the client in Python against two chips.
func TestPython(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is missing")
	}
	l := start(t, "n300", "")
	cmd := exec.CommandContext(l.ctx, "python3", "-B", "test_ttfabric.py", "-v")
	cmd.Dir = "../../../../scripts/python"
	cmd.Env = append(os.Environ(), "TTFABRIC_TEST_SOCKETS="+strings.Join(l.paths, ":"))
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "skipped") {
		t.Errorf("%v\n%s", err, out)
	}
}
