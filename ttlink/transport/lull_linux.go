package transport

import (
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lull makes short pauses between two looks at a socket. In a pause, all other goroutines of this
// process run if they are ready.
//
// The Go runtime looks for events at its sockets only when no goroutine is ready to run. A pause
// therefore causes an event and waits for it. During the wait, the runtime finds the events of all
// sockets, so that the ports that do not poll also receive without delay. A pause does not call
// sched_yield, because a thread that yields a busy core often gets the core back late.
type lull struct {
	mu     sync.Mutex
	file   *os.File // eventfd that carries the pause's own event; nil: not open
	raw    syscall.RawConn
	failed bool // the eventfd cannot be opened, or is closed
	call   func(fd uintptr) bool
	rung   bool   // the pause has caused its event, and the event has not come yet
	value  uint64 // number that the eventfd takes or returns
}

// pass makes one pause. If pass cannot make a pause, pass returns false.
func (l *lull) pass() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil && !l.open() {
		return false
	}
	l.rung = false
	return l.raw.Read(l.call) == nil
}

// open opens the eventfd. The caller holds l.mu.
func (l *lull) open() bool {
	if l.failed {
		return false
	}
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		l.failed = true
		return false
	}
	l.file = os.NewFile(uintptr(fd), "eventfd")
	if l.raw, err = l.file.SyscallConn(); err != nil {
		l.shut()
		return false
	}
	l.call = func(fd uintptr) bool { // the first call causes the event, and the call after the event removes it
		op := uintptr(unix.SYS_READ)
		if !l.rung {
			op, l.value = unix.SYS_WRITE, 1
		}
		unix.RawSyscall(op, fd, uintptr(unsafe.Pointer(&l.value)), unsafe.Sizeof(l.value))
		l.rung = !l.rung
		return !l.rung
	}
	return true
}

// close frees the eventfd. After close, pass returns false.
func (l *lull) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut()
}

func (l *lull) shut() {
	l.failed = true
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}
