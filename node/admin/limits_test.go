package admin

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"ttfabric/node/admin/api"
)

// limitedServer serves the handler with all limits of the API. limitedServer returns the address
// and the listener.
func limitedServer(t *testing.T, b *bodies, h http.HandlerFunc, adjust func(*listener)) (string, *listener) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newListener(inner)
	if adjust != nil {
		adjust(l)
	}
	s := &http.Server{Handler: b.limited(h, 1<<20, false, false), ReadHeaderTimeout: api.HeaderTimeout, IdleTimeout: api.IdleTimeout, MaxHeaderBytes: api.MaxHeader, ConnState: l.state}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return inner.Addr().String(), l
}

func dialed(t *testing.T, addr, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, text); err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
	return c
}

// status returns the status of the next answer on a connection; 0: the connection ended.
func status(c net.Conn) int {
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	r.Body.Close()
	return r.StatusCode
}

func echo(w http.ResponseWriter, r *http.Request) {
	text, err := body(r)
	if err != nil {
		badBody(w, err)
		return
	}
	fmt.Fprint(w, len(text))
}

const post = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"

// TestIdleConnectionsKeepNobodyOut opens many connections that send nothing. The chip must still
// serve a caller who comes later.
func TestIdleConnectionsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	addr, l := limitedServer(t, &bodies{make(places, 1), api.BodyTimeout}, echo, func(l *listener) { l.limit, l.perAddr = 40, 20 })
	var idle []net.Conn
	for range 100 {
		idle = append(idle, dialed(t, addr, ""))
	}
	if got := status(dialed(t, addr, fmt.Sprintf(post, 2)+"hi")); got != http.StatusOK {
		t.Errorf("the caller after 100 idle connections gets %d", got)
	}
	closed := 0
	for _, c := range idle {
		c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); err == io.EOF || errors.Is(err, syscall.ECONNRESET) {
			closed++
		} else {
			break // the listener closes the oldest first
		}
	}
	if closed < 80 {
		t.Errorf("%d of 100 idle connections are closed, want 80 or more", closed)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) > 20 {
		t.Errorf("%d connections from one address, want 20 at most", len(l.conns))
	}
}

// TestBusyConnectionsAreRefusedByName fills the limit with calls under way. The next caller gets
// status 503, which names the limit, and a later caller is served again.
func TestBusyConnectionsAreRefusedByName(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	began := make(chan struct{}, 8)
	addr, l := limitedServer(t, &bodies{make(places, 1), api.BodyTimeout}, func(w http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		<-release
	}, func(l *listener) { l.perAddr = 4 })
	var busy []net.Conn
	for range 4 {
		busy = append(busy, dialed(t, addr, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
		<-began
	}
	c := dialed(t, addr, "")
	b, _ := io.ReadAll(c)
	if !bytes.HasPrefix(b, []byte("HTTP/1.1 503 ")) || !bytes.Contains(b, []byte("4 from one address")) {
		t.Errorf("the fifth connection gets %q", b)
	}
	close(release)
	for _, c := range busy {
		if got := status(c); got != http.StatusOK {
			t.Errorf("a call under way gets %d", got)
		}
		c.Close()
	}
	if got := status(dialed(t, addr, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")); got != http.StatusOK {
		t.Errorf("after the calls: %d", got)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		l.mu.Lock()
		n := len(l.conns)
		l.mu.Unlock()
		if n == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d connections are counted, want 1", n)
		}
	}
}

// TestSlowBodies sends bodies that never end, small and large, and headers that are too large.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	b := &bodies{make(places, 1), 300 * time.Millisecond}
	addr, _ := limitedServer(t, b, echo, nil)
	if r, err := http.ReadResponse(bufio.NewReader(dialed(t, addr, fmt.Sprintf(post, 10)+"hi")), nil); err != nil || r.StatusCode != http.StatusRequestTimeout || r.Header.Get("Content-Type") != api.MediaProblem {
		t.Errorf("a body that stops: %v %v", r, err)
	}
	if got := status(dialed(t, addr, "GET / HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 2*api.MaxHeader)+"\r\n\r\n")); got != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of %d bytes: %d", 2*api.MaxHeader, got)
	}
	if got := status(dialed(t, addr, fmt.Sprintf(post, 2<<20)+strings.Repeat("x", 2<<20))); got != http.StatusRequestEntityTooLarge {
		t.Errorf("a body of 2 MiB: %d", got)
	}
	b.big <- struct{}{} // takes the place of another caller's large body
	if got := status(dialed(t, addr, fmt.Sprintf(post, 2*bigBody)+strings.Repeat("x", 2*bigBody))); got != http.StatusServiceUnavailable && got != http.StatusRequestTimeout {
		t.Errorf("a large body without a place: %d", got)
	}
	if got := status(dialed(t, addr, fmt.Sprintf(post, bigBody)+strings.Repeat("x", bigBody))); got != http.StatusOK {
		t.Errorf("a body of %d bytes beside a large one: %d", bigBody, got)
	}
	<-b.big
	c := dialed(t, addr, "")
	for range 3 { // each large body on a connection gives its place back
		fmt.Fprintf(c, post+"%s", 2*bigBody, strings.Repeat("x", 2*bigBody))
	}
	c = dialed(t, addr, fmt.Sprintf(post, 2*bigBody)+strings.Repeat("x", 2*bigBody))
	if got := status(c); got != http.StatusOK {
		t.Errorf("a large body: %d", got)
	}
	for end := time.Now().Add(time.Minute); len(b.big) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the place of a large body is not free again")
		}
	}
}

// TestPauseBetweenCalls keeps a connection open for longer than the time of a body.
func TestPauseBetweenCalls(t *testing.T) {
	t.Parallel()
	addr, _ := limitedServer(t, &bodies{make(places, 1), 200 * time.Millisecond}, echo, nil)
	c := dialed(t, addr, "")
	r := bufio.NewReader(c)
	for range 3 {
		fmt.Fprintf(c, post+"hi", 2)
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%v %v", resp, err)
		}
		io.Copy(io.Discard, resp.Body)
		time.Sleep(400 * time.Millisecond)
	}
}
