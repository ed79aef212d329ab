package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"ttfabric/node"
	"ttfabric/node/flow"
	"ttfabric/node/session"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// What was lost, what nobody knows of, and whose memory is gone: told exactly, and once.
func TestLostSinceACheckpoint(t *testing.T) {
	m, p, ns := fabric(t, "mesh:1x3")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, at := session.New(ns[0]), wire.NewNocAddr(1, 1, 0)
	write := func(to int) error { return s.Write(ctx, chipID(to), at, []byte("x")) }
	since := func(c session.Checkpoint) session.Losses {
		t.Helper()
		l, err := s.LostSince(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	start, err := s.Checkpoint(ctx)
	if err != nil || len(start.Lives) != 2 || start.Moment.Chip != chipID(0) {
		t.Fatalf("%v: %+v", err, start)
	}
	if err := errors.Join(write(1), write(2), s.MulticastWrite(ctx, session.Line(wire.East, 1, 2), at, []byte("y"))); err != nil {
		t.Fatal(err)
	}
	l := since(start)
	if l.Any() || l.Err() != nil || l.Now.Moment.Ends[0].Fates[flow.FateDone] < 2 {
		t.Errorf("all is well, and %+v", l)
	}

	// The middle one dies with what is on its way to it and through it.
	ns[1].Close()
	failed := map[int][2]uint64{}
	for _, to := range []int{1, 2, 2} {
		var lost *session.LostError
		var unknown *session.OutcomeUnknownError
		n := failed[to]
		switch err := write(to); {
		case errors.As(err, &lost):
			n[0]++
		case errors.As(err, &unknown):
			n[1]++
		default:
			t.Fatalf("a write to %d ended with %v", to, err)
		}
		failed[to] = n
	}
	dead := since(l.Now)
	if len(dead.Peers) != 2 || dead.Restarted {
		t.Fatalf("%+v", dead)
	}
	for i, to := range []int{1, 2} {
		q := dead.Peers[i]
		if q.Chip != chipID(to) || q.Lost != failed[to][0] || q.Unknown != failed[to][1] || q.Restarted || q.Unreachable == "" {
			t.Errorf("of chip %d %v failed, and %+v", to, failed[to], q)
		}
	}
	if text := dead.Err().Error(); !strings.Contains(text, "chip M0D1: 1 requests") || !strings.Contains(text, "unreachable") {
		t.Error(text)
	}

	// It is back, and the last one has never gone away: a checkpoint that was kept on disk knows.
	n, err := node.Start(context.Background(), config(m, p, chipID(1), 2001))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	if err := s.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(l.Now)
	var kept session.Checkpoint
	if err != nil || json.Unmarshal(b, &kept) != nil {
		t.Fatalf("%v: %s", err, b)
	}
	back := since(kept)
	if len(back.Peers) < 2 || !back.Peers[0].Restarted || back.Peers[0].Unreachable != "" || back.Peers[1].Restarted || back.Peers[1].Lost+back.Peers[1].Unknown < 2 {
		t.Errorf("%+v", back.Peers)
	}
	if again := since(back.Now); again.Any() {
		t.Errorf("nothing happened since, and %+v", again)
	}
}

// The chip that asks has itself started anew; and a checkpoint is of one chip.
func TestCheckpointOfAFormerLife(t *testing.T) {
	_, _, ns := fabric(t, "n300")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s := session.New(ns[0])
	c, err := s.Checkpoint(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c.Moment.Incarnation++
	l, err := s.LostSince(ctx, c)
	if err != nil || !l.Restarted || !l.Any() || !strings.Contains(l.Err().Error(), "chip M0D0, the chip of this session, has restarted") {
		t.Errorf("%v: %+v", err, l)
	}
	if _, err := session.New(ns[1]).LostSince(ctx, c); err == nil || !strings.Contains(err.Error(), "of chip M0D0") {
		t.Errorf("asked of another chip: %v", err)
	}
}

// A workload keeps checkpoints, and goes back to the last one when something got lost.
func ExampleRun_checkpoint() {
	machine, _ := topo.Named("n300")
	gossip := newPool() // a real program joins with membership/gossip
	other, err := node.Start(context.Background(), config(machine, gossip, chipID(1), 2))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer other.Close()
	err = node.Run(context.Background(), config(machine, gossip, chipID(0), 1), func(ctx context.Context, s *session.Session) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err := s.Ready(ctx); err != nil {
			return err
		}
		last, err := s.Checkpoint(ctx) // and keep the workload's own state
		if err != nil {
			return err
		}
		for step := range 3 {
			s.Write(ctx, chipID(1), wire.NewNocAddr(1, 1, 0x1000), fmt.Appendf(nil, "step %d", step)) // errors are looked at below
			l, err := s.LostSince(ctx, last)
			if err != nil {
				return err
			}
			if l.Any() {
				return l.Err() // here a workload goes back to its own last state
			}
			last = l.Now
			fmt.Println("step", step, "is safe")
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// step 0 is safe
	// step 1 is safe
	// step 2 is safe
}
