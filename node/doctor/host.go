package doctor

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
)

func lookFiles(_ context.Context, p *patient) Finding {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return bad(Warning, "", "the limit of open files cannot be read: %v", err)
	}
	// The limit holds for each process. Each chip is a process of its own. A command has up
	// to two connections to each chip.
	need := uint64(max(chipFiles, 4*p.chips()+64))
	if l.Max < need {
		return bad(Failure, fmt.Sprintf("'ulimit -n %d' before 'ttfabric up', or a higher nofile in /etc/security/limits.conf", need), "one process may have %d open files, but %s need %d", l.Max, topo.Count(p.chips(), "chip"), need)
	}
	return ok("one process may have %s open files; %d are needed", limitText(l.Max), need)
}

func limitText(n uint64) string {
	if n == math.MaxUint64 {
		return "any number"
	}
	return strconv.FormatUint(n, 10)
}

func lookProcesses(_ context.Context, p *patient) Finding {
	need := chipThreads * p.chips()
	if p.Runtime == spec.Docker {
		need = 0 // the threads of containers are not threads of this user
	}
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &l); err != nil {
		return bad(Warning, "", "the limit of processes cannot be read: %v", err)
	}
	used := threadsOf(os.Getuid())
	return judgeThreads(need, used, l.Cur, os.Getuid() == 0, pidsLeft("/proc/self/cgroup", "/sys/fs/cgroup"))
}

// judgeThreads compares "need", the number of threads that the fabric needs, with two limits. The
// parameter "limit" is the number of threads that the user may have; root has no such limit. The
// parameter "used" is the number of threads that the user has. The parameter "left" is the number
// of further threads that the control group allows; if "left" is negative, the control group has no
// limit.
func judgeThreads(need, used int, limit uint64, root bool, left int) Finding {
	const wayOut = "'ulimit -u %d' before 'ttfabric up', or a higher nproc in /etc/security/limits.conf"
	switch {
	case left >= 0 && left < need:
		return bad(Failure, "set a higher pids limit for the container or the systemd unit of this shell (TasksMax)", "%d threads are needed, but this control group may have only %d more", need, left)
	case root || limit == math.MaxUint64:
		return ok("this user's processes have no limit; %d threads are needed", need)
	case uint64(used+need) > limit:
		return bad(Failure, fmt.Sprintf(wayOut, used+2*need), "%d threads are needed, but this user has %d already and may have %d", need, used, limit)
	}
	return ok("%d threads are needed; this user has %d and may have %d", need, used, limit)
}

// threadsOf returns the number of threads in all processes of a user (proc(5), /proc/pid/status).
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

// pidsLeft returns how many further threads a process's control group and all groups above
// this group allow (cgroups(7), pids controller). If there is no limit, pidsLeft returns
// -1. The parameter "self" is the path of the process's file /proc/pid/cgroup. The parameter "root"
// is the folder at which the control groups are mounted.
func pidsLeft(self, root string) int {
	left := -1
	for line := range strings.Lines(readSys(self)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 || f[1] != "" && f[1] != "pids" {
			continue
		}
		base := filepath.Join(root, f[1]) // version 2 has one tree of groups; version 1 has a tree for each controller
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

func lookMemory(_ context.Context, p *patient) Finding {
	free := int64(-1)
	for line := range strings.Lines(readSys("/proc/meminfo")) {
		if v, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(v)[0], 10, 64)
			free = kib << 10
		}
	}
	if free < 0 {
		return bad(Warning, "", "/proc/meminfo does not say how much memory is available")
	}
	return judgeMemory(free, int64(p.chips()))
}

func judgeMemory(free, chips int64) Finding {
	const wayOut = "end other programs, choose a smaller topology, or run the chips on several machines, see 'ttfabric node --help'"
	switch {
	case free < chips*chipIdle:
		return bad(Failure, wayOut, "%d MiB are available, but %d idle chips take %d MiB", free>>20, chips, chips*chipIdle>>20)
	case free < chips*chipBusy:
		return bad(Warning, wayOut, "%d MiB are available; %d chips take %d MiB when idle, but up to %d MiB under traffic", free>>20, chips, chips*chipIdle>>20, chips*chipBusy>>20)
	}
	return ok("%d MiB are available; %d chips take up to %d MiB", free>>20, chips, chips*chipBusy>>20)
}

// existing returns path if path exists. Otherwise existing returns the nearest folder above
// path that exists.
func existing(path string) string {
	for {
		if _, err := os.Lstat(path); err == nil || path == "/" || path == "." {
			return path
		}
		path = filepath.Dir(path)
	}
}

func lookFolder(context.Context, *patient) Finding {
	const wayOut = "set XDG_RUNTIME_DIR to a folder that belongs to you"
	root := folder.Root()
	at := existing(root)
	fi, err := os.Lstat(at)
	switch {
	case err != nil:
		return bad(Failure, wayOut, "%s: %v", at, err)
	case !fi.IsDir():
		return bad(Failure, wayOut, "%s is not a folder", at)
	case at == root && fi.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()):
		return bad(Failure, wayOut, "%s belongs to another user", root)
	}
	if err := unix.Access(at, unix.W_OK|unix.X_OK); err != nil {
		return bad(Failure, wayOut, "%s cannot be written: %v", at, err)
	}
	return ok("%s", root)
}

func lookDisk(_ context.Context, p *patient) Finding {
	at := existing(folder.Root())
	var s unix.Statfs_t
	if err := unix.Statfs(at, &s); err != nil {
		return bad(Warning, "", "%s: %v", at, err)
	}
	return judgeDisk(int64(s.Bavail)*s.Bsize, int64(s.Ffree), s.Files > 0, int64(p.chips()), at)
}

// judgeDisk compares the free bytes and inodes of a file system with the bytes and inodes
// that the chips need. The parameter "at" is a folder in the file system. The parameter "counted"
// says that the file system has a limited number of inodes.
func judgeDisk(free, inodes int64, counted bool, chips int64, at string) Finding {
	const wayOut = "remove files from this disk, or set XDG_RUNTIME_DIR to a folder on another disk"
	switch need := chips * chipDisk; {
	case counted && inodes < 8*chips:
		return bad(Failure, wayOut, "%s has room for only %d more files", at, inodes)
	case free < need:
		return bad(Failure, wayOut, "%s has %d MiB left, but logs and events of %d chips take %d MiB", at, free>>20, chips, need>>20)
	default:
		return ok("%s has %d MiB left; %d chips take up to %d MiB", at, free>>20, chips, need>>20)
	}
}

func lookClock(context.Context, *patient) Finding {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	switch {
	case err != nil:
		return ok("this machine does not say whether the clock is synchronised: %v", err)
	case state == unix.TIME_ERROR || t.Status&unix.STA_UNSYNC != 0:
		return bad(Warning, "for a fabric on one machine, do nothing; for several machines run 'timedatectl set-ntp true', or install chrony", "the kernel says that the clock is not synchronised: chips on several machines may report wrong times of events, and may take an older incarnation of a chip for the newest")
	}
	return ok("the clock is synchronised, with an error of at most %d ms", t.Esterror/1000)
}
