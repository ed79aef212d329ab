package folder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// WriteFile replaces a file, which only its owner can read, at once or not at all.
func WriteFile(path string, b []byte) error { return WriteFileAs(path, b, 0o600) }

// WriteFileAs is [WriteFile] with a mode, whatever the umask is.
func WriteFileAs(path string, b []byte, mode os.FileMode) error {
	return replaceFile(path, b, 0o600, mode)
}

// replaceFile writes a file beside path, with a mode that the umask takes from,
// gives the file the exact mode where that is not 0, and lets the file take path's
// place. Where it fails, path is as it was.
func replaceFile(path string, b []byte, mode, exact os.FileMode) error {
	tmp := fmt.Sprintf("%s.%d.tmp", path, os.Getpid())
	err := os.WriteFile(tmp, b, mode)
	if err == nil && exact != 0 && exact != mode {
		err = os.Chmod(tmp, exact)
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		os.Remove(tmp)
	}
	return err
}

// WriteOut writes a file that a user names, at once or not at all: a full disk
// leaves what was there before. A pipe or a device is written to, and so is a
// file in a folder that takes no other file.
func WriteOut(path string, b []byte) error {
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

// Within calls f, which may wait without end on a pipe, a terminal or a device,
// and leaves f behind when ctx ends: no context reaches such a call.
func Within[T any](ctx context.Context, f func() (T, error)) (T, error) {
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

// ReadFile reads a file that a user names, of at most limit bytes. Such a name
// may lead to a device without end, or to a pipe that stays silent: ReadFile gives
// up at the limit, and when ctx ends.
func ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	return Within(ctx, func() ([]byte, error) {
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
