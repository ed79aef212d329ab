package sim

import (
	"fmt"
	"time"

	"ttfabric/node/flow"
	"ttfabric/node/noc"
	"ttfabric/node/traffic"
	"ttfabric/router"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// cycle is the unit of time for loads and latencies: the time that a cable takes to send the frame
// of one packet. In BookSim, a cycle is the time of one flit. The value is long enough for the
// links' timers, which count in milliseconds. The value says nothing about the speed of real
// hardware.
const cycle = 10 * time.Microsecond

// setup is a topology with a kind of load and the properties of its hops.
type setup struct {
	machine string
	pattern string
	size    int // bytes of a packet's payload
	hop     int // time of one hop, in cycles; includes the cycle for sending the packet; at least 1
	slots   router.SlotProfile
}

// String returns the setup's name for messages.
func (c setup) String() string {
	return fmt.Sprintf("%s %s %d B slots %s", c.machine, c.pattern, c.size, c.slots.Name)
}

// phases are the lengths of the three phases of an experiment, in cycles. The experiment measures
// the packets that enter their source's queue in the second phase. In the third phase, the sources
// continue to send until these packets have arrived.
type phases struct{ warm, measure, drain int }

// point is the result of an experiment.
type point struct {
	Load     float64 // packets per cycle that enter the queue of each source
	Accepted float64 // packets per cycle and source that destinations performed in the second phase
	Mean     float64 // mean time from a packet's entry into its source's queue until the destination performed the packet, in cycles
	P99      float64
	Distance float64 // mean number of hops
	Unstable bool    // whether measured packets were missing at the end of the third phase
	Resent   uint64  // data frames that links sent again
	Wrong    uint64  // packets that arrived damaged, twice, out of order or at a wrong chip, or that a cable lost
}

// lab is a running experiment.
type lab struct {
	s     *Sim
	plan  *route.Plan
	pairs []traffic.Pair
	who   []*worker
	under [][]mono.Time // by source, destination and direction round rings: times at which the packets under way entered their source's queue, oldest first

	from, to  mono.Time // begin and end of the second phase
	got       int       // number of measured packets that have arrived
	delivered int       // number of packets delivered in the second phase
	sum       time.Duration
	all       traffic.Tally
}

// worker is the client of one chip. A worker sends the packets of its generator, and verifies the
// packets that arrive.
type worker struct {
	lab   *lab
	self  int
	gen   *traffic.Generator
	ver   *traffic.Verifier
	open  map[uint64]traffic.Packet
	token uint64
	buf   []byte
	back  []byte
}

// Next returns the request for the generator's next packet.
func (w *worker) Next(now mono.Time) (flow.Request, bool) {
	p, ok := w.gen.Next(now)
	if !ok {
		return flow.Request{}, false
	}
	w.gen.Fill(p, w.buf)
	w.token++
	w.open[w.token] = p
	q := w.lab.way(w.self, int(p.Dst.Chip), p.Other)
	*q = append(*q, p.Came)
	return flow.Request{Token: w.token, Dst: p.Dst, Plane: p.Plane, Other: p.Other, Payload: w.buf, Command: wire.Command{Type: wire.NocUnicastWrite, Addr: p.Addr}}, true
}

// Undo takes back the packet that Next returned last.
func (w *worker) Undo() {
	p := w.open[w.token]
	q := w.lab.way(w.self, int(p.Dst.Chip), p.Other)
	*q = (*q)[:len(*q)-1]
	delete(w.open, w.token)
	w.token--
	w.gen.Undo()
}

// Deadline returns the time at which the next packet enters the queue.
func (w *worker) Deadline() (mono.Time, bool) { return w.gen.Deadline() }

// Done tells the generator that a packet has ended.
func (w *worker) Done(now mono.Time, r flow.Result) {
	w.gen.Done(w.open[r.Token], r.Sent, now, r.Outcome, r.Fate != flow.FateDone)
	delete(w.open, r.Token)
}

// Performed verifies a packet at its destination, and measures the packet's time. Packets of one
// flow arrive in order.
func (w *worker) Performed(now mono.Time, src wire.FabricNodeID, plane wire.Plane, other bool, cmd *wire.Command, m *noc.Memory) {
	b := w.back[:cmd.Size]
	m.Read(cmd.Addr, b)
	w.ver.Arrived(src, plane, other, b)
	l := w.lab
	q := l.way(int(src.Chip), w.self, other)
	came := (*q)[0]
	*q = (*q)[1:]
	if !now.Before(l.from) && now.Before(l.to) {
		l.delivered++
	}
	if !came.Before(l.from) && came.Before(l.to) {
		l.got++
		l.sum += now.Sub(came)
		l.all.Add(now.Sub(came))
	}
}

func (l *lab) way(src, dst int, other bool) *[]mono.Time {
	i := (src*len(l.who) + dst) * traffic.MaxWays
	if other {
		i++
	}
	return &l.under[i]
}

// frame returns the bytes that a packet with n bytes of payload takes on a cable. The routes of the
// machine must fit into the smallest header.
func frame(n int) int {
	header, _ := wire.HeaderLenFor(1)
	return wire.FrameOverhead + wire.PadTo(header+n)
}

// newLab starts a fabric, and waits until all links are up. newLab then sets the rates of the
// cables, with which the frame of a packet takes one cycle. newLab also sets the delays, with which
// a hop takes c.hop cycles.
func newLab(c setup) (*lab, error) {
	m, err := topo.Named(c.machine)
	if err != nil {
		return nil, err
	}
	l := &lab{}
	if l.s, err = newSim(Config{Topology: m, Seed: 1, bare: true}); err != nil {
		return nil, err
	}
	l.s.around = surroundings{profile: ttlink.ProfileLAN, slots: c.slots, maxPayload: wire.PadTo(wire.MaxPacket), window: ttlink.DefaultWindow}
	if l.plan, err = route.New(m, l.s.around.route); err != nil {
		return nil, err
	}
	p, err := traffic.PatternByName(c.pattern)
	if err != nil {
		return nil, err
	}
	if l.pairs, err = p.Pairs(m, traffic.Options{Ways: l.plan.WaysBetween}); err != nil {
		return nil, err
	}
	l.s.begin()
	up := func() bool {
		for _, c := range l.s.cables {
			if !c.bothUp() {
				return false
			}
		}
		return true
	}
	if !l.s.runUntil(l.s.now.Add(SettleTime), up) {
		return nil, fmt.Errorf("%s does not come up", c.machine)
	}
	for _, k := range l.s.cables {
		for side := range k.way {
			l.s.set(k, side, fault.Options{Rate: int64(float64(frame(c.size)*8) / cycle.Seconds()), Delay: time.Duration(c.hop-1) * cycle})
		}
	}
	return l, nil
}

// born returns the number of packets that have entered the queues of their sources.
func (l *lab) born() (n int) {
	for i, w := range l.who {
		l.s.run(l.s.machines[i])
		for _, f := range traffic.NewReport(w.gen, w.ver).Source {
			n += int(f.Offered)
		}
	}
	return n
}

// try runs an experiment on a setup under a load.
func try(c setup, load float64, ph phases) (point, error) {
	l, err := newLab(c)
	if err != nil {
		return point{}, err
	}
	n := len(l.s.machines)
	senders := map[wire.FabricNodeID]bool{}
	for _, p := range l.pairs {
		senders[p.Src] = true
	}
	whole := ph.warm + ph.measure + ph.drain
	// The sources get more packets than they can send in the time of the experiment.
	spec := traffic.Spec{Run: 1, Pattern: c.pattern, Packets: uint64(float64(len(senders))*(load*float64(whole)*2+1000)) + uint64(len(l.pairs)),
		Size: c.size, Planes: 1, Window: traffic.MaxWindow, Seed: 1, Draw: true, Load: load / cycle.Seconds()}
	if err := spec.Validate(); err != nil {
		return point{}, err
	}
	l.under = make([][]mono.Time, n*n*traffic.MaxWays)
	l.from = l.s.now.Add(time.Duration(ph.warm) * cycle)
	l.to = l.from.Add(time.Duration(ph.measure) * cycle)
	for i, k := range l.s.machines {
		l.who = append(l.who, &worker{lab: l, self: i, gen: traffic.NewGenerator(spec, k.node, l.pairs), ver: traffic.NewVerifier(spec, k.node, l.pairs),
			open: map[uint64]traffic.Packet{}, buf: make([]byte, c.size), back: make([]byte, wire.MaxPayload)})
	}
	for i, k := range l.s.machines {
		k.chip.SetClient(l.who[i])
		l.s.run(k)
	}
	never := func() bool { return false }
	l.s.runUntil(l.from, never)
	before := l.born()
	l.s.runUntil(l.to, never)
	followed := l.born() - before
	end := l.to.Add(time.Duration(ph.drain) * cycle)
	for l.s.now.Before(end) && l.got < followed && l.s.failure == nil {
		l.s.runUntil(mono.Min(end, l.s.now.Add(100*cycle)), never)
	}
	return l.result(load, len(senders), ph, followed)
}

func (l *lab) result(load float64, senders int, ph phases, followed int) (point, error) {
	if l.s.failure != nil {
		return point{}, l.s.failure
	}
	all := l.all.Histogram()
	p := point{Load: load, Accepted: float64(l.delivered) / float64(senders*ph.measure), Unstable: l.got < followed,
		P99: float64(all.Quantile(0.99)) / float64(cycle)}
	if l.got > 0 {
		p.Mean = float64(l.sum) / float64(l.got) / float64(cycle)
	}
	loads, err := l.plan.Loads(wire.ClassRequest, 0, l.flows(false, 1))
	if err != nil {
		return p, err
	}
	p.Distance = loads.Distance
	for i, k := range l.s.machines {
		for _, x := range k.chip.Status().Ports {
			p.Resent += x.Frames.Retransmitted
		}
		rep := traffic.NewReport(l.who[i].gen, l.who[i].ver)
		p.Wrong += rep.Misdirected + rep.Stray
		for _, d := range rep.Dest {
			p.Wrong += d.Corrupted + d.Duplicated + d.Reordered
		}
	}
	for _, k := range l.s.cables {
		for side := range k.way {
			p.Wrong += k.way[side].Counts().Overflowed
		}
	}
	return p, nil
}

// flows returns the flows of the pattern, in which each source sends at the given rate. If back is
// true, flows returns the opposite flows, which the completions take.
func (l *lab) flows(back bool, rate float64) (out []route.Flow) {
	of := map[wire.FabricNodeID]float64{}
	for _, p := range l.pairs {
		of[p.Src] += float64(max(p.Weight, 1))
	}
	for _, p := range l.pairs {
		f := route.Flow{Src: p.Src, Dst: p.Dst, Rate: rate * float64(max(p.Weight, 1)) / of[p.Src]}
		if back {
			f.Src, f.Dst = f.Dst, f.Src
		}
		out = append(out, f)
	}
	return out
}

// bounds returns the loads that saturate the busiest cable. The load "ideal" counts only the
// packets. The load "shared" also counts one completion for each packet.
func (l *lab) bounds(size int) (ideal, shared float64, err error) {
	data, err := l.plan.Loads(wire.ClassRequest, 0, l.flows(false, 1))
	if err != nil {
		return 0, 0, err
	}
	back, err := l.plan.Loads(wire.ClassControl, 0, l.flows(true, float64(wire.FrameOverhead+wire.PadTo(wire.ControlLen))/float64(frame(size))))
	if err != nil {
		return 0, 0, err
	}
	most := 0.0
	for o, v := range data.Channels {
		most = max(most, v+back.Channels[o])
	}
	for o, v := range back.Channels {
		most = max(most, v+data.Channels[o])
	}
	return 1 / data.Max, 1 / most, nil
}
