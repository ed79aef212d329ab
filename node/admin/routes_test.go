package admin_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// TestRoutes makes every call of the API, and causes every error that the OpenAPI document lists.
// Each answer must fit the document.
func TestRoutes(t *testing.T) {
	t.Parallel()
	s, err := readSpec()
	if err != nil {
		t.Fatal(err)
	}
	machine, addrs, stop, err := startWith("n300", options{keys: [][]byte{bytes.Repeat([]byte{1}, 32)}, record: t.TempDir(), about: map[string]string{"name": "here"}})
	defer stop()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := session.New(api.NewClient(addrs[0], token, machine.Chips[0].Node, machine)).Ready(ctx); err != nil {
		t.Fatal(err)
	}
	c := &caller{t: t, ctx: ctx, spec: s, seen: map[string]bool{}}
	c.states(addrs[0])
	c.commands(addrs[0], addrs[1])
	c.batches(addrs[0])
	c.waits(addrs[0])
	c.harm(addrs[0])
	c.operations(addrs[0])
	c.captures(addrs[0])
	c.lonely()
	for i := range api.Routes {
		c.refusals(addrs[0], &api.Routes[i])
	}
	c.nowhere(addrs[0])
	for path, methods := range s.Paths {
		for method, o := range methods {
			for status, r := range o.Responses {
				name := fmt.Sprintf("%s %s %s", strings.ToUpper(method), path, status)
				if o.RequestBody != nil && (status == "408" || status == "503") && !ownError(method, path, status) {
					continue // TestSlowBodies causes these errors, which all calls with a body have
				}
				for media := range r.Content {
					if !c.seen[name+" "+media] {
						t.Errorf("%s, %s: this test never causes this answer", name, media)
					}
				}
				if len(r.Content) == 0 && !c.seen[name] {
					t.Errorf("%s: this test never causes this answer", name)
				}
			}
		}
	}
}

// ownError reports whether the table of calls lists an error for this call, and not only for all calls
// with a body.
func ownError(method, path, status string) bool {
	return slices.ContainsFunc(api.Routes, func(r api.Route) bool {
		return strings.EqualFold(r.Method, method) && r.Path == path && slices.ContainsFunc(r.Errors, func(f api.Failure) bool { return fmt.Sprint(f.Status) == status })
	})
}

// refusals calls a route with a wrong token, with malformed bodies, and with a body that is too
// long.
func (c *caller) refusals(addr string, r *api.Route) {
	if !r.Open {
		resp := c.open(addr, r.Method, r.Path, "", "", "wrong", http.StatusUnauthorized)
		c.read(r.Method, r.Path, resp)
		resp.Body.Close()
	}
	if len(r.Bodies) > 0 {
		for _, body := range []string{"", "{", "null", "3", `{"no such field":1}`, `{}{}`} {
			c.call(addr, r.Method, r.Path, "", body, http.StatusBadRequest)
		}
		c.call(addr, r.Method, r.Path, "", "{"+strings.Repeat(" ", int(r.Limit())), http.StatusRequestEntityTooLarge)
	}
}

// nowhere calls paths that do not exist, and paths with a method that the path does not have. Each
// error must be a problem.
func (c *caller) nowhere(addr string) {
	for _, x := range []struct {
		method, path, allow string
		status              int
	}{
		{"GET", "/", "", 404}, {"GET", "/v1/no", "", 404}, {"PATCH", "/v2/", "", 404}, {"GET", "/v1/profile/cpu/more", "", 404},
		{"PATCH", "/v1/chip", "GET", 405}, {"POST", "/v1/", "GET", 405}, {"GET", "/v1/requests", "POST, DELETE", 405}, {"OPTIONS", "/v1/profile/cpu", "GET", 405},
		{"DELETE", "/livez", "GET", 405},
	} {
		resp := c.open(addr, x.method, x.path, "", "", token, x.status)
		var p api.Problem
		err := json.NewDecoder(resp.Body).Decode(&p)
		resp.Body.Close()
		if err != nil || resp.Header.Get("Content-Type") != api.MediaProblem || p.Status != x.status || !strings.Contains(p.Detail, x.path) || resp.Header.Get("Allow") != x.allow {
			c.t.Errorf("%s %s: %v, %+v %v, want a problem", x.method, x.path, err, p, resp.Header)
		}
	}
}

