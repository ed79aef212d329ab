package fabric

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// processes is the [host] of a fabric whose chips are processes of this machine. Each
// process writes its addresses into the run folder.
type processes struct {
	dir     folder.Dir
	program string // program that runs in each chip's process; "": the function executable chooses

	start func(wire.FabricNodeID, *exec.Cmd) error // starts the process of a chip; nil: exec.Cmd.Start
}

// Chips implements [host].
func (p processes) Chips() (out []folder.Chip) {
	for _, c := range p.dir.ChipFiles() {
		if c.Alive() {
			out = append(out, c)
		}
	}
	return out
}

// standsStill reports whether all threads of a process have stopped (proc(5), state T). A
// stop signal first goes to one thread, which then stops the other threads. On a busy
// machine, the other threads therefore run for some more milliseconds.
func standsStill(pid int) bool {
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		if f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])); len(f) == 0 || f[0] != "T" {
			return false
		}
	}
	return len(names) > 0
}

// Times and limits of the start of processes.
const (
	startPatience = 2 * time.Second      // longest time for which a chip that is not running yet delays the start of further chips
	startPoll     = 2 * time.Millisecond // time between two checks whether a chip runs
	startsPerCore = 2                    // number of chips that start at once, for each core of the machine
)

// Launch implements [host]. Launch starts only a few chips at once. If all chips started at once, each
// start would take as long as all starts together, and the chips that run would be starved meanwhile.
// If a chip ends before it runs, Launch starts no further chip.
func (p processes) Launch(ctx context.Context, ns []wire.FabricNodeID, rec spec.Records, exits chan<- folder.Exit) error {
	launched, err := p.dir.Launching()
	if err != nil {
		return err
	}
	defer launched()
	var starting []startingChip
	for _, n := range ns {
		for len(starting) >= startsPerCore*runtime.NumCPU() {
			for i := 0; i < len(starting); {
				switch runs, ended := starting[i].state(); {
				case ended:
					return nil // the caller learns the reason from exits
				case runs:
					starting = slices.Delete(starting, i, i+1)
				default:
					i++
				}
			}
			select {
			case <-ctx.Done():
				return nil // the caller's wait for the chips ends for the same reason
			case <-time.After(startPoll):
			}
		}
		ended, err := p.spawn(n, rec, exits)
		if err != nil {
			return err
		}
		starting = append(starting, startingChip{p.dir.ChipPath(n, ".json"), time.Now().Add(startPatience), ended})
	}
	return nil
}

// startingChip is a chip whose process has started and does not run yet.
type startingChip struct {
	file     string    // the file that the chip writes when it runs
	deadline time.Time // from this time on, the chip counts as running and delays no further chip
	ended    <-chan struct{}
}

// state reports whether the chip runs, and whether its process has ended.
func (s *startingChip) state() (runs, ended bool) {
	select {
	case <-s.ended:
		return false, true
	default:
	}
	_, err := os.Stat(s.file)
	return err == nil || time.Now().After(s.deadline), false
}

// spawn starts the process of one chip. The process has a process group of its own, so that
// Ctrl-C interrupts only this program. When the process has ended, spawn closes the Go channel
// "ended".
func (p processes) spawn(n wire.FabricNodeID, rec spec.Records, exits chan<- folder.Exit) (ended <-chan struct{}, err error) {
	exe, err := executable(p.program)
	if err != nil {
		return nil, err
	}
	p.dir.RemoveChip(n)
	log, err := os.OpenFile(p.dir.ChipPath(n, ".log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("chip %s: cannot open the chip's log file: %w", n, err)
	}
	defer log.Close()
	cmd := exec.Command(exe, append([]string{"node", "--dir", string(p.dir), "--chip", n.String()}, rec.RecordArguments()...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	start := p.start
	if start == nil {
		start = func(_ wire.FabricNodeID, cmd *exec.Cmd) error { return cmd.Start() }
	}
	if err := start(n, cmd); err != nil {
		return nil, fmt.Errorf("chip %s: cannot start the chip's process: %w; check the limits with 'ulimit -u' and 'ulimit -n'", n, err)
	}
	done := make(chan struct{})
	go func() {
		err := cmd.Wait()
		exits <- folder.Exit{Chip: n, Err: err}
		close(done)
	}()
	return done, nil
}

// Do implements [host].
func (p processes) Do(_ context.Context, f folder.Chip, k fault.Kind) error {
	signals, what := []syscall.Signal{syscall.SIGKILL}, "was killed but does not end; look at the process with 'ps'"
	switch k {
	case fault.KindPaused:
		signals, what = []syscall.Signal{syscall.SIGSTOP}, "was stopped but still runs; look at the process with 'ps'"
	case fault.KindResumed:
		signals, what = []syscall.Signal{syscall.SIGCONT}, ""
	case fault.KindRemoved: // after SIGCONT, a paused chip receives SIGTERM
		signals, what = []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT}, fmt.Sprintf("does not end; 'ttfabric chip kill %s' kills the process", f.Chip)
	}
	for i, sig := range signals {
		if err := syscall.Kill(f.PID, sig); err != nil && i == 0 {
			return fmt.Errorf("chip %s: cannot signal process %d: %w", f.Chip, f.PID, err)
		}
	}
	for end := time.Now().Add(folder.StopTime); what != "" && f.Alive() && (k != fault.KindPaused || !standsStill(f.PID)); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("chip %s: process %d %s", f.Chip, f.PID, what)
		}
	}
	return nil
}

