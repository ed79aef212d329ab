package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"

	"golang.org/x/sys/unix"
)

func lookFiles(_ context.Context, p *request) finding {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return bad(warns, "", "the limit of open files cannot be read: %v", err)
	}
	// Each chip is a process of its own; what steers them holds a connection or two to each.
	need := uint64(max(chipFiles, 4*len(p.t.Chips)+64))
	if l.Max < need {
		return bad(fails, fmt.Sprintf("'ulimit -n %d' before 'ttfabric up', or a higher nofile in /etc/security/limits.conf", need), "%d may be open in one process; %s need %d", l.Max, topo.Count(len(p.t.Chips), "chip"), need)
	}
	return ok("%s may be open in one process; %d are needed", limitText(l.Max), need)
}

func limitText(n uint64) string {
	if n == math.MaxUint64 {
		return "any number"
	}
	return strconv.FormatUint(n, 10)
}

func lookProcesses(_ context.Context, p *request) finding {
	need := chipThreads * len(p.t.Chips)
	if p.runtime == spec.Docker {
		need = 0 // they are the engine's
	}
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &l); err != nil {
		return bad(warns, "", "the limit of processes cannot be read: %v", err)
	}
	used := threadsOf(os.Getuid())
	return judgeThreads(need, used, l.Cur, os.Getuid() == 0, pidsLeft("/proc/self/cgroup", "/sys/fs/cgroup"))
}

// judgeThreads weighs threads that are needed against the user's limit, which
// does not bind root, and those that the control group leaves; negative: no such limit.
func judgeThreads(need, used int, limit uint64, root bool, left int) finding {
	const way = "'ulimit -u %d' before 'ttfabric up', or a higher nproc in /etc/security/limits.conf"
	switch {
	case left >= 0 && left < need:
		return bad(fails, "a higher pids limit of the container or the systemd unit (TasksMax)", "%d threads are needed, and this control group has %d left", need, left)
	case root || limit == math.MaxUint64:
		return ok("no limit of this user's processes; %d threads are needed", need)
	case uint64(used+need) > limit:
		return bad(fails, fmt.Sprintf(way, used+2*need), "%d threads are needed, this user has %d already and may have %d", need, used, limit)
	}
	return ok("%d threads are needed; this user has %d and may have %d", need, used, limit)
}

// threadsOf counts the threads of a user's processes (proc(5), /proc/pid/status).
func threadsOf(uid int) (n int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		fi, err := os.Stat(d)
		if err != nil || int(fi.Sys().(*syscall.Stat_t).Uid) != uid {
			continue
		}
		for line := range strings.Lines(readSys(d + "/status")) {
			if v, ok := strings.CutPrefix(line, "Threads:"); ok {
				k, _ := strconv.Atoi(strings.TrimSpace(v))
				n += k
			}
		}
	}
	return n
}

// pidsLeft is how many threads this control group and those above it may still
// have (cgroups(7), pids controller), -1 for any number.
func pidsLeft(self, root string) int {
	left := -1
	for line := range strings.Lines(readSys(self)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 || f[1] != "" && f[1] != "pids" {
			continue
		}
		base := filepath.Join(root, f[1]) // version 2 has one tree, version 1 one for each controller
		for at := filepath.Join(base, f[2]); strings.HasPrefix(at, base); at = filepath.Dir(at) {
			most, err := strconv.Atoi(readSys(at + "/pids.max"))
			now, err2 := strconv.Atoi(readSys(at + "/pids.current"))
			if err == nil && err2 == nil && (left < 0 || most-now < left) {
				left = max(0, most-now)
			}
		}
	}
	return left
}

func lookMemory(_ context.Context, p *request) finding {
	free := int64(-1)
	for line := range strings.Lines(readSys("/proc/meminfo")) {
		if v, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(v)[0], 10, 64)
			free = kib << 10
		}
	}
	if free < 0 {
		return bad(warns, "", "/proc/meminfo does not say what memory is available")
	}
	return judgeMemory(free, int64(len(p.t.Chips)))
}

func judgeMemory(free, chips int64) finding {
	const way = "close what takes it, a smaller topology, or several machines: 'ttfabric node --help'"
	switch {
	case free < chips*chipIdle:
		return bad(fails, way, "%d MiB available; %d chips take %d when idle", free>>20, chips, chips*chipIdle>>20)
	case free < chips*chipBusy:
		return bad(warns, way, "%d MiB available; %d chips take %d when idle, and up to %d under traffic", free>>20, chips, chips*chipIdle>>20, chips*chipBusy>>20)
	}
	return ok("%d MiB available; %d chips take up to %d", free>>20, chips, chips*chipBusy>>20)
}

// existing is the nearest folder above a path that is there.
func existing(path string) string {
	for {
		if _, err := os.Lstat(path); err == nil || path == "/" || path == "." {
			return path
		}
		path = filepath.Dir(path)
	}
}

func lookFolder(context.Context, *request) finding {
	const way = "set XDG_RUNTIME_DIR to a folder of yours"
	root := runRoot()
	at := existing(root)
	fi, err := os.Lstat(at)
	switch {
	case err != nil:
		return bad(fails, way, "%s: %v", at, err)
	case !fi.IsDir():
		return bad(fails, way, "%s is not a folder", at)
	case at == root && fi.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()):
		return bad(fails, way, "%s is another user's", root)
	}
	if err := unix.Access(at, unix.W_OK|unix.X_OK); err != nil {
		return bad(fails, way, "%s cannot be written: %v", at, err)
	}
	return ok("%s", root)
}

func lookDisk(_ context.Context, p *request) finding {
	at := existing(runRoot())
	var s unix.Statfs_t
	if err := unix.Statfs(at, &s); err != nil {
		return bad(warns, "", "%s: %v", at, err)
	}
	return judgeDisk(int64(s.Bavail)*s.Bsize, int64(s.Ffree), s.Files > 0, int64(len(p.t.Chips)), at)
}

func judgeDisk(free, inodes int64, counted bool, chips int64, at string) finding {
	const way = "make room there, or set XDG_RUNTIME_DIR to a folder on another disk"
	switch need := chips * chipDisk; {
	case counted && inodes < 8*chips:
		return bad(fails, way, "%s has room for %d more files", at, inodes)
	case free < need:
		return bad(fails, way, "%s has %d MiB left; logs and events of %d chips take %d", at, free>>20, chips, need>>20)
	default:
		return ok("%s has %d MiB left; %d chips take up to %d", at, free>>20, chips, need>>20)
	}
}

func lookClock(context.Context, *request) finding {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	switch {
	case err != nil:
		return ok("whether it is synchronised cannot be asked here: %v", err)
	case state == unix.TIME_ERROR || t.Status&unix.STA_UNSYNC != 0:
		return bad(warns, "on one machine nothing; on several 'timedatectl set-ntp true', or chrony", "the kernel says that the clock is not synchronised: times of events, and which of two lives of a chip is the later, may be wrong between machines")
	}
	return ok("synchronised, to %d ms", t.Esterror/1000)
}