// resumes reads the event stream again from the middle. The stream must not repeat an event that
// the caller has read before.
func (c *caller) resumes(a string) {
	stream := func(last string, status int) *http.Response {
		req, err := http.NewRequestWithContext(c.ctx, "GET", "http://"+a+"/v1/events", nil)
		if err != nil {
			c.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Last-Event-ID", last)
		resp, err := http.DefaultClient.Do(req)
		if err != nil || resp.StatusCode != status {
			c.t.Fatalf("Last-Event-ID %q: %v %v, want %d", last, resp, err, status)
		}
		return resp
	}
	events := func(last string, n int) (all []api.EventView) {
		resp := stream(last, 200)
		defer resp.Body.Close()
		id := ""
		for lines := bufio.NewScanner(resp.Body); len(all) < n && lines.Scan(); {
			if v, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				id = v
			}
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			var e api.EventView
			if err := json.Unmarshal([]byte(data), &e); err != nil || e.ID() != id {
				c.t.Fatalf("the event %s has the id %q: %v", data, id, err)
			}
			all = append(all, e)
		}
		return all
	}
	all := events("", 3)
	if got := events(all[0].ID(), 2); got[0].Seq != all[1].Seq || got[1].Seq != all[2].Seq || got[0].Lost != 0 {
		c.t.Errorf("after %s come %+v, want %+v", all[0].ID(), got, all[1:])
	}
	if got := events("0123456789abcdef-2", 1); got[0].Seq != all[0].Seq {
		c.t.Errorf("after an event of another incarnation comes %+v, want %+v", got, all[0])
	}
	for _, bad := range []string{"x", "1", "0123456789abcdef-", "0123456789abcdef-x", "0123456789abcdef0-1"} {
		resp := stream(bad, 400)
		c.read("GET", "/v1/events", resp)
		resp.Body.Close()
	}
	for range api.MaxReaders {
		defer stream("", 200).Body.Close()
	}
	resp := stream("", 503)
	defer resp.Body.Close()
	c.read("GET", "/v1/events", resp)
	c.call(a, "GET", "/v1/chip", "ready=1m", "", 200) // a call to a ready chip needs no event stream
}

func (c *caller) states(a string) {
	c.call(a, "GET", "/v1/chip", "ready=1m", "", 200)
	c.call(a, "GET", "/v1/chip", "ready=soon", "", 400)
	c.call(a, "GET", "/v1/chip", "ready=2m", "", 400)
	for _, path := range []string{"/livez", "/readyz", "/metrics", "/v1/fabric", "/v1/chip", "/v1/brief", "/v1/losses", "/v1/ends", "/v1/members", "/v1/events", "/v1/openapi.json"} {
		c.call(a, "GET", path, "", "", 200)
	}
	res, text := scrape(c.t, a, token, "application/openmetrics-text;version=1.0.0")
	res.Body = io.NopCloser(bytes.NewReader(text))
	c.read("GET", "/metrics", res)
	if page := c.call(a, "GET", "/v1/", "", "", 200); strings.Count(page, "<h2>") != len(api.Routes) || strings.Contains(page, "src=") || strings.Contains(page, "http://") {
		c.t.Errorf("the page lists %d of %d calls, or refers to other files:\n%s", strings.Count(page, "<h2>"), len(api.Routes), page)
	}
	c.resumes(a)
	profile := func(query string, status int) {
		c.t.Helper()
		c.call(a, "GET", "/v1/profile/{kind}", "{kind}="+query, "", status)
	}
	for _, kind := range api.ProfileKinds {
		profile(kind+"&for=10ms", 200)
	}
	profile("cpu&for=1h", 400)
	profile("nothing", 404)
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	go func() { // takes profiles again and again, because the short profile below may begin first
		for ctx.Err() == nil {
			api.NewClient(a, token, wire.FabricNodeID{}, nil).Profile(ctx, "cpu", time.Minute, io.Discard)
		}
	}()
	for c.ctx.Err() == nil && !c.seen["GET /v1/profile/{kind} 409 "+api.MediaProblem] {
		resp := c.open(a, "GET", "/v1/profile/{kind}", "{kind}=cpu&for=1ms", "", token, 0)
		c.read("GET", "/v1/profile/{kind}", resp) // an error 409 while the long profile runs, and otherwise a profile
		resp.Body.Close()
	}
}

