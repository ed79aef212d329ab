package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/session"
	"ttfabric/node/traffic"
	"ttfabric/router/topo"
	"ttfabric/ttlink/fault"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
)

// A program outside the fabric opens a session over a chip's API. The session has the same methods
// as a session inside the chip's process.
func ExampleClient() {
	machine, addrs, stop, err := start()
	defer stop()
	if err != nil {
		fmt.Println(err)
		return
	}
	left, right := machine.Chips[0].Node, machine.Chips[1].Node
	s := session.New(api.NewClient(addrs[0], token, left, machine))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Ready(ctx); err != nil {
		fmt.Println(err)
		return
	}
	tile := wire.NewNocAddr(1, 1, 0)
	if err := s.Write(ctx, right, tile, []byte("from afar")); err != nil {
		fmt.Println(err)
		return
	}
	b := make([]byte, 9)
	err = s.Read(ctx, right, tile, b)
	fmt.Printf("%s %v\n", b, err)
	// Output: from afar <nil>
}

// TestErrorsKeepTheirType checks that sessions over the API return errors of the same types as
// sessions inside the chip's process.
func TestErrorsKeepTheirType(t *testing.T) {
	t.Parallel()
	ctx, c, dst, machine := ready(t)
	s := session.New(c)
	var refused *session.RefusedError
	if err := s.Write(ctx, machine.Chips[1].Node, wire.NewNocAddr(0, 10, 0), []byte("x")); !errors.As(err, &refused) {
		t.Errorf("got %v", err)
	}
	// If the chip does not start a request, the error must not be an OutcomeUnknownError.
	var unknown *session.OutcomeUnknownError
	right, at := dst, wire.NewNocAddr(1, 1, 0)
	for want, err := range map[string]error{
		"plane 9":        s.Write(ctx, right, at, []byte("x"), session.OnPlane(9)),
		"at most 1 hops": s.MulticastWrite(ctx, session.Line(wire.East, 1, 2), at, []byte("x")),
		"not in":         s.Write(ctx, wire.FabricNodeID{Mesh: 7}, at, []byte("x")),
	} {
		if err == nil || errors.As(err, &unknown) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want a refusal with %q", err, want)
		}
	}
}

// TestRemoteMulticast multicasts to several chips over the API. If chips refuse the multicast, the
// error must name each of these chips.
func TestRemoteMulticast(t *testing.T) {
	t.Parallel()
	ctx, c, _, machine := ready(t)
	s := session.New(c)
	at, right := wire.NewNocAddr(1, 1, 0x2000), session.Line(wire.East, 1, 1)
	got := make([]byte, 4)
	if err := s.MulticastWrite(ctx, right, at, []byte("many")); err != nil {
		t.Fatal(err)
	}
	if err := s.Read(ctx, machine.Chips[1].Node, at, got); err != nil || string(got) != "many" {
		t.Errorf("read back %q: %v", got, err)
	}
	var refused *session.RefusedError
	if err := s.MulticastInc(ctx, right, at.Add(1), 1, false); !errors.As(err, &refused) || refused.Dst != machine.Chips[1].Node || refused.Outcome != wire.OutcomeMisaligned {
		t.Errorf("got %v", err)
	}
	if err := s.MulticastWrite(ctx, session.Line(wire.East, 1, 2), at, []byte("many")); err == nil || !strings.Contains(err.Error(), "at most 1 hops east and west") {
		t.Errorf("got %v", err)
	}
}

// TestRemoteTransfer writes and reads 1 MiB over the API. After the transfers, the sockets must
// have counted about as many datagrams as the links have counted frames.
func TestRemoteTransfer(t *testing.T) {
	t.Parallel()
	ctx, c, _, machine := ready(t)
	s := session.New(c)
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	at := wire.NewNocAddr(0, 0, 12345)
	if err := s.Write(ctx, machine.Chips[1].Node, at, data); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(data))
	if err := s.Read(ctx, machine.Chips[1].Node, at, got); err != nil || !bytes.Equal(got, data) {
		t.Errorf("read back: %v", err)
	}

	v, err := c.Chip(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var sent uint64
	for _, l := range v.Links {
		k := l.Socket
		if k.ReceiveBuffer <= 0 || k.ReceiveBufferAsked != transport.DefaultBuffer || k.SendBuffer <= 0 || k.SendBufferAsked != transport.DefaultBuffer ||
			k.Largest < l.Payload+wire.FrameOverhead {
			t.Errorf("channel %d, frames of %d: %+v", l.Channel, l.Payload, k)
		}
		sent += k.Counters["sent"]
	}
	if frames := v.Links[0].Counters["frames_sent"] + v.Links[1].Counters["frames_sent"]; sent < 256 || sent > frames+16 { // the API reads the sockets' counters a moment after the links' counters
		t.Errorf("%d datagrams sent, and %d frames", sent, frames)
	}
}

