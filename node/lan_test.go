package node_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"ttfabric/node"
	"ttfabric/node/session"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// hands is the largest number of goroutines that handle a frame and its answer, one after another.
// The goroutines are one timer, and the readers in both directions.
const hands = 5

// standstill measures how long this process stands still because no core is free. The returned
// function returns the longest delay of a due goroutine since its previous call.
func standstill(t *testing.T) (worst func() time.Duration) {
	const pulse = time.Millisecond
	var most atomic.Int64
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	go func() {
		for last := time.Now(); ; {
			select {
			case <-over:
				return
			case <-time.After(pulse):
			}
			now := time.Now()
			most.Store(max(most.Load(), int64(now.Sub(last)-pulse)))
			last = now
		}
	}()
	return func() time.Duration {
		time.Sleep(2 * pulse) // let the measuring goroutine run once more
		return time.Duration(most.Swap(0))
	}
}

// retrains returns how often the links of some chips have trained again.
func retrains(ns []*node.Node) (n int) {
	for _, x := range ns {
		s, _ := x.Status()
		for _, p := range s.Ports {
			n += p.Link.Retrains
		}
	}
	return n
}

// TestLANLinksStayUp checks that no link with the default profile goes down under load, and that
// every command is done. The default profile is for chips that have a core each. The test therefore
// measures how long this process stands still. The test judges only periods without a standstill
// that could take a link down.
func TestLANLinksStayUp(t *testing.T) {
	const wanted, most, stretch = 10, 100, 100 * time.Millisecond
	_, _, ns := fabricWith(t, "mesh:2x2", func(c *node.Config) { c.Profile = ttlink.Profile{} })
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	worst := standstill(t)
	data, at := bytes.Repeat([]byte("hasty"), 4000), wire.NewNocAddr(1, 1, 0)
	judged, tries := 0, 0
	for ; judged < wanted && tries < most; tries++ {
		for slices.ContainsFunc(ns, func(n *node.Node) bool { s, _ := n.Status(); return s.PortsUp < len(s.Ports) }) {
			if time.Sleep(time.Millisecond); ctx.Err() != nil {
				t.Fatal("a link stays down")
			}
		}
		worst()
		before, err := retrains(ns), error(nil)
		for end := time.Now().Add(stretch); time.Now().Before(end) && err == nil; {
			for i, a := range ns {
				s, to, got := session.New(a), chipID((i+1+tries)%len(ns)), make([]byte, len(data))
				err = errors.Join(err, s.Write(ctx, to, at, data), s.Read(ctx, to, at, got))
				if err == nil && !bytes.Equal(got, data) {
					t.Fatalf("%s read what it did not write", a.Self())
				}
			}
		}
		time.Sleep(2 * ttlink.ProfileLAN.DeadTraffic) // the links become idle
		down := retrains(ns) - before
		if stood := worst(); stood < ttlink.ProfileLAN.DeadTraffic/hands {
			if judged++; down != 0 || err != nil {
				t.Fatalf("links went down %d times, and commands ended with %v, although this process never stood still for longer than %v", down, err, stood)
			}
		}
	}
	t.Logf("%d of %d stretches judged", judged, tries)
}
