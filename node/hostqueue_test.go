package node_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"ttfabric/node/firmware"
	"ttfabric/node/firmware/host"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// TestHostQueues reads and writes the memory of both chips of an n300 through the queues of a tile without a cable. The
// bytes must be those that a session sees. The state then shows all requests as ended.
func TestHostQueues(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, _, ns := fabric(t, "n300")
	s, r := session.New(ns[0]), rand.New(rand.NewPCG(1, 2))
	q, err := host.Open(s, 10)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		for _, n := range []int{0, 4, 36, 2000, 5000} {
			at := wire.NewNocAddr(1, 1, uint64(0x20000+4*r.IntN(100)))
			b, got, back := make([]byte, n), make([]byte, n), make([]byte, n)
			for k := range b {
				b[k] = byte(r.Uint32())
			}
			if err := errors.Join(q.Write(ctx, chipID(i), at, b), s.Read(ctx, chipID(i), at, got), q.Read(ctx, chipID(i), at, back)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, b) || !bytes.Equal(back, b) {
				t.Errorf("%s: %d bytes at %s differ", chipID(i), n, at)
			}
		}
	}
	st, err := q.State(ctx)
	if err != nil || st.Channel != 10 || st.Errors != 0 || st.Writes.Accepted == 0 || st.Writes.Accepted != st.Writes.Ended || st.Reads.Accepted == 0 || st.Reads.Accepted != st.Reads.Ended || st.Requests.Waiting+st.Completions.Waiting != 0 {
		t.Errorf("%+v, %v", st, err)
	}
	var refused *host.RequestError
	for _, err := range []error{q.Read(ctx, chipID(1), wire.NewNocAddr(0, 13, 0), make([]byte, 4)), q.Write(ctx, chipID(1), wire.NewNocAddr(0, 13, 0), make([]byte, 4))} {
		if !errors.As(err, &refused) || refused.Unreachable {
			t.Errorf("a tile that does not exist: %v", err)
		}
	}
	if err := q.Read(ctx, chipID(1), wire.NewNocAddr(1, 1, 2), make([]byte, 4)); err == nil || errors.As(err, &refused) && err == refused {
		t.Errorf("a misaligned address: %v", err)
	}
}

// TestHostQueuesInUse leaves a completion in the queue. The queue then belongs to another host, until the completion is popped.
func TestHostQueuesInUse(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, _, ns := fabric(t, "n300")
	q, err := host.Open(session.New(ns[0]), 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Push(ctx, firmware.Entry{Target: firmware.NewTarget(0, 0, wire.NewNocAddr(1, 1, 0)), Flags: firmware.RdReq}, nil); err != nil {
		t.Fatal(err)
	}
	var busy *host.BusyError
	if err := q.Read(ctx, chipID(0), wire.NewNocAddr(1, 1, 0), make([]byte, 4)); !errors.As(err, &busy) {
		t.Fatalf("a queue in use: %v", err)
	}
	st, err := q.State(ctx)
	for ; err == nil && !slices.Contains(st.Completions.Slots[0].Flags, "RD_DATA"); st, err = q.State(ctx) {
	}
	if err != nil || !slices.Equal(st.Requests.Slots[0].Flags, []string{"RD_REQ"}) || st.Completions.Waiting != 1 || !st.Completions.Slots[0].Waits || st.Completions.Slots[1].Waits {
		t.Errorf("%+v, %v", st, err)
	}
	if e, _, err := q.Pop(ctx, 0); err != nil || e.Flags != firmware.RdData {
		t.Errorf("%+v, %v", e, err)
	}
	if err := q.Read(ctx, chipID(1), wire.NewNocAddr(1, 1, 0), make([]byte, 4)); err != nil {
		t.Errorf("after the completion was popped: %v", err)
	}
}
