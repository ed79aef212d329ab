package admin_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/session"
	"ttfabric/wire"
)

func TestWaitOverHTTP(t *testing.T) {
	t.Parallel()
	ctx, c, dst, _ := ready(t)
	s, at := session.New(c), wire.NewNocAddr(1, 1, 0x100)
	ended := make(chan error, 1)
	go func() {
		v, err := s.WaitCounter(ctx, at, 2)
		if err == nil && v != 2 {
			err = errors.New("the counter is not 2")
		}
		ended <- err
	}()
	for range 2 {
		if err := s.AtomicInc(ctx, c.Self(), at, 1, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if err := s.WaitWord(short, at, 9); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wait that cannot end: %v", err)
	}
	var status *api.StatusError
	if err := s.WaitWord(ctx, at.Add(1), 0); !errors.As(err, &status) || status.Code != http.StatusUnprocessableEntity {
		t.Errorf("an address that is no multiple of 4: %v", err)
	}
	if err := session.New(c).Write(ctx, dst, at, []byte{1}); err != nil {
		t.Error(err)
	}
}

func TestBarrierOverHTTP(t *testing.T) {
	t.Parallel()
	ctx, c, _, _ := ready(t)
	for range 3 {
		ended := make(chan error, 2)
		for r := range 2 {
			go func() { ended <- c.Barrier(ctx, "job", r, 2) }()
		}
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Fatal(err)
		}
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if err := c.Barrier(short, "job", 0, 2); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a barrier of one rank: %v", err)
	}
	var status *api.StatusError
	if err := c.Barrier(ctx, "job", 2, 2); !errors.As(err, &status) || status.Code != http.StatusUnprocessableEntity || !strings.Contains(err.Error(), "rank 2 of 2") {
		t.Errorf("rank 2 of 2: %v", err)
	}
}

// waits makes the calls that wait, with every answer.
func (c *caller) waits(a string) {
	post := func(ctx context.Context, path, body string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, "POST", "http://"+a+path, strings.NewReader(body))
		if err != nil {
			c.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		return http.DefaultClient.Do(req)
	}
	c.call(a, "POST", "/v1/wait", "", `{"addr":"1-1:0x700","value":0}`, 200)
	c.call(a, "POST", "/v1/wait", "", `{"tile":"1-1","addr":"0x702","value":0}`, 422)
	c.call(a, "POST", "/v1/wait", "", `{"tile":"1","addr":"0x700"}`, 422)
	c.call(a, "POST", "/v1/barrier", "", `{"name":"one","rank":0,"ranks":1}`, 200)
	c.call(a, "POST", "/v1/barrier", "", `{"name":"one","rank":1,"ranks":1}`, 422)

	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	left := make(chan *http.Response, 1)
	go func() {
		resp, err := post(ctx, "/v1/barrier", `{"name":"three","rank":0,"ranks":3}`)
		if err != nil {
			c.t.Error(err)
		}
		left <- resp
	}()
	for broken := false; !broken; { // rank 1 enters and leaves the barrier until it has broken the wait of rank 0
		short, stop := context.WithTimeout(ctx, 20*time.Millisecond)
		_, _ = post(short, "/v1/barrier", `{"name":"three","rank":1,"ranks":3}`)
		stop()
		select {
		case resp := <-left:
			if resp.StatusCode != http.StatusConflict {
				c.t.Errorf("a barrier that a rank left: %d", resp.StatusCode)
			}
			c.read("POST", "/v1/barrier", resp)
			resp.Body.Close()
			broken = true
		default:
		}
	}

	c.claims(ctx, a, post)
	refused := make(chan *http.Response, 1)
	for range api.MaxWaits + 1 {
		go func() {
			resp, err := post(ctx, "/v1/wait", `{"addr":"1-1:0x700","value":1,"equal":true}`)
			if err == nil {
				refused <- resp
			}
		}()
	}
	resp := <-refused
	defer resp.Body.Close()
	if got := c.read("POST", "/v1/wait", resp); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(got, "waits under way") {
		c.t.Errorf("a wait beyond the limit: %d %s", resp.StatusCode, got)
	}
	c.call(a, "POST", "/v1/barrier", "", `{"name":"one","rank":0,"ranks":1}`, 503)
	c.call(a, "POST", "/v1/claim", "", `{"name":"the printer","holder":"b"}`, 503)
}

// claims claims a part of the chip, with every answer but that beyond the limit.
func (c *caller) claims(ctx context.Context, a string, post func(ctx context.Context, path, body string) (*http.Response, error)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := post(ctx, "/v1/claim", `{"name":"the printer","holder":"a"}`)
	if err != nil || resp.StatusCode != http.StatusOK {
		c.t.Fatal(resp, err)
	}
	line, err := bufio.NewReader(resp.Body).ReadString('\n') // read one line, because the answer does not end
	if err != nil {
		c.t.Fatal(err)
	}
	resp.Body = io.NopCloser(strings.NewReader(line))
	c.read("POST", "/v1/claim", resp)
	c.call(a, "POST", "/v1/claim", "", `{"name":"the printer","holder":"b"}`, 409)
	c.call(a, "POST", "/v1/claim", "", `{"name":"","holder":"b"}`, 422)
}

// TestClaimOverHTTP claims a part of a chip by two clients. The second client gets the claim when the first
// one releases it.
func TestClaimOverHTTP(t *testing.T) {
	t.Parallel()
	ctx, c, _, _ := ready(t)
	release, err := c.Claim(ctx, "the printer", "program a")
	if err != nil {
		t.Fatal(err)
	}
	var held *session.HeldError
	if _, err := c.Claim(ctx, "the printer", "program b"); !errors.As(err, &held) || !strings.Contains(err.Error(), "program a") {
		t.Errorf("a second claim: %v", err)
	}
	release()
	release2, err := session.New(c).Claim(ctx, "the printer")
	if err != nil {
		t.Fatalf("a claim after a release: %v", err)
	}
	release2()
}
