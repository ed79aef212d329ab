package ranks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/kernel"
	chipprocess "ttfabric/node/process"
	"ttfabric/node/process/processtest"
	"ttfabric/node/rank"
	"ttfabric/node/rank/launched"
	"ttfabric/node/session"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// launcherEnv is the environment variable with the folder of a process that launches a job.
const launcherEnv = "TTFABRIC_TEST_LAUNCHER"

// TestMain lets the test binary be a rank that is its chip, as a user's program is. The tests' fabrics
// have different names in one folder, whose path is short enough for sockets.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv(launched.Env) != "":
		chipprocess.Main(programs[os.Args[1]], kernel.Table{"store": func(k *kernel.Context) { k.Store32(k.Uint32(0), 7) }})
	case len(os.Args) > 1 && os.Args[1] == "beside":
		beside(os.Args[2])
	case len(os.Args) > 1 && os.Args[1] == "sum":
		if err := sum(os.Args[2]); err != nil {
			fmt.Println(err)
			os.Exit(5)
		}
		os.Exit(0)
	case os.Getenv(launcherEnv) != "":
		os.Exit(launch(os.Getenv(launcherEnv)))
	}
	processtest.Main(m)
}

// attempt reports whether the rank is in the given attempt and has the given number.
func attempt(number, r string) bool {
	return os.Getenv(rank.EnvAttempt) == number && os.Getenv(rank.EnvRank) == r
}

// word is the counter of the tests' programs.
var word = wire.NewNocAddr(1, 1, 0x20000)

// programs are the programs that the tests run as chips.
var programs = map[string]chipprocess.Program{
	// count adds 1 to a counter of chip 0 for each rank, waits for the other ranks at a barrier,
	// and runs a kernel of its own.
	"count": func(ctx context.Context, s *session.Session) error {
		me, err := rank.Attach(ctx)
		if err != nil {
			return err
		}
		defer me.Close()
		err = s.AtomicInc(ctx, me.Chips[0], word, 1, true)
		b := kernel.NewBuilder(s.Topology())
		tile := b.Tensix(0)
		b.CreateKernel("store", tile, 0x30000)
		job, jerr := b.Job(1, s.Topology())
		if err = errors.Join(err, jerr, me.Barrier(ctx)); err == nil {
			err = s.Run(ctx, job)
		}
		got, stored := make([]byte, 4), make([]byte, 4)
		err = errors.Join(err, s.Read(ctx, me.Chips[0], word, got), s.Read(ctx, me.Self(), tile.Addr(0x30000), stored))
		fmt.Printf("rank %d of %d on %s, %d arguments, count %d, the kernel stored %d, attempt %d\n", me.Rank, me.World, me.Self(), len(os.Args)-2, got[0], stored[0], me.Attempt)
		return err
	},
	"fail": func(ctx context.Context, _ *session.Session) error {
		if os.Getenv(rank.EnvRank) == "1" {
			return errors.New("out of ink")
		}
		<-ctx.Done()
		return nil
	},
	// exits ends the processes of some ranks in several ways, and returns at the third attempt.
	"exits": func(ctx context.Context, _ *session.Session) error {
		switch {
		case attempt("0", "1"):
			os.Exit(3)
		case attempt("1", "0"):
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case attempt("2", "0"), attempt("2", "1"):
			return nil
		}
		<-ctx.Done()
		return nil
	},
	"exit 0": func(ctx context.Context, _ *session.Session) error {
		if os.Getenv(rank.EnvRank) == "0" {
			os.Exit(0)
		}
		<-ctx.Done()
		return nil
	},
	// early lets rank 0 return at once. Rank 1 reads the memory of chip 0 after the return.
	"early": func(ctx context.Context, s *session.Session) error {
		if os.Getenv(rank.EnvRank) == "0" {
			return nil
		}
		log := filepath.Join(os.Getenv(rank.EnvDir), "chip-M0D0.log")
		for {
			if b, err := os.ReadFile(log); err == nil && bytes.Contains(b, []byte("the program has ended")) {
				return s.Read(ctx, s.Topology().Chips[0].Node, word, make([]byte, 64))
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(5 * time.Millisecond):
			}
		}
	},
	// wait writes the number of its process into the folder that its argument names, and waits
	// until ctx ends.
	"wait": func(ctx context.Context, _ *session.Session) error {
		name := filepath.Join(os.Args[2], os.Getenv(rank.EnvRank))
		err := os.WriteFile(name+".new", fmt.Append(nil, os.Getpid()), 0o600)
		if err = errors.Join(err, os.Rename(name+".new", name)); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	},
}

