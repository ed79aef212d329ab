package node_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"ttfabric/node"
	"ttfabric/node/session"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// TestWatch checks that a program gets events when a chip becomes unreachable and when the chip is
// reachable again. Requests to the unreachable chip must fail at once.
func TestWatch(t *testing.T) {
	m, err := topo.Named("line:3")
	if err != nil {
		t.Fatal(err)
	}
	p := newPool()
	var ns []*node.Node
	for i := range 3 {
		n, err := node.Start(context.Background(), config(m, p, chipID(i), wire.Incarnation(900+i)))
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		ns = append(ns, n)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s := session.New(ns[0])
	if err := s.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var heard []session.Event
	watch, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- s.Watch(watch, func(e session.Event) {
			mu.Lock()
			heard = append(heard, e)
			mu.Unlock()
		})
	}()
	has := func(f func(session.Event) bool) bool {
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			mu.Lock()
			found := slices.ContainsFunc(heard, f)
			mu.Unlock()
			if found {
				return true
			}
		}
		return false
	}
	far := chipID(2)
	ns[2].Close()
	if !has(func(e session.Event) bool {
		return e.Kind == session.TablesChanged && slices.Contains(e.Unreachable, far)
	}) {
		t.Fatalf("no event says that %s is unreachable: %+v", far, heard)
	}
	if err := s.Write(ctx, far, wire.NewNocAddr(1, 1, 0), []byte("lost")); !errors.Is(err, session.ErrUnreachable) {
		t.Errorf("a write to the unreachable chip: %v", err)
	}
	mu.Lock()
	heard = nil // discard earlier events of tables without a fault
	mu.Unlock()
	n, err := node.Start(context.Background(), config(m, p, far, 1903))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if !has(func(e session.Event) bool { return e.Kind == session.TablesChanged && len(e.Unreachable) == 0 }) {
		t.Fatalf("no event says that %s is reachable again: %+v", far, heard)
	}
	if err := s.Write(ctx, far, wire.NewNocAddr(1, 1, 0), []byte("there")); err != nil {
		t.Errorf("a write to the chip that is reachable again: %v", err)
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch ended with %v", err)
	}
}
