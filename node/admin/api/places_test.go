package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync"
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// TestTargets compares the targets of batches. Batches with equal targets share the places of a target.
func TestTargets(t *testing.T) {
	chip := func(c wire.ChipID) flow.Request { return flow.Request{Dst: wire.FabricNodeID{Chip: c}} }
	members := func(cs ...wire.ChipID) flow.Request { return flow.Request{Members: wire.MembersOf(cs...)} }
	east := flow.Request{Ranges: wire.Ranges{Hops: [wire.NumDirections]uint8{1}}}
	elsewhere := members(1, 2)
	elsewhere.Dst = wire.FabricNodeID{Mesh: 1, Chip: 5}
	same := elsewhere
	same.Dst.Chip = 0
	for i, x := range []struct {
		a, b []flow.Request
		same bool
	}{
		{[]flow.Request{chip(0)}, []flow.Request{chip(0), chip(0)}, true},
		{[]flow.Request{chip(0)}, []flow.Request{chip(1)}, false},
		{[]flow.Request{chip(0)}, []flow.Request{members(1, 2)}, false}, // a multicast to members has Dst 0
		{[]flow.Request{chip(0)}, []flow.Request{east}, false},
		{[]flow.Request{members(1, 2)}, []flow.Request{members(1, 2)}, true},
		{[]flow.Request{members(1, 2)}, []flow.Request{members(1, 3)}, false},
		{[]flow.Request{members(1, 2)}, []flow.Request{elsewhere}, false},
		{[]flow.Request{same}, []flow.Request{elsewhere}, true},
		{[]flow.Request{members(1, 2)}, []flow.Request{east}, false},
		{[]flow.Request{chip(0), chip(1)}, []flow.Request{chip(1), chip(0), chip(1)}, true},
		{[]flow.Request{chip(0), chip(1)}, []flow.Request{chip(0), chip(2)}, false},
		{[]flow.Request{chip(0), chip(1)}, []flow.Request{members(0, 1)}, false},
		{[]flow.Request{members(1, 2), chip(3)}, []flow.Request{members(1, 2), chip(4)}, false},
	} {
		if got := targetOf(x.a) == targetOf(x.b); got != x.same {
			t.Errorf("row %d: equal targets %v, want %v", i, got, x.same)
		}
	}
}

// TestPlaces fills the places of a target, and then all places.
func TestPlaces(t *testing.T) {
	p := newBatchPlaces()
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := p.take(ended, target{}); err == nil {
		t.Error("a place after the end of the context")
	}
	take := func(to target, want bool) func() {
		t.Helper()
		p.mu.Lock()
		full := len(p.all) == maxBatches || p.to[to] != nil && len(p.to[to].places) == maxBatchesTo
		p.mu.Unlock()
		if full == want {
			t.Fatalf("%v: %d batches under way, a free place: %v", to.dst, len(p.all), !full)
		}
		if !want {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if _, err := p.take(ctx, to); err == nil {
				t.Fatalf("%v got a place beyond the limit", to.dst)
			}
			return nil
		}
		leave, err := p.take(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		return leave
	}
	to := func(c int) target { return target{dst: wire.FabricNodeID{Chip: wire.ChipID(c)}} }
	var leave []func()
	for i := range maxBatches {
		leave = append(leave, take(to(i/maxBatchesTo), true))
	}
	take(to(0), false)
	take(to(1000), false)
	for _, f := range leave[:maxBatchesTo] {
		f()
	}
	leave = append(leave[maxBatchesTo:], take(to(1000), true))
	take(to(1), false)
	for _, f := range leave {
		f()
	}
	if len(p.to) != 0 || len(p.all) != 0 {
		t.Errorf("without batches, %d targets and %d batches are left", len(p.to), len(p.all))
	}
}

// TestMoreBatchesThanTheChipTakes submits batches to many destinations at once. The chip takes at most
// MaxBatches batches at once. The chip must refuse no batch, and all batches must get their results.
func TestMoreBatchesThanTheChipTakes(t *testing.T) {
	t.Parallel()
	const all = 31 * maxBatchesTo // more than MaxBatches
	var mu sync.Mutex
	open, most := 0, 0
	full, release := make(chan struct{}), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		open++
		if most = max(most, open); open == maxBatches {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		mu.Unlock()
		<-release
		mu.Lock()
		open--
		mu.Unlock()
		fmt.Fprint(w, `{"started":1}`+"\n"+`{"index":0,"fate":"done"}`+"\n")
	}))
	defer srv.Close()
	c := clientOf(t, srv)
	var calls sync.WaitGroup
	for i := range all {
		calls.Go(func() {
			done := make(chan flow.Result, 1)
			n, err := c.Submit(t.Context(), []flow.Request{{Dst: wire.FabricNodeID{Chip: wire.ChipID(i / maxBatchesTo)}, Probe: true}}, func(_ int, r flow.Result) { done <- r })
			if n != 1 || err != nil {
				t.Errorf("batch %d: %d started, %v", i, n, err)
				return
			}
			if r := <-done; r.Fate != flow.FateDone {
				t.Errorf("batch %d: %+v", i, r)
			}
		})
	}
	<-full
	time.Sleep(100 * time.Millisecond) // time for further batches to arrive, which the limit for all batches must prevent
	close(release)
	calls.Wait()
	if most > maxBatches {
		t.Errorf("%d batches were under way at once, want at most %d", most, maxBatches)
	}
}

func clientOf(t *testing.T, srv *httptest.Server) *Client {
	t.Helper()
	machine, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	return NewClient(srv.Listener.Addr().String(), "", machine.Nodes()[0], machine)
}

// TestAFullChip submits to a chip that has no place for the first tries, because of another client. The
// batch must start when the chip has a place. If the context ends first, no request counts as started.
func TestAFullChip(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	tries, free := 0, 3
	refused := make(chan struct{}, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if tries++; tries < free {
			w.Header().Set("Content-Type", MediaProblem)
			w.WriteHeader(http.StatusServiceUnavailable)
			json.NewEncoder(w).Encode(Problem{Type: "about:blank", Status: http.StatusServiceUnavailable, Detail: "full"})
			refused <- struct{}{}
			return
		}
		fmt.Fprint(w, `{"started":1}`+"\n"+`{"index":0,"fate":"done"}`+"\n")
	}))
	defer srv.Close()
	c := clientOf(t, srv)
	done := make(chan flow.Result, 1)
	probe := []flow.Request{{Dst: wire.FabricNodeID{Chip: 1}, Probe: true}}
	if n, err := c.Submit(t.Context(), probe, func(_ int, r flow.Result) { done <- r }); n != 1 || err != nil {
		t.Fatalf("%d started, %v", n, err)
	}
	r := <-done
	mu.Lock()
	if r.Fate != flow.FateDone || tries != free {
		t.Errorf("%+v after %d tries", r, tries)
	}
	free = 1 << 30
	for len(refused) > 0 {
		<-refused
	}
	mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-refused
		cancel()
	}()
	if n, err := c.Submit(ctx, probe, func(int, flow.Result) { t.Error("a result of a request that was not started") }); n != 0 || !reflect.DeepEqual(err, context.Canceled) {
		t.Errorf("%d started, %v", n, err)
	}
}
