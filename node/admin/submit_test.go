package admin_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/flow"
	"ttfabric/node/session"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// ends collects the results of a batch's requests, by index.
type ends struct {
	mu  sync.Mutex
	got map[int][]flow.Result
	all chan struct{} // gets one value for each result
}

// submit submits a batch, and waits for the results of all started requests. Each started request
// must have exactly one result.
func submit(ctx context.Context, t *testing.T, f session.Fabric, rs []flow.Request) (int, map[int][]flow.Result, error) {
	t.Helper()
	e := &ends{got: map[int][]flow.Result{}, all: make(chan struct{}, 2*len(rs))}
	n, err := f.Submit(ctx, rs, func(i int, r flow.Result) {
		e.mu.Lock()
		e.got[i] = append(e.got[i], r)
		e.mu.Unlock()
		e.all <- struct{}{}
	})
	for range n {
		select {
		case <-e.all:
		case <-time.After(patience):
			t.Fatalf("%d requests were started, but not all have ended", n)
		}
	}
	time.Sleep(time.Millisecond)
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range n {
		if len(e.got[i]) != 1 || e.got[i][0].Token != rs[i].Token {
			t.Fatalf("request %d of %d ended as %+v", i, n, e.got[i])
		}
	}
	if len(e.got) != n {
		t.Fatalf("%d requests were started, and %d ended", n, len(e.got))
	}
	return n, e.got, err
}

func write(dst wire.FabricNodeID, word uint32) flow.Request {
	return flow.Request{Token: uint64(word), Dst: dst, Command: wire.Command{Type: wire.NocInlineWrite, Addr: wire.NewNocAddr(1, 1, 0), Value: word}}
}

// TestSubmitKeepsOrder writes different values to one address, in one batch after another. After
// each round, the address must hold the last value of the last batch.
func TestSubmitKeepsOrder(t *testing.T) {
	t.Parallel()
	ctx, c, dst, _ := ready(t)
	s := session.New(c)
	word := uint32(0)
	for round := range 50 {
		var open sync.WaitGroup
		sizes := []int{20, 1, 7, 1, 1}
		if round == 0 {
			sizes = append(sizes, api.MaxBatch+3) // a batch of this size takes two calls
		}
		for _, size := range sizes {
			rs := make([]flow.Request, size)
			for i := range rs {
				word++
				rs[i] = write(dst, word)
			}
			open.Add(size)
			n, err := c.Submit(ctx, rs, func(int, flow.Result) { open.Done() })
			clear(rs) // after Submit has returned, the caller may change rs
			if n != size || err != nil {
				t.Fatalf("%d of %d started: %v", n, size, err)
			}
		}
		open.Wait()
		b := make([]byte, 4)
		if err := s.Read(ctx, dst, wire.NewNocAddr(1, 1, 0), b); err != nil {
			t.Fatal(err)
		}
		if got := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24; got != word {
			t.Fatalf("round %d: the address holds %d, want the last value %d", round, got, word)
		}
	}
}

// TestSubmitStopsAtARefusal submits batches with one request that the chip refuses. The chip must
// start the requests before the refused request, and none of the later requests.
func TestSubmitStopsAtARefusal(t *testing.T) {
	t.Parallel()
	ctx, c, dst, _ := ready(t)
	for at := range 4 {
		rs := []flow.Request{write(dst, 1), write(dst, 2), write(dst, 3), write(dst, 4)}
		rs[at].Plane = 9
		n, _, err := submit(ctx, t, c, rs)
		if n != at || err == nil || !strings.Contains(err.Error(), "plane 9") {
			t.Errorf("%d started, want %d: %v", n, at, err)
		}
	}
}

// TestSubmitFromManySides submits batches from several goroutines at the same time. The requests of
// each goroutine must keep their order.
func TestSubmitFromManySides(t *testing.T) {
	t.Parallel()
	ctx, c, dst, _ := ready(t)
	var all sync.WaitGroup
	for k := range 8 {
		all.Go(func() {
			at := wire.NewNocAddr(1, 1, uint64(64*k))
			for round := range 20 {
				rs := make([]flow.Request, 10)
				for i := range rs {
					rs[i] = write(dst, uint32(round*10+i))
					rs[i].Command.Addr = at
				}
				submit(ctx, t, c, rs)
			}
			b := make([]byte, 4)
			if err := session.New(c).Read(ctx, dst, at, b); err != nil || b[0] != 199 {
				t.Errorf("the address holds %d, want 199: %v", b[0], err)
			}
		})
	}
	all.Wait()
}

