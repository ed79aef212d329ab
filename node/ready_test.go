package node_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"ttfabric/node"
	"ttfabric/node/session"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// TestReadyWithoutAWay calls Ready in a fabric that has no route to one of its chips. Ready must at
// once return an error that names this chip.
func TestReadyWithoutAWay(t *testing.T) {
	m, err := topo.Named("mesh:2x2")
	if err != nil {
		t.Fatal(err)
	}
	p := newPool()
	var ns []*node.Node
	for i, c := range m.Chips {
		cfg := config(m, p, c.Node, wire.Incarnation(1000+i))
		cfg.Route.Lines = true
		n, err := node.Start(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		ns = append(ns, n)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err = session.New(ns[0]).Ready(ctx)
	var none *session.NoRouteError
	if !errors.As(err, &none) || none.Src != chipID(0) || none.Dst != chipID(3) || !errors.Is(err, session.ErrUnreachable) {
		t.Errorf("%v", err)
	}
	if at, _ := ctx.Deadline(); time.Until(at) < patience/2 {
		t.Error("Ready returned only after a long wait")
	}
}
