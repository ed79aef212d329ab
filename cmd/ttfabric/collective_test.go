package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestOneProgramHasCommunicators starts two programs with collective operations on one fabric. The second one
// must be refused by an error that names the first one. When the first one is killed, a third one must succeed.
func TestOneProgramHasCommunicators(t *testing.T) {
	t.Parallel()
	c := shortCLI(t)
	program := build(t, t.TempDir(), "./node/rank/allreduce")
	c.must("up", "mesh:2x2", "-d", unhurried)
	// A bench that runs at the same moment may hold the communicators, so that the first program is refused.
	// The test then starts the first program again.
	var first *exec.Cmd
	var ended chan error
	start := func() {
		first, ended = c.command("run", program, "-bytes", "8,65536", "-rounds", "1000000000"), make(chan error, 1)
		if err := first.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { ended <- first.Wait() }()
	}
	start()
	bench := []string{"bench", "collective", "all-reduce", "-b", "8", "-e", "8", "--iters", "2", "-w", "1"}
	refused := ""
	for end := time.Now().Add(soon); refused == "" && time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		select {
		case <-ended:
			start()
		default:
		}
		if _, errs, code := c.run(bench...); code != 0 {
			refused = errs
		}
	}
	for _, want := range []string{"the memory of collective operations has been in use by process ", "(allreduce) since 20", "wait until that program closes its communicators, or end it"} {
		if !strings.Contains(refused, want) {
			t.Errorf("the second program's error lacks %q: %s", want, refused)
		}
	}
	// A rank that is stopped keeps its claim, and lets the other ranks wait.
	m := regexp.MustCompile(`process (\d+) \(allreduce\)`).FindStringSubmatch(refused)
	if m == nil {
		t.Fatal("the second program is not refused")
	}
	pid, _ := strconv.Atoi(m[1])
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := c.run("run", program, "-bytes", "8", "-rounds", "1"); code == 0 || !strings.Contains(errs, "(allreduce) since 20") {
		t.Errorf("two runs of one program: exit code %d, %s", code, errs)
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended // the process was killed
	if out, errs, code := c.run(bench...); code != 0 {
		t.Errorf("after the end of the first program: exit code %d, %s", code, fmt.Sprint(out, errs))
	}
}