// TestHealth calls the health checks without a token, and calls for the chip's state with a wrong
// token.
func TestHealth(t *testing.T) {
	t.Parallel()
	ctx, c, _, machine, addr := readyAt(t)
	if _, err := api.NewClient(addr, "wrong", c.Self(), machine).Chip(ctx); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("got %v", err)
	}
	for _, path := range []string{"/livez", "/readyz"} {
		resp, err := http.Get("http://" + addr + path)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s: %v %v", path, resp, err)
		}
		resp.Body.Close()
	}
}

// TestBadBodies sends malformed bodies and invalid requests. The chip must refuse all of them.
func TestBadBodies(t *testing.T) {
	t.Parallel()
	_, _, _, _, addr := readyAt(t)
	for _, body := range []string{"", "{", `{"dst":"M9999D0"}`, `{"dst":3}`, `{"payload":"%%%"}`, `{"multicast":"E0"}`, `{"multicast":"E9"}`, strings.Repeat("x", api.MaxBatchBody+1)} {
		for _, path := range []string{"/v1/requests", "/v1/traffic"} {
			req, _ := http.NewRequest("POST", "http://"+addr+path, strings.NewReader(body))
			req.Header.Set("Authorization", "Bearer "+token)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				continue // the server has closed the connection, because the body is too long
			}
			if resp.StatusCode/100 != 4 {
				t.Errorf("%s %.20q: %s", path, body, resp.Status)
			}
			resp.Body.Close()
		}
	}
}

// TestRemoteTraffic runs traffic between two chips.
func TestRemoteTraffic(t *testing.T) {
	t.Parallel()
	machine, addrs, stop, err := start()
	defer stop()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var cs []*api.Client
	for i, a := range addrs {
		cs = append(cs, api.NewClient(a, token, machine.Chips[i].Node, machine))
	}
	if err := session.New(cs[0]).Ready(ctx); err != nil {
		t.Fatal(err)
	}
	for _, spec := range []traffic.Spec{
		{Run: 7, Pattern: "all-to-all", Packets: 2001, Size: 1000, Planes: 2, Window: 16, Seed: 1},
		{Run: 8, Pattern: "uniform", Packets: 300, Size: 64, Planes: 2, Window: traffic.MaxWindow, Seed: 1, Draw: true, Load: 500},
	} {
		apiRun(ctx, t, machine, cs, spec)
	}
}

// TestEvents reads the chip's history of events. The history must hold the event that each of the
// two links came up.
func TestEvents(t *testing.T) {
	t.Parallel()
	ctx, c, _, _ := ready(t)
	one, cancel := context.WithCancel(ctx)
	defer cancel()
	ups := map[string]bool{} // by port, because a link may have come up twice on a busy machine
	c.Events(one, func(e api.EventView) {
		if e.Type == "link" && e.Action == "up" {
			ups[e.Actor] = true
		}
		if len(ups) == 2 {
			cancel()
		}
		if _, err := json.Marshal(e); err != nil {
			t.Error(err)
		}
	})
	if len(ups) != 2 {
		t.Errorf("channels %v came up in the history, want 2", ups)
	}
}

