package admin

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"ttfabric/node/admin/api"
)

// Limits of the server; see also the limits in package api.
const (
	eventKeepalive = 15 * time.Second // time between two comment lines in an event stream
	minConns       = 16               // smallest limit of connections in all, however few files the process may open
	maxBigBodies   = 4                // large bodies that the chip reads at once; a further large body waits for a place, at most api.BodyTimeout
	bigBody        = 64 << 10         // a body of more than this many bytes is large
)

// connLimit returns the largest number of connections in all. The limit is api.MaxConns, but at
// most half of the files that the process may open, and at least minConns.
func connLimit() int {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return api.MaxConns
	}
	return int(max(minConns, min(api.MaxConns, r.Cur/2)))
}

// listener refuses connections beyond the limits. If a limit is reached, the listener first tries
// to close the connection that has had no call for the longest time. So a caller who only holds
// connections open cannot keep other callers out.
type listener struct {
	net.Listener
	limit, perAddr int

	mu    sync.Mutex
	conns map[net.Conn]*connection
	count map[netip.Addr]int
}

// connection is an accepted connection.
type connection struct {
	addr netip.Addr
	busy bool      // a call is under way
	idle time.Time // the time of the last end of a call, or of the accept
}

func newListener(l net.Listener) *listener {
	return &listener{Listener: l, limit: connLimit(), perAddr: api.MaxConnsPerAddr, conns: map[net.Conn]*connection{}, count: map[netip.Addr]int{}}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.admit(c) {
			return c, nil
		}
		c.SetWriteDeadline(time.Now().Add(time.Second))
		fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: %s\r\n\r\n"+
			`{"type":"about:blank","status":503,"title":"Service Unavailable","detail":"the chip has as many connections as it may have: %d in all, %d from one address"}`+"\n",
			api.MediaProblem, l.limit, l.perAddr)
		c.Close()
	}
}

// admit records a new connection. If a limit is reached, admit closes a connection without a call.
// If there is no such connection, admit returns false.
func (l *listener) admit(c net.Conn) bool {
	var addr netip.Addr
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		addr = a.AddrPort().Addr().Unmap()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count[addr] >= l.perAddr && !l.evict(func(k *connection) bool { return k.addr == addr }) {
		return false
	}
	if len(l.conns) >= l.limit && !l.evict(func(*connection) bool { return true }) {
		return false
	}
	l.conns[c] = &connection{addr: addr, idle: time.Now()}
	l.count[addr]++
	return true
}

// evict closes the connection without a call that has had no call for the longest time, among those
// that match. If every matching connection has a call, evict returns false.
func (l *listener) evict(match func(*connection) bool) bool {
	var oldest net.Conn
	for c, k := range l.conns {
		if !k.busy && match(k) && (oldest == nil || k.idle.Before(l.conns[oldest].idle)) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	l.forget(oldest)
	oldest.Close()
	return true
}

func (l *listener) forget(c net.Conn) {
	k, ok := l.conns[c]
	if !ok {
		return
	}
	delete(l.conns, c)
	if l.count[k.addr]--; l.count[k.addr] == 0 {
		delete(l.count, k.addr)
	}
}

// state notes which connections have a call, and which are closed. The HTTP server calls state
// whenever the state of a connection changes.
func (l *listener) state(c net.Conn, s http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k, ok := l.conns[c]
	switch {
	case !ok:
	case s == http.StateClosed || s == http.StateHijacked:
		l.forget(c)
	default:
		k.busy, k.idle = s == http.StateActive, time.Now()
	}
}

// places is a limited number of places for calls of one kind.
type places chan struct{}

// take takes a place, and returns true. If no place is free, take answers the call with a problem
// and returns false.
func (p places) take(w http.ResponseWriter, what string) bool {
	select {
	case p <- struct{}{}:
		return true
	default:
		problem(w, http.StatusServiceUnavailable, fmt.Sprintf("the chip has %d %s under way, as many as it may have", cap(p), what))
		return false
	}
}

func (p places) leave() { <-p }

// bodies limits the time and the memory that the bodies of calls take.
type bodies struct {
	big  places        // places for large bodies
	wait time.Duration // longest time for a body to arrive, and longest wait for a place
}

// errBusy is the error of a large body for which no place became free in time.
var errBusy = fmt.Errorf("the chip reads %d large bodies already, as many as it may", maxBigBodies)

// limited returns a handler that calls h within the limits of the API. h can read at most the first
// limit bytes of the body. If "endless" is true, the caller may take any time to read the answer. If
// "long" is true, the longest time for the body counts anew for each piece of the body.
func (b *bodies) limited(h http.HandlerFunc, limit int64, endless, long bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		t := &timedWriter{w, rc, endless}
		t.more()
		defer t.more() // gives the server time for the bytes that the server itself writes after the handler
		if r.Body != http.NoBody {
			_ = rc.SetReadDeadline(time.Now().Add(b.wait)) // test recorders have no deadlines
			c := &callBody{ReadCloser: http.MaxBytesReader(w, r.Body, limit), all: b, rc: rc, length: r.ContentLength, long: long}
			defer c.end()
			r.Body = c
		}
		h(t, r)
	}
}

// timedWriter gives the caller api.WriteTimeout to take each piece of the answer. If "endless" is
// true, the caller may take any time.
type timedWriter struct {
	http.ResponseWriter
	rc      *http.ResponseController
	endless bool
}

func (t *timedWriter) more() {
	at := time.Now().Add(api.WriteTimeout)
	if t.endless {
		at = time.Time{}
	}
	_ = t.rc.SetWriteDeadline(at)
}

// WriteHeader implements http.ResponseWriter.
func (t *timedWriter) WriteHeader(code int) {
	t.more()
	t.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (t *timedWriter) Write(b []byte) (int, error) {
	t.more()
	return t.ResponseWriter.Write(b)
}

// Unwrap returns the writer for http.ResponseController.
func (t *timedWriter) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// callBody is the body of a call. After the first bigBody bytes of a body, the chip reads on only
// if the body has a place.
type callBody struct {
	io.ReadCloser
	all    *bodies
	rc     *http.ResponseController
	length int64 // length of the body, in bytes; -1: unknown
	n      int
	held   bool // the body has a place
	long   bool // the longest time counts anew for each piece
	ended  bool
}

// Read implements io.Reader.
func (c *callBody) Read(b []byte) (int, error) {
	if c.n >= bigBody && c.length != bigBody && !c.held {
		select {
		case c.all.big <- struct{}{}:
			c.held = true
		case <-time.After(c.all.wait):
			return 0, errBusy
		}
	}
	if c.long {
		_ = c.rc.SetReadDeadline(time.Now().Add(c.all.wait))
	}
	n, err := c.ReadCloser.Read(b)
	c.n += n
	if err == io.EOF {
		_ = c.rc.SetReadDeadline(time.Time{}) // the handler may take longer than the body
	}
	if err != nil {
		c.end()
	}
	return n, err
}

// end frees the body's place, if the body has one.
func (c *callBody) end() {
	if c.ended {
		return
	}
	c.ended = true
	if c.held {
		c.all.big.leave()
	}
}
