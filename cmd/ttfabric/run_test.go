package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ttfabric/node/fabric/ranks"
)

// shortCLI is newCLI with a run folder whose path is short enough for sockets.
func shortCLI(t *testing.T) *cli {
	c := newCLI(t)
	dir, err := os.MkdirTemp("", "tt")
	if err != nil {
		t.Fatal(err)
	}
	c.dir = dir
	t.Cleanup(func() {
		c.run("down", "--all")
		os.RemoveAll(dir)
	})
	c.env = append(c.env, "OUT="+t.TempDir())
	return c
}

// runReport runs a shell script as the program of a job, and returns the report.
func (c *cli) runReport(script string, flags ...string) (rep ranks.Report, stderr string, code int) {
	c.t.Helper()
	args := append(append([]string{"run", "-o", "json"}, flags...), "sh", "-c", script)
	out, stderr, code := c.run(args...)
	if err := json.Unmarshal([]byte(out), &rep); err != nil {
		c.t.Fatalf("%v: %s\n%s", err, out, stderr)
	}
	return rep, stderr, code
}

func TestRun(t *testing.T) {
	t.Parallel()
	c := shortCLI(t)
	out, errs, code := c.run("run", "--up", "ring:4", "sh", "-c", `echo $RANK of $WORLD_SIZE, $LOCAL_RANK, $TTFABRIC_CHIP at $TTFABRIC_COORDINATES of $TTFABRIC_CHIPS, attempt $TTFABRIC_ATTEMPT, $TTFABRIC_NAME
test -S "$TTFABRIC_SOCKET" && test -S "$TTFABRIC_ROOT_SOCKET" && test -r "$TTFABRIC_TOKEN_FILE" && test -d "$TTFABRIC_DIR" && test -n "$TTFABRIC_API$TTFABRIC_ROOT_API$TTFABRIC_JOB" || exit 9
echo to stderr >&2; printf 'no newline'`)
	if code != 0 || !strings.Contains(errs, "4 ranks of sh on fabric \"default\", attached by Unix sockets.") {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	for r := range 4 {
		n := strconv.Itoa(r)
		for _, want := range []string{"[" + n + "] " + n + " of 4, " + n + ", M0D" + n + " at 0," + n + " of M0D0,M0D1,M0D2,M0D3, attempt 0, default\n", "[" + n + "] no newline\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("the output has no line %q:\n%s", want, out)
			}
		}
		if !strings.Contains(errs, "["+n+"] to stderr\n") {
			t.Errorf("stderr has no line of rank %d:\n%s", r, errs)
		}
	}
	if out := c.must("ls", "-o", "json"); strings.Contains(out, "default") {
		t.Errorf("--up left a fabric behind: %s", out)
	}
}

// TestRunNamesTheRankThatFails lets one rank fail while the others wait and ignore SIGTERM.
func TestRunNamesTheRankThatFails(t *testing.T) {
	t.Parallel()
	c := shortCLI(t)
	c.must("up", "n300", "-d", unhurried)
	rep, errs, code := c.runReport(`[ $RANK = 1 ] && exit 7; trap '' TERM; touch $OUT/begun; sleep 60 & wait; wait`)
	if code != 7 || rep.ExitCode != 7 || len(rep.Attempts) != 1 || !slices.Equal(rep.Attempts[0].Lost, []int{1}) || !strings.Contains(errs, "Rank 1 (chip M0D1) ended with exit code 7") {
		t.Errorf("exit code %d, report %+v: %s", code, rep, errs)
	}
	if rep, _, code := c.runReport(`[ $RANK = 0 ] && kill -KILL $$; sleep 60`); code != 128+9 || !strings.Contains(rep.Attempts[0].Why, "rank 0 (chip M0D0) ended by the signal killed") {
		t.Errorf("a rank that is killed: exit code %d, %+v", code, rep)
	}
	c.must("chip", "kill", "M0D1")
	if _, errs, code := c.run("run", "true"); code != exitFailed || !strings.Contains(errs, "M0D1 is not running") {
		t.Errorf("a fabric without a chip: exit code %d, %s", code, errs)
	}
}