const tile = `"tile":"1-1","addr":"0x0"`

func (c *caller) commands(a, b string) {
	send := func(body string, status int, want string) {
		c.t.Helper()
		if got := c.call(a, "POST", "/v1/requests", "", body, status); !strings.Contains(got, want) {
			c.t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	send(`{"dst":"M0D1","plane":0,"command":{"type":"write",`+tile+`},"payload":"eHl6","trace":true}`, 200, `"fate":"done"`)
	send(`{"dst":"M0D1","command":{"type":"read","size":3,`+tile+`}}`, 200, `"data":"eHl6"`)
	send(`{"dst":"M0D1","command":{"Type":7,"Size":3,"Addr":4466765987840},"via":"AQ=="}`, 422, "hops")
	send(`{"dst":"M0D1","command":{"type":"write","tile":"1-1","addr":"0x1000"},"payload":"eHl6"}`, 200, `"fate":"done"`)
	send(`{"dst":"M0D1","command":{"type":"read","size":3,"addr":"1-1:4096"}}`, 200, `"data":"eHl6"`)
	send(`{"dst":"M0D1","command":{"type":"read","size":3,"addr":4466765991936}}`, 200, `"data":"eHl6"`)
	send(`{"dst":"M0D1","command":{"type":"read","size":3,"addr":"0x1000"}}`, 422, `names no tile`)
	send(`{"dst":"M0D1","command":{"type":"read","size":3,"addr":"1-1:here"}}`, 400, `\"1-1:here\"`)
	send(`{"dst":"M0D1","command":{"type":"read","tile":"9","addr":"0x0"}}`, 422, `tile \"9\"`)
	send(`{"dst":"1","probe":true}`, 200, `"fate":"done"`)
	send(`{"dst":"M0D1","command":{"type":"inline-write","tile":"1-1","addr":"0x1"}}`, 200, `"outcome":"misaligned"`)
	send(`{"multicast":"E1","command":{"type":"inline-write","tile":"1-1","addr":"0x1"}}`, 200, `"members":[{"chip":"M0D1"`)
	send(`{"dst":"M0D1","plane":9}`, 422, "plane 9")
	send(`{"dst":"M0D1","command":{"type":"wriet"}}`, 400, "inline-write")
	send(`{"dst":"M0D1","command":{"type":"scatter-write","scatter":[1,2,3,4,5]}}`, 422, "5 chunks")
	one := `{"dst":"M0D1","command":{"type":"atomic-inc","value":1,` + tile + `}}`
	send("["+one+","+one+"]", 200, `"started":2}`)
	send("["+one+`,{"dst":"M0D1","plane":9}]`, 200, `"started":1,"problem":{`)
	send(`[{"dst":"M0D1","plane":9},`+one+"]", 422, "plane 9")
	send("[]", 400, "1 to 256")
	send(`[{"dst":"M0D1"},{"nonsense":1}]`, 400, "nonsense")
	send(`[`+one+`,{"dst":"M0D1","command":{"type":"read","size":3,"addr":"0x1000"}}]`, 422, `request 1 of the batch: address \"0x1000\" names no tile`)
	send(`{"dst":"M0D1","command":{"type":"read","size":3,"addr":281474976710656}}`, 400, "48 bits")
	c.call(a, "POST", "/v1/requests", "batch="+strings.Repeat("x", api.MaxID+1), "["+one+"]", 400)
	c.call(a, "GET", "/v1/traces", "", "", 200)
	c.call(b, "GET", "/v1/traces", "", "", 200)

	if got := c.call(a, "POST", "/v1/snapshot", "", `{"cut":"00000004"}`, 200); !strings.Contains(got, `"complete":true`) {
		c.t.Errorf("the chip at the other end has sent no mark: %s", got)
	}
	c.call(a, "POST", "/v1/snapshot", "", `{"cut":"00000004"}`, 409) // the state has been fetched
	c.call(a, "POST", "/v1/snapshot", "", `{"cut":"00000000"}`, 422)
	c.call(a, "POST", "/v1/bench", "", `{"dst":"M0D1","size":64,"batch":4,"rounds":3,`+tile+`}`, 200)
	c.call(a, "POST", "/v1/bench", "", `{"dst":"M0D1","size":64,"batch":4,"rounds":3,"addr":"0-0:0","via":["E","E"]}`, 422)
	c.call(a, "POST", "/v1/bench", "", `{"dst":"M0D1","size":64,"batch":0}`, 422)
	c.call(a, "POST", "/v1/bench", "", `{"dst":"M0D1","size":64,"batch":4,"rounds":3,"addr":"0"}`, 422)
	c.call(a, "POST", "/v1/bench", "", `{"dst":"M0D1","size":64,"batch":1,"rounds":1,"addr":"63-0:0x0"}`, 409)

	run := `{"spec":{"run":5,"pattern":"all-to-all","packets":10,"size":100,"planes":2,"window":8,"seed":1},"pairs":[{"src":"M0D0","dst":"M0D1"}],"send":`
	c.call(a, "GET", "/v1/traffic", "", "", 404)
	c.call(b, "POST", "/v1/traffic", "", run+"false}", 200)
	c.call(a, "POST", "/v1/traffic", "", run+"true}", 200)
	for c.ctx.Err() == nil && !strings.Contains(c.call(a, "GET", "/v1/traffic", "", "", 200), `"completed":10`) {
		time.Sleep(5 * time.Millisecond)
	}
	c.call(b, "GET", "/v1/traffic", "", "", 200) // chip b sends nothing, and still reports
	c.call(a, "POST", "/v1/traffic", "", strings.Replace(run, `"run":5`, `"run":6`, 1)+"true}", 409)
	c.call(a, "GET", "/v1/traffic", "owner=5", "", 200)
	c.call(a, "GET", "/v1/traffic", "owner=6", "", 404)
	c.call(a, "DELETE", "/v1/traffic", "owner=6", "", 200) // ends no run, because no run has this owner
	if text := c.call(a, "GET", "/v1/traffic", "counts=true&owner=5", "", 200); !strings.Contains(text, `"completed":10`) || strings.Contains(text, "buckets") {
		c.t.Errorf("counts=true gives %s, want the counts without latencies", text)
	}
	if text := c.call(a, "GET", "/v1/traffic", "counts=false", "", 200); !strings.Contains(text, "buckets") {
		c.t.Errorf("counts=false gives %s, want latencies, too", text)
	}
	c.call(a, "GET", "/v1/traffic", "counts=few", "", 400)
	c.call(a, "DELETE", "/v1/traffic", "owner=x", "", 400)
	c.call(a, "GET", "/v1/traffic", "owner=-1", "", 400)
	c.call(a, "GET", "/v1/traffic", "", "", 200)
	c.call(a, "POST", "/v1/traffic", "", `{"spec":{}}`, 422)
	c.call(a, "DELETE", "/v1/traffic", "", "", 200)
}

// batches begins a batch while the cables are cut, and stops the batch. While the batch is open,
// batches tries to begin another batch with the same id.
func (c *caller) batches(a string) {
	cut := func(on bool) {
		c.call(a, "PUT", "/v1/netem", "", fmt.Sprintf(`{"channels":[%s],"cut":%v}`, strings.Join(c.channels(a), ","), on), 200)
	}
	cut(true)
	started := make(chan *http.Response)
	go func() {
		started <- c.open(a, "POST", "/v1/requests", "batch=mine", `[{"dst":"M0D1","probe":true}]`, token, 200)
	}()
	for c.ctx.Err() == nil && !c.seen["DELETE /v1/requests 204"] {
		resp := c.open(a, "DELETE", "/v1/requests", "batch=mine", "", token, 0)
		c.read("DELETE", "/v1/requests", resp) // 404 until the batch has begun
		resp.Body.Close()
	}
	c.call(a, "POST", "/v1/requests", "batch=mine", `[{"dst":"M0D1","probe":true}]`, 409)
	cut(false)
	resp := <-started
	defer resp.Body.Close()
	if got := c.read("POST", "/v1/requests", resp); !strings.Contains(got, `"started":1`) {
		c.t.Errorf("a batch that was started and then stopped: %s", got)
	}
	c.call(a, "DELETE", "/v1/requests", "batch=mine", "", 404)
	cut(true)
	for c.ctx.Err() == nil && !c.seen["POST /v1/requests 503 "+api.MediaProblem] {
		c.tooMany(a)
	}
	cut(false)
}

// tooMany begins more batches at once than the chip takes, from several addresses, because a chip
// also limits the connections from one address. tooMany ends when the chip has refused a batch. On
// a slow machine, batches may end before others begin, so that the chip refuses none. Then tooMany
// ends, too.
func (c *caller) tooMany(a string) {
	ctx, cancel := context.WithCancel(c.ctx)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	const perAddr = api.MaxConnsPerAddr / 2
	refused := make(chan *http.Response)
	for host := range api.MaxBatches/perAddr + 1 {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+host))}}
		client := &http.Client{Transport: &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true}}
		for range perAddr {
			calls.Go(func() {
				req, err := http.NewRequestWithContext(ctx, "POST", "http://"+a+"/v1/requests", strings.NewReader(`[{"dst":"M0D1","probe":true}]`))
				if err != nil {
					c.t.Error(err)
					return
				}
				req.Header.Set("Authorization", "Bearer "+token)
				resp, err := client.Do(req)
				if err != nil {
					return // ctx has ended
				}
				defer resp.Body.Close()
				if resp.StatusCode == http.StatusServiceUnavailable {
					select {
					case refused <- resp:
						<-ctx.Done()
					case <-ctx.Done():
					}
					return
				}
				io.Copy(io.Discard, resp.Body)
			})
		}
	}
	all := make(chan struct{})
	go func() {
		calls.Wait()
		close(all)
	}()
	select {
	case resp := <-refused:
		if got := c.read("POST", "/v1/requests", resp); !strings.Contains(got, fmt.Sprintf("%d batches", api.MaxBatches)) {
			c.t.Errorf("a batch beyond the limit: %s", got)
		}
	case <-all:
	}
}

