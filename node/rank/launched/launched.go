// Package launched is the line between 'ttfabric run --as-chip' and each process that it starts. Such
// a process is a rank and its chip at once.
//
// The line consists of two pipes. Over the first pipe, the launcher sends the environment variables of
// the rank as a JSON list of NAME=VALUE, as soon as all chips run. The user's program then begins.
// Over the second pipe, the process sends one byte when the program has returned. The chip then
// continues to run. When the launcher closes its end of the line, or dies, the process ends.
package launched

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// Env is the variable that tells a process of its line. Only 'ttfabric run --as-chip' sets Env.
const Env = "TTFABRIC_AS_CHIP"

// maxVariables is the largest length of the variables of a rank, in bytes.
const maxVariables = 1 << 20

// The file descriptors of a process with a line.
const (
	fromLauncher = 3
	toLauncher   = 4
)

// Launcher is the launcher's end of a line.
type Launcher struct{ to, from *os.File }

// Start starts cmd as a process with a line. The caller sets the other fields of cmd, but cmd.ExtraFiles
// must be empty.
func Start(cmd *exec.Cmd) (*Launcher, error) {
	downR, downW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer downR.Close()
	upR, upW, err := os.Pipe()
	if err != nil {
		downW.Close()
		return nil, err
	}
	defer upW.Close()
	cmd.ExtraFiles = []*os.File{downR, upW}
	cmd.Env = append(cmd.Env, Env+"=1")
	l := &Launcher{downW, upR}
	if err := cmd.Start(); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Begin lets the user's program begin. The parameter "variables" has environment variables of the rank as
// NAME=VALUE.
func (l *Launcher) Begin(variables []string) error { return json.NewEncoder(l.to).Encode(variables) }

// Returned waits until the user's program has returned without an error, and then returns true. If the
// process ends first, or if the line is closed, Returned returns false.
func (l *Launcher) Returned() bool {
	n, _ := l.from.Read(make([]byte, 1))
	return n == 1
}

// Close closes the line. The process then ends.
func (l *Launcher) Close() {
	l.to.Close()
	l.from.Close()
}

// Process is the process's end of a line.
type Process struct {
	to    *os.File
	begun chan struct{} // closed when variables is set
	gone  chan struct{} // closed when the launcher has closed the line

	variables []string
}

// inherited makes the process's ends of the line at the first call, because a process has only one
// line.
var inherited = sync.OnceValues(inherit)

// Inherited returns the line of this process. If the process has no line, Inherited returns nil.
func Inherited() (*Process, error) { return inherited() }

func inherit() (*Process, error) {
	if os.Getenv(Env) == "" {
		return nil, nil
	}
	os.Unsetenv(Env) // programs that this process starts have no line
	for _, fd := range []int{fromLauncher, toLauncher} {
		var s syscall.Stat_t
		if err := syscall.Fstat(fd, &s); err != nil || s.Mode&syscall.S_IFMT != syscall.S_IFIFO {
			return nil, fmt.Errorf("the environment variable %s is set, but file descriptor %d is no pipe of a launcher: start the program with 'ttfabric run --as-chip'", Env, fd)
		}
		syscall.CloseOnExec(fd)
		if err := syscall.SetNonblock(fd, true); err != nil { // a blocked read would keep a thread
			return nil, err
		}
	}
	p := &Process{to: os.NewFile(toLauncher, "to the launcher"), begun: make(chan struct{}), gone: make(chan struct{})}
	go p.read(os.NewFile(fromLauncher, "from the launcher"))
	return p, nil
}

// read reads the variables, and then waits for the end of the line.
func (p *Process) read(from *os.File) {
	defer close(p.gone)
	if json.NewDecoder(io.LimitReader(from, maxVariables)).Decode(&p.variables) == nil {
		close(p.begun)
		_, _ = io.Copy(io.Discard, from)
	}
}

// Gone returns a channel that is closed when the launcher has closed the line. The process must then end.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Begin waits until the program may begin, and returns the environment variables of the rank.
func (p *Process) Begin(ctx context.Context) ([]string, error) {
	select {
	case <-p.begun:
		return p.variables, nil
	case <-p.gone:
		return nil, errors.New("the launcher has ended before the program could begin")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Return tells the launcher that the user's program has returned without an error.
func (p *Process) Return() error {
	_, err := p.to.Write([]byte{1})
	return err
}
