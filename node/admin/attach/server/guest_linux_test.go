package server_test

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"ttfabric/node/admin/attach"
	"ttfabric/node/admin/attach/server"
	"ttfabric/node/admin/barrier"
)

// connectAs connects to a socket as a user. The kernel takes the user of the thread that connects.
func connectAs(uid int, path string) (conn net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // without an unlock, the thread ends with this goroutine
		var fd int
		if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return
		}
		f := os.NewFile(uintptr(fd), path)
		defer f.Close()
		const same = ^uintptr(0)
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(uid), same); e != 0 {
			err = e
		} else if err = unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err == nil {
			conn, err = net.FileConn(f)
		}
	}()
	<-done
	return conn, err
}

// TestGuests connects as a user whom the chip takes in, and as another user.
func TestGuests(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can connect as other users")
	}
	l := start(t, "n300", "")
	const guest = 54321
	path := filepath.Join(filepath.Dir(l.paths[0]), "guests")
	s, err := server.Listen(l.nodes[0], server.Options{Path: path, Users: []uint32{guest}, Barriers: new(barrier.Table), Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := os.Chmod(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	for uid, ok := range map[int]bool{guest: true, guest + 1: false} {
		conn, err := connectAs(uid, path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write(attach.AppendHello(nil)); err != nil && ok {
			t.Error(err)
		}
		if _, err := conn.Read(make([]byte, 1)); ok != (err == nil) || !ok && !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("user %d: %v", uid, err)
		}
	}
	if conn, err := connectAs(guest, l.paths[0]); err == nil {
		conn.Close()
		t.Error("a user connects to the socket of a chip that takes in only its own user")
	}
}
