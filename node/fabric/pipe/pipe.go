// Package pipe sends a file from one chip of a fabric to another over a socket, for 'ttfabric socket'.
package pipe

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"ttfabric/node/admin/attach"
	"ttfabric/node/fabric"
	"ttfabric/node/session"
	"ttfabric/node/session/socket"
	"ttfabric/wire"
)

// Job is one end of a pipe.
type Job struct {
	Fabric   *fabric.Fabric
	Src, Dst wire.FabricNodeID
	Socket   socket.Options // number, size, plane and force; Send and Recv set the other fields
	File     string         // file to read or to write; "-": stdin or stdout
	Wait     time.Duration  // longest time to wait for the other end; 0: no limit

	// Progress, if not nil, gets the number of bytes so far, and the length of the stream or
	// [socket.Unknown].
	Progress func(done, length uint64)
}

// Result is the result of one end.
type Result struct {
	Src     wire.FabricNodeID `json:"src"`            // chip of the sender
	Dst     wire.FabricNodeID `json:"dst"`            // chip of the receiver
	Number  int               `json:"number"`         // number of the socket
	Plane   wire.Plane        `json:"plane"`          // plane of the socket's packets
	File    string            `json:"file,omitempty"` // file that was read or written; absent: stdin or stdout
	Bytes   uint64            `json:"bytes"`          // number of bytes
	Seconds float64           `json:"seconds"`        // time from the meeting of both ends to the end, in seconds
	SHA256  string            `json:"sha256"`         // SHA-256 of the bytes, in hexadecimal; equal at both ends
}

// String describes the result for people.
func (r *Result) String() string {
	return fmt.Sprintf("%d bytes from %s to %s in %.2f s, %.3f Gb/s, SHA-256 %s", r.Bytes, r.Src, r.Dst, r.Seconds, float64(r.Bytes)*8/1e9/max(r.Seconds, 1e-9), r.SHA256)
}

// closeMost is the longest time for which an end that has failed waits for the other end's last writes.
const closeMost = 2 * time.Second

// dialMost is the longest time for a chip to answer at its Unix socket.
const dialMost = 2 * time.Second

// session returns a session on a chip: over the chip's Unix socket, or else over its API.
func (j *Job) session(ctx context.Context, n wire.FabricNodeID) (*session.Session, func(), error) {
	c, ok := j.Fabric.Where(n)
	if ok && c.Socket != "" && len(c.Socket) <= attach.MaxPath {
		ctx, cancel := context.WithTimeout(ctx, dialMost)
		defer cancel()
		if cl, err := attach.Dial(ctx, c.Socket, j.Fabric.Topology); err == nil {
			return session.New(cl), func() { cl.Close() }, nil
		}
	}
	s, err := j.Fabric.Session(n)
	return s, func() {}, err
}

// meet returns the time limit of the meeting.
func (j *Job) meet(ctx context.Context) (context.Context, context.CancelFunc) {
	if j.Wait == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, j.Wait)
}

func (j *Job) result(begin time.Time, p *socket.Piped) Result {
	r := Result{Src: j.Src, Dst: j.Dst, Number: j.Socket.Number, Plane: j.Socket.Plane, Bytes: p.Bytes, Seconds: time.Since(begin).Seconds(), SHA256: hex.EncodeToString(p.Sum[:])}
	if j.File != "-" {
		r.File = j.File
	}
	return r
}

// Send sends the job's file, or "in" for "-", and waits until the receiver has read all bytes. If
// ctx ends, the receiver gets an error, and Send frees the memory of the socket.
func (j *Job) Send(ctx context.Context, in io.Reader) (r Result, err error) {
	length := uint64(socket.Unknown)
	if j.File != "-" {
		f, err := os.Open(j.File)
		if err != nil {
			return r, err
		}
		defer f.Close()
		if fi, err := f.Stat(); err == nil && fi.Mode().IsRegular() {
			length = uint64(fi.Size())
		} else if err == nil && fi.IsDir() {
			return r, fmt.Errorf("%s is a folder: want a file", j.File)
		}
		in = f
	}
	s, leave, err := j.session(ctx, j.Src)
	if err != nil {
		return r, err
	}
	defer leave()
	o := j.Socket
	o.Peer = j.Dst
	meet, cancel := j.meet(ctx)
	x, err := socket.Dial(meet, s, o)
	cancel()
	if err != nil {
		return r, err
	}
	begin := time.Now()
	p, err := socket.Pipe(ctx, x, in, length, func(done uint64) {
		if j.Progress != nil {
			j.Progress(done, length)
		}
	})
	if err == nil {
		err = x.Close(ctx)
	} else {
		giveUp(x)
	}
	return j.result(begin, &p), err
}

// giveUp closes an end that has failed, and tells the other end.
func giveUp(x interface{ Close(context.Context) error }) {
	ctx, cancel := context.WithTimeout(context.Background(), closeMost)
	defer cancel()
	if s, ok := x.(*socket.Sender); ok {
		s.Fail(errors.New("the program has given up"))
	}
	_ = x.Close(ctx) // the caller returns the first error
}

// Recv receives into the job's file, or into "out" for "-". Recv gives the file its name when all
// bytes have come, and their SHA-256 equals the sender's. The new file replaces an earlier file of
// the same name.
func (j *Job) Recv(ctx context.Context, out io.Writer) (r Result, err error) {
	var f *os.File
	if j.File != "-" {
		if f, err = os.CreateTemp(filepath.Dir(j.File), "."+filepath.Base(j.File)+".*"); err != nil {
			return r, err
		}
		defer func() {
			f.Close()
			os.Remove(f.Name()) // after success, the file has its own name
		}()
		out = f
	}
	s, leave, err := j.session(ctx, j.Dst)
	if err != nil {
		return r, err
	}
	defer leave()
	o := j.Socket
	o.Peer = j.Src
	meet, cancel := j.meet(ctx)
	x, err := socket.Listen(meet, s, o)
	cancel()
	if err != nil {
		return r, err
	}
	begin := time.Now()
	p, err := socket.Unpipe(ctx, x, out, j.Progress)
	if err == nil {
		_, err = x.Recv(ctx, make([]byte, 1))
		if err == nil {
			err = errors.New("the stream has further bytes after its end")
		} else if err == io.EOF {
			err = x.Close(ctx)
		}
	}
	if err != nil {
		giveUp(x)
	} else if f != nil {
		err = finish(f, j.File)
	}
	return j.result(begin, &p), err
}

// finish gives a temporary file its name, and the mode of a new file.
func finish(f *os.File, name string) error {
	mode := os.FileMode(0o644)
	if fi, err := os.Stat(name); err == nil {
		mode = fi.Mode().Perm()
	}
	return errors.Join(f.Chmod(mode), f.Close(), os.Rename(f.Name(), name))
}
