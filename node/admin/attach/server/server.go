// Package server is the chip's end of the protocol of package attach. The package accepts local
// programs at a Unix socket, and performs the programs' commands on the chip.
//
// Each client has two goroutines. The reading goroutine reads frames and performs the frames. The
// other goroutine writes the answers that come later. The reading goroutine alone performs and
// answers a command to the chip's own memory, without a switch to another goroutine.
package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"ttfabric/node"
	"ttfabric/node/admin/attach"
	"ttfabric/node/admin/barrier"
)

// acceptPause is the time until the next attempt after the kernel refused to hand over a
// connection. The kernel refuses, for example, if the process has too many open files.
const acceptPause = 100 * time.Millisecond

// Server serves the local programs of a chip.
type Server struct {
	n        *node.Node
	log      *slog.Logger
	barriers *barrier.Table
	listener *net.UnixListener
	topology uint32   // hash of the topology
	users    []uint32 // users who have access, besides the chip's user and root
	shares   shares

	mu      sync.Mutex
	clients map[*client]struct{}
	closed  bool
	ended   sync.WaitGroup
}

// PathError says that the path of a socket is too long for the kernel.
type PathError struct{ Path string }

// Error names the path and the way out.
func (e *PathError) Error() string {
	return fmt.Sprintf("the path %s of the chip's socket has %d bytes, and the kernel takes at most %d: set XDG_RUNTIME_DIR to a folder with a shorter path, or choose a shorter name for the fabric", e.Path, len(e.Path), attach.MaxPath)
}

// Options describe the socket of a chip.
type Options struct {
	Path     string         // path of the socket, at most [attach.MaxPath] bytes; the parent folder must be private to the chip's user and to Users
	Users    []uint32       // ids of the users who have access, besides the chip's user and root; a chip in a container has a user of its own
	Topology uint32         // hash of the topology
	Barriers *barrier.Table // barriers of the chip
	Log      *slog.Logger   // gets a message for each refused client
}

// Listen opens the socket of the chip n, and accepts clients until Close. Listen replaces a socket
// that an earlier process has left at the path. If the path is too long, the error is a
// [PathError].
func Listen(n *node.Node, o Options) (*Server, error) {
	if len(o.Path) > attach.MaxPath {
		return nil, &PathError{o.Path}
	}
	if i, err := os.Lstat(o.Path); err == nil && i.Mode()&os.ModeSocket != 0 {
		os.Remove(o.Path)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: o.Path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("cannot open the chip's socket: %w", err)
	}
	mode := os.FileMode(0o600)
	if len(o.Users) > 0 { // checkPeer refuses other users
		mode = 0o666
	}
	if err := os.Chmod(o.Path, mode); err != nil {
		l.Close()
		return nil, fmt.Errorf("cannot open the chip's socket: %w", err)
	}
	s := &Server{n: n, log: o.Log, barriers: o.Barriers, listener: l, topology: o.Topology, users: o.Users, clients: map[*client]struct{}{}}
	s.ended.Go(s.accept)
	return s, nil
}

// accept admits clients until the socket is closed.
func (s *Server) accept() {
	for {
		conn, err := s.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.log.Warn("cannot take in a local program", "error", err)
			time.Sleep(acceptPause)
			continue
		}
		if err := s.admit(conn); err != nil {
			s.log.Warn("a local program was refused", "error", err)
			conn.Close()
		}
	}
}

// admit starts a client, or returns an error.
func (s *Server) admit(conn *net.UnixConn) error {
	if err := checkPeer(conn, s.users); err != nil {
		return err
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	c := newClient(s, conn, raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return net.ErrClosed
	case len(s.clients) >= attach.MaxClients:
		text := fmt.Sprintf("the chip has %d clients, as many as it may have", attach.MaxClients)
		_, _ = conn.Write(attach.AppendError(nil, 0, attach.CodeFull, text)) // a new socket has room for one short frame
		return errors.New(text)
	}
	s.clients[c] = struct{}{}
	s.ended.Go(func() {
		c.serve()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.clients, c)
	})
	return nil
}

// hello describes the chip to a client.
func (s *Server) hello() *attach.Hello {
	self, t := s.n.Self(), s.n.Topology()
	return &attach.Hello{Chip: self, Incarnation: s.n.Incarnation(), Frame: attach.MaxFrame, InFlight: attach.MaxInFlight, Topology: s.topology,
		Arch: t.Arch, Host: t.HostView(self.Mesh)[self]}
}

// Clients returns the number of clients.
func (s *Server) Clients() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.clients)
}

// Close closes the socket and all connections, and waits until their goroutines have ended.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	for c := range s.clients {
		c.conn.Close()
	}
	s.mu.Unlock()
	err := s.listener.Close()
	s.ended.Wait()
	return err
}
