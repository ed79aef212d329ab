package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/session"
	"ttfabric/node/traffic"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// cutSet describes a fabric for 'bench -only cuts', and how many of its cables to cut.
type cutSet struct {
	name    string
	machine string
	profile string
	load    string        // rate of packets that arrive at each chip, per second; empty: as many as the window of a chip allows
	share   int           // number of cuts of this fabric, in percent of the flag -cuts
	limit   time.Duration // largest allowed 99th percentile of the times; 0: the percentile is only reported
}

var cutSets = []cutSet{
	{"t3000, lan, 500 packets/s and chip", "t3000", "lan", "500", 100, 250 * time.Millisecond},
	{"t3000, lan, saturated", "t3000", "lan", "", 100, 250 * time.Millisecond},
	{"32 chips, crowded, saturated", "mesh:4x8", "crowded", "", 50, 0},
}

// Times and sizes of a cut.
const (
	cutPrefix   = "first packet after a cut, "
	cutBefore   = 150 * time.Millisecond // longest time for which the flows run before the cut
	cutPace     = time.Millisecond       // time between two writes of a flow
	cutGiveUp   = 20 * time.Second       // longest wait for a packet to arrive, or for the frames to return to their own cable
	cutSize     = 64                     // size of a write, in bytes
	cutTile     = 1                      // the flows' cells are in the tile 1-1, where no traffic is written
	cutPackets  = 20000                  // number of packets of one run of the background traffic
	cutCellSize = 0x100                  // size of the cell of one source, in bytes
)

// cutFabric holds the chips of a live fabric, and the cables that are still to be drawn.
type cutFabric struct {
	*fabric.Chips
	deck []topo.Cable
}

// cutCables measures for how long a link delivers nothing after its cable was cut. All cuts are in
// the first round.
func (b *bench) cutCables(round int, _ *rand.Rand) error {
	if round != 0 {
		return nil
	}
	if b.ttfabric == "" {
		return errors.New("-only cuts needs the program ttfabric; scripts/bench/cuts builds the program")
	}
	if b.seed == 0 {
		b.seed = uint64(time.Now().UnixNano())
		b.report.Machine.Command += fmt.Sprintf(" (seed %d)", b.seed)
	}
	fmt.Fprintf(os.Stderr, "seed %d\n", b.seed)
	for i, s := range cutSets {
		if b.machines != "" && !slices.Contains(strings.Split(b.machines, ","), s.machine) {
			continue
		}
		r := rand.New(rand.NewPCG(b.seed, uint64(i)))
		err := fabricWith(b.ttfabric, []string{s.machine, "--profile", s.profile}, func(f *fabric.Fabric, _ time.Duration) error {
			return b.cutSet(s, f, r)
		})
		if err != nil {
			return fmt.Errorf("%s, seed %d: %w", s.name, b.seed, err)
		}
	}
	return nil
}