// TestSubmitWhenTheContextEnds pauses a chip's routers, and submits more requests than the chip has room for. The links
// stay up meanwhile, on a slow machine too. Then the context of Submit ends. Submit must return the number of started requests, and
// exactly these requests must have results.
func TestSubmitWhenTheContextEnds(t *testing.T) {
	t.Parallel()
	ctx, c, dst, _ := ready(t)
	if _, err := c.CommandRouter(ctx, api.RouterBody{Action: "pause"}); err != nil {
		t.Fatal(err)
	}
	rs := make([]flow.Request, 4*api.MaxBatch)
	for i := range rs {
		rs[i] = flow.Request{Token: uint64(i), Dst: dst, Command: wire.Command{Addr: wire.NewNocAddr(1, 1, 0)}, Payload: make([]byte, wire.MaxPayload)}
	}
	short, cancel := context.WithCancel(ctx)
	go func() { // cancel the context once the chip starts no more requests
		for open := 0; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			v, err := c.Chip(ctx)
			if err != nil || v.OpenOps > 0 && v.OpenOps == open {
				break
			}
			open = v.OpenOps
		}
		cancel()
	}()
	ends := make(chan flow.Result, len(rs))
	n, err := c.Submit(short, rs, func(_ int, r flow.Result) { ends <- r })
	if n == 0 || n == len(rs) || !errors.Is(err, context.Canceled) {
		t.Errorf("%d of %d were started: %v", n, len(rs), err)
	}
	if _, err := c.CommandRouter(ctx, api.RouterBody{Action: "resume"}); err != nil {
		t.Fatal(err)
	}
	for i := range n { // the packets waited at the source, and every started request must end as done
		select {
		case r := <-ends:
			if r.Fate != flow.FateDone {
				t.Fatalf("of %d requests, end %d is %+v", n, i, r)
			}
		case <-ctx.Done():
			t.Fatalf("%d of %d requests have ended", i, n)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if n, err := c.Submit(ended, rs, nil); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d requests were started after the context had ended: %v", n, err)
	}
}

// halfway is a proxy between client and chip that breaks the connection in the middle of the chip's
// answer.
type halfway struct {
	net.Listener
	to    string
	bytes int64 // number of bytes of the chip's answer that pass
}

func (h *halfway) run() {
	for {
		near, err := h.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", h.to)
		if err != nil {
			near.Close()
			return
		}
		go io.Copy(far, near)
		go func() {
			io.CopyN(near, far, h.bytes)
			near.Close()
			far.Close()
		}()
	}
}

// TestSubmitWhenTheChipGoesAway breaks the connection to the chip during a batch. Every open
// request must then end once, with an unknown fate.
func TestSubmitWhenTheChipGoesAway(t *testing.T) {
	t.Parallel()
	machine, addrs, stop, err := start()
	defer stop()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := session.New(api.NewClient(addrs[0], token, machine.Chips[0].Node, machine)).Ready(ctx); err != nil {
		t.Fatal(err)
	}
	known, unknown := 0, 0
	for _, bytes := range []int64{0, 10, 300, 2000, 5000} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		h := &halfway{l, addrs[0], bytes}
		go h.run()
		defer l.Close()
		rs := make([]flow.Request, 100)
		for i := range rs {
			rs[i] = write(machine.Chips[1].Node, uint32(i))
		}
		n, got, err := submit(ctx, t, api.NewClient(l.Addr().String(), token, machine.Chips[0].Node, machine), rs)
		if n != len(rs) || err != nil {
			t.Errorf("connection broken after %d bytes: %d started: %v", bytes, n, err)
		}
		for i := range n {
			switch r := got[i][0]; {
			case r.Fate == flow.FateDone:
				known++
			case r.Fate == flow.FateUnknown && r.Err != nil:
				unknown++
			default:
				t.Errorf("request %d: %+v", i, r)
			}
		}
	}
	if known < 10 || unknown < 250 {
		t.Errorf("%d requests ended as done and %d with an unknown fate", known, unknown)
	}
	// If nobody listens at the API's address, Submit must return an error and 0 started requests.
	l, _ := net.Listen("tcp", "127.0.0.1:0")
	l.Close()
	n, _, err := submit(ctx, t, api.NewClient(l.Addr().String(), token, machine.Chips[0].Node, machine), []flow.Request{write(machine.Chips[1].Node, 1)})
	if n != 0 || err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("%d started, although nobody listens: %v", n, err)
	}
}

