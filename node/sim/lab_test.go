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

// cycle is the time that the frame of one packet of a setup takes to leave at
// a cable: the unit that loads and latencies are given in, as BookSim's is one
// flit's. It is long enough for the links' clocks, which think in milliseconds,
// and what it is in seconds says nothing about any machine.
const cycle = 10 * time.Microsecond

// setup is a machine under a kind of load.
type setup struct {
	machine string
	pattern string
	size    int // bytes of a packet's payload
	hop     int // cycles from chip to chip, the packet's own cycle at the cable included; at least 1
	slots   router.SlotProfile
}

// String names the setup in messages.
func (c setup) String() string {
	return fmt.Sprintf("%s %s %d B slots %s", c.machine, c.pattern, c.size, c.slots.Name)
}

// phases are how long an experiment goes on, in cycles. Packets that arrive at
// their sources in the second phase are followed; sources go on in the third, for these to arrive.
type phases struct{ warm, measure, drain int }

// point is what an experiment has found.
type point struct {
	Load     float64 // packets per cycle that arrive at each source
	Accepted float64 // of those, packets delivered while they were counted
	Mean     float64 // cycles from a packet's arrival at its source until it was performed at its destination
	P99      float64
	Distance float64 // mean hops
	Unstable bool    // not all that were followed arrived in time
	Resent   uint64  // frames, by the links
	Wrong    uint64  // packets that the destinations did not find as they were sent
}

// lab is an experiment under way.
type lab struct {
	s     *Sim
	plan  *route.Plan
	pairs []traffic.Pair
	who   []*worker
	under [][]mono.Time // by source, destination and way round rings: arrivals of the packets under way, oldest first

	from, to  mono.Time // when packets that are followed arrive
	got       int       // of those, delivered
	delivered int       // in that time
	sum       time.Duration
	all       traffic.Histogram
}

// worker is the client of one chip: it sends what its generator says and verifies what comes.
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

// Next sends the generator's next packet.
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

// Undo takes the last packet back.
func (w *worker) Undo() {
	p := w.open[w.token]
	q := w.lab.way(w.self, int(p.Dst.Chip), p.Other)
	*q = (*q)[:len(*q)-1]
	delete(w.open, w.token)
	w.token--
	w.gen.Undo()
}

// Deadline is when the next packet arrives.
func (w *worker) Deadline() (mono.Time, bool) { return w.gen.Deadline() }

// Done ends a packet at its source.
func (w *worker) Done(now mono.Time, r flow.Result) {
	w.gen.Done(w.open[r.Token], r.Sent, now, r.Outcome, r.Fate != flow.FateDone)
	delete(w.open, r.Token)
}

// Performed verifies a packet at its destination and takes its time. Those of one source and way come in order.
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

// frame is the bytes on the cable of a packet with n bytes of payload, on a
// machine whose routes fit the smallest header.
func frame(n int) int {
	header, _ := wire.HeaderLenFor(1)
	return wire.FrameOverhead + wire.PadTo(header+n)
}

// newLab starts a machine, and once all links are up, gives every cable in use
// the rate that makes a packet's frame one cycle long, and the delay that makes a hop of it.
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

// born is how many packets have arrived at their sources.
func (l *lab) born() (n int) {
	for i, w := range l.who {
		l.s.run(l.s.machines[i])
		for _, f := range traffic.NewReport(w.gen, w.ver).Source {
			n += int(f.Offered)
		}
	}
	return n
}

// try measures a setup under a load.
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
	// More packets than there is time for: sources don't run dry.
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
	p := point{Load: load, Accepted: float64(l.delivered) / float64(senders*ph.measure), Unstable: l.got < followed,
		P99: float64(l.all.Quantile(0.99)) / float64(cycle)}
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

// flows are the pairs, or the ways back of their completions, where each source sends at a rate.
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

// bounds are the loads that saturate the busiest cable: of packets alone, and
// with a completion for each of them beside it.
func (l *lab) bounds(size int) (ideal, shared float64, err error) {
	data, err := l.plan.Loads(wire.ClassRequest, 0, l.flows(false, 1))
	if err != nil {
		return 0, 0, err
	}
	back, err := l.plan.Loads(wire.ClassControl, 0, l.flows(true, float64(frame(completionLen))/float64(frame(size))))
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

// completionLen is the payload of a completion without exceptions, in bytes.
var completionLen = len((&wire.Completion{}).Append(nil))