// beside is a rank beside its chip. The rank writes a file into the folder dir, waits for a word,
// and fails when the chip closes the connection.
func beside(dir string) {
	me, err := rank.Attach(context.Background())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, fmt.Sprint(me.Rank)), fmt.Append(nil, os.Getpid()), 0o600)
	}
	if err == nil {
		_, err = me.WaitCounter(context.Background(), word, 1)
	}
	fmt.Println(err)
	os.Exit(5)
}

// buffer takes output of several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// soon is the longest time for a step of a test. A step takes much less on an idle machine.
const soon = time.Minute

// newJob returns a job on a new fabric, whose ranks are its chips.
func newJob(ctx context.Context, name, machine, program string, args ...string) (*Job, *buffer, error) {
	m, err := topo.Named(machine)
	if err != nil {
		return nil, nil, err
	}
	w := fabric.Wanted{Name: name, Topology: m, Spec: spec.Default()}
	w.Spec.Profile = "crowded"
	if w.Spec.Program, err = os.Executable(); err != nil {
		return nil, nil, err
	}
	f, err := fabric.Create(ctx, w)
	if err != nil {
		return nil, nil, err
	}
	out := new(buffer)
	return &Job{Fabric: f, Program: w.Spec.Program, Args: append([]string{program}, args...), AsChip: true, Out: out, Err: out,
		Tell: func(text string) { fmt.Fprintln(out, text) },
		Bring: func(ctx context.Context, exits fabric.Exits) error {
			ctx, cancel := context.WithTimeout(ctx, soon)
			defer cancel()
			_, err := f.Up(ctx, nil, exits)
			return err
		}}, out, nil
}

// launch runs a job in a process of its own.
func launch(dir string) int {
	j, _, err := newJob(context.Background(), "launched", "n300", "wait", dir)
	var rep *Report
	if err == nil {
		rep, _, err = j.NewReport()
	}
	if err == nil {
		err = j.Run(context.Background(), rep)
	}
	fmt.Println(err)
	return 1
}

// made makes a job. The end of the test removes its fabric.
func made(t *testing.T, machine, program string, args ...string) (*Job, *buffer) {
	t.Helper()
	t.Parallel()
	j, out, err := newJob(t.Context(), strings.ToLower(t.Name()), machine, program, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Fabric.Remove(); err != nil {
			t.Error(err)
		}
	})
	return j, out
}

// ran runs a job to its end.
func ran(t *testing.T, j *Job) *Report {
	t.Helper()
	rep, _, err := j.NewReport()
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Run(t.Context(), rep); err != nil {
		t.Fatal(err)
	}
	if n := len(j.Fabric.Running()); n != 0 {
		t.Errorf("%d chips run after the job", n)
	}
	return rep
}

// TestAsChip runs a program as the chips of a ring. The ranks wait for each other at barriers, run
// their own kernels, and get the arguments of the job.
func TestAsChip(t *testing.T) {
	j, out := made(t, "ring:4", "count", "--steps", "100")
	if rep := ran(t, j); rep.ExitCode != 0 || rep.Door != AsChip || len(rep.Attempts) != 1 {
		t.Errorf("%+v", rep)
	}
	for i, n := range j.Fabric.Topology.Nodes() {
		if want := fmt.Sprintf("[%d] rank %d of 4 on %s, 2 arguments, count 4, the kernel stored 7, attempt 0\n", i, i, n); !strings.Contains(out.String(), want) {
			t.Errorf("no line %q:\n%s", want, out)
		}
	}
	if strings.Contains(out.String(), "level=INFO") {
		t.Errorf("the chips' messages are among the ranks' output:\n%s", out)
	}
	if log, _ := os.ReadFile(j.Fabric.Dir.ChipPath(j.Fabric.Topology.Nodes()[0], ".log")); !bytes.Contains(log, []byte("the program has ended")) {
		t.Errorf("the chip's log: %s", log)
	}
}

// TestAsChipStaysUp lets one rank return before the others. The chip of this rank must continue to
// run.
func TestAsChipStaysUp(t *testing.T) {
	j, out := made(t, "n300", "early")
	if rep := ran(t, j); rep.ExitCode != 0 {
		t.Errorf("%+v\n%s", rep, out)
	}
}

