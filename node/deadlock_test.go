package node_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"ttfabric/node"
	"ttfabric/node/session"
	"ttfabric/router"
	"ttfabric/router/route"
	"ttfabric/wire"
)

// circle is traffic whose packets can wait for each other in a cycle. Chip i writes to chip to[i].
type circle struct {
	machine string       // name of the topology
	unsafe  route.Config // routes that can deadlock
	to      []int
	via     []wire.Direction // directions that each packet takes; none: by the tables
}

// Two examples of traffic that can deadlock. The first is "Cyclic Dependency Deadlock" of Spec
// §6.1. On a square, packets go D1 → D4, D2 → D3, D3 → D2 and D4 → D1, by routes without an order
// of dimensions. In the second, packets go three hops round a ring without a dateline or bubbles.
var (
	square = circle{machine: "mesh:2x2", unsafe: route.Config{Order: route.NoOrder}, to: []int{3, 2, 1, 0}}
	around = circle{machine: "ring:4", unsafe: route.Config{Ring: route.NoRing}, to: []int{3, 0, 1, 2},
		via: []wire.Direction{wire.East, wire.East, wire.East}}
)

// start starts the chips of the machine. Each chip sends its own packets before packets that pass
// through (LocalFirst).
func (c circle) start(t *testing.T, cfg route.Config, timeout router.Timeout) []*node.Node {
	if testing.Short() {
		t.Skip("waits for a deadlock")
	}
	_, _, ns := fabricWith(t, c.machine, func(n *node.Config) { n.Route, n.LocalFirst, n.Timeout = cfg, true, timeout })
	return ns
}

