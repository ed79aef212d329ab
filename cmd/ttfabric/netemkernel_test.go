package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"ttfabric/node/netem"
)

// TestNetemKernelRefuses gives 'netem' flags that contradict each other, and compares the
// errors.
func TestNetemKernelRefuses(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	for _, x := range []struct{ args, want string }{
		{"set M0D0:8 --delay 1ms --backend tc", `--backend "tc": want user or kernel`},
		{"set M0D0:8 --delay 1ms --netns lab", "need --backend kernel"},
		{"show --api 127.0.0.1:1 --backend kernel", "--topology"},
		{"show --topology n300 --backend kernel", "--api"},
		{"reset --token-file x --backend kernel", "--api"},
		{"show --api 127.0.0.1:1 --topology n300 --token-file /none --backend kernel", "--token-file"},
	} {
		if _, errs, code := c.run(append([]string{"netem"}, strings.Fields(x.args)...)...); code != exitUsage || !strings.Contains(errs, x.want) {
			t.Errorf("netem %s: exit code %d: %s; want %d and %q", x.args, code, errs, exitUsage, x.want)
		}
	}
	if _, errs, code := c.run("netem", "reset", "--backend", "kernel", "--netns", "no-such"); code != exitFailed || !strings.Contains(errs, "/run/netns/no-such") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// TestNetemKernel shows, sets and resets kernel impairments of a running fabric, as far as
// this kernel and the rights of this user allow.
func TestNetemKernel(t *testing.T) {
	c := newCLI(t)
	c.must("up", "n300", "-d", patient)
	show := func() (active int) {
		t.Helper()
		var rows []struct{ Active bool }
		if err := json.Unmarshal([]byte(c.must("netem", "show", "all", "--backend", "kernel", "-o", "json")), &rows); err != nil || len(rows) != 4 {
			t.Fatalf("%v: %+v", err, rows)
		}
		for _, r := range rows {
			if r.Active {
				active++
			}
		}
		return active
	}
	if n := show(); n != 0 {
		t.Errorf("%d directions are impaired already", n)
	}
	_, errs, code := c.run("netem", "set", "M0D0:8", "--delay", "1ms", "--backend", "kernel")
	switch {
	case code == exitOK:
		if n := show(); n != 2 {
			t.Errorf("%d directions are impaired, want 2", n)
		}
		c.must("netem", "reset", "--backend", "kernel")
	case os.Getuid() == 0 && netem.Probe() != nil && !strings.Contains(errs, "modprobe sch_netem"), !strings.Contains(errs, "leave out --backend kernel"):
		t.Errorf("exit code %d: %s", code, errs)
	}
	if n := show(); n != 0 {
		t.Errorf("%d directions are still impaired", n)
	}
	if out := c.must("netem", "show", "--backend", "kernel"); out != "" {
		t.Errorf("%s", out)
	}
}