// channels returns the chip's channels as JSON numbers.
func (c *caller) channels(a string) (all []string) {
	var v api.ChipView
	if err := json.Unmarshal([]byte(c.call(a, "GET", "/v1/chip", "", "", 200)), &v); err != nil {
		c.t.Fatal(err)
	}
	for _, l := range v.Links {
		all = append(all, fmt.Sprint(l.Channel))
	}
	return all
}

func (c *caller) harm(a string) {
	ch := c.channels(a)[0]
	c.call(a, "GET", "/v1/netem", "", "", 200)
	c.call(a, "PUT", "/v1/netem", "", `{"channels":[`+ch+`],"options":{"delay":"1ms","loss-gemodel":"1%,50%"},"seed":3,"for_seconds":60}`, 200)
	c.call(a, "PUT", "/v1/netem", "", `{"channels":[3],"options":{"delay":"1ms"}}`, 422)
	c.call(a, "DELETE", "/v1/netem", "channel="+ch, "", 200)
	c.call(a, "DELETE", "/v1/netem", "", "", 200)
	c.call(a, "DELETE", "/v1/netem", "channel=x", "", 400)
	c.call(a, "DELETE", "/v1/netem", "channel=3", "", 422)
	c.call(a, "POST", "/v1/faults", "", `{"kind":"killed","chip":"M0D1"}`, 200)
	c.call(a, "POST", "/v1/faults", "", `{"kind":"set","chip":"M0D0","channel":`+ch+`,"options":{"loss":"1%"}}`, 200)
	c.call(a, "POST", "/v1/faults", "", `{"kind":"killed","chip":"M7D1"}`, 422)
	c.call(a, "GET", "/v1/gossip", "", "", 200)
	c.call(a, "PUT", "/v1/gossip", "", `{"options":{"delay":"1ms"},"cut":true,"cut_off_from":["M0D1"],"for_seconds":60}`, 200)
	c.call(a, "PUT", "/v1/gossip", "", `{"options":{"haste":"1ms"}}`, 422)
	c.call(a, "DELETE", "/v1/gossip", "cuts=only", "", 200)
	c.call(a, "DELETE", "/v1/gossip", "", "", 200)
}