func (b *bench) cutSet(s cutSet, up *fabric.Fabric, r *rand.Rand) error {
	chips, err := up.Chips()
	if err != nil {
		return err
	}
	if n := len(chips.All()); n != len(chips.Topology.Chips) {
		return fmt.Errorf("%d of %d chips run", n, len(chips.Topology.Chips))
	}
	f := &cutFabric{Chips: chips}
	background := b.startTraffic(s, up)
	defer background.stop()
	var times []float64
	var flows cutFlows
	for k := range max(b.cuts*s.share/100, 1) {
		c := f.anyCable(r)
		took, err := f.cut(r, c, &flows)
		if err != nil {
			return fmt.Errorf("cut %d, of %s–%s: %w", k, c.A, c.B, err)
		}
		for i, d := range took {
			ms := float64(d.Microseconds()) / 1e3
			times = append(times, ms)
			b.add(figure(cutPrefix+s.name, []string{"there", "back"}[i], "ms", k, ms))
		}
		if (k+1)%50 == 0 {
			fmt.Fprintf(os.Stderr, "%s: %d cuts\n", s.name, k+1)
		}
	}
	sum, err := background.stop()
	if err != nil {
		return err
	}
	slices.Sort(times)
	of := func(share float64) float64 { return times[min(int(share*float64(len(times))), len(times)-1)] }
	add := func(what, unit string, v float64) {
		b.add(figure(cutPrefix+s.name, what, unit, 0, v))
	}
	add("both ways, p50", "ms", of(0.5))
	add("both ways, p99", "ms", of(0.99))
	add("both ways, max", "ms", times[len(times)-1])
	count := func(what string, n uint64) { b.add(figure("packets, "+s.name, what, "packets", 0, float64(n))) }
	count("delivered", sum.Delivered+flows.writes)
	count("lost", sum.Lost+sum.Failed+flows.lost)
	count("duplicated", sum.Duplicated+flows.doubled)
	count("corrupted or reordered", sum.Corrupted+sum.Reordered)
	if p99 := of(0.99); s.limit > 0 && p99 > float64(s.limit.Milliseconds()) {
		b.broken = append(b.broken, fmt.Errorf("%s, seed %d: p99 is %.1f ms, more than %v", s.name, b.seed, p99, s.limit))
	}
	if flows.err != nil {
		fmt.Fprintf(os.Stderr, "%s: a write ended with: %v\n", s.name, flows.err)
	}
	if n := sum.Lost + sum.Failed + sum.Duplicated + sum.Corrupted + sum.Reordered + flows.lost + flows.doubled; n > 0 {
		b.broken = append(b.broken, fmt.Errorf("%s, seed %d: %d packets were lost, doubled, damaged or late; background traffic: %+v; writes over cut links: %d lost and %d doubled", s.name, b.seed, n, *sum, flows.lost, flows.doubled))
	}
	return nil
}

// anyCable draws a cable that has a parallel cable between the same two chips. anyCable draws every
// such cable once before it draws a cable a second time, because chips hold down a cable that
// fails too often.
func (f *cutFabric) anyCable(r *rand.Rand) topo.Cable {
	for {
		if len(f.deck) == 0 {
			f.deck = slices.Clone(f.Topology.Cables)
			r.Shuffle(len(f.deck), func(i, j int) { f.deck[i], f.deck[j] = f.deck[j], f.deck[i] })
		}
		c := f.deck[0]
		f.deck = f.deck[1:]
		beside := func(d topo.Cable) bool {
			return d.A.Node == c.A.Node && d.B.Node == c.B.Node && d.Dir == c.Dir && d.Plane != c.Plane && !d.Unused
		}
		if !c.Unused && slices.ContainsFunc(f.Topology.Cables, beside) {
			return c
		}
	}
}

// cutFlows holds counts of the writes of the flows over cut cables.
type cutFlows struct {
	writes, lost, doubled uint64
	err                   error // last error of the first flow in which a write was not performed, or perhaps not performed
}

// cutFlow is a flow of small writes from one end of a cable to the other, on the plane of the
// cable. The route to a neighbour is one hop, so all writes cross the link. Each write adds one to
// a counter at its destination.
type cutFlow struct {
	s     *session.Session
	to    *api.Client
	plane wire.Plane
	at    wire.NocAddr

	mu      sync.Mutex
	writes  uint64
	err     error
	after   time.Time // await waits for the first write that begins later than this time
	waiting bool
	done    chan time.Time // receives the time at which this write was performed
	begun   chan struct{}  // closed after the flow's first write
}

func newCutFlow(from, to *api.Client, plane wire.Plane) *cutFlow {
	// Each source has a cell of its own, and each plane has a counter in this cell.
	cell := uint64(from.Self().Chip)*cutCellSize + uint64(plane)*2*cutSize
	return &cutFlow{s: session.New(from), to: to, plane: plane, at: wire.NewNocAddr(cutTile, cutTile, cell), done: make(chan time.Time, 1), begun: make(chan struct{})}
}

