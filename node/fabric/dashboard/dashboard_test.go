package dashboard

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/picture"
	"ttfabric/node/fabric/picture/live"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
)

// quiet is a source of a fabric whose chips never answer.
type quiet struct {
	*live.Feed
	m    *picture.Machine
	pic  *picture.Picture
	done []live.Action
}

func newQuiet(t *testing.T) *quiet {
	machine, err := topo.Named("t3000")
	if err != nil {
		t.Fatal(err)
	}
	m := picture.NewMachine("lab", machine)
	return &quiet{Feed: live.NewFeed(), m: m, pic: picture.New(m)}
}

func (q *quiet) Machine() *picture.Machine     { return q.m }
func (q *quiet) State() *picture.State         { return q.pic.State() }
func (q *quiet) History(i int) picture.History { return q.pic.History(i) }
func (q *quiet) Events() []picture.Event {
	return []picture.Event{q.m.Event(&api.EventView{Type: "link", Action: "down", Actor: "<img src=x onerror=alert(1)>", Life: "0123456789abcdef", Seq: 1})}
}
func (q *quiet) Chip(context.Context, string) (d picture.ChipDetail, err error) {
	return d, errors.New("no answer")
}
func (q *quiet) Route(string, string, int, bool) (r picture.Route, err error) {
	return r, spec.Usagef("chip M9D9 is not in topology t3000")
}
func (q *quiet) Losses(context.Context) (b fabric.Balance, err error) {
	return b, errors.New("no answer")
}
func (q *quiet) Do(_ context.Context, a live.Action) (string, error) {
	q.done = append(q.done, a)
	return "done", nil
}

const readKey, controlKey = "the-read-key", "the-control-key"

// call is one call of a page.
type call struct {
	method, path, body string
	header             map[string]string
}