func (c *caller) operations(a string) {
	ch := c.channels(a)[0]
	c.call(a, "GET", "/v1/router", "", "", 200)
	for action := range api.RouterActions {
		c.call(a, "POST", "/v1/router", "", `{"channels":[`+ch+`],"action":"`+action+`"}`, 200)
	}
	c.call(a, "POST", "/v1/router", "", `{"channels":[`+ch+`],"action":"flush"}`, 200)
	c.call(a, "POST", "/v1/router", "", `{"action":"resume"}`, 200)
	c.call(a, "POST", "/v1/router", "", `{"action":"hurry"}`, 422)
	c.call(a, "PUT", "/v1/service", "", `{"channels":[`+ch+`],"out":true}`, 200)
	c.call(a, "PUT", "/v1/service", "", `{"channels":[`+ch+`]}`, 200)
	c.call(a, "PUT", "/v1/service", "", `{"channels":[3],"out":true}`, 422)
	c.call(a, "GET", "/v1/router/channels", "", "", 200)
	c.call(a, "PUT", "/v1/fallback", "", `{"channel":`+ch+`,"by":`+c.channels(a)[1]+`}`, 200)
	c.call(a, "PUT", "/v1/fallback", "", `{"channel":`+ch+`}`, 200)
	c.call(a, "PUT", "/v1/fallback", "", `{"channel":`+ch+`,"by":3}`, 422)
	c.call(a, "PUT", "/v1/leaving", "", `{"on":true}`, 200)
	c.call(a, "PUT", "/v1/leaving", "", `{}`, 200)
	c.call(a, "GET", "/v1/gossip/keys", "", "", 200)
	c.call(a, "PUT", "/v1/gossip/keys", "", `{"action":"install","key":"AgICAgICAgICAgICAgICAg=="}`, 200)
	c.call(a, "PUT", "/v1/gossip/keys", "", `{"action":"install","key":"Ag=="}`, 422)
	c.call(a, "PUT", "/v1/gossip/keys", "", `{"action":"forget"}`, 422)
	image := c.call(a, "GET", "/v1/memory", "", "", 200)
	c.call(a, "PUT", "/v1/memory", "", image, 409) // the chip's calls are recorded
	c.call(a, "DELETE", "/v1/recording", "", "", 200)
	c.call(a, "PUT", "/v1/memory", "", image, 200)
	c.call(a, "PUT", "/v1/memory", "", image[:len(image)-1], 422)
	c.call(a, "DELETE", "/v1/recording", "", "", 409)
	job := `{"id":7,"name":"a","chips":["M0D0"],"programs":[{"kernels":[{"kernel":"wait","tile":{"x":1,"y":1}}],"semaphores":[{"tile":{"x":1,"y":1},"addr":4096,"value":0}]}]}`
	c.call(a, "POST", "/v1/jobs", "", job, 204)
	c.call(a, "POST", "/v1/jobs", "", job, 422)
	c.call(a, "POST", "/v1/jobs", "", `{"id":8,"programs":[{"kernels":[{"kernel":"none","tile":{"x":1,"y":1}}]}]}`, 422)
	if got := c.call(a, "GET", "/v1/host", "", "", 200); strings.Count(got, `"host-scatter-write"`) != 16 {
		c.t.Errorf("the firmware's queues: %s", got)
	}
	if got := c.call(a, "GET", "/v1/jobs", "", "", 200); !strings.Contains(got, `"wait@1-1"`) {
		c.t.Errorf("the running jobs: %s", got)
	}
	c.call(a, "DELETE", "/v1/jobs", "id=7&text=enough", "", 204)
	c.call(a, "DELETE", "/v1/jobs", "id=7", "", 404)
	c.call(a, "DELETE", "/v1/jobs", "id=x", "", 400)
	if got := c.call(a, "GET", "/v1/jobs/end", "id=7", "", 200); !strings.Contains(got, `"why":"stopped","by":"M0D0","text":"enough"`) {
		c.t.Errorf("the end of the job: %s", got)
	}
	c.call(a, "GET", "/v1/jobs/end", "id=8", "", 404)
	c.call(a, "GET", "/v1/jobs/end", "id=x", "", 400)
}

