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

// TestLostSinceACheckpoint checks that LostSince reports exactly the lost requests, the requests of
// unknown fate, and the restarted chips since a checkpoint.
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
		t.Errorf("no request failed, but LostSince reports %+v", l)
	}

	// Chip 1, in the middle, dies. Writes to chip 1 and through chip 1 must fail.
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
			t.Errorf("chip %d: %v writes were lost and unknown, but LostSince reports %+v", to, failed[to], q)
		}
	}
	if text := dead.Err().Error(); !strings.Contains(text, "chip M0D1: 1 requests") || !strings.Contains(text, "unreachable") {
		t.Error(text)
	}

	// Chip 1 restarts, and chip 2 has run all the time. Given an earlier checkpoint that went
	// through JSON, LostSince must report that only chip 1 has restarted.
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
		t.Errorf("nothing happened since the checkpoint, but LostSince reports %+v", again)
	}
}

// TestCheckpointOfAFormerLife gives LostSince a checkpoint of an earlier incarnation of the asking
// chip. LostSince must report the restart. LostSince must also refuse a checkpoint of another chip.
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
		t.Errorf("a checkpoint of another chip: %v", err)
	}
}

// The workload takes a checkpoint after each step. If a request of a step was lost, the workload
// can return to the last checkpoint.
func ExampleRun_checkpoint() {
	machine, _ := topo.Named("n300")
	gossip := newPool() // a real program joins the gossip pool with membership/gossip
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
		last, err := s.Checkpoint(ctx) // a real workload saves its own state here too
		if err != nil {
			return err
		}
		for step := range 3 {
			s.Write(ctx, chipID(1), wire.NewNocAddr(1, 1, 0x1000), fmt.Appendf(nil, "step %d", step)) // LostSince finds errors below
			l, err := s.LostSince(ctx, last)
			if err != nil {
				return err
			}
			if l.Any() {
				return l.Err() // a real workload returns to its saved state here
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