// ask makes a call, and returns the answer. By default, the call has the key for reading, and a
// host of loopback.
func ask(t *testing.T, h http.Handler, c call) *http.Response {
	t.Helper()
	if c.method == "" {
		c.method = "GET"
	}
	r := httptest.NewRequest(c.method, "http://127.0.0.1:8480"+c.path, strings.NewReader(c.body))
	r.Header.Set("Authorization", "Bearer "+readKey)
	for k, v := range c.header {
		if k == "Host" {
			r.Host = v
		}
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// want checks the status of a call's answer. If the status is an error, the answer must state a reason that
// contains the text.
func want(t *testing.T, h http.Handler, c call, code int, text string) {
	t.Helper()
	resp := ask(t, h, c)
	b, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != code || !strings.Contains(string(b), text) {
		t.Errorf("%s %s %v: status %d, want %d; the answer is %q, want %q", c.method, c.path, c.header, resp.StatusCode, code, b, text)
	}
}

func handler(t *testing.T) (*quiet, http.Handler) {
	q := newQuiet(t)
	return q, Handler(q, Keys{Read: readKey, Control: controlKey})
}

// TestKeys checks that every call for data needs the key for reading, that every command needs the key for
// control, and that neither key stands for the other.
func TestKeys(t *testing.T) {
	q, h := handler(t)
	for _, path := range []string{"/api/machine", "/api/stream", "/api/history", "/api/chip?name=M0D0", "/api/route?src=M0D0&dst=M0D1&plane=0", "/api/losses"} {
		for _, key := range []string{"", "Bearer ", "Bearer " + controlKey, "Bearer wrong", readKey, "Basic " + readKey} {
			want(t, h, call{path: path, header: map[string]string{"Authorization": key}}, http.StatusUnauthorized, "the read key is missing or wrong")
		}
	}
	cut := call{method: "POST", path: "/api/do", body: `{"do":"cut","cable":"all"}`, header: map[string]string{"Content-Type": "application/json"}}
	for _, key := range []string{"", "Bearer ", "Bearer " + readKey} {
		cut.header["Authorization"] = key
		want(t, h, cut, http.StatusUnauthorized, "the control key is missing or wrong")
	}
	if len(q.done) > 0 {
		t.Fatalf("a command without the key was carried out: %v", q.done)
	}
	want(t, h, call{path: "/api/machine"}, http.StatusOK, `"name":"M0D7"`)
	cut.header["Authorization"] = "Bearer " + controlKey
	want(t, h, cut, http.StatusOK, "done")
	if len(q.done) != 1 || q.done[0].Do != "cut" {
		t.Errorf("carried out %v", q.done)
	}
}

// TestReadOnly checks that a dashboard without a key for control carries out no command.
func TestReadOnly(t *testing.T) {
	q := newQuiet(t)
	h := Handler(q, Keys{Read: readKey})
	for _, key := range []string{"", "Bearer", "Bearer ", "Bearer " + readKey} {
		want(t, h, call{method: "POST", path: "/api/do", body: `{"do":"heal"}`, header: map[string]string{"Content-Type": "application/json", "Authorization": key}}, http.StatusForbidden, "only reads")
	}
	if len(q.done) > 0 {
		t.Errorf("carried out %v", q.done)
	}
	want(t, h, call{path: "/api/machine"}, http.StatusOK, `"control":false`)
}

// TestHost checks that the server serves only calls whose header names loopback. A page of another site
// therefore gets nothing by a name that the owner of the site points to 127.0.0.1.
func TestHost(t *testing.T) {
	_, h := handler(t)
	for _, host := range []string{"evil.example", "evil.example:8480", "127.0.0.1.evil.example", "localhost.evil.example:8480", "10.0.0.1:8480", "0.0.0.0:8480", "[fe80::1]:8480", "", "127.0.0.1:8480:1"} {
		for _, path := range []string{"/", "/api/machine", "/main.js"} {
			want(t, h, call{path: path, header: map[string]string{"Host": host}}, http.StatusMisdirectedRequest, "open it at 127.0.0.1 or localhost")
		}
	}
	for _, host := range []string{"127.0.0.1:8480", "localhost:9999", "[::1]:8480", "localhost", "127.0.0.1"} {
		want(t, h, call{path: "/api/machine", header: map[string]string{"Host": host}}, http.StatusOK, "t3000")
	}
}

// TestOrigin checks that calls from pages of other sites are refused, even with the key.
func TestOrigin(t *testing.T) {
	q, h := handler(t)
	for _, origin := range []string{"http://evil.example", "null", "https://127.0.0.1:8480", "http://127.0.0.1:1", "http://localhost:8480"} {
		want(t, h, call{path: "/api/machine", header: map[string]string{"Origin": origin}}, http.StatusForbidden, "only the page itself")
		want(t, h, call{method: "POST", path: "/api/do", body: `{"do":"heal"}`, header: map[string]string{"Origin": origin, "Content-Type": "application/json", "Authorization": "Bearer " + controlKey}}, http.StatusForbidden, "only the page itself")
	}
	for _, site := range []string{"cross-site", "same-site"} {
		want(t, h, call{path: "/api/machine", header: map[string]string{"Sec-Fetch-Site": site}}, http.StatusForbidden, "another site")
		want(t, h, call{path: "/", header: map[string]string{"Sec-Fetch-Site": site}}, http.StatusOK, "<!doctype html>") // a link to the page
	}
	want(t, h, call{path: "/api/machine", header: map[string]string{"Origin": "http://127.0.0.1:8480", "Sec-Fetch-Site": "same-origin"}}, http.StatusOK, "t3000")
	if len(q.done) > 0 {
		t.Errorf("carried out %v", q.done)
	}
}

// TestHeaders checks the policy of every answer, also of refusals: no inline code, no other host, no frames, no
// HTML from data, no cookies, and no leave for other sites to read answers.
func TestHeaders(t *testing.T) {
	_, h := handler(t)
	for _, c := range []call{{path: "/"}, {path: "/main.js"}, {path: "/api/machine"}, {path: "/none"}, {path: "/", header: map[string]string{"Host": "evil.example"}}, {path: "/api/machine", header: map[string]string{"Authorization": ""}}} {
		head := ask(t, h, c).Header
		csp := head.Get("Content-Security-Policy")
		for _, rule := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(csp, rule+";") && !strings.HasSuffix(csp, rule) && !strings.Contains(csp, rule) {
				t.Errorf("%s: the policy %q lacks %q", c.path, csp, rule)
			}
		}
		if strings.Contains(csp, "unsafe") || strings.Contains(csp, "http") || strings.Contains(csp, "*") {
			t.Errorf("%s: the policy %q allows too much", c.path, csp)
		}
		if head.Get("X-Content-Type-Options") != "nosniff" || head.Get("Referrer-Policy") != "no-referrer" || head.Get("Cache-Control") != "no-store" || head.Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s: headers %v", c.path, head)
		}
		if head.Get("Set-Cookie") != "" || head.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: cookies or CORS: %v", c.path, head)
		}
	}
}

