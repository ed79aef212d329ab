package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestChipsThatKnowSeedsOnly runs chips without a run folder. Each chip has an IP address of its own, and knows only
// the topology and the seeds. One of the seeds is a host name. The test kills a chip and starts the chip again.
func TestChipsThatKnowSeedsOnly(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	host := func(i int) string { return fmt.Sprintf("127.%d.%d.%d", 1+os.Getpid()>>8&0x7f, os.Getpid()&0xff, i+1) }
	start := func(i int) *exec.Cmd {
		cmd := c.command("node", "--chip", fmt.Sprintf("M0D%d", i), "--topology", "ring:4", "--name", "lab", "--listen", host(i), "--port-base", "17000", "--profile", "crowded",
			"--seeds", host(0)+",M0D1/"+host(1)+":7946,localhost:1", "--api", host(i)+":8474")
		cmd.Env = append(cmd.Env, "TTFABRIC_TOKEN=0123456789abcdef")
		var log strings.Builder
		cmd.Stderr = &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
			if t.Failed() {
				t.Logf("M0D%d: %s", i, log.String())
			}
		})
		return cmd
	}
	ready := func(i int) {
		t.Helper()
		for end := time.Now().Add(soon); ; time.Sleep(50 * time.Millisecond) {
			out, errs, code := c.run("ready", "--api", host(i)+":8474")
			if code == exitOK && strings.TrimSpace(out) == "ok" {
				return
			}
			if code != exitNotReady || time.Now().After(end) {
				t.Fatalf("chip %d: exit code %d: %s", i, code, errs)
			}
		}
	}
	var chips []*exec.Cmd
	for i := range 4 {
		chips = append(chips, start(i))
	}
	for i := range 4 {
		ready(i)
	}
	chips[0].Process.Kill()
	chips[0].Wait()
	if _, errs, code := c.run("ready", "--api", host(0)+":8474"); code != exitNotReady || !strings.Contains(errs, "no chip answers") {
		t.Errorf("of a chip that was killed: exit code %d: %s", code, errs)
	}
	start(0)
	for i := range 4 {
		ready(i)
	}
	chips[1].Process.Signal(syscall.SIGTERM)
	if err := chips[1].Wait(); err != nil {
		t.Errorf("told to stop: %v", err)
	}
}

// TestNodeRefuses runs 'node' with flags that are wrong, missing or contradictory, and
// checks the exit code and a part of each message.
func TestNodeRefuses(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	for _, x := range []struct{ args, want string }{
		{"--chip M0D0", "--dir, or the fabric's --topology and --seeds"},
		{"--chip M0D0 --dir /tmp --seeds a", "--seeds: the run folder of --dir holds this value already"},
		{"--chip M0D9 --topology ring:4", "--chip M0D9: no such chip is in topology ring:4"},
		{"--chip D0 --topology ring:4", "D0"},
		{"--chip M0D0 --topology ring:4", "TTFABRIC_TOKEN"},
		{"--chip M0D0 --topology ring:4 --token-file /none/token", "--token-file"},
		{"--chip M0D0 --topology ring:4 --token-file short", "can be guessed"},
		{"--chip M0D0 --topology ring:4 --token-file good --listen nope", `--listen "nope"`},
		{"--chip M0D0 --topology ring:4 --token-file good --listen 0.0.0.0", "--advertise"},
		{"--chip M0D0 --topology ring:4 --token-file good --listen 127.0.0.1 --advertise x", `--advertise "x"`},
		{"--chip M0D0 --topology ring:4 --token-file good --seeds h:0", `--seeds "h:0"`},
		{"--chip M0D0 --topology ring:4 --token-file good --seeds :7", `--seeds ":7"`},
		{"--chip M0D0 --topology ring:4 --token-file good --seeds x/h:7", `--seeds "x/h:7"`},
		{"--chip M0D0 --topology ring:4 --token-file good --port-base 65530", "--port-base 65530"},
		{"--chip M0D0 --topology ring:4 --token-file good --gossip-key generate", "all chips need the same key"},
	} {
		cmd := c.command(append([]string{"node"}, strings.Fields(x.args)...)...)
		cmd.Dir = c.dir
		for name, text := range map[string]string{"short": "abc\n", "good": "0123456789abcdef\n"} {
			if err := os.WriteFile(c.dir+"/"+name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != exitUsage || !strings.Contains(string(out), x.want) {
			t.Errorf("node %s: %v: %s; want exit code 2 and %q", x.args, err, out, x.want)
		}
	}
}
