package attach

import (
	"fmt"
	"os"
	"syscall"
)

// mapFile maps the first n bytes of a file, shared with other processes.
func mapFile(f *os.File, n int) ([]byte, error) {
	b, err := syscall.Mmap(int(f.Fd()), 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("cannot map %d bytes: %w", n, err)
	}
	return b, nil
}

func unmap(b []byte) error { return syscall.Munmap(b) }

// passedFile returns the first file of a control message (SCM_RIGHTS, unix(7)), or nil. passedFile closes
// further files.
func passedFile(control []byte) (file *os.File) {
	list, err := syscall.ParseSocketControlMessage(control)
	if err != nil {
		return nil
	}
	for i := range list {
		fds, _ := syscall.ParseUnixRights(&list[i]) // other control messages hold no files
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
			f := os.NewFile(uintptr(fd), "shared memory")
			if file == nil {
				file = f
			} else {
				f.Close()
			}
		}
	}
	return file
}
