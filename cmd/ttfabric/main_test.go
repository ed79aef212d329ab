package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ttfabric/node/fabric/folder"
	"ttfabric/node/output"
)

// TestMain lets the test binary act as the program ttfabric, because 'up' starts chips
// from the file that os.Executable returns.
func TestMain(m *testing.M) {
	if os.Getenv("TTFABRIC_TEST_MAIN") != "" {
		main()
		return
	}
	// The tests of this package spend most of their time waiting for processes. So at least four
	// tests run in parallel, even on fewer cores. The flag -test.parallel on the command line
	// overrules this number.
	flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0))))
	var err error
	if noEngine, err = os.MkdirTemp("", "no-engine"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(noEngine)
	const script = "#!/bin/sh\necho 'Cannot connect to the Docker daemon. Is the docker daemon running?' >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(noEngine, "docker"), []byte(script), 0o700); err != nil {
		panic(err)
	}
	m.Run()
}

// noEngine is a folder with a docker command that reaches no engine. The docker command of this machine
// would reach none either, because of DOCKER_HOST, but takes much longer to say so.
var noEngine string

// The constant "soon" is the longest time to wait for a change that takes a moment on an idle
// machine.
const soon = time.Minute

// cli runs the program with a run folder of its own.
type cli struct {
	t   *testing.T
	dir string
	env []string // additional environment variables
}

func newCLI(t *testing.T) *cli {
	c := &cli{t: t, dir: t.TempDir()}
	t.Cleanup(func() { c.run("down", "--all") })
	return c
}

func (c *cli) command(args ...string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), "TTFABRIC_TEST_MAIN=1", "XDG_RUNTIME_DIR="+c.dir, "DOCKER_HOST=unix://"+c.dir+"/no-engine.sock") // hides the containers of this machine
	if len(args) == 0 || args[0] != "doctor" {                                                                                      // which examines the real command
		cmd.Env = append(cmd.Env, "PATH="+noEngine+":"+os.Getenv("PATH"))
	}
	cmd.Env = append(cmd.Env, c.env...)
	return cmd
}

func (c *cli) run(args ...string) (stdout, stderr string, code int) {
	cmd := c.command(args...)
	stuck := time.AfterFunc(3*time.Minute, func() { cmd.Process.Kill() }) // ends a command that hangs
	defer stuck.Stop()
	var out, errb bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errb
	err := cmd.Run()
	if err != nil && cmd.ProcessState == nil {
		c.t.Fatal(err)
	}
	return out.String(), errb.String(), cmd.ProcessState.ExitCode()
}

func (c *cli) must(args ...string) string {
	c.t.Helper()
	out, errs, code := c.run(args...)
	if code != 0 {
		c.t.Fatalf("%v: exit code %d: %s", args, code, errs)
	}
	return out
}

func TestAFabricOfProcesses(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	var up struct {
		Chips []struct {
			LinksUp int `json:"links_up"`
			Links   []any
		}
	}
	if err := json.Unmarshal([]byte(c.must("up", "mesh:2x2", "-d", unhurried, "-o", "json")), &up); err != nil || len(up.Chips) != 4 {
		t.Fatalf("%v: %+v", err, up)
	}
	for _, x := range up.Chips {
		if x.LinksUp != 4 || len(x.Links) != 4 {
			t.Errorf("%d of %d links up, want 4", x.LinksUp, len(x.Links))
		}
	}
	c.must("mem", "write", "M0D3", "1-1:0x10", "over the fabric", "--via", "M0D0")
	if out := c.must("mem", "read", "M0D3", "1-1:0x10", "15", "--via", "M0D1", "-f", "-"); out != "over the fabric" {
		t.Errorf("read back %q", out)
	}
	var mem output.Memory
	if err := json.Unmarshal([]byte(c.must("mem", "read", "M0D3", "1-1:0x10", "4", "-o", "json")), &mem); err != nil || mem.Hex == nil || *mem.Hex != "6f766572" || mem.Bytes != 4 || mem.Chip.String() != "M0D3" {
		t.Errorf("mem read -o json: %v, %+v", err, mem)
	}
	if _, errs, code := c.run("mem", "read", "M0D3", "1-1:0x10", "4", "-o", "json", "-f", "-"); code != exitUsage {
		t.Errorf("mem read -o json -f -: exit code %d, %s", code, errs)
	}
	if err := json.Unmarshal([]byte(c.must("mem", "write", "M0D3", "1-1:0x40", "text", "-o", "json")), &mem); err != nil || mem.Bytes != 4 || mem.Address == "" {
		t.Errorf("mem write -o json: %v, %+v", err, mem)
	}
	c.must("mem", "write", "M0D1", "1-1:0x80", "to all", "--multicast", "W1,S1")
	for _, chip := range []string{"M0D0", "M0D2", "M0D3"} {
		if out := c.must("mem", "read", chip, "1-1:0x80", "6", "-f", "-"); out != "to all" {
			t.Errorf("%s read back %q", chip, out)
		}
	}
	c.must("mem", "write", "M0D1", "1-1:0x90", "to two", "--multicast", "M0:0,3")
	for chip, want := range map[string]string{"M0D0": "to two", "M0D2": "\x00\x00\x00\x00\x00\x00", "M0D3": "to two"} {
		if out := c.must("mem", "read", chip, "1-1:0x90", "6", "-f", "-"); out != want {
			t.Errorf("%s read back %q, want %q", chip, out, want)
		}
	}
	if _, errs, code := c.run("mem", "write", "M0D1", "1-1:0x90", "x", "--multicast", "M0:0,1"); code != exitFailed || !strings.Contains(errs, "the source is in the set") {
		t.Errorf("a multicast to its source: exit code %d, %s", code, errs)
	}
	c.must("traffic", "all-to-all", "--packets", "500", "--size", "1000")
	c.must("traffic", "transpose", "--packets", "100")
	if out := c.must("traffic", "hotspot", "--hot", "M0D2", "--packets", "200", "--size", "64", "--load", "300"); !strings.Contains(out, "Offered/s") {
		t.Errorf("no offered load in %s", out)
	}
	for _, x := range [][2]string{{"tornado", "no chip would send to another"}, {"hotspot --hot M0D9", "M0D9 is not in the topology"}, {"hotspot --hot-share 0", "1 to 100"}, {"uniform --load 1e9", "1e+09"}} {
		if _, errs, code := c.run(append([]string{"traffic"}, strings.Fields(x[0])...)...); code != exitUsage || !strings.Contains(errs, x[1]) {
			t.Errorf("traffic %s: exit code %d, %s", x[0], code, errs)
		}
	}
	c.must("ping", "--all", "-c", "1")
	c.must("chip", "kill", "M0D3")
	if _, _, code := c.run("ping", "M0D0", "M0D3", "-c", "1", "--timeout", "8s"); code != exitAssert {
		t.Errorf("a dead chip was pinged with exit code %d, want %d", code, exitAssert)
	}
	c.must("up", "-d") // starts the missing chip
	c.must("ping", "M0D0", "M0D3")
	if out := c.must("ls"); !strings.Contains(out, "4/4") {
		t.Errorf("ls says %s", out)
	}
	c.must("down")
	if left, _ := filepath.Glob(filepath.Join(c.dir, "ttfabric", "*")); len(left) != 0 {
		t.Errorf("down left %v", left)
	}
}

