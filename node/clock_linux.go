package node

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// clock wakes the goroutine that runs the chip at its deadlines. The clock is a timer of the kernel
// (timerfd_create(2)), which the Go runtime waits for as for a socket. A timer of the Go runtime
// would take a fifth of an idle chip's processor time: the runtime rounds its timers to
// milliseconds, often wakes up twice, and wakes its monitor thread before and after each timer.
type clock struct {
	file *os.File
	raw  syscall.RawConn

	// The functions and their arguments are fields, so that no call allocates memory.
	arm   func(fd uintptr)
	next  unix.ItimerSpec // argument of arm
	read  func(fd uintptr) bool
	times uint64 // number of expirations that read has read
}

// newClock returns a clock that is not set.
func newClock() (*clock, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot create a timer of the kernel; check the limit with 'ulimit -n': %w", err)
	}
	c := &clock{file: os.NewFile(uintptr(fd), "timer")}
	if c.raw, err = c.file.SyscallConn(); err != nil {
		c.file.Close()
		return nil, fmt.Errorf("cannot use a timer of the kernel: %w", err)
	}
	// RawSyscall6 and RawSyscall do not tell the Go runtime about the calls, because the calls never
	// wait.
	c.arm = func(fd uintptr) {
		_, _, _ = unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&c.next)), 0, 0, 0)
	}
	c.read = func(fd uintptr) bool {
		_, _, e := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&c.times)), unsafe.Sizeof(c.times))
		return e != unix.EAGAIN
	}
	return c, nil
}

// set makes the next wait return after the time d, and replaces the time that was set before. One
// goroutine at a time may call set.
func (c *clock) set(d time.Duration) {
	c.next = unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))} // a time of 0 would unset the timer
	_ = c.raw.Control(c.arm)                                               // Control fails only after close
}

// wait waits until the time that was set has passed. After close, wait returns false. One goroutine
// at a time may call wait.
func (c *clock) wait() bool { return c.raw.Read(c.read) == nil }

// close makes wait return.
func (c *clock) close() { c.file.Close() }
