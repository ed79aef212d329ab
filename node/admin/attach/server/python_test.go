package server_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
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

// TestPythonEvents reads events in Python while another chip goes away.
func TestPythonEvents(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is missing")
	}
	l := start(t, "n300", "")
	const program = `import sys, ttfabric
for e in ttfabric.Chip(sys.argv[1]).events():
    if e["kind"] == "link down":
        print(e["port"], e["peer"], e["reason"] != "", "time" in e)
        break
`
	cmd := exec.CommandContext(l.ctx, "python3", "-B", "-c", program, l.paths[0])
	cmd.Dir = "../../../../scripts/python"
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l.eventually(t, "the connections of the program", func() bool { return l.servers[0].Clients() == 2 })
	time.Sleep(10 * time.Millisecond) // the request for events may still be under way; links without a peer go down again and again
	l.nodes[1].Close()
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "M0D1") || !strings.HasSuffix(out.String(), "True True\n") {
		t.Errorf("%v: %s", err, &out)
	}
}