// TestNetem gives a port an impairment without an end, then changes the impairment for a set
// duration, and removes all impairments. Each change must cause an event.
func TestNetem(t *testing.T) {
	t.Parallel()
	ctx, c, _, _ := ready(t)
	ports, err := c.Netem(ctx)
	if err != nil || len(ports) != 2 || ports[0].Active {
		t.Fatalf("%v: %+v", err, ports)
	}
	ch := ports[0].Channel
	seed, on := uint64(9), true
	want := func(what string, options string, cut bool) {
		t.Helper()
		for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
			v, err := c.Netem(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if v[0].Options == options && v[0].Cut == cut && v[0].Active == (options != "" || cut) && !v[1].Active {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %+v, want %q", what, v, options)
			}
		}
	}
	set := func(b api.NetemBody) {
		t.Helper()
		b.Channels = []wire.Channel{ch}
		if err := c.SetNetem(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	set(api.NetemBody{Options: fault.Change{"loss": "7%", "delay": "1ms"}, Seed: &seed})
	want("set", "delay=1ms,loss=7%", false)
	set(api.NetemBody{Options: fault.Change{"delay": "2ms", "rate": "1Gbit"}, ForS: 3600})
	want("set for a duration", "delay=2ms,loss=7%,rate=1Gbit", false)
	set(api.NetemBody{Options: fault.Change{"rate": "0"}})
	want("set an option that has a duration", "delay=2ms,loss=7%", false)
	set(api.NetemBody{Options: fault.Change{"delay": "2ms"}, ForS: .05})
	want("the duration is over", "delay=1ms,loss=7%", false)
	set(api.NetemBody{Cut: &on, ForS: .05})
	want("the cut has ended by itself", "delay=1ms,loss=7%", false)
	set(api.NetemBody{Cut: &on})
	if err := c.ResetNetem(ctx, ch); err != nil {
		t.Fatal(err)
	}
	want("a cut stays", "", true)
	on = false
	set(api.NetemBody{Cut: &on})
	want("all faults are removed", "", false)
	for _, b := range []api.NetemBody{{Channels: []wire.Channel{ch}, Options: fault.Change{"speed": "1"}}, {Channels: []wire.Channel{ch}, Options: fault.Change{"loss": "7%"}, ForS: -1},
		{Channels: []wire.Channel{3}, Cut: &on}, {Channels: []wire.Channel{200}, Cut: &on}, {}, {Cut: &on}, {Channels: []wire.Channel{ch}},
		{Channels: []wire.Channel{ch, 3}, Options: fault.Change{"loss": "7%"}}} {
		if err := c.SetNetem(ctx, b); err == nil {
			t.Errorf("%+v was taken", b)
		}
	}
	want("refused calls change nothing", "", false)
	if err := c.TellFault(ctx, fault.KindKilled, ports[0].Peer); err != nil {
		t.Error(err)
	}
	// The chip publishes an impairment of the kernel, and injects no fault itself.
	if err := errors.Join(c.TellImpairment(ctx, ch, fault.Options{Loss: .25}, 0), c.TellImpairment(ctx, ch, fault.Options{}, 0)); err != nil {
		t.Error(err)
	}
	if err := c.TellImpairment(ctx, 3, fault.Options{Loss: .25}, 0); err == nil {
		t.Error("an impairment at a channel without a cable was published")
	}
	want("the kernel's", "", false)
	one, cancel := context.WithCancel(ctx)
	defer cancel()
	var told []string
	kernel := 0
	c.Events(one, func(e api.EventView) {
		if e.Type == "fault" {
			told = append(told, e.Action)
			if e.Detail["backend"] == "kernel" {
				kernel++
			}
			if kernel == 2 {
				cancel()
			}
		}
	})
	if got := strings.Join(told, " "); got != "set set set set set cut restored cut reset restored killed set reset" || kernel != 2 {
		t.Errorf("the events are %s, %d of them with the backend kernel", got, kernel)
	}
}

// apiRun runs traffic to its end, and checks the merged report of all chips.
func apiRun(ctx context.Context, t *testing.T, machine *topo.Topology, cs []*api.Client, spec traffic.Spec) {
	t.Helper()
	p, _ := traffic.PatternByName(spec.Pattern)
	pairs, err := p.Pairs(machine, traffic.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, send := range []bool{false, true} {
		for _, c := range cs {
			if err := c.StartTraffic(ctx, api.TrafficStart{Spec: spec, Pairs: pairs, Send: send}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for last := false; ; {
		var reports []traffic.Report
		done := true
		for _, c := range cs {
			r, err := c.Traffic(ctx, 0)
			if err != nil {
				t.Fatal(err)
			}
			reports = append(reports, r)
			done = done && r.Finished
		}
		if done && !last { // read all reports once more, because a chip may have received packets after its report
			last = true
			continue
		}
		if done {
			res := traffic.Merge(spec, pairs, reports)
			if !res.OK() {
				t.Errorf("%+v", res.Total)
			}
			// The offered load counts packets that enter the queue of their source. A busy machine
			// delays packets, but does not change the offered load.
			for _, c := range cs {
				if err := c.StopTraffic(ctx, spec.Run); err != nil {
					t.Error(err)
				}
			}
			if want := spec.Load * float64(len(cs)); want > 0 && math.Abs(res.Total.OfferedRate/want-1) > 0.3 {
				t.Errorf("%v packets per second were offered, want about %v", res.Total.OfferedRate, want)
			}
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
