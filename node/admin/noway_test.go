package admin_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/session"
	"ttfabric/router/route"
)

// TestNoWayFromAfar calls Ready over the API in a fabric that has no route to one of its chips.
// Ready must return the error at once.
func TestNoWayFromAfar(t *testing.T) {
	machine, addrs, stop, err := startWith("mesh:2x2", options{routes: route.Config{Lines: true}})
	defer stop()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var none *session.NoRouteError
	err = session.New(api.NewClient(addrs[0], token, machine.Chips[0].Node, machine)).Ready(ctx)
	if !errors.As(err, &none) || none.Dst != machine.Chips[3].Node {
		t.Errorf("%v", err)
	}
	if at, _ := ctx.Deadline(); time.Until(at) < patience/2 {
		t.Error("Ready returned only after a long wait")
	}
}
