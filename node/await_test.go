package node_test

import (
	"context"
	"errors"
	"testing"

	"ttfabric/node"
	"ttfabric/node/session"
	"ttfabric/wire"
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
