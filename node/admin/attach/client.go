package attach

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"ttfabric/node/flow"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Client is a connection to a chip. A Client implements [session.Fabric], [session.Waiter],
// [session.Mover], [session.Watcher], [session.Counter] and [session.Runner]. The methods of a
// Client are safe for concurrent use.
type Client struct {
	conn  *net.UnixConn
	raw   syscall.RawConn
	hello Hello
	topo  *topo.Topology
	owner string        // name of the program for reports about its jobs, see [Client.Own]
	slots chan struct{} // one value for each request in flight

	writing chan struct{} // holds a value while a goroutine writes
	text    []byte        // frames to write; guarded by writing

	gone chan struct{} // closed when the connection has ended

	in   input         // what has come from the chip; for the goroutine that has the turn
	wake chan struct{} // gets a value when the reading goroutine gets the turn

	mu     sync.Mutex
	open   map[uint64]*request
	last   uint64 // latest number
	ended  error  // why the connection has ended; nil: the connection has not ended
	turn   turn
	called bool // a caller of Perform waited for the latest answer
}

// request is a request in flight.
type request struct {
	dst   wire.FabricNodeID
	plane wire.Plane
	token uint64
	index int
	done  func(int, flow.Result)       // for commands
	reply func(body []byte, err error) // for other requests
	event func(body []byte)            // for events requests
	calls bool                         // the caller waits in Perform

	mu   sync.Mutex
	into []byte // memory for the data of a long read
	left bool   // the caller has stopped waiting, so the memory into is not used any more

	answered bool // the chip has answered; further frames are events
}

// dialTime is the longest time that the chip may take to answer the hello.
const dialTime = 10 * time.Second

// readBuffer is the size of the memory for received frames, in bytes. The data of long reads do not
// pass through this memory.
const readBuffer = 64 << 10

// readPiece is the largest number of bytes of a long read that one system call takes.
const readPiece = 256 << 10

// Dial connects to the chip whose socket has the given path. The parameter t is the topology of the
// chip's fabric.
func Dial(ctx context.Context, path string, t *topo.Topology) (*Client, error) {
	if len(path) > MaxPath {
		return nil, fmt.Errorf("the path %s has %d bytes, and the path of a socket has at most %d; set XDG_RUNTIME_DIR to a folder with a shorter path", path, len(path), MaxPath)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("cannot attach to the chip: %w", err)
	}
	return connect(ctx, conn.(*net.UnixConn), path, t)
}

// connect exchanges hellos on a connection to the chip at a path.
func connect(ctx context.Context, conn *net.UnixConn, path string, t *topo.Topology) (c *Client, err error) {
	c = &Client{conn: conn, topo: t, writing: make(chan struct{}, 1), gone: make(chan struct{}), wake: make(chan struct{}, 1), open: map[uint64]*request{}, turn: reading}
	if c.raw, err = c.conn.SyscallConn(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("cannot attach to the chip: %w", err)
	}
	c.in = newInput(NewPoller(c.raw))
	if err := c.greet(ctx, c.in.Reader); err != nil {
		conn.Close()
		return nil, fmt.Errorf("cannot attach to the chip at %s: %w", path, err)
	}
	c.slots = make(chan struct{}, c.hello.InFlight)
	go c.read()
	return c, nil
}

// greet exchanges hellos.
func (c *Client) greet(ctx context.Context, r *bufio.Reader) error {
	end := time.Now().Add(dialTime)
	if d, ok := ctx.Deadline(); ok && d.Before(end) {
		end = d
	}
	if err := c.conn.SetDeadline(end); err != nil {
		return err
	}
	// A chip that refuses the client closes the connection, perhaps before the hello. The chip's reason
	// can still be read.
	_, lost := c.conn.Write(AppendHello(nil))
	h, body, err := whole(r)
	switch {
	case err != nil && lost != nil:
		return lost
	case err != nil:
		return fmt.Errorf("the chip did not answer the hello: %w", err)
	case h.Kind == KindError:
		e, err := ParseError(body)
		if err != nil {
			return err
		}
		return e
	case h.Kind != KindHello+Answer:
		return fmt.Errorf("the chip answered the hello with a frame of kind %d", h.Kind)
	}
	if c.hello, err = ParseWelcome(body); err != nil {
		return err
	}
	if c.topo != nil && uint32(c.topo.Hash()) != c.hello.Topology {
		return fmt.Errorf("chip %s has another topology than this program; the fabric was started anew", c.hello.Chip)
	}
	return c.conn.SetDeadline(time.Time{})
}

