package ranks

import (
	"fmt"
	"runtime"
	"syscall"
)

// attributes returns the attributes of a rank's process. Each rank has a process group of its own, so
// that a Ctrl-C of the terminal goes to the launcher alone. If the launcher is killed, the kernel kills
// its ranks (prctl(2), PR_SET_PDEATHSIG).
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// start starts all ranks, and keeps the starting thread until the channel "stop" is closed. When
// this thread ends, the kernel kills the ranks, see attributes. If a rank cannot be started, start
// starts no further ranks.
func start(ps []*process, started chan<- error, stop <-chan struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var err error
	for i, p := range ps {
		if err = p.cmd.Start(); err != nil {
			err = fmt.Errorf("rank %d cannot be started: %w", i, err)
			break
		}
	}
	started <- err
	<-stop
}

// signal sends a signal to the process groups of all ranks that run.
func signal(ps []*process, s syscall.Signal) {
	for _, p := range ps {
		if p.cmd.Process == nil {
			continue
		}
		select {
		case <-p.gone:
		default:
			_ = syscall.Kill(-p.cmd.Process.Pid, s) // the rank may just have ended
		}
	}
}
