package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// Bytes of files that users name: many times what the largest fabric has, and
// nothing that a machine's memory would notice.
const (
	maxCheckpoint = 256 << 20
	maxKeyFile    = 64 << 10
)

// within calls f, which may wait without end on a pipe, a terminal or a device,
// and leaves it behind when ctx ends: no context reaches such a call.
func within[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// readFile reads a file that a user names, of at most limit bytes. What such a
// name leads to may have no end, or never say a word: it is given up at the
// limit, and when ctx ends.
func readFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	return within(ctx, func() ([]byte, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, limit+1))
		if err == nil && int64(len(b)) > limit {
			return nil, fmt.Errorf("%s: longer than %d bytes, the most that such a file may have", path, limit)
		}
		return b, err
	})
}

// writeOut writes a file that a user names, at once or not at all: a full disk
// leaves what was there before. What is no file, as a pipe or a device, is
// written to, and so is a file in a folder that takes no other.
func writeOut(path string, b []byte) error {
	fi, err := os.Lstat(path)
	if err == nil && !fi.Mode().IsRegular() {
		return os.WriteFile(path, b, 0o644)
	}
	var mode os.FileMode // of what is there
	if fi != nil {
		mode = fi.Mode().Perm()
	}
	err = replaceFile(path, b, 0o644, mode)
	if fi != nil && errors.Is(err, fs.ErrPermission) {
		return os.WriteFile(path, b, 0o644)
	}
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		return &fs.PathError{Op: at.Op, Path: path, Err: at.Err} // the name that the user gave
	}
	return err
}

// patience is how long a command that was interrupted may clean up before one
// more signal ends it at once. 'timeout' and some shells send each signal twice.
const patience = time.Second

// insist ends the process at the first signal that comes patience after ctx
// ended, by calling end: whoever presses Ctrl-C again does not want to wait.
func insist(ctx context.Context, signals <-chan os.Signal, end func()) {
	<-ctx.Done()
	for first := time.Now(); ; {
		if _, ok := <-signals; !ok {
			return
		}
		if time.Since(first) >= patience {
			end()
			return
		}
	}
}