// round makes every chip write 1 MiB at the same time, and returns the errors. If the cores are
// busy, a round can end without a deadlock.
func (c circle) round(ctx context.Context, ns []*node.Node) error {
	errs := make([]error, len(ns))
	var wg sync.WaitGroup
	for i := range ns {
		wg.Go(func() {
			var o []session.Option
			if c.via != nil {
				o = append(o, session.Via(c.via...))
			}
			errs[i] = session.New(ns[i]).Write(ctx, chipID(c.to[i]), wire.NewNocAddr(1, 1, 0), make([]byte, 1<<20), o...)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// counted returns the timeouts and the performed packets of all chips.
func counted(ns []*node.Node) (timeouts, performed uint64) {
	for _, x := range ns {
		s, _ := x.Status()
		timeouts, performed = timeouts+s.Counters.Timeouts, performed+s.Counters.Performed
	}
	return timeouts, performed
}

// standsStill runs rounds until a round deadlocks: the routers have counted timeouts, and for two
// seconds no chip performs a packet. The deadlock must last until the writes are cancelled.
func (c circle) standsStill(t *testing.T, ns []*node.Node) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		err := error(nil)
		for err == nil {
			err = c.round(ctx, ns)
		}
		ended <- err
	}()
	before, last := counted(ns)
	for still := 0; still < 2; { // seconds
		select {
		case err := <-ended:
			t.Fatalf("no deadlock, or the deadlock ended by itself: %v", err)
		case <-time.After(time.Second):
		}
		timeouts, performed := counted(ns)
		if still++; timeouts == before || performed != last {
			still = 0
		}
		last = performed
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a deadlock ended by itself: %v", err)
	}
}

// TestDeadlocksLive runs the same traffic over real sockets with unsafe and with safe routes. With
// unsafe routes the traffic must deadlock, and with safe routes it must end.
func TestDeadlocksLive(t *testing.T) {
	for _, c := range []struct {
		name string
		circle
		safe []route.Config
	}{
		{"square", square, []route.Config{{}, {Order: route.YX}}},
		{"ring", around, []route.Config{{Ring: route.Dateline}, {Ring: route.Bubble}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.standsStill(t, c.start(t, c.unsafe, router.Timeout{After: 500 * time.Millisecond}))
		})
		for _, cfg := range c.safe {
			t.Run(fmt.Sprint(c.name, " ", cfg.Order, " ", cfg.Ring), func(t *testing.T) {
				t.Parallel()
				ns := c.start(t, cfg, router.Timeout{After: 500 * time.Millisecond})
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				for range 4 {
					if err := c.round(ctx, ns); err != nil {
						t.Fatalf("a round with safe routes failed: %v", err)
					}
				}
			})
		}
	}
}

// TestDeadlockIsDroppedLive checks that a timeout with Drop and Drain ends a deadlock, and that the
// sources learn of the lost packets.
func TestDeadlockIsDroppedLive(t *testing.T) {
	ns := square.start(t, square.unsafe, router.Timeout{After: 50 * time.Millisecond, Drop: true, Drain: true})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	before, _ := counted(ns)
	var lost *session.LostError
	for !errors.As(square.round(ctx, ns), &lost) {
		if ctx.Err() != nil {
			t.Fatal("no packet was dropped, or no source learned of a dropped packet")
		}
	}
	if ctx.Err() != nil {
		t.Error("the remaining packets did not move after the drop")
	}
	if timeouts, _ := counted(ns); timeouts == before {
		t.Errorf("a packet was lost without a counted timeout: %v", lost)
	}
}

// TestSpecificationsTTLLive runs the example of Spec §7.2. A packet circles by D5 D6 D7 D11 D10 D9
// D5 D6 D7. D11 must drop the packet, and the source must learn of the drop.
func TestSpecificationsTTLLive(t *testing.T) {
	_, _, ns := fabricWith(t, "mesh:4x4", func(c *node.Config) { c.TTL = 10 })
	via := []wire.Direction{wire.South}
	for range 3 {
		via = append(via, wire.East, wire.East, wire.South, wire.West, wire.West, wire.North)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	type hop struct {
		device int
		dir    wire.Direction
	}
	sent := func() map[hop]uint64 {
		hops := map[hop]uint64{}
		for i, x := range ns {
			s, _ := x.Status()
			for _, p := range s.Ports {
				hops[hop{i + 1, p.Dir}] += p.Router.Classes[wire.ClassRequest].Sent
			}
		}
		return hops
	}
	probes := func() uint64 {
		s, _ := ns[0].Status()
		return s.Counters.Probes
	}
	want := map[hop]uint64{{1, wire.South}: 1, {5, wire.East}: 2, {6, wire.East}: 2, {7, wire.South}: 2, {11, wire.West}: 1, {10, wire.West}: 1, {9, wire.North}: 1}
	for {
		before, probed := sent(), probes()
		err := session.New(ns[0]).Write(ctx, chipID(4), wire.NewNocAddr(1, 1, 0), []byte("loop"), session.Via(via...))
		var lost *session.LostError
		if !errors.As(err, &lost) || lost.Reason != wire.DropTTL || lost.At != chipID(10) {
			t.Fatalf("the write ended with %v; want a drop at D11 because the TTL was used up", err)
		}
		if probes() != probed && ctx.Err() == nil {
			continue // the report came so late, on a busy machine, that a probe followed the packet
		}
		got := sent()
		for h, n := range before {
			if got[h] -= n; got[h] == 0 {
				delete(got, h)
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("packets sent by devices: %v, want %v", got, want)
		}
		return
	}
}

// TestTopologiesLive writes and reads between all pairs of chips, over real sockets, on rings, tori
// and a machine of two meshes.
func TestTopologiesLive(t *testing.T) {
	for _, c := range []struct {
		name string
		ring route.Ring
	}{{"ring:5", route.Dateline}, {"torus:3x3", route.Dateline}, {"torus:3x3", route.Bubble}, {"2xt3000", route.Dateline}} {
		t.Run(c.name+" "+c.ring.String(), func(t *testing.T) {
			_, _, ns := fabricWith(t, c.name, func(cfg *node.Config) { cfg.Route.Ring = c.ring })
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			var wg sync.WaitGroup
			for i, a := range ns {
				wg.Go(func() {
					s := session.New(a)
					for j, b := range ns {
						at := wire.NewNocAddr(1, 1, uint64(i)<<14)
						data, back := make([]byte, 9000), make([]byte, 9000)
						for k := range data {
							data[k] = byte(k*7 + i*31 + j*17)
						}
						if err := s.Write(ctx, b.Self(), at, data); err != nil {
							t.Errorf("%s to %s: %v", a.Self(), b.Self(), err)
						} else if err := s.Read(ctx, b.Self(), at, back); err != nil || string(back) != string(data) {
							t.Errorf("%s read from %s: %v, or other data than it wrote", a.Self(), b.Self(), err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// TestPlanesLive checks that no port of another plane carries requests, replies or completions of
// traffic on one plane (Spec §2.2.2).
func TestPlanesLive(t *testing.T) {
	_, _, ns := fabric(t, "mesh:2x3")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for plane := range wire.Plane(2) {
		// Whenever a link comes up or goes down, chips send link states over one hop, on any plane.
		// On a busy machine links sometimes go down. The other plane must therefore carry no
		// control packet in at least one round. The other plane must carry no other packet in any
		// round.
		for quiet, tries := false, 0; !quiet; {
			before := carried(ns)
			for _, a := range ns {
				for _, b := range ns {
					s, at := session.New(a), wire.NewNocAddr(1, 1, 0)
					err := s.Read(ctx, b.Self(), at, make([]byte, 5000), session.OnPlane(plane))
					if err == nil { // the write's completion arrives after all answers to the read
						err = s.Write(ctx, b.Self(), at, make([]byte, 5000), session.OnPlane(plane))
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			for slices.ContainsFunc(ns, func(x *node.Node) bool { s, _ := x.Status(); return s.Open > 0 }) && ctx.Err() == nil {
				time.Sleep(time.Millisecond) // a flow that waited for long has sent a probe; wait for its completion
			}
			after := carried(ns)
			on, off := after.since(&before, plane), after.since(&before, 1-plane)
			if on.sent[wire.ClassRequest] == 0 || on.sent[wire.ClassReply] == 0 || on.further == 0 {
				t.Errorf("plane %d carries %+v of its own traffic", plane, on)
			}
			if off.sent[wire.ClassRequest] != 0 || off.sent[wire.ClassReply] != 0 || off.further != 0 {
				t.Fatalf("traffic on plane %d: the other plane carries %+v", plane, off)
			}
			if quiet = off.sent[wire.ClassControl] == 0; !quiet && after.retrains == before.retrains {
				if tries++; tries == 5 {
					t.Fatalf("traffic on plane %d: the other plane carries %d control packets, in round %d in which no link came up or went down", plane, off.sent[wire.ClassControl], tries)
				}
			}
		}
	}
}

// onPlane counts the packets that the ports of a plane sent.
type onPlane struct {
	sent    [wire.NumClasses]uint64
	further uint64 // control packets that ports forwarded for other chips
}

// planes counts the packets that the ports of some chips sent, by plane.
type planes struct {
	of       [2]onPlane
	retrains int
}

func carried(ns []*node.Node) (n planes) {
	for _, x := range ns {
		s, _ := x.Status()
		for _, p := range s.Ports {
			of := &n.of[p.Plane]
			for k, c := range p.Router.Classes {
				of.sent[k] += c.Sent
			}
			of.further += p.Router.Classes[wire.ClassControl].Forwarded
			n.retrains += p.Link.Retrains
		}
	}
	return n
}

func (n *planes) since(o *planes, p wire.Plane) (d onPlane) {
	d.further = n.of[p].further - o.of[p].further
	for k := range d.sent {
		d.sent[k] = n.of[p].sent[k] - o.of[p].sent[k]
	}
	return d
}
