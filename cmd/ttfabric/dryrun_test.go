package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ttfabric/node/output"
)

// TestDryRun asks what 'up' would start, before and after a fabric runs. No process may start, and no run folder may
// appear.
func TestDryRun(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	d := read[output.Up](c, "up", "ring:4", "--dry-run", "--port-base", "20000").DryRun
	if d == nil || len(d.Chips) != 4 || d.Sockets != 16 || d.Running != 0 || d.Folder != filepath.Join(c.dir, "ttfabric", "default") {
		t.Fatalf("dry run %+v", d)
	}
	for i, x := range d.Chips { // channels 0 to 15 of chip i have the ports from 20000 + 16 i on
		for _, p := range x.Ports {
			if p < 20000+16*i || p >= 20000+16*(i+1) {
				t.Errorf("chip %s has the port %d", x.Chip, p)
			}
		}
		if len(x.Ports) != 4 || x.Links != 4 {
			t.Errorf("chip %+v", x)
		}
	}
	out, errs, code := c.run("up", "ring:4", "--dry-run", "--archive", filepath.Join(c.dir, "kept"))
	if code != exitOK || !strings.Contains(out, "any free") || !strings.Contains(errs, "'up' would start 4 processes with 16 UDP sockets") || !strings.Contains(errs, "Nothing was started.") {
		t.Errorf("exit code %d, stdout %s, stderr %s", code, out, errs)
	}
	for _, path := range []string{d.Folder, filepath.Join(c.dir, "kept")} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s: %v, want no such folder", path, err)
		}
	}
	c.fails(exitUsage, "up", "ring:4", "--dry-run", "--port-base", "70000")
	c.fails(exitUsage, "up", "ring:4", "--dry-run", "--auth", "nope")

	c.must("up", "ring:4", "-d", patient)
	c.must("chip", "kill", "M0D1,M0D2")
	if _, errs, _ := c.run("up", "--dry-run"); !strings.Contains(errs, "'up' would start 2 processes with 8 UDP sockets") || !strings.Contains(errs, "2 chips run already") {
		t.Errorf("with two chips running, stderr %s", errs)
	}
	if n := len(read[output.Chips](c, "inspect").Chips); n != 2 {
		t.Errorf("%d chips run after the dry run, want 2", n)
	}
	c.fails(exitUsage, "up", "ring:5", "--dry-run")
}
