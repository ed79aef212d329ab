// Package dashboard serves a web page that shows a fabric: the machine with the states and loads of
// its links, chips with their routers, routes, events and losses. The page is static, and needs no
// other host. The page reads server-sent events with fetch.
//
// The server listens on loopback only. Whoever opens the page needs a key. One key reads, and a
// second key injects faults. Both keys are in the fragment of the page's address, which a browser
// sends to nobody, and the page keeps the keys in memory only. The server checks the headers Host and
// Origin, and its Content-Security-Policy allows no inline code and no HTML from data.
package dashboard

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/picture"
	"ttfabric/node/fabric/picture/live"
	"ttfabric/node/fabric/spec"
)

// Limits of the server.
const (
	MaxConns   = 64              // connections at once; a further connection waits
	MaxStreams = 16              // pages that follow the fabric at once
	MaxCalls   = 32              // other calls under way
	maxHeader  = 8 << 10         // bytes of the header of a call
	maxBody    = 4 << 10         // bytes of the body of a call
	headerTime = 5 * time.Second // longest time for a page to send the header of a call
	bodyTime   = 5 * time.Second // longest time for a page to send the body of a call
	writeTime  = 20 * time.Second
	idleTime   = 30 * time.Second
	keepalive  = 10 * time.Second // time between two comments in a stream without news
)

// Source is what the server shows. A [live.Collector] is the source of a running fabric.
type Source interface {
	Machine() *picture.Machine
	State() *picture.State
	Events() []picture.Event
	History(cable int) picture.History
	Chip(ctx context.Context, name string) (picture.ChipDetail, error)
	Route(src, dst string, plane int, all bool) (picture.Route, error)
	Losses(ctx context.Context) (fabric.Balance, error)
	Subscribe() (updates <-chan *live.Update, leave func(), err error)
	Do(ctx context.Context, a live.Action) (string, error)
}

// Keys are the keys of a page. Without the key Control, the server injects no faults.
type Keys struct{ Read, Control string }

// NewKeys returns random keys. If control is false, there is no key for control.
func NewKeys(control bool) Keys {
	k := Keys{Read: rand.Text()}
	if control {
		k.Control = rand.Text()
	}
	return k
}

// Fragment returns the fragment of the page's address that holds the keys.
func (k Keys) Fragment() string {
	v := url.Values{"read": {k.Read}}
	if k.Control != "" {
		v.Set("control", k.Control)
	}
	return "#" + v.Encode()
}

// Listen opens a TCP port at an address of this machine's loopback, such as 127.0.0.1:0. If the address is not
// one of loopback, Listen returns an error, because the server does not encrypt.
func Listen(addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, spec.Usagef("--listen %q: want an address of loopback with a port, such as 127.0.0.1:8480", addr)
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return nil, spec.Usagef("--listen %s: the page is not encrypted, and listens on loopback only; want 127.0.0.1:PORT, and use 'ssh -L PORT:127.0.0.1:PORT' to see the page from another machine", addr)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: %w; with port 0, the system chooses a free port", addr, err)
	}
	return l, nil
}

//go:embed page
var pages embed.FS

// server answers the calls of pages.
type server struct {
	src     Source
	keys    Keys
	calls   chan struct{} // calls under way
	streams chan struct{} // streams under way
}

// Handler returns the handler of all calls. The handler checks Host, Origin and keys.
func Handler(src Source, keys Keys) http.Handler {
	s := &server{src: src, keys: keys, calls: make(chan struct{}, MaxCalls), streams: make(chan struct{}, MaxStreams)}
	static, err := fs.Sub(pages, "page")
	if err != nil {
		panic("dashboard: " + err.Error())
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", limited(s.calls, "calls", files(static)))
	read := func(path string, h http.HandlerFunc) {
		mux.Handle("GET "+path, guarded(keys.Read, "read", limited(s.calls, "calls", h)))
	}
	read("/api/machine", s.machine)
	read("/api/history", s.history)
	read("/api/chip", s.chip)
	read("/api/route", s.route)
	read("/api/losses", s.losses)
	mux.Handle("GET /api/stream", guarded(keys.Read, "read", limited(s.streams, "pages", http.HandlerFunc(s.stream))))
	mux.Handle("POST /api/do", s.controlled(limited(s.calls, "calls", http.HandlerFunc(s.do))))
	return secured(mux)
}

// files serves the files of the page.
func files(static fs.FS) http.Handler {
	serve := http.FileServerFS(static)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := strings.TrimPrefix(r.URL.Path, "/"); name != "" && !exists(static, name) {
			refuse(w, http.StatusNotFound, fmt.Sprintf("the page has no file %q", r.URL.Path))
			return
		}
		serve.ServeHTTP(w, r)
	})
}

func exists(files fs.FS, name string) bool {
	_, err := fs.Stat(files, name)
	return err == nil
}

// Serve serves pages on l until ctx ends.
func Serve(ctx context.Context, l net.Listener, src Source, keys Keys) error {
	h := &http.Server{Handler: Handler(src, keys), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { h.Close() })
	defer stop()
	if err := h.Serve(netutil.LimitListener(l, MaxConns)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Run serves pages of a running fabric on l until ctx ends or the fabric is taken down. The function
// "warn" gets messages for the user.
func Run(ctx context.Context, l net.Listener, c *live.Collector, keys Keys, warn func(format string, a ...any)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		defer cancel()
		served <- Serve(ctx, l, c, keys)
	}()
	err := c.Run(ctx, warn)
	cancel()
	return errors.Join(err, <-served)
}