// forbidden are words in the page's files that would load something else, make HTML from text, or keep a
// key outside memory.
var forbidden = regexp.MustCompile(`(?i)innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|localStorage\b|sessionStorage\b|document\.cookie|indexedDB|style="|<script>|<style|\son[a-z]+="|javascript:|https?://`)

// TestPages reads all files of the page. The files must be small modules without inline code and outside
// resources.
func TestPages(t *testing.T) {
	n := 0
	err := fs.WalkDir(pages, "page", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		text, err := pages.ReadFile(path)
		if err != nil {
			return err
		}
		plain := strings.ReplaceAll(strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", ""), "http://127.0.0.1:8480/#read=KEY", "")
		if found := forbidden.FindString(plain); found != "" {
			t.Errorf("%s has %q", path, found)
		}
		if lines := strings.Count(string(text), "\n"); lines > 500 {
			t.Errorf("%s has %d lines; at most 500", path, lines)
		}
		return nil
	})
	if err != nil || n < 15 {
		t.Errorf("%d files, %v", n, err)
	}
	_, h := handler(t)
	for path, media := range map[string]string{"/": "text/html", "/main.js": "text/javascript", "/style.css": "text/css", "/icon.svg": "image/svg+xml"} {
		if got := ask(t, h, call{path: path}).Header.Get("Content-Type"); !strings.HasPrefix(got, media) {
			t.Errorf("%s has the type %q, want %q", path, got, media)
		}
	}
}

// TestTextStaysText checks that an event with HTML in a name reaches the page as JSON text, and that JSON
// escapes its brackets.
func TestTextStaysText(t *testing.T) {
	_, h := handler(t)
	srv := httptest.NewServer(h)
	defer srv.Close()
	first, resp := stream(t, srv.URL)
	defer resp.Body.Close()
	if !strings.Contains(first, `\u003cimg src=x`) || strings.Contains(first, "<img") {
		t.Errorf("the stream begins with %q", first)
	}
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("the type is %q", got)
	}
}

// stream opens a stream, and returns the data of its first event.
func stream(t *testing.T, url string) (first string, resp *http.Response) {
	t.Helper()
	r, _ := http.NewRequest("GET", url+"/api/stream", nil)
	r.Header.Set("Authorization", "Bearer "+readKey)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", resp
	}
	sc := bufio.NewScanner(resp.Body)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		if data, ok := strings.CutPrefix(sc.Text(), "data: "); ok {
			return data, resp
		}
	}
	t.Fatal("the stream has no first event:", sc.Err())
	return "", nil
}

