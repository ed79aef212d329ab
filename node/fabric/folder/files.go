package folder

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"ttfabric/node/fabric/spec"
)

// ReadPlain reads a file of a run folder. If the path is a symbolic link, ReadPlain returns an error.
func ReadPlain(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// WriteFile replaces a file in one step. If WriteFile fails, the old file stays unchanged.
// Only the owner can read the new file.
func WriteFile(path string, b []byte) error { return WriteFileAs(path, b, 0o600) }

// WriteFileAs replaces a file in one step, as [WriteFile] does. The new file has the given mode,
// whatever the umask is. The mode 0600 is an exception: the umask may clear bits of this mode.
func WriteFileAs(path string, b []byte, mode os.FileMode) error {
	return replaceFile(path, b, 0o600, mode)
}

// replaceFile writes a new file in the folder of path and renames the new file to path. If the
// argument "exact" is 0 or equals the argument "mode", the new file has the bits of mode that the
// umask allows. Otherwise exact is the mode of the new file, whatever the umask is. If replaceFile
// fails, the old file stays unchanged.
func replaceFile(path string, b []byte, mode, exact os.FileMode) error {
	tmp := fmt.Sprintf("%s.%d.tmp", path, os.Getpid())
	os.Remove(tmp) // a killed process with the same id may have left the file; O_EXCL also refuses a symbolic link
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Close())
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

// WriteOut writes b to a file that a user names. WriteOut replaces a regular file in one step. In
// this case, a full disk leaves the old file unchanged. WriteOut writes directly to a pipe, a
// device, and the target of a symbolic link. WriteOut also writes directly to a file in a folder
// where the user may not make a new file.
func WriteOut(path string, b []byte) error {
	fi, err := os.Lstat(path)
	if err == nil && !fi.Mode().IsRegular() {
		return os.WriteFile(path, b, 0o644)
	}
	var mode os.FileMode // mode of the old file
	if fi != nil {
		mode = fi.Mode().Perm()
	}
	err = replaceFile(path, b, 0o644, mode)
	if fi != nil && errors.Is(err, fs.ErrPermission) {
		return os.WriteFile(path, b, 0o644)
	}
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		return &fs.PathError{Op: at.Op, Path: path, Err: at.Err} // names the user's file, not the temporary file
	}
	return err
}

// Within calls f and returns the results of f. If ctx ends before f returns, Within returns
// the error of ctx, and f continues to run. Within is for an f that may wait without
// limit, for example for a pipe, a terminal or a device.
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

// ReadFile reads a file that a user names. ReadFile returns an error if the file has more
// than limit bytes, or when ctx ends. The file may therefore be an endless device, or a
// pipe to which nobody writes.
func ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	return Within(ctx, func() ([]byte, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, limit+1))
		if err == nil && int64(len(b)) > limit {
			return nil, fmt.Errorf("%s: the file is too long; want at most %d bytes", path, limit)
		}
		return b, err
	})
}

// Source names the bytes that a user gives a command. Exactly one field is set.
type Source struct {
	Text []string // the bytes as one text; empty: not set
	File string   // file with the bytes; "-": stdin
	Hex  string   // bytes in hexadecimal
}

// Bytes returns the bytes, at most the number "most". The parameter "in" is stdin. If the user has not
// named exactly one source, the error has kind [spec.Usage].
func (s *Source) Bytes(ctx context.Context, in io.Reader, most int) (b []byte, err error) {
	given := len(s.Text)
	for _, name := range []string{s.File, s.Hex} {
		if name != "" {
			given++
		}
	}
	switch {
	case given != 1:
		return nil, spec.Usagef("%d sources of bytes are named; want exactly one of TEXT, --file and --hex", given)
	case len(s.Text) > 0:
		b = []byte(s.Text[0])
	case s.Hex != "":
		if b, err = hex.DecodeString(strings.TrimPrefix(s.Hex, "0x")); err != nil {
			return nil, spec.Usagef("--hex %q: %w", s.Hex, err)
		}
	default:
		b, err = Within(ctx, func() ([]byte, error) {
			if s.File != "-" {
				f, err := os.Open(s.File)
				if err != nil {
					return nil, err
				}
				defer f.Close()
				in = f
			}
			return io.ReadAll(io.LimitReader(in, int64(most)+1))
		})
	}
	if err == nil && len(b) > most {
		return nil, fmt.Errorf("there are more than %d bytes to write; write them in parts", most)
	}
	return b, err
}
