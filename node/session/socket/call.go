package socket

import "context"

// Call is a send or a receive that a program has started without waiting for its end.
type Call struct {
	ended chan struct{} // closed when the call has ended
	n     int
	err   error
}

func newCall() *Call { return &Call{ended: make(chan struct{})} }

func (c *Call) end(n int, err error) {
	c.n, c.err = n, err
	close(c.ended)
}

// Done returns a channel that is closed when the call has ended.
func (c *Call) Done() <-chan struct{} { return c.ended }

// Poll reports whether the call has ended. After the call's end, n is the number of bytes that the
// call has sent or received, and err is the call's error.
func (c *Call) Poll() (ended bool, n int, err error) {
	select {
	case <-c.ended:
		return true, c.n, c.err
	default:
		return false, 0, nil
	}
}

// Wait waits until the call has ended, and returns the number of bytes and the call's error. If ctx
// ends first, Wait returns the error of ctx. The call then continues, and still uses its buffer.
func (c *Call) Wait(ctx context.Context) (n int, err error) {
	select {
	case <-c.ended:
		return c.n, c.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