// TestRunStartsAgain loses first a rank and then a chip. The third attempt ends well.
func TestRunStartsAgain(t *testing.T) {
	t.Parallel()
	c := shortCLI(t)
	c.must("up", "n300", "-d", unhurried)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	rep, errs, code := c.runReport(`case $TTFABRIC_ATTEMPT$RANK in 01) exit 3;; 00) sleep 60;; 10) `+exe+` chip kill M0D1; sleep 60;; 11) sleep 60;; esac`, "--restart", "5")
	if code != 0 || rep.ExitCode != 0 || len(rep.Attempts) != 3 {
		t.Fatalf("exit code %d, report %+v: %s", code, rep, errs)
	}
	if a := rep.Attempts; a[0].Why != "rank 1 (chip M0D1) ended with exit code 3" || a[1].Why != "chip M0D1 was lost" || len(a[1].Chips) != 1 || a[2].Why != "" {
		t.Errorf("attempts: %+v", a)
	}
}

// TestRunKeepsRanks kills a chip by SIGKILL while all ranks add numbers. The other ranks must shrink their
// communicator, and go on with correct sums. The report must name the chip and the ranks that succeeded. As
// its own chip, a rank must behave in the same way.
func TestRunKeepsRanks(t *testing.T) {
	t.Parallel()
	program := build(t, t.TempDir(), "./node/rank/allreduce")
	for _, v := range []struct {
		flags []string
		code  int
	}{{nil, 1}, {[]string{"--as-chip"}, 128 + 9}} {
		c := shortCLI(t)
		args := append([]string{"run", "-o", "json", "--up", "mesh:2x2", "--keep-ranks"}, v.flags...)
		cmd := c.command(append(args, program, "-bytes", "8,400000,400000,8,400004", "-rounds", "60")...)
		var report bytes.Buffer
		cmd.Stdout = &report
		talk, err := cmd.StderrPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		stuck := time.AfterFunc(2*soon, func() { cmd.Process.Kill() })
		var errs strings.Builder
		killed := false
		for lines := bufio.NewScanner(talk); lines.Scan(); {
			errs.WriteString(lines.Text() + "\n")
			if !killed && strings.Contains(lines.Text(), "4 ranks, 8 bytes") {
				killed = true
				c.must("chip", "kill", "M0D2")
			}
		}
		_ = cmd.Wait() // the exit code says how the command ended
		stuck.Stop()
		var rep ranks.Report
		if err := json.Unmarshal(report.Bytes(), &rep); err != nil || len(rep.Attempts) != 1 {
			t.Fatalf("%v: %v, %s\n%s", v.flags, err, &report, &errs)
		}
		kept := slices.Sorted(slices.Values(rep.Attempts[0].Kept))
		if code := cmd.ProcessState.ExitCode(); code != v.code || rep.ExitCode != v.code || !slices.Equal(kept, []int{0, 1, 3}) || !strings.Contains(rep.Attempts[0].Why, "chip M0D2") {
			t.Errorf("%v: exit code %d, %+v\n%s", v.flags, code, rep, &errs)
		}
		for _, want := range []string{"the other ranks go on.", "[3] chip M0D2 is dead; rank 2 of 3 continues", "[0] 3 ranks, 400004 bytes"} {
			if !strings.Contains(errs.String(), want) {
				t.Errorf("%v: no line has %q:\n%s", v.flags, want, &errs)
			}
		}
	}
}

// TestRunEndsAtCtrlC interrupts a job. No process of a rank may be left.
func TestRunEndsAtCtrlC(t *testing.T) {
	t.Parallel()
	c := shortCLI(t)
	dir := t.TempDir()
	cmd := c.command("run", "--up", "n300", "sh", "-c", `echo $$ > `+dir+`/$RANK; trap 'echo ended; exit 0' TERM; sleep 60 & wait`)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(soon, func() { cmd.Process.Kill() })
	defer stuck.Stop()
	var pids []int
	for end := time.Now().Add(soon); len(pids) < 2 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		pids = nil
		for _, name := range []string{"0", "1"} {
			b, _ := os.ReadFile(filepath.Join(dir, name))
			if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	cmd.Process.Signal(os.Interrupt)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitSignal || len(pids) != 2 {
		t.Errorf("exit code %d, ranks %v", code, pids)
	}
	for _, pid := range pids {
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("rank with process %d runs on", pid)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	c := shortCLI(t)
	for _, v := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "--keep-ranks", "--restart", "1", "true"}, "leave out one of the two flags"},
		{[]string{"run"}, "requires at least 1 arg"}, {[]string{"run", "--restart", "-1", "true"}, "--restart -1"},
		{[]string{"run", "no-such-program"}, "no-such-program"}, {[]string{"run", "--up", "no-such-topology", "true"}, "no-such-topology"},
	} {
		if _, errs, code := c.run(v.args...); code != exitUsage && code != exitTopology || !strings.Contains(errs, v.want) {
			t.Errorf("%v: exit code %d, %s", v.args, code, errs)
		}
	}
	c.must("up", "n300", "-d", unhurried)
	if _, errs, code := c.run("run", "--up", "n300", "true"); code != exitUsage || !strings.Contains(errs, "leave out --up") {
		t.Errorf("--up beside a running fabric: exit code %d, %s", code, errs)
	}
}