// TestAsChipFails runs a program that returns an error, and a program that exits with code 0. The
// report must name the rank.
func TestAsChipFails(t *testing.T) {
	j, out := made(t, "n300", "fail")
	rep := ran(t, j)
	if a := rep.Attempts[0]; rep.ExitCode != 1 || a.Why != "rank 1 (chip M0D1) ended with exit code 1" || !slices.Equal(a.Lost, []int{1}) || !strings.Contains(out.String(), "[1] ttfabric: chip M0D1: the program failed: out of ink\n") {
		t.Errorf("%+v\n%s", rep, out)
	}
	j.Args = []string{"exit 0"}
	if rep := ran(t, j); rep.ExitCode != 1 || !strings.HasPrefix(rep.Attempts[0].Why, "rank 0 (chip M0D0) ended with exit code 0 before the programs of all ranks had returned") {
		t.Errorf("%+v", rep)
	}
}

// TestAsChipStartsAgain loses a rank by its exit code and then a rank by a signal. The third attempt ends well.
func TestAsChipStartsAgain(t *testing.T) {
	j, _ := made(t, "n300", "exits")
	j.Restarts = 5
	rep := ran(t, j)
	var why []string
	for _, a := range rep.Attempts {
		why = append(why, a.Why)
	}
	if want := []string{"rank 1 (chip M0D1) ended with exit code 3", "rank 0 (chip M0D0) ended by the signal killed", ""}; rep.ExitCode != 0 || !slices.Equal(why, want) {
		t.Errorf("exit code %d, %q", rep.ExitCode, why)
	}
	j.Restarts = 0
	if rep := ran(t, j); rep.ExitCode != 3 {
		t.Errorf("%+v; want the exit code of the rank", rep)
	}
}

// TestAsChipOfAnotherProgram runs a program that cannot be a chip.
func TestAsChipOfAnotherProgram(t *testing.T) {
	j, out := made(t, "n300", "none")
	j.Program, j.Args, j.Restarts = "/bin/sh", []string{"-c", "echo hello; exit 4"}, 3
	rep, _, err := j.NewReport()
	if err == nil {
		err = j.Run(t.Context(), rep)
	}
	if err == nil || !strings.Contains(err.Error(), "ended right after its start, with exit code 4, and its log is empty; either the executable is no chip") || len(rep.Attempts) != 1 || !strings.Contains(out.String(), "] hello\n") {
		t.Errorf("%v, %+v\n%s", err, rep, out)
	}
}

// waiting returns the processes of the two ranks of the program wait.
func waiting(t *testing.T, dir string) (pids []int) {
	t.Helper()
	for end := time.Now().Add(soon); len(pids) < 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the ranks do not begin")
		}
		pids = nil
		for _, name := range []string{"0", "1"} {
			var pid int
			b, _ := os.ReadFile(filepath.Join(dir, name))
			if n, _ := fmt.Sscan(string(b), &pid); n == 1 {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// TestAsChipEnds ends a job by its context, as Ctrl-C does. No process may be left.
func TestAsChipEnds(t *testing.T) {
	dir := t.TempDir()
	j, _ := made(t, "n300", "wait", dir)
	rep, _, err := j.NewReport()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- j.Run(ctx, rep) }()
	pids := waiting(t, dir)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || rep.ExitCode != 130 || len(rep.Attempts) != 1 {
		t.Errorf("%v, %+v", err, rep)
	}
	for _, pid := range pids {
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d runs on", pid)
		}
	}
}

// TestAsChipOfADeadLauncher kills the launcher. The chips must end by themselves.
func TestAsChipOfADeadLauncher(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), launcherEnv+"="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pids := waiting(t, dir)
	cmd.Process.Kill()
	_ = cmd.Wait() // the process was killed
	for end := time.Now().Add(soon); slices.ContainsFunc(pids, func(pid int) bool { return syscall.Kill(pid, 0) == nil }); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			t.Fatal("the chips run on without their launcher")
		}
	}
}

// TestKilledChip kills a chip beside its rank, so that the rank fails at once. The report must name the
// chip, and must not blame the rank.
func TestKilledChip(t *testing.T) {
	dir := t.TempDir()
	j, out := made(t, "n300", "beside", dir)
	j.AsChip = false
	if err := j.Bring(t.Context(), make(fabric.Exits, 2)); err != nil {
		t.Fatal(err)
	}
	rep, _, err := j.NewReport()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- j.Run(t.Context(), rep) }()
	waiting(t, dir)
	c, _ := j.Fabric.Where(j.Fabric.Topology.Nodes()[1])
	if err := syscall.Kill(c.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if a := rep.Attempts[0]; a.Why != "chip M0D1 was lost" || len(a.Lost) != 0 || !slices.Equal(a.Chips, []wire.FabricNodeID{c.Chip}) || strings.Contains(out.String(), "ended with exit code 5") {
		t.Errorf("%+v\n%s", a, out)
	}
}