// TestStreamsAreLimited checks that a further stream beyond the limit is refused with a reason, and that a
// place is free again after a stream ends.
func TestStreamsAreLimited(t *testing.T) {
	_, h := handler(t)
	srv := httptest.NewServer(h)
	defer srv.Close()
	var open []*http.Response
	for range MaxStreams {
		_, resp := stream(t, srv.URL)
		open = append(open, resp)
	}
	_, resp := stream(t, srv.URL)
	b, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(b), "16 pages already") || resp.Header.Get("Retry-After") == "" {
		t.Errorf("stream %d has status %d: %s", MaxStreams+1, resp.StatusCode, b)
	}
	open[0].Body.Close()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		_, resp := stream(t, srv.URL)
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no place is free after a stream has ended")
		}
	}
	for _, r := range open[1:] {
		r.Body.Close()
	}
}

// TestCallsAreLimited checks that calls beyond the limit are refused, and that large and malformed bodies
// are refused.
func TestCallsAreLimited(t *testing.T) {
	q := newQuiet(t)
	s := &server{src: q, keys: Keys{Read: readKey, Control: controlKey}, calls: make(chan struct{}, 1)}
	h := limited(s.calls, "calls", http.HandlerFunc(s.machine))
	s.calls <- struct{}{}
	want(t, h, call{path: "/"}, http.StatusServiceUnavailable, "1 calls already")
	<-s.calls
	want(t, h, call{path: "/"}, http.StatusOK, "t3000")
	all := Handler(q, s.keys)
	for body, why := range map[string]string{
		strings.Repeat(" ", maxBody) + `{"do":"heal"}`: "too large", `{"do":"heal","more":1}`: "more", `[]`: "no action", ``: "no action",
	} {
		want(t, all, call{method: "POST", path: "/api/do", body: body, header: map[string]string{"Content-Type": "application/json", "Authorization": "Bearer " + controlKey}}, http.StatusBadRequest, why)
	}
	want(t, all, call{method: "POST", path: "/api/do", body: `{"do":"heal"}`, header: map[string]string{"Content-Type": "text/plain", "Authorization": "Bearer " + controlKey}}, http.StatusUnsupportedMediaType, "application/json")
	if len(q.done) > 0 {
		t.Errorf("carried out %v", q.done)
	}
}

// TestBadValues checks that errors name the bad value.
func TestBadValues(t *testing.T) {
	_, h := handler(t)
	want(t, h, call{path: "/api/history?cable=20"}, http.StatusBadRequest, `cable \"20\": want a number from 0 to 19`)
	want(t, h, call{path: "/api/history?cable=-1"}, http.StatusBadRequest, `cable \"-1\"`)
	want(t, h, call{path: "/api/route?src=M0D0&dst=M9D9&plane=0"}, http.StatusBadRequest, "M9D9")
	want(t, h, call{path: "/api/route?src=M0D0&dst=M0D1&plane=x"}, http.StatusBadRequest, `plane \"x\"`)
	want(t, h, call{path: "/api/chip?name=M0D0"}, http.StatusBadGateway, "no answer")
	want(t, h, call{method: "PUT", path: "/api/machine"}, http.StatusMethodNotAllowed, "")
}

// TestListen checks that the dashboard listens on loopback only.
func TestListen(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "10.1.2.3:80", "[::]:0", "example.com:80", "127.0.0.1", ""} {
		l, err := Listen(addr)
		if err == nil {
			l.Close()
			t.Errorf("the dashboard listens on %q", addr)
		} else if !strings.Contains(err.Error(), "loopback") {
			t.Errorf("%q: %v", addr, err)
		}
	}
	for _, addr := range []string{"127.0.0.1:0", "localhost:0"} {
		l, err := Listen(addr)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
}

// TestNewKeys checks that keys are long, and that each dashboard has other keys.
func TestNewKeys(t *testing.T) {
	a, b := NewKeys(true), NewKeys(true)
	if len(a.Read) < 26 || a.Read == b.Read || a.Read == a.Control || a.Control == b.Control {
		t.Errorf("keys %v and %v", a, b)
	}
	if got := NewKeys(false); got.Control != "" || strings.Contains(got.Fragment(), "control") {
		t.Errorf("a dashboard that only reads has the fragment %s", got.Fragment())
	}
}
