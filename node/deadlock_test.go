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

// circle is traffic that closes a circle of waiting packets, on a machine whose
// routes let it: chip i writes to the chip to[i], by the tables, or by hops of its own.
type circle struct {
	machine string
	unsafe  route.Config
	to      []int
	via     []wire.Direction
}

// The circles. Spec §6.1, "Cyclic Dependency Deadlock": D1 → D4, D2 → D3, D3 →
// D2 and D4 → D1 of a square, where routes have no dimension order; and a ring
// whose packets go three hops, without a dateline or bubbles.
var (
	square = circle{machine: "mesh:2x2", unsafe: route.Config{Order: route.NoOrder}, to: []int{3, 2, 1, 0}}
	around = circle{machine: "ring:4", unsafe: route.Config{Ring: route.NoRing}, to: []int{3, 0, 1, 2},
		via: []wire.Direction{wire.East, wire.East, wire.East}}
)

// start brings the machine up; its chips serve their own packets first.
func (c circle) start(t *testing.T, cfg route.Config, timeout router.Timeout) []*node.Node {
	if testing.Short() {
		t.Skip("waits for a deadlock")
	}
	_, _, ns := fabricWith(t, c.machine, func(n *node.Config) { n.Route, n.LocalFirst, n.Timeout = cfg, true, timeout })
	return ns
}

// round lets every chip write a MiB, and returns the errors. On busy cores a
// round can get through without standing still; there is a next one.
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

// counted are the packets that waited for too long, and those that arrived, at all chips.
func counted(ns []*node.Node) (timeouts, performed uint64) {
	for _, x := range ns {
		s, _ := x.Status()
		timeouts, performed = timeouts+s.Counters.Timeouts, performed+s.Counters.Performed
	}
	return timeouts, performed
}

// standsStill goes on with rounds until one stands still: the timeout tells of
// it, and nothing moves from then on, or ends by itself.
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
			t.Fatalf("no deadlock, or one that ended by itself: %v", err)
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

// Live, over real sockets: the routes that can deadlock do, which the timeout
// tells, and the same traffic runs by those that cannot.
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
						t.Fatalf("it does not run: %v", err)
					}
				}
			})
		}
	}
}

// Where what stands still is dropped and drained, it goes on, with every loss known.
func TestDeadlockIsDroppedLive(t *testing.T) {
	ns := square.start(t, square.unsafe, router.Timeout{After: 50 * time.Millisecond, Drop: true, Drain: true})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	before, _ := counted(ns)
	var lost *session.LostError
	for !errors.As(square.round(ctx, ns), &lost) {
		if ctx.Err() != nil {
			t.Fatal("nothing was dropped, or nobody was told")
		}
	}
	if ctx.Err() != nil {
		t.Error("what was not dropped did not go on")
	}
	if timeouts, _ := counted(ns); timeouts == before {
		t.Errorf("%v without a timeout", lost)
	}
}

// Spec §7.2 live: the packet that circles comes by D5 D6 D7 D11 D10 D9 D5 D6 D7,
// is dropped by D11, and its source hears of it.
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
	before := sent()
	err := session.New(ns[0]).Write(ctx, chipID(4), wire.NewNocAddr(1, 1, 0), []byte("loop"), session.Via(via...))
	var lost *session.LostError
	if !errors.As(err, &lost) || lost.Reason != wire.DropTTL || lost.At != chipID(10) {
		t.Errorf("ended as %v, want dropped at D11 with its TTL used up", err)
	}
	want := map[hop]uint64{{1, wire.South}: 1, {5, wire.East}: 2, {6, wire.East}: 2, {7, wire.South}: 2, {11, wire.West}: 1, {10, wire.West}: 1, {9, wire.North}: 1}
	got := sent()
	for h, n := range before {
		if got[h] -= n; got[h] == 0 {
			delete(got, h)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("packets sent by devices: %v, want %v", got, want)
	}
}

// Tori and machines of several meshes carry verified data between all pairs, over real sockets.
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
							t.Errorf("%s reads of %s: %v, or something else than it wrote", a.Self(), b.Self(), err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// Traffic on one routing plane stays there, answers and read data included: no
// port of another plane carries a packet of it (Spec §2.2.2).
func TestPlanesLive(t *testing.T) {
	_, _, ns := fabric(t, "mesh:2x3")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for plane := range wire.Plane(2) {
		// What chips say of their links crosses one cable, of either plane, when a link of any chip comes or goes, which a
		// busy machine is enough for: once it must be quiet, and never may anything else cross.
		for quiet, tries := false, 0; !quiet; {
			before := carried(ns)
			for _, a := range ns {
				for _, b := range ns {
					s, at := session.New(a), wire.NewNocAddr(1, 1, 0)
					err := s.Read(ctx, b.Self(), at, make([]byte, 5000), session.OnPlane(plane))
					if err == nil { // whose answer is the last: it comes behind those to the read
						err = s.Write(ctx, b.Self(), at, make([]byte, 5000), session.OnPlane(plane))
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			for slices.ContainsFunc(ns, func(x *node.Node) bool { s, _ := x.Status(); return s.Open > 0 }) && ctx.Err() == nil {
				time.Sleep(time.Millisecond) // flows that waited for long have asked again
			}
			after := carried(ns)
			on, off := after.since(&before, plane), after.since(&before, 1-plane)
			if on.sent[wire.ClassRequest] == 0 || on.sent[wire.ClassReply] == 0 || on.further == 0 {
				t.Errorf("plane %d carries %+v of its own traffic", plane, on)
			}
			if off.sent[wire.ClassRequest] != 0 || off.sent[wire.ClassReply] != 0 || off.further != 0 {
				t.Fatalf("traffic on plane %d: the other carries %+v", plane, off)
			}
			if quiet = off.sent[wire.ClassControl] == 0; !quiet && after.retrains == before.retrains {
				if tries++; tries == 5 {
					t.Fatalf("traffic on plane %d: the other carries %d control packets, and did so %d times while no link came or went", plane, off.sent[wire.ClassControl], tries)
				}
			}
		}
	}
}

// onPlane are packets that ports of a plane sent.
type onPlane struct {
	sent    [wire.NumClasses]uint64
	further uint64 // of the control packets: those that crossed more than one cable
}

// planes is what all ports of some chips have carried, by plane.
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
