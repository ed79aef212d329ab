package server

import (
	"fmt"
	"net"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// checkPeer asks the kernel for the user of the process at the other end of a connection
// (SO_PEERCRED, socket(7)). The user must be the user of this process, root, or one of the given
// users. For any other user, checkPeer returns an error.
func checkPeer(conn *net.UnixConn, users []uint32) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	cerr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if cerr != nil {
		return cerr
	}
	if err != nil {
		return fmt.Errorf("the kernel does not say who the peer is: %w", err)
	}
	return admits(cred.Uid, uint32(os.Getuid()), users)
}

// admits returns an error if the user uid has no access to a chip of the user "self".
func admits(uid, self uint32, users []uint32) error {
	if uid != self && uid != 0 && !slices.Contains(users, uid) {
		return fmt.Errorf("user %d asks for access to the chip of user %d; only the chip's user, root and the user of --socket-user have access", uid, self)
	}
	return nil
}

// hungUp reports whether the peer of a connection has closed it.
func hungUp(conn *net.UnixConn) (gone bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		if n, err := unix.Poll(p, 0); err == nil && n > 0 {
			gone = p[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
		}
	})
	return gone || err != nil
}
