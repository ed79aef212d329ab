package node_test

import (
	"context"
	"errors"
	"testing"

	"ttfabric/node"
	"ttfabric/node/chip"
	"ttfabric/node/flow"
	"ttfabric/node/session"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// TestAwait waits in the chip's process for a word that another chip changes.
func TestAwait(t *testing.T) {
	_, _, ns := fabricWith(t, "n300", func(*node.Config) {})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, other, at := session.New(ns[0]), session.New(ns[1]), wire.NewNocAddr(1, 1, 0x40)
	if err := s.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	words := make(chan uint32, 1)
	if _, err := ns[0].StartAwait(at, session.AtLeast, 5, func(word uint32, err error) { words <- word }); err != nil {
		t.Fatal(err)
	}
	for _, add := range []uint32{4, 3} {
		if len(words) != 0 {
			t.Fatal("the wait ended before the word reached the value")
		}
		if err := other.AtomicInc(ctx, ns[0].Self(), at, add, false); err != nil {
			t.Fatal(err)
		}
	}
	if w := <-words; w != 7 {
		t.Errorf("the wait ended with %d, want 7", w)
	}
	stop, err := ns[0].StartAwait(at, session.Equal, 8, func(uint32, error) { t.Error("a wait ended after its end") })
	if err != nil || !stop() || stop() {
		t.Errorf("the wait cannot be ended exactly once: %v", err)
	}
	if err := other.InlineWrite(ctx, ns[0].Self(), at, 8); err != nil {
		t.Fatal(err)
	}
	var refused *session.RefusedError
	if _, err := ns[0].Await(ctx, at.Add(2), session.Equal, 0); !errors.As(err, &refused) || refused.Outcome != wire.OutcomeMisaligned {
		t.Errorf("an address that is no multiple of 4: %v", err)
	}
	ended := make(chan error, 1)
	go func() { _, err := ns[0].Await(ctx, at, session.Equal, 99); ended <- err }()
	if err := ns[0].Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, node.ErrClosed) {
		t.Errorf("a wait on a closed chip: %v", err)
	}
}

// TestCloseEndsOpenRequests closes a chip that waits for the answers of a chip that is silent. All requests
// must end at once with an unknown outcome.
func TestCloseEndsOpenRequests(t *testing.T) {
	_, _, ns := fabricWith(t, "n300", func(*node.Config) {})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := session.New(ns[0]).Ready(ctx); err != nil {
		t.Fatal(err)
	}
	dst := ns[1].Self()
	silent, release := make(chan struct{}), make(chan struct{})
	go ns[1].WithChip(func(mono.Time, *chip.Chip) { // the chip answers nobody meanwhile
		close(silent)
		<-release
	})
	<-silent
	defer close(release)
	const n = 300
	rs := make([]flow.Request, n)
	for i := range rs {
		rs[i] = flow.Request{Dst: dst, Token: uint64(i), Command: wire.Command{Type: wire.NocInlineWrite, Addr: wire.NewNocAddr(1, 1, 0x40), Value: 1}}
	}
	type end struct {
		i   int
		res flow.Result
	}
	ends := make(chan end, 2*n)
	started, err := ns[0].Submit(ctx, rs[:1], func(i int, r flow.Result) { ends <- end{i, r} })
	if err != nil {
		t.Fatal(err)
	}
	more := make(chan int, 1)
	go func() {
		k, err := ns[0].Submit(ctx, rs, func(i int, r flow.Result) { ends <- end{i, r} })
		if err != nil && !errors.Is(err, node.ErrClosed) {
			t.Errorf("Submit on a chip that closes: %v", err)
		}
		more <- k
	}()
	read := make(chan error, 1)
	go func() { read <- session.New(ns[0]).Read(ctx, dst, wire.NewNocAddr(1, 1, 0x40), make([]byte, 4)) }()
	if err := ns[0].Close(); err != nil {
		t.Error(err)
	}
	started += <-more
	if len(ends) != started {
		t.Errorf("%d of %d requests have ended", len(ends), started)
	}
	for range len(ends) {
		if e := <-ends; e.res.Fate != flow.FateUnknown || !errors.Is(e.res.Err, node.ErrClosed) || e.res.Dst != dst {
			t.Fatalf("request %d ended as %+v", e.i, e.res)
		}
	}
	if err := <-read; !errors.Is(err, node.ErrClosed) || ctx.Err() != nil {
		t.Errorf("a read on a chip that closes: %v", err)
	}
}
