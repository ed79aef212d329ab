package admin_test

import (
	"context"
	"testing"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// TestCheckpointsOverTheAPI takes a checkpoint of all chips, and a checkpoint of a
// session outside of the fabric.
func TestCheckpointsOverTheAPI(t *testing.T) {
	t.Parallel()
	machine, addrs, stop, err := start()
	defer stop()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var cs []*api.Client
	for i, a := range addrs {
		cs = append(cs, api.NewClient(a, token, machine.Chips[i].Node, machine))
	}
	s := session.New(cs[0])
	if err := s.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	one, err := s.Checkpoint(ctx)
	if err != nil || len(one.Lives) != 1 {
		t.Fatalf("%v: %+v", err, one)
	}
	all, err := fabric.TakeCheckpoint(ctx, cs)
	if err != nil || len(all.Chips) != 2 || one.Lives[machine.Chips[1].Node] != all.Chips[1].Incarnation {
		t.Fatalf("%v: %+v; of a session: %+v", err, all, one)
	}
	right := machine.Chips[1].Node
	if err := s.Write(ctx, right, wire.NewNocAddr(1, 1, 0), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if l, err := s.LostSince(ctx, one); err != nil || l.Any() {
		t.Errorf("%v: %+v", err, l)
	}
	if l := fabric.LostSince(ctx, cs, all); l.Any() || len(l.Now.Chips) != 2 {
		t.Errorf("%+v", l)
	}

	all.Chips[1].Incarnation++
	all.Chips[0].Ends = nil
	l := fabric.LostSince(ctx, cs[1:], all)
	if len(l.Restarted) != 1 || l.Restarted[0] != right || len(l.Silent) != 1 || l.Silent[0] != machine.Chips[0].Node {
		t.Errorf("%+v", l)
	}
	cut := true
	for i, c := range cs {
		for _, p := range machine.Ports(machine.Chips[i].Node) {
			if err := c.SetNetem(ctx, api.NetemBody{Channels: []wire.Channel{p.Local.Channel}, Cut: &cut}); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := fabric.LostSince(ctx, cs, all).Now
	if err := s.Write(ctx, right, wire.NewNocAddr(1, 1, 0), []byte("x")); err == nil {
		t.Error("a write over a cut cable ended as done")
	}
	l = fabric.LostSince(ctx, cs, before)
	if len(l.Flows) != 1 || l.Flows[0].Src != machine.Chips[0].Node || l.Flows[0].Dst != right || l.Flows[0].Lost+l.Flows[0].Unknown != 1 || l.Flows[0].Open != 0 {
		t.Errorf("a write was lost: %+v", l)
	}
	stop()
	if _, err := fabric.TakeCheckpoint(ctx, cs); err == nil {
		t.Error("a checkpoint succeeded although a chip does not answer")
	}
}
