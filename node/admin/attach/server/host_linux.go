package server

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// newFile makes a file in memory of n bytes, which can neither shrink nor grow (memfd_create(2),
// F_ADD_SEALS). So no access within the file's length can fail because another process changed the length.
func newFile(name string, n int64) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("cannot make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if err = f.Truncate(n); err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot make a file of %d bytes in memory: %w", n, err)
	}
	return f, nil
}

// mapFile maps the n bytes of a file, shared with other processes.
func mapFile(f *os.File, n int64) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

func unmapFile(b []byte) error { return unix.Munmap(b) }

// passFile writes b to a connection, and passes a descriptor of f with the first byte.
func passFile(conn *net.UnixConn, b []byte, f *os.File) error {
	n, _, err := conn.WriteMsgUnix(b, unix.UnixRights(int(f.Fd())), nil)
	if err == nil && n < len(b) {
		_, err = conn.Write(b[n:])
	}
	return err
}