// build builds a package of the checkout into a folder.
func build(t *testing.T, dir, pkg string) string {
	t.Helper()
	cmd := exec.Command("go", "build", "-o", dir, pkg)
	cmd.Dir = checkout
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(dir, filepath.Base(pkg))
}

// TestShiftExamples runs the commands of the page about ranks. The programs on the page are those of
// the checkout, of fewer than 40 lines each.
func TestShiftExamples(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is missing")
	}
	const page = "node/rank/README.md"
	for name, language := range map[string]string{"node/rank/shift/main.go": "go", "scripts/python/shift.py": "python", "scripts/python/stream.py": "python"} {
		lines, want := codeOf(readDocument(t, page), language), readDocument(t, name)
		if language == "go" {
			want = want[strings.Index(want, "package "):] // the page leaves out the package's comment
		}
		if !slices.ContainsFunc(lines, func(b []string) bool { return strings.Join(b, "\n")+"\n" == want }) {
			t.Errorf("%s does not show %s", page, name)
		}
		if n := strings.Count(readDocument(t, name), "\n"); n >= 40 {
			t.Errorf("%s has %d lines, want fewer than 40", name, n)
		}
	}
	dir := t.TempDir()
	build(t, dir, "./cmd/ttfabric")
	runDocument(t, page, dir)
}

// TestKernelExample runs the commands of the page about kernels. The program on the page is that of the
// checkout, of fewer than 40 lines.
func TestKernelExample(t *testing.T) {
	t.Parallel()
	const page, name = "node/kernel/README.md", "node/process/shift/main.go"
	lines, want := codeOf(readDocument(t, page), "go"), readDocument(t, name)
	if len(lines) != 1 || strings.Join(lines[0], "\n")+"\n" != want[strings.Index(want, "package "):] {
		t.Errorf("%s does not show %s", page, name)
	}
	if n := strings.Count(want, "\n"); n >= 40 {
		t.Errorf("%s has %d lines, want fewer than 40", name, n)
	}
	dir := t.TempDir()
	build(t, dir, "./cmd/ttfabric")
	runDocument(t, page, dir)
}

// TestEDMExample runs the commands of the page about the ERISC data mover.
func TestEDMExample(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	build(t, dir, "./cmd/ttfabric")
	runDocument(t, "node/edm/README.md", dir)
}

// TestRunOverHTTP runs the examples in Go and Python on a fabric whose run folder has too long a path for sockets.
func TestRunOverHTTP(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.dir = filepath.Join(c.dir, strings.Repeat("long", 30))
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	program := build(t, t.TempDir(), "./node/rank/shift")
	c.must("up", "ring:4", "-d", unhurried)
	t.Cleanup(func() { c.run("down") })
	for _, command := range [][]string{{program}, {"python3", "../../scripts/python/shift.py"}} {
		if _, err := exec.LookPath(command[0]); err != nil {
			t.Logf("%s is missing", command[0])
			continue
		}
		out, errs, code := c.run(append([]string{"run"}, command...)...)
		checkShift(t, out, errs, code)
	}
}

// checkShift checks the output of the examples over HTTP.
func checkShift(t *testing.T, out, errs string, code int) {
	t.Helper()
	if code != 0 || !strings.Contains(errs, "attached by HTTP, because chip M0D0 has no Unix socket") || len(regexp.MustCompile(`(?m)^\[\d\] chip M0D\d has the data of rank \d$`).FindAllString(out, -1)) != 4 {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}
