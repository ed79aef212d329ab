//go:build !linux

package server

import (
	"errors"
	"net"
	"os"
)

// errShare is the error of a request for a shared file on another system than Linux.
var errShare = errors.New("a chip shares memory with programs on Linux only")

func newFile(string, int64) (*os.File, error) { return nil, errShare }

func mapFile(*os.File, int64) ([]byte, error) { return nil, errShare }

func unmapFile([]byte) error { return errShare }

func passFile(*net.UnixConn, []byte, *os.File) error { return errShare }