// whole reads a frame that fits the reader's memory. The body is valid until the next read.
func whole(r *bufio.Reader) (h Head, body []byte, err error) {
	b, err := r.Peek(HeadLen)
	if err != nil {
		return h, nil, err
	}
	if h, err = ParseHead(b); err != nil {
		return h, nil, err
	}
	if h.Len > r.Size() {
		b = make([]byte, h.Len)
		_, err = io.ReadFull(r, b)
		return h, b[HeadLen:], err
	}
	if b, err = r.Peek(h.Len); err != nil {
		return h, nil, err
	}
	_, err = r.Discard(h.Len)
	return h, b[HeadLen:], err
}

// Close ends the connection. The requests under way end with an unknown outcome.
func (c *Client) Close() error {
	c.end(errClosed)
	return c.conn.Close()
}

var errClosed = errors.New("the program has closed its connection to the chip")

// Self returns the chip.
func (c *Client) Self() wire.FabricNodeID { return c.hello.Chip }

// Topology returns the topology of the chip's fabric.
func (c *Client) Topology() *topo.Topology { return c.topo }

// Incarnation returns the incarnation of the chip.
func (c *Client) Incarnation() wire.Incarnation { return c.hello.Incarnation }

// take waits for a place for another request.
func (c *Client) take(ctx context.Context) error {
	select {
	case c.slots <- struct{}{}:
		return nil
	default:
	}
	select {
	case c.slots <- struct{}{}:
		return nil
	case <-c.gone:
		return c.failure()
	case <-ctx.Done():
		return fmt.Errorf("%d requests are in flight, as many as chip %s takes: %w", cap(c.slots), c.hello.Chip, ctx.Err())
	}
}

// failure returns why the connection has ended, or nil if the connection has not ended.
func (c *Client) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// note gives a request a number. If nobody has the turn, and a caller waits for the request in Perform,
// the caller gets the turn, and "mine" is true. For another request, the reading goroutine gets the turn.
func (c *Client) note(r *request) (number uint64, mine bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		return 0, false, c.ended
	}
	if c.turn == resting {
		if mine = r.calls; mine {
			c.turn = calling
		} else {
			c.summon()
		}
	}
	c.last++
	c.open[c.last] = r
	return c.last, mine, nil
}

// Submit starts commands in order; see [session.Fabric]. If the chip cannot start a command, the
// command ends as refused, with the reason in Err of its result. If the format cannot express a
// command, Submit returns an error.
func (c *Client) Submit(ctx context.Context, rs []flow.Request, done func(i int, r flow.Result)) (int, error) {
	if err := c.lock(ctx); err != nil {
		return 0, err
	}
	n := 0
	var err error
	for ; n < len(rs); n++ {
		if err = sendable(&rs[n]); err != nil {
			break
		}
		if len(c.slots) == cap(c.slots) && len(c.text) > 0 { // the answers to these frames make room
			if werr := c.write(ctx, nil); werr != nil {
				return n, werr
			}
			if err = c.lock(ctx); err != nil {
				return n, err
			}
		}
		if err = c.take(ctx); err != nil {
			break
		}
		r := &rs[n]
		q := &request{dst: r.Dst, plane: r.Plane, token: r.Token, index: n, done: done}
		var number uint64
		if number, _, err = c.note(q); err != nil {
			<-c.slots
			break
		}
		c.text = AppendCommand(c.text, number, r, int(r.Command.Size))
	}
	if werr := c.write(ctx, nil); werr != nil {
		return n, nil // the results of the requests say that the connection has ended
	}
	return n, err
}

// sendable returns an error if the format cannot express a request.
func sendable(r *flow.Request) error {
	switch {
	case len(r.Via) > wire.MaxHops:
		return fmt.Errorf("a route of %d hops: want at most %d", len(r.Via), wire.MaxHops)
	case r.Command.Chunks > wire.MaxScatter:
		return fmt.Errorf("a scatter write of %d chunks: want 2 to %d", r.Command.Chunks, wire.MaxScatter)
	case len(r.Payload) > wire.MaxPayload || r.Command.Type == wire.NocRead && r.Command.Size > wire.MaxPayload:
		return fmt.Errorf("payload of %d bytes: a packet carries at most %d", max(len(r.Payload), int(r.Command.Size)), wire.MaxPayload)
	}
	return nil
}

