package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// processes are the chips of a fabric as processes of this machine. Each writes a chipFile into the run folder.
type processes struct{ dir runDir }

func (p processes) chips() []chipFile {
	names, _ := filepath.Glob(p.dir.path("chip-*.json"))
	var out []chipFile
	for _, name := range names {
		b, err := os.ReadFile(name)
		var c chipFile
		if err == nil && json.Unmarshal(b, &c) == nil && c.alive() {
			out = append(out, c)
		}
	}
	sortChips(out)
	return out
}

func (c *chipFile) alive() bool { return c.PID > 0 && startTicks(c.PID) == c.Started && c.Started != 0 }

// startTicks is a process's start time, 0 if there is none (proc(5), /proc/pid/stat field 22). A zombie is none.
func startTicks(pid int) uint64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	s := string(b)
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return 0
	}
	v, _ := strconv.ParseUint(f[19], 10, 64)
	return v
}

// standsStill reports whether each thread of a process stands still (proc(5), state
// T). A signal stops only the thread that it wakes, and that the others, when it
// gets to run: on a busy machine they go on for milliseconds.
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

func (p processes) launch(_ context.Context, ns []wire.FabricNodeID, rec recordFlags, exits chan<- exit) error {
	for _, n := range ns {
		if err := p.spawn(n, rec, exits); err != nil {
			return err
		}
	}
	return nil
}

// spawn starts one chip in a process group of its own, so that Ctrl-C reaches the supervisor alone.
func (p processes) spawn(n wire.FabricNodeID, rec recordFlags, exits chan<- exit) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	os.Remove(p.dir.chipPath(n, ".json"))
	log, err := os.OpenFile(p.dir.chipPath(n, ".log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("chip %s: cannot open its log: %w", n, err)
	}
	defer log.Close()
	cmd := exec.Command(exe, append([]string{"node", "--dir", string(p.dir), "--chip", n.String()}, rec.arguments()...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("chip %s: cannot start its process: %w; check the limits with 'ulimit -u' and 'ulimit -n'", n, err)
	}
	go func() { exits <- exit{n, cmd.Wait()} }()
	return nil
}

// stopTime is how long chips get to say goodbye before they are killed.
const stopTime = 3 * time.Second

func (p processes) do(_ context.Context, f chipFile, k fault.Kind) error {
	signals, what := []syscall.Signal{syscall.SIGKILL}, "was killed and does not end; look at its state with 'ps'"
	switch k {
	case fault.KindPaused:
		signals, what = []syscall.Signal{syscall.SIGSTOP}, "was stopped and goes on; look at its state with 'ps'"
	case fault.KindResumed:
		signals, what = []syscall.Signal{syscall.SIGCONT}, ""
	case fault.KindRemoved: // one that is paused has to hear it
		signals, what = []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT}, fmt.Sprintf("does not end; 'ttfabric chip kill %s' ends it without a goodbye", f.Chip)
	}
	for i, sig := range signals {
		if err := syscall.Kill(f.PID, sig); err != nil && i == 0 {
			return fmt.Errorf("chip %s, process %d: %w", f.Chip, f.PID, err)
		}
	}
	for end := time.Now().Add(stopTime); what != "" && f.alive() && (k != fault.KindPaused || !standsStill(f.PID)); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("chip %s, process %d, %s", f.Chip, f.PID, what)
		}
	}
	return nil
}

func (p processes) lastWords(n wire.FabricNodeID) string {
	b, _ := os.ReadFile(p.dir.chipPath(n, ".log"))
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return strings.TrimPrefix(string(lines[len(lines)-1]), "ttfabric: ")
}

// archive has nothing to fetch: the chips write into the folder themselves.
func (p processes) archive(context.Context) error { return nil }

// keylog has nothing to fetch either.
func (p processes) keylog(context.Context) error { return nil }

func (p processes) recording(_ context.Context, file string) (string, error) { return file, nil }

// remove stops all processes of a fabric and deletes its folder. It
// works on what a crash left too: processes are found by their run folder.
func (p processes) remove() error {
	pids := map[int]uint64{}
	for _, c := range p.chips() {
		pids[c.PID] = c.Started
	}
	for _, pid := range findProcesses(p.dir) {
		pids[pid] = startTicks(pid)
	}
	signalAll := func(sig syscall.Signal) int {
		n := 0
		for pid, started := range pids {
			if started != 0 && startTicks(pid) == started {
				syscall.Kill(pid, sig)
				n++
			}
		}
		return n
	}
	signalAll(syscall.SIGTERM)
	signalAll(syscall.SIGCONT)
	for end := time.Now().Add(stopTime); signalAll(0) > 0 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	for end := time.Now().Add(stopTime); signalAll(syscall.SIGKILL) > 0 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	return os.RemoveAll(string(p.dir))
}

// findProcesses finds chips by their command line, for those that died before they could write their file, or were started while it was removed.
func findProcesses(dir runDir) []int {
	var out []int
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		args := strings.Split(string(b), "\x00")
		if len(args) > 4 && args[1] == "node" && args[2] == "--dir" && args[3] == string(dir) {
			var pid int
			fmt.Sscanf(name, "/proc/%d/cmdline", &pid)
			out = append(out, pid)
		}
	}
	return out
}