// running returns the chips of a run folder that have a running process.
func running(d folder.Dir) []folder.Chip {
	return slices.DeleteFunc(d.ChipFiles(), func(c folder.Chip) bool { return !c.Alive() })
}

// started starts a fabric of two chips, and returns when both processes run.
func (c *cli) started() (*exec.Cmd, folder.Dir) {
	c.t.Helper()
	cmd := c.command("up", "n300")
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	dir := folder.Dir(filepath.Join(c.dir, "ttfabric", "default"))
	for end := time.Now().Add(soon); len(running(dir)) < 2; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatal("the chips do not come up")
		}
	}
	return cmd, dir
}

func TestDownAfterTheParentWasKilled(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	cmd, dir := c.started()
	cmd.Process.Kill()
	cmd.Wait()
	chips := running(dir)
	if len(chips) != 2 {
		t.Fatalf("%d chips outlived their parent, want 2", len(chips))
	}
	c.must("down")
	for _, x := range chips {
		if x.Alive() {
			t.Errorf("chip %s still runs as %d", x.Chip, x.PID)
		}
	}
}

func TestCtrlCCleansUp(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	cmd, dir := c.started()
	cmd.Process.Signal(syscall.SIGINT)
	cmd.Wait()
	if _, err := os.Stat(string(dir)); !os.IsNotExist(err) {
		t.Error("the run folder is left")
	}
}

func TestExitCodesAndMessages(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	bad := filepath.Join(c.dir, "bad.yaml")
	os.WriteFile(bad, []byte("arch:\n  0: grayskull\n"), 0o600)
	for _, x := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"up", bad}, exitTopology, bad + ":2: "},
		{[]string{"up", "t9000"}, exitTopology, "t3000"},
		{[]string{"up", "mesh:99x99"}, exitTopology, "mesh:ROWSxCOLS"},
		{[]string{"up", "--profile", "wan"}, exitUsage, "want lan, crowded or paced"},
		{[]string{"up", "--port-base", "65500"}, exitUsage, "65535"},
		{[]string{"up", "--nonsense"}, exitUsage, "--nonsense"},
		{[]string{"up", "-n", "../x"}, exitUsage, "fabric name"},
		{[]string{"ping", "M0D0", "M0D1"}, exitFailed, "ttfabric up"},
		{[]string{"traffic", "nonsense"}, exitUsage, "all-to-all"},
		{[]string{"mem", "read", "M0D0"}, exitUsage, "--help"},
		{[]string{"mem", "write", "M0D0", "1-1:0", "x", "--multicast", "Q3"}, exitUsage, "E2,W1,N0,S1"},
		{[]string{"mem", "write", "M0D0", "1-1:0", "x", "--multicast", "E1", "--via", "M0D1"}, exitUsage, "via"},
		{[]string{"mem", "write", "M0D0", "1-1:0", "x", "--multicast", "M0:300"}, exitUsage, "M1:0-3,7"},
		{[]string{"inspect", "-o", "xml"}, exitUsage, "table, wide, json or yaml"},
	} {
		_, errs, code := c.run(x.args...)
		if code != x.code || !strings.Contains(errs, x.want) {
			t.Errorf("%v: exit code %d, want %d; stderr %q, want it to say %q", x.args, code, x.code, errs, x.want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(c.dir, "ttfabric", "*")); len(left) != 0 {
		t.Errorf("failures left %v", left)
	}
}

func TestTakenPortIsNamed(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	base := fmt.Sprint(20000 + 32*(os.Getpid()%380)) // below the ports that the kernel chooses, and different in each run of these tests
	c.must("up", "n300", "-d", patient, "--name", "a", "--port-base", base)
	_, errs, code := c.run("up", "n300", "-d", patient, "--name", "b", "--port-base", base, "--timeout", "20s")
	if code != exitFailed || !strings.Contains(errs, "is taken by another process") || !strings.Contains(errs, "chip M0D") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