// LastWords implements [host].
func (p processes) LastWords(n wire.FabricNodeID) string { return p.dir.LastWords(n) }

// Archive implements [host]. Archive does nothing, because the chips write into the
// archive's folder themselves.
func (p processes) Archive(context.Context) error { return nil }

// KeyLog implements [host]. KeyLog does nothing, because the chips write into the
// folder of --keylog themselves.
func (p processes) KeyLog(context.Context) error { return nil }

// Recording implements [host]. Recording returns file, because the chips write into the
// folder of --record themselves.
func (p processes) Recording(_ context.Context, file string) (string, error) { return file, nil }

// Remove implements [host]. Remove stops all processes of the fabric and deletes the run
// folder. Remove also finds processes by their command lines, because a crash may have
// left processes that the run folder does not name. Remove kills processes that do not end
// within [folder.StopTime].
func (p processes) Remove() error {
	pids := map[int]uint64{}
	for _, c := range p.Chips() {
		pids[c.PID] = c.Started
	}
	for _, pid := range findProcesses(p.dir) {
		pids[pid] = folder.StartTicks(pid)
	}
	signalAll := func(sig syscall.Signal) int {
		n := 0
		for pid, started := range pids {
			if started != 0 && folder.StartTicks(pid) == started {
				syscall.Kill(pid, sig)
				n++
			}
		}
		return n
	}
	signalAll(syscall.SIGTERM)
	signalAll(syscall.SIGCONT)
	for end := time.Now().Add(folder.StopTime); signalAll(0) > 0 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	for end := time.Now().Add(folder.StopTime); signalAll(syscall.SIGKILL) > 0 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	return p.dir.Remove()
}

// executable returns the path of the program that runs in each chip's process. If program
// is not "", the path is program. Otherwise, after a call of [ServesChips], the path is
// that of this process's executable. Otherwise the path is that of the ttfabric in PATH.
func executable(program string) (string, error) {
	if program != "" {
		return program, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if serves {
		return self, nil
	}
	path, err := exec.LookPath("ttfabric")
	if err != nil {
		return "", errors.New("the program ttfabric, which runs the chips of a fabric, is not in PATH; build ttfabric in a checkout with 'go build -o ttfabric ./cmd/ttfabric', and put its folder into PATH; or let your own program run the chips: see ServesChips of package fabric")
	}
	return path, nil
}

// serves says that the executable of this process runs a chip if its first argument is "node".
var serves bool

// ServesChips declares that the executable of this process can run a chip. This process
// then starts chips as processes of its own executable. A process that has not called
// ServesChips starts chips as processes of the ttfabric in PATH.
//
// The main function of an executable that calls ServesChips must call process.Main if the first
// argument is "node".
func ServesChips() { serves = true }

// findProcesses returns the process ids of a fabric's chips, by their command lines. The
// result includes chips that have no file in the run folder, such as a chip that has just
// started. The loop looks for "node" at every place of the command line, because the
// command line of a script begins with an interpreter.
func findProcesses(dir folder.Dir) (out []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		args := strings.Split(string(b), "\x00")
		for i := 1; i+2 < len(args); i++ {
			if args[i] == "node" && args[i+1] == "--dir" && args[i+2] == string(dir) {
				var pid int
				fmt.Sscanf(name, "/proc/%d/cmdline", &pid)
				out = append(out, pid)
				break
			}
		}
	}
	return out
}