// lock waits until no other goroutine writes.
func (c *Client) lock(ctx context.Context) error {
	select {
	case c.writing <- struct{}{}:
		return nil
	default:
	}
	select {
	case c.writing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("chip %s takes no more requests now: %w", c.hello.Chip, ctx.Err())
	}
}

// write writes the frames in text, with the payload after them, and unlocks. If ctx ends while the
// chip takes no more bytes, write returns. Another goroutine then writes a copy of the rest,
// because the stream must hold whole frames.
func (c *Client) write(ctx context.Context, payload []byte) error {
	text := c.text
	if len(text) == 0 {
		<-c.writing
		return nil
	}
	n, err := c.try(text)
	if err == nil && n == len(text) && len(payload) == 0 {
		c.text = text[:0]
		<-c.writing
		return nil
	}
	return c.writeRest(ctx, n, payload, err)
}

// writeRest writes text from byte n on and the payload, as write does, unless err is not nil.
func (c *Client) writeRest(ctx context.Context, n int, payload []byte, err error) error {
	text := c.text
	c.text = nil
	w := &writer{c: c, rest: net.Buffers{text[n:], payload}, released: make(chan struct{})}
	go w.run(err)
	select {
	case <-w.released:
	case <-ctx.Done():
		w.release()
		<-w.released
	}
	return w.err
}

// try writes as many bytes as the socket takes at once.
func (c *Client) try(b []byte) (n int, err error) {
	rerr := c.raw.Write(func(fd uintptr) bool {
		n, err = syscall.Write(int(fd), b)
		return true
	})
	if err == syscall.EAGAIN || err == syscall.EINTR {
		err = nil
	}
	return max(n, 0), cmp.Or(rerr, err)
}

// writer writes the rest of some frames.
type writer struct {
	c        *Client
	rest     net.Buffers
	released chan struct{} // closed when the writer does not use the caller's memory any more
	err      error         // valid once released is closed

	mu    sync.Mutex
	ended bool
}

// run writes the rest, unless err is not nil, and then lets other goroutines write.
func (w *writer) run(err error) {
	if err == nil {
		_, err = w.rest.WriteTo(w.c.conn)
	}
	early := errors.Is(err, os.ErrDeadlineExceeded)
	if early {
		for i, b := range w.rest {
			w.rest[i] = slices.Clone(b)
		}
		close(w.released)
	}
	w.mu.Lock()
	w.ended = true // release sets no more deadline
	w.mu.Unlock()
	if derr := w.c.conn.SetWriteDeadline(time.Time{}); early {
		if err = derr; err == nil {
			_, err = w.rest.WriteTo(w.c.conn)
		}
	}
	<-w.c.writing
	if err != nil {
		w.c.end(fmt.Errorf("the connection to chip %s broke: %w", w.c.hello.Chip, err))
	}
	if !early {
		w.err = err
		close(w.released)
	}
}

// release makes the writer stop using the caller's memory.
func (w *writer) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		_ = w.c.conn.SetWriteDeadline(time.Unix(1, 0))
	}
}

// MaxMove returns the largest length of one Move, in bytes.
func (c *Client) MaxMove() int { return MaxBlock }

// Move starts a write or a read of the chip's own memory; see [session.Mover].
func (c *Client) Move(ctx context.Context, write bool, a wire.NocAddr, b []byte, done func(flow.Result)) (leave func(), err error) {
	if len(b) > MaxBlock {
		return nil, fmt.Errorf("a block of %d bytes: want at most %d", len(b), MaxBlock)
	}
	r := flow.Request{Dst: c.hello.Chip, Command: wire.Command{Type: wire.NocRead, Addr: a}}
	q := &request{dst: r.Dst, done: func(_ int, r flow.Result) { done(r) }}
	var payload []byte
	if write {
		r.Command.Type, payload = wire.NocUnicastWrite, b
	} else {
		q.into = b
	}
	if err := c.take(ctx); err != nil {
		return nil, err
	}
	if err := c.lock(ctx); err != nil {
		<-c.slots
		return nil, err
	}
	number, _, err := c.note(q)
	if err != nil {
		<-c.writing
		<-c.slots
		return nil, err
	}
	c.text = appendBlock(c.text, number, &r, len(b), len(payload))
	_ = c.write(ctx, payload) // if the write fails, the request ends with an unknown outcome
	return q.leave, nil
}

// After leave, the reading goroutine does not use the caller's memory.
func (q *request) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.left = true
}
