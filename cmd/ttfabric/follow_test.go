package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestEventsSurviveRestarts follows the events of a fabric while chips restart again and again, and while no chip runs. The
// command must go on, and must print each archived event exactly once.
func TestEventsSurviveRestarts(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.must("up", "n300", "-d", patient)
	path := filepath.Join(c.dir, "followed")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := c.command("events", "-f", "-o", "json")
	cmd.Stdout = file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { cmd.Process.Kill() })
	lines := func() map[string]int {
		b, _ := os.ReadFile(path)
		n := map[string]int{}
		for line := range strings.Lines(string(b)) {
			n[line]++
		}
		return n
	}
	for range 3 {
		c.must("chip", "restart", "M0D1")
	}
	c.must("chip", "kill", "all")
	c.must("chip", "start", "M0D0")
	c.must("chip", "kill", "M0D0") // perhaps before the command has found the chip
	c.must("chip", "start", "all")
	c.must("up", "-d", patient)
	missing := ""
	defer func() {
		if t.Failed() {
			t.Logf("an event that was not printed: %s", missing)
		}
	}()
	c.within(soon, "all archived events are printed", func() bool {
		got := lines()
		for line := range strings.Lines(c.must("events", "--follow=false", "-o", "json")) {
			if got[line] == 0 {
				missing = line
				return false
			}
		}
		return true
	})
	select {
	case err := <-ended:
		t.Fatalf("the command ended during the restarts: %v", err)
	default:
	}
	for line, n := range maps.All(lines()) {
		if n > 1 {
			t.Errorf("printed %d times: %s", n, line)
		}
	}
	c.must("down")
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("after 'down', the command ended with %v", err)
		}
	case <-time.After(soon):
		t.Error("the command does not end after 'down'")
	}
}