func (c *caller) captures(a string) {
	resp := c.open(a, "GET", "/v1/capture", "id=mine&keys=1&snaplen=100&ports="+strings.Join(c.channels(a), ","), "", token, 200)
	defer resp.Body.Close()
	c.call(a, "GET", "/v1/capture", "id=mine", "", 409)
	var more []*http.Response
	for range api.MaxCaptures - 1 {
		more = append(more, c.open(a, "GET", "/v1/capture", "", "", token, 200))
	}
	c.call(a, "GET", "/v1/capture", "", "", 503)
	for _, m := range more {
		m.Body.Close()
	}
	c.call(a, "GET", "/v1/capture", "filter=tcp", "", 400)
	c.call(a, "GET", "/v1/capture", "ports=3", "", 422)
	c.call(a, "DELETE", "/v1/capture", "id=mine", "", 204)
	c.read("GET", "/v1/capture", resp)
	c.call(a, "DELETE", "/v1/capture", "id=yours", "", 404)
}

// lonely calls a chip without a running neighbour, without encrypted gossip, and without a
// description of the fabric. Then lonely calls a closed chip whose API still runs.
func (c *caller) lonely() {
	_, addrs, stop, err := startWith("n300", options{first: true})
	if err != nil {
		c.t.Fatal(err)
	}
	a := addrs[0]
	c.call(a, "GET", "/readyz", "", "", 503)
	c.call(a, "GET", "/v1/fabric", "", "", 404)
	c.call(a, "GET", "/v1/gossip/keys", "", "", 422)
	c.call(a, "GET", "/v1/chip", "ready=1ms", "", 200)
	var streams []*http.Response
	for range api.MaxReaders {
		streams = append(streams, c.open(a, "GET", "/v1/events", "", "", token, 200))
	}
	c.call(a, "POST", "/v1/snapshot", "", `{"cut":"00000004"}`, 503)
	c.call(a, "GET", "/v1/chip", "ready=1m", "", 503) // a call that waits until the chip is ready needs an event stream
	for _, resp := range streams {
		resp.Body.Close()
	}
	stop()
	_, addrs, stop, err = startWith("n300", options{first: true, closed: true})
	defer stop()
	if err != nil {
		c.t.Fatal(err)
	}
	a = addrs[0]
	c.call(a, "GET", "/v1/ends", "", "", 503)
	c.call(a, "GET", "/v1/losses", "", "", 503)
	c.call(a, "GET", "/v1/memory", "", "", 503)
	c.call(a, "PUT", "/v1/memory", "", "an image", 503)
	c.call(a, "GET", "/v1/gossip", "", "", 422)
	c.call(a, "DELETE", "/v1/gossip", "", "", 422)
}
