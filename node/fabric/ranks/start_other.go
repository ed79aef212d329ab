//go:build !linux

package ranks

import (
	"fmt"
	"syscall"
)

// attributes returns nil: the processes need no attributes.
func attributes() *syscall.SysProcAttr { return nil }

// start starts all ranks. If a rank cannot be started, start starts no further ranks.
func start(ps []*process, started chan<- error, _ <-chan struct{}) {
	var err error
	for i, p := range ps {
		if err = p.cmd.Start(); err != nil {
			err = fmt.Errorf("rank %d cannot be started: %w", i, err)
			break
		}
	}
	started <- err
}

// signal sends a signal to all ranks that run.
func signal(ps []*process, s syscall.Signal) {
	for _, p := range ps {
		if p.cmd.Process == nil {
			continue
		}
		select {
		case <-p.gone:
		default:
			_ = p.cmd.Process.Signal(s)
		}
	}
}