// TestSubmitToSomethingElse submits to a server with invalid answers. Submit must return, and no
// request may end twice.
func TestSubmitToSomethingElse(t *testing.T) {
	t.Parallel()
	machine, _ := topo.Named("n300")
	end := `{"index":0,"fate":"done","nanoseconds":1}` + "\n"
	for text, started := range map[string]int{
		"": 2, "hello\n": 2, "{}\n": 2, `{"started":3}` + "\n": 2, `{"started":-1}` + "\n": 2, `{"started":1}` + "\n": 2,
		end + end: 2, `{"index":2,"fate":"done"}` + "\n": 2, `{"index":0,"fate":"glad"}` + "\n": 2, `{"started":2}` + "\n" + `{"started":2}` + "\n": 2,
		`{"started":1,"problem":{"status":422,"detail":"no more"}}` + "\n" + end:                                           1,
		`{"started":1,"problem":{"status":422,"detail":"no more"}}` + "\n" + `{"index":1,"fate":"done"}` + "\n":            1,
		`{"started":0,"problem":{"status":422,"detail":"no more"}}` + "\n":                                                 0,
		`{"started":2}` + "\n" + `{"index":1,"fate":"done","data":"` + strings.Repeat("A", api.MaxBatchLine) + `"}` + "\n": 2,
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) }))
		c := api.NewClient(srv.Listener.Addr().String(), "", machine.Chips[0].Node, machine)
		n, got, err := submit(t.Context(), t, c, []flow.Request{write(machine.Chips[1].Node, 1), write(machine.Chips[1].Node, 2)})
		if n != started || (n < 2) != (err != nil) {
			t.Errorf("%.60q: %d started, want %d: %v", text, n, started, err)
		}
		if strings.HasPrefix(text, end) && (got[0][0].Fate != flow.FateDone || got[1][0].Fate != flow.FateUnknown) {
			t.Errorf("%q: %+v", text, got)
		}
		srv.Close()
	}
}

// TestSlowReader sends a batch and at first does not read the answer. The chip must serve other
// callers meanwhile, and the answer must be complete in the end.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	ctx, c, dst, _, addr := readyAt(t)
	resp := post(t, addr, batchOfReads(dst, api.MaxBatch))
	defer resp.Body.Close()
	for range 20 {
		if _, err := session.New(c).Ping(ctx, dst); err != nil {
			t.Fatal(err)
		}
	}
	if err := session.New(c).Write(ctx, dst, wire.NewNocAddr(1, 1, 0), make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	lines, seen := bufio.NewScanner(resp.Body), map[int]bool{}
	lines.Buffer(nil, api.MaxBatchLine)
	for lines.Scan() {
		l := struct {
			Started *int
			api.BatchEnd
		}{}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		if l.Started == nil {
			if seen[l.Index] || len(l.Data) != wire.MaxPayload {
				t.Fatalf("request %d returned %d bytes", l.Index, len(l.Data))
			}
			seen[l.Index] = true
		}
	}
	if lines.Err() != nil || len(seen) != api.MaxBatch {
		t.Errorf("%d ends: %v", len(seen), lines.Err())
	}
}

func batchOfReads(dst wire.FabricNodeID, n int) string {
	one := fmt.Sprintf(`{"dst":"%s","command":{"type":"read","addr":%d,"size":%d}}`, dst, wire.NewNocAddr(1, 1, 0), wire.MaxPayload)
	return "[" + strings.Repeat(one+",", n-1) + one + "]"
}

// post sends a batch with plain HTTP, without the client of package api.
func post(t *testing.T, addr, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+addr+"/v1/requests", bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// TestOpenRequestsHoldUpNoOtherCall keeps 1000 requests open to a chip that does not answer,
// because an operator has paused the chip's ports. Meanwhile, the chips must answer pings to other
// chips, and other calls to the same API. After the pause, every request ends as done.
func TestOpenRequestsHoldUpNoOtherCall(t *testing.T) {
	t.Parallel()
	machine, addrs, stop, err := startWith("mesh:1x3", options{})
	t.Cleanup(stop)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nodes := machine.Nodes()
	c := api.NewClient(addrs[1], token, nodes[1], machine)
	s := session.New(c)
	if err := s.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	far := api.NewClient(addrs[2], token, nodes[2], machine)
	command := func(cmd string) {
		if _, err := far.CommandRouter(ctx, api.RouterBody{Action: cmd}); err != nil {
			t.Fatal(err)
		}
	}
	command("pause")
	const open = 1000
	ends := make(chan error, open)
	for range open {
		go func() {
			_, err := s.Ping(ctx, nodes[2])
			ends <- err
		}()
	}
	for begin := time.Now(); time.Since(begin) < time.Second; {
		short, cancel := context.WithTimeout(ctx, 5*time.Second) // FlowTimeout is longer
		if _, err := s.Ping(short, nodes[0]); err != nil {
			t.Fatalf("a ping to another chip: %v", err)
		}
		if _, err := c.Chip(short); err != nil {
			t.Fatalf("another call to the same API: %v", err)
		}
		cancel()
	}
	if n := len(ends); n > 0 {
		t.Fatalf("%d of %d requests have ended during the pause: %v", n, open, <-ends)
	}
	command("resume")
	for range open {
		if err := <-ends; err != nil {
			t.Fatalf("a request after the pause: %v", err)
		}
	}
}