// run writes until ctx ends.
func (f *cutFlow) run(ctx context.Context) {
	var data [cutSize]byte
	for n := uint64(1); ctx.Err() == nil; n++ {
		binary.LittleEndian.PutUint64(data[:], n)
		begin := time.Now()
		// The write does not use ctx. Once a write has begun, run waits for its end, so that the
		// counter can be compared with the number of writes.
		err := f.s.WriteInc(context.Background(), f.to.Self(), f.at, data[:], f.counter(), 1, false, session.OnPlane(f.plane))
		end := time.Now()
		if n == 1 {
			close(f.begun)
		}
		f.mu.Lock()
		f.writes++
		if err != nil {
			f.err = err
		}
		if f.waiting && begin.After(f.after) {
			f.waiting = false
			f.done <- end
		}
		f.mu.Unlock()
		time.Sleep(cutPace)
	}
}

func (f *cutFlow) counter() wire.NocAddr { return f.at.Add(cutSize) }

// await asks the flow for the first write that begins after time t. The flow sends the time at
// which this write ends to the channel "done".
func (f *cutFlow) await(t time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after, f.waiting = t, true
}

// count reads the counter at the destination, through the destination's own API.
func (f *cutFlow) count(ctx context.Context) (uint32, error) {
	var b [4]byte
	err := session.New(f.to).Read(ctx, f.to.Self(), f.counter(), b[:])
	return binary.LittleEndian.Uint32(b[:]), err
}

// cut cuts a cable while writes cross the cable in both directions, and puts the cable back. The
// result "took" holds a time for each direction. The time begins with the order to cut, and ends
// with the first write that began after both ends had obeyed the order.
func (f *cutFabric) cut(r *rand.Rand, c topo.Cable, sum *cutFlows) (took [2]time.Duration, err error) {
	a, b := f.Client(c.A.Node), f.Client(c.B.Node)
	flows := [2]*cutFlow{newCutFlow(a, b, c.Plane), newCutFlow(b, a, c.Plane)}
	ctx, cancel := context.WithTimeout(context.Background(), 3*cutGiveUp)
	defer cancel()
	if err := f.home(ctx, c); err != nil {
		return took, err
	}
	var before [2]uint32
	for i, w := range flows {
		if before[i], err = w.count(ctx); err != nil {
			return took, err
		}
	}
	running, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for _, w := range flows {
		wg.Go(func() { w.run(running) })
	}
	defer wg.Wait()
	defer stop()
	for _, w := range flows { // before the first write, the link may be idle, and an idle link notices a cut later
		select {
		case <-w.begun:
		case <-time.After(cutGiveUp):
			return took, fmt.Errorf("no first packet from %s within %v", w.s.Self(), cutGiveUp)
		}
	}
	time.Sleep(time.Duration(r.Int64N(int64(cutBefore))))

	begin := time.Now()
	if err := f.setCut(ctx, c, true); err != nil {
		return took, err
	}
	told := time.Now()
	for _, w := range flows {
		w.await(told)
	}
	for i, w := range flows {
		select {
		case end := <-w.done:
			took[i] = end.Sub(begin)
		case <-time.After(cutGiveUp):
			err = errors.Join(err, fmt.Errorf("no packet from %s within %v", w.s.Self(), cutGiveUp))
		}
	}
	if err == nil {
		err = f.byAnother(ctx, c)
	}
	if err = errors.Join(err, f.setCut(ctx, c, false)); err != nil {
		return took, err
	}
	if err := f.home(ctx, c); err != nil {
		return took, err
	}
	stop()
	wg.Wait()
	for i, w := range flows {
		if w.err != nil && sum.err == nil {
			sum.err = w.err
		}
		n, err := w.count(ctx)
		if err != nil {
			return took, err
		}
		got := uint64(n - before[i])
		sum.writes += w.writes
		sum.lost += w.writes - min(got, w.writes)
		sum.doubled += got - min(got, w.writes)
	}
	return took, nil
}

