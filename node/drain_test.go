package node_test

import (
	"context"
	"errors"
	"testing"

	"ttfabric/node"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// TestDrain checks that a draining chip refuses new requests but still forwards packets of other
// chips.
func TestDrain(t *testing.T) {
	t.Parallel()
	_, _, ns := fabric(t, "mesh:1x3")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	at := wire.NewNocAddr(1, 1, 0)
	ns[1].Drain(true)
	var leaving *node.LeavingError
	if err := session.New(ns[1]).Write(ctx, chipID(0), at, []byte("new")); !errors.As(err, &leaving) {
		t.Errorf("%v; want a LeavingError", err)
	}
	if err := session.New(ns[0]).Write(ctx, chipID(2), at, []byte("through")); err != nil {
		t.Error(err)
	}
	ns[1].Drain(false)
	if err := session.New(ns[1]).Write(ctx, chipID(0), at, []byte("again")); err != nil {
		t.Error(err)
	}
}
