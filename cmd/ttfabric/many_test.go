package main

import (
	"strings"
	"testing"

	"ttfabric/node/output"
)

// TestManyChips gives chip commands patterns, lists and random choices. The fabric must then have exactly
// the chips that the command names.
func TestManyChips(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.must("up", "ring:4", "-d", patient)
	down := func() string {
		t.Helper()
		var names []string
		for _, n := range read[output.Chips](c, "inspect").NotRunning {
			names = append(names, n.String())
		}
		return strings.Join(names, " ")
	}
	says := func(want string, args ...string) {
		t.Helper()
		if _, errs, code := c.run(args...); code != exitOK || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d, stderr %q, want the text %q", args, code, errs, want)
		}
	}
	says("2 chips killed: M0D1, M0D2", "chip", "kill", "M0D[1-2]")
	if got := down(); got != "M0D1 M0D2" {
		t.Errorf("after the kill, these chips do not run: %q", got)
	}
	says("2 chips killed: M0D0, M0D3", "chip", "kill", "all") // a pattern stands for the chips that run
	if _, errs, code := c.run("chip", "kill", "M0D*"); code != exitUsage || !strings.Contains(errs, "none of these chips is running") {
		t.Errorf("kill without a running chip: exit code %d, %s", code, errs)
	}
	says("chip M0D3 runs", "chip", "start", "all")
	if got := down(); got != "" {
		t.Errorf("after the start, these chips do not run: %q", got)
	}
	says("1 chip paused: ", "chip", "pause", "all", "--random", "1", "--seed", "3")
	says("4 chips resumed: ", "chip", "resume", "M0D*")
	if r := read[output.Removed](c, "chip", "remove", "M0D1,M0D3", "--drain", "0s"); r.Chip.String() != "M0D1" || len(r.Others) != 1 || r.Others[0].Chip.String() != "M0D3" {
		t.Errorf("removed %+v", r)
	}
	if got := down(); got != "M0D1 M0D3" {
		t.Errorf("after the removal, these chips do not run: %q", got)
	}
	says("3 cables down: ", "link", "down", "all", "--random", "3", "--seed", "1")
	for _, args := range []string{"chip kill M0D1 M0D9", "chip kill all --random 3", "chip kill all --random -1", "link down all --random 9"} {
		if _, errs, code := c.run(strings.Fields(args)...); code != exitUsage {
			t.Errorf("%s: exit code %d: %s", args, code, errs)
		}
	}
}

// TestUnknownTopology names a topology that does not exist. The message must be short, and must name what a user can give.
func TestUnknownTopology(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	_, errs, code := c.run("validate", "nope")
	if code != exitTopology || len(errs) > 300 || !strings.Contains(errs, "a file") || !strings.Contains(errs, "t3000") || !strings.Contains(errs, "mesh:4x8") {
		t.Errorf("exit code %d, %d bytes: %s", code, len(errs), errs)
	}
}