// setCut cuts a cable in both directions, or puts the cable back. setCut tells both ends at the
// same time.
func (f *cutFabric) setCut(ctx context.Context, c topo.Cable, on bool) error {
	_, err := f.Cut(ctx, []topo.Link{{A: c.A, B: c.B, Plane: c.Plane}}, on, 0)
	return err
}

// ends returns the two ends of a cable as their chips see them.
func (f *cutFabric) ends(ctx context.Context, c topo.Cable) (out [2]api.LinkView, err error) {
	for i, p := range []wire.PortID{c.A, c.B} {
		v, err := f.Client(p.Node).Chip(ctx)
		if err != nil {
			return out, err
		}
		k := slices.IndexFunc(v.Links, func(l api.LinkView) bool { return l.Channel == p.Channel })
		if k < 0 {
			return out, fmt.Errorf("chip %s has no channel %d", p.Node, p.Channel)
		}
		out[i] = v.Links[k]
	}
	return out, nil
}

// byAnother checks that the frames of a cut cable's link go by another cable. If the frames go by
// another cable, the measured time is the time of a fallback.
func (f *cutFabric) byAnother(ctx context.Context, c topo.Cable) error {
	v, err := f.ends(ctx, c)
	if err == nil && (v[0].By == nil || v[1].By == nil) {
		err = fmt.Errorf("the link's frames still go by its own cable, although the cable is cut: %s and %s", v[0].State, v[1].State)
	}
	return err
}

// home waits until all links between the two chips of a cable send their frames by their own
// cables. After the time cutGiveUp, home returns an error.
func (f *cutFabric) home(ctx context.Context, c topo.Cable) error {
	own := func(l api.LinkView) bool { return l.State == "up" && l.By == nil }
	for end := time.Now().Add(cutGiveUp); ; time.Sleep(20 * time.Millisecond) {
		all := true
		for _, d := range f.Topology.Cables {
			if d.A.Node != c.A.Node || d.B.Node != c.B.Node || d.Dir != c.Dir || d.Unused {
				continue
			}
			v, err := f.ends(ctx, d)
			if err != nil {
				return err
			}
			all = all && own(v[0]) && own(v[1])
		}
		if all {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the links' frames did not return to their own cables within %v", cutGiveUp)
		}
	}
}

// cutTraffic is the background traffic, which runs again and again until the method "stop" is
// called.
type cutTraffic struct {
	enough chan struct{}
	once   sync.Once
	ended  chan struct{}
	sum    traffic.Row // sum over all runs; only the counts of packets are set
	err    error
}

func (b *bench) startTraffic(s cutSet, f *fabric.Fabric) *cutTraffic {
	t := &cutTraffic{enough: make(chan struct{}), ended: make(chan struct{})}
	var load []string
	if s.load != "" {
		load = []string{"--load", s.load}
	}
	go func() {
		defer close(t.ended)
		for {
			select {
			case <-t.enough:
				return
			default:
			}
			var r traffic.Result
			if r, t.err = trafficOf(b.ttfabric, f, "all-to-all", cutPackets, load...); t.err != nil {
				return
			}
			t.sum.Delivered += r.Total.Delivered
			t.sum.Lost += r.Total.Lost
			t.sum.Duplicated += r.Total.Duplicated
			t.sum.Corrupted += r.Total.Corrupted
			t.sum.Reordered += r.Total.Reordered
			t.sum.Failed += r.Total.Failed
		}
	}()
	return t
}

// stop waits for the end of the present run, and returns the sum of all runs. If a run gave no
// result, the traffic has ended with that run, and stop returns its error.
func (t *cutTraffic) stop() (*traffic.Row, error) {
	t.once.Do(func() { close(t.enough) })
	<-t.ended
	return &t.sum, t.err
}
