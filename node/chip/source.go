package chip

import (
	"slices"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Request is one NoC command for a chip.
type Request struct {
	Token   uint64 // the caller's name for it, given back in the Result
	Dst     wire.FabricNodeID
	Plane   wire.Plane
	Probe   bool             // do nothing there but answer; Command and Payload are not used
	Command wire.Command     // Size is set from Payload, but for reads
	Payload []byte           // at most wire.MaxPayload bytes; copied
	Trace   bool             // each chip on the way notes the packet, see [Chip.Sightings]
	Via     []wire.Direction // the hops to take, at most wire.MaxHops, instead of the table's; may lead round to the chip itself
	Ranges  wire.Ranges      // if it has hops: a multicast to these chips, and Dst is not used; neither Via, Other nor a read goes with it
	Other   bool             // where two ways round a ring are equally long, take the other one: see [route.Plan.Other]. It is another flow, whose order is its own; Via does not go with it
}

// Fate says how a request ended, and how sure that is.
type Fate uint8

// The ways a request ends.
const (
	FateDone    Fate = iota // performed at the destination
	FateRefused             // arrived and was not performed; Outcome says why
	FateLost                // known not to have been performed: Drop and At, or a gap seen by the destination
	FateUnknown             // may have been performed or not; Doubt says why
)

// String names the fate.
func (s Fate) String() string {
	return [...]string{"done", "refused", "lost", "outcome unknown"}[s]
}

// Doubt says why an outcome is unknown.
type Doubt uint8

// The reasons for doubt.
const (
	DoubtNone        Doubt = iota
	DoubtRestarted         // the destination does not know the flow: it started anew, or what came first in the flow was lost on its way
	DoubtRouteDead         // the way there died while the request was under way
	DoubtTimeout           // no answer for FlowTimeout
	DoubtUnreachable       // no way to the destination was left while the request was under way
	DoubtOlder             // the destination took this life of the source for a former one; it does so no longer
	DoubtLate              // the destination has not seen it; should that restart, it may yet come
	NumDoubts
)

// String names the doubt.
func (d Doubt) String() string {
	names := [NumDoubts]string{"", "destination restarted, or missed what came first", "route died", "no answer", "unreachable", "taken for a former life", "not seen"}
	if d >= NumDoubts {
		return "unknown reason"
	}
	return names[d]
}

// Result is what became of a request.
type Result struct {
	Token   uint64
	Dst     wire.FabricNodeID
	Fate    Fate
	Outcome wire.Outcome      // of FateRefused
	Drop    wire.DropReason   // of FateLost: why, 0 where the destination saw a gap
	At      wire.FabricNodeID // of FateLost with a Drop: where
	Doubt   Doubt             // of FateUnknown
	Data    []byte            // of a read
	Err     error             // of a remote chip that could not be asked, or of FateRefused that would not begin
	Members []MemberResult    // of a multicast: those where it did not end as done, by chip; the fate is the gravest of theirs
	Sent    mono.Time
	Done    mono.Time
}

// Admission says whether a request was taken.
type Admission uint8

// The answers of [Chip.HandleRequest].
const (
	Accepted    Admission = iota
	Busy                  // no room now; try again after the next Pump
	NoSuchChip            // the destination is not in the fabric's tables
	NoSuchPlane           // no port of that plane leads there
	Unreachable           // one did, but the tables in force have no way round the faults
	TooLarge              // the payload or the read is longer than wire.MaxPayload
	BadVia                // Via is too long, uses a cable that is not there, turns back, leaves the mesh, does not end at Dst, or comes with Other
	BadRanges             // [Chip.CheckMulticast] says why
)

type flowKey struct {
	node  wire.FabricNodeID
	group uint16 // of the source's multicasts; 0: unicast
	plane wire.Plane
	other bool // round rings, see [Request]
}

// op is one request of a flow.
type op struct {
	token   uint64
	id      uint64 // of a read whose data has not come
	sent    mono.Time
	settled bool
	known   bool // sent in a life of the flow that was known
	probe   bool // the flow's own
	client  bool
}

// outFlow is the source's end of a flow. Invariant: base ≤ next, ops[i] is request base+i.
type outFlow struct {
	key      flowKey
	way      *way             // nil until it is needed
	via      []wire.Direction // instead of the table's path, while not empty; changes only when nothing is open
	epoch    uint32
	life     life
	next     uint32
	base     uint32 // lowest request whose fate is open
	ops      []op
	head     int       // of ops
	progress mono.Time // when a fate was last learned, or the flow was idle
	probed   mono.Time // when the last probe went out
	probes   int       // since the last progress
	moving   bool      // the tables have another way, for when nothing is open
	moved    mono.Time // since when
	fates    [4]uint64 // of the requests that have ended, by Fate
}

func (f *outFlow) openOps() []op { return f.ops[f.head:] }

// at returns the open request seq, nil if its fate is known or it was never sent.
func (f *outFlow) at(seq uint32) *op {
	if i := seq - f.base; i < uint32(len(f.ops)-f.head) {
		return &f.ops[f.head+int(i)]
	}
	return nil
}

// advance moves base past settled requests.
func (f *outFlow) advance() {
	for f.head < len(f.ops) && f.ops[f.head].settled {
		f.head++
		f.base++
	}
	if f.head == len(f.ops) {
		f.ops, f.head = f.ops[:0], 0
	} else if f.head > 64 && f.head > len(f.ops)/2 {
		n := copy(f.ops, f.ops[f.head:])
		f.ops, f.head = f.ops[:n], 0
	}
}

// readRef is a read whose data is on its way.
type readRef struct {
	flow *outFlow
	op   op
}

func (c *Chip) start(now mono.Time, r *Request, client bool) Admission {
	switch {
	case r.Ranges.Any():
		return c.startGroup(now, r, client)
	case !c.plan.Has(r.Dst):
		return NoSuchChip
	case len(r.Payload) > wire.MaxPayload || (r.Command.Type == wire.NocRead && r.Command.Size > wire.MaxPayload):
		return TooLarge
	case len(c.results)-c.resHead >= MaxResults:
		return Busy
	case r.Dst == c.cfg.Node && len(r.Via) == 0:
		c.performHere(now, *r, client)
		return Accepted
	case len(r.Via) > 0 && !c.leads(r):
		return BadVia
	}
	f := c.flow(now, flowKey{node: r.Dst, plane: r.Plane, other: r.Other})
	if !slices.Equal(f.via, r.Via) {
		if len(f.openOps()) > 0 {
			return Busy // the packets of a flow keep their order only on one path
		}
		f.via, f.way = slices.Clone(r.Via), nil
	}
	c.settleMove(f)
	if len(f.openOps()) == 0 && (f.life.ending || f.life.known && now.Sub(f.progress) > FlowIdle) {
		f.renew()
	}
	w := c.departure(f)
	if !w.ok {
		a := c.noWay(r)
		if a == Unreachable {
			f.fates[FateLost]++
		}
		return a
	}
	if f.moving || f.life.ending {
		return Busy // as above
	}
	if len(f.openOps()) >= MaxOutstanding || !c.router.CanInject(w.port, w.vc) {
		return Busy
	}
	o := op{token: r.Token, sent: now, client: client}
	if !c.inject(f, w, r, &o) {
		return Busy
	}
	return Accepted
}

// noWay tells a way that faults have taken from one that never was.
func (c *Chip) noWay(r *Request) Admission {
	if _, ok := c.base.Route(nil, wire.ClassRequest, r.Plane, c.cfg.Node, r.Dst); ok {
		return Unreachable
	}
	return NoSuchPlane
}

// leads reports whether the hops of a request exist and end at its
// destination. None may lead back at once: in a route that means deliver here.
func (c *Chip) leads(r *Request) bool {
	at := c.cfg.Node
	if r.Other {
		return false
	}
	for i, d := range r.Via {
		if i > 0 && d == r.Via[i-1].Opposite() {
			return false
		}
		var ok bool
		if at, ok = c.cfg.Topology.Neighbour(at, d, r.Plane); !ok || at.Mesh != c.cfg.Node.Mesh {
			return false
		}
	}
	return len(r.Via) <= wire.MaxHops && at == r.Dst
}

// departure is the way that a flow's packets take.
func (c *Chip) departure(f *outFlow) *way {
	switch {
	case f.way != nil:
	case len(f.via) > 0:
		port, ok := c.router.Port(f.via[0], f.key.plane)
		f.way = &way{ok: ok, port: port, first: f.via[0], route: wire.AppendRoute(nil, f.via)}
		if ok {
			f.way.vc = c.router.First(port, wire.ClassRequest, false, false)
		}
	default:
		f.way = c.way(f.key, wire.ClassRequest)
	}
	return f.way
}

// inject sends the flow's next packet.
func (c *Chip) inject(f *outFlow, w *way, r *Request, o *op) bool {
	c.nextID++
	p := wire.Packet{Type: wire.PacketRequest, Plane: r.Plane, Trace: r.Trace, Other: f.key.other, Src: c.cfg.Node, Dst: r.Dst,
		Known: f.life.known, FlowEpoch: f.epoch, FlowSeq: f.next, FlowBase: f.base, ID: c.nextID, Epoch: c.epoch, Command: r.Command, Payload: r.Payload}
	if r.Probe {
		p.Type, p.Command, p.Payload = wire.PacketProbe, wire.Command{Type: wire.NocNone}, nil
	}
	if p.Command.Type != wire.NocRead {
		p.Command.Size = uint16(len(p.Payload))
	}
	w.address(&p, max(c.ttl, uint16(len(f.via))))
	if c.cfg.TTL > 0 {
		p.TTL = c.cfg.TTL - 1
	}
	if !c.launch(o.sent, w.port, &p) {
		return false
	}
	if p.Command.Type == wire.NocRead {
		o.id = p.ID
		c.reads[p.ID] = readRef{f, *o}
	}
	if len(f.openOps()) == 0 {
		f.progress, f.probes = o.sent, 0
	}
	o.known = f.life.known
	f.ops = append(f.ops, *o)
	f.next++
	c.counters.Requests++
	if c.open++; c.open == 1 {
		c.nextFlows = o.sent.Add(flowTick)
	}
	return true
}

func (c *Chip) flow(now mono.Time, k flowKey) *outFlow {
	if f := c.lastOut; f != nil && f.key == k {
		return f
	}
	f := c.out[k]
	if f == nil {
		f = &outFlow{key: k, epoch: firstLife(&c.cfg), progress: now}
		c.out[k] = f
		c.outOrder = append(c.outOrder, f)
	}
	c.lastOut = f
	return f
}

// completion settles what the destination says is settled.
func (c *Chip) completion(now mono.Time, p *wire.Packet) {
	m, err := wire.DecodeCompletion(p.Payload, c.excBuf[:0])
	if err != nil {
		c.counters.Dropped[wire.DropMalformed]++
		return
	}
	c.excBuf = m.Exceptions[:0]
	if p.Group != 0 {
		c.groupCompletion(now, p, &m)
		return
	}
	f := c.out[flowKey{node: p.Src, plane: p.Plane, other: p.Other}]
	if f != nil && olderLife(f.epoch, m.FlowEpoch) {
		c.giveUp(now, f, DoubtOlder)
		f.epoch = nextLife(m.FlowEpoch)
		return
	}
	if f == nil || m.FlowEpoch != f.epoch || int32(m.Next-f.next) > 0 {
		c.counters.StaleCompletions++
		return
	}
	f.life.known = true
	f.life.heard(&m)
	for _, e := range m.Exceptions {
		for k := range uint32(e.Count) {
			if int32(e.First+k-m.Next) < 0 {
				c.settle(now, f, e.First+k, exceptionResult(e.Outcome))
			}
		}
	}
	for seq := f.base; int32(m.Next-seq) > 0; seq++ {
		o := f.at(seq)
		if o == nil || o.settled {
			continue
		}
		if o.id != 0 {
			if _, waiting := c.reads[o.id]; waiting {
				// Performed; the data itself is still on its way and settles it. It holds up nothing behind it.
				o.settled = true
				continue
			}
		}
		c.settle(now, f, seq, Result{Fate: FateDone})
	}
	f.advance()
	f.progress, f.probes = now, 0
}

func exceptionResult(o wire.Outcome) Result {
	switch o {
	case wire.OutcomeLost:
		return Result{Fate: FateLost}
	case wire.OutcomeRestarted:
		return Result{Fate: FateUnknown, Doubt: DoubtRestarted}
	}
	return Result{Fate: FateRefused, Outcome: o}
}

// settle ends one request of a flow, once.
func (c *Chip) settle(now mono.Time, f *outFlow, seq uint32, r Result) {
	o := f.at(seq)
	if o == nil || o.settled {
		return
	}
	r = f.life.judge(o, r)
	o.settled = true
	c.open--
	if o.id != 0 {
		delete(c.reads, o.id)
	}
	if !o.probe {
		f.fates[r.Fate]++
		c.finish(now, f.key.node, o, r)
	}
}

// finish hands a result to whoever asked.
func (c *Chip) finish(now mono.Time, dst wire.FabricNodeID, o *op, r Result) {
	r.Token, r.Dst, r.Sent, r.Done = o.token, dst, o.sent, now
	c.counters.Results[r.Fate]++
	if o.client {
		if c.client != nil {
			c.client.Done(now, r)
		}
		return
	}
	c.results = append(c.results, r)
}

// PollResult yields ended requests.
func (c *Chip) PollResult() (Result, bool) {
	r, ok := c.pollResult()
	if c.tap != nil {
		c.tap.Result(r, ok)
	}
	return r, ok
}

func (c *Chip) pollResult() (Result, bool) {
	if c.resHead == len(c.results) {
		c.results, c.resHead = c.results[:0], 0
		return Result{}, false
	}
	r := c.results[c.resHead]
	c.results[c.resHead] = Result{}
	c.resHead++
	return r, true
}

// reply takes the data of a read.
func (c *Chip) reply(now mono.Time, p *wire.Packet) {
	ref, ok := c.reads[p.ID]
	if !ok || ref.flow.key != (flowKey{node: p.Src, plane: p.Plane, other: p.Other}) {
		c.counters.StaleReplies++
		return
	}
	delete(c.reads, p.ID)
	data := append([]byte(nil), p.Payload...)
	for seq := ref.flow.base; seq != ref.flow.next; seq++ {
		if o := ref.flow.at(seq); o.id == p.ID && !o.settled {
			c.settle(now, ref.flow, seq, Result{Fate: FateDone, Data: data})
			ref.flow.advance()
			ref.flow.progress = now
			return
		}
	}
	c.open--
	ref.flow.fates[FateDone]++
	c.finish(now, p.Src, &ref.op, Result{Fate: FateDone, Data: data})
}

// dropped settles a request that a router on its way gave up. A probe that
// was dropped tells that the way is dead: all before it is settled or will never be.
func (c *Chip) dropped(now mono.Time, r wire.DropReport, at wire.FabricNodeID) {
	if r.Group != 0 {
		c.groupDropped(now, &r, at)
		return
	}
	f := c.out[flowKey{node: r.Dst, plane: r.Plane, other: r.Other}]
	if f == nil || r.FlowEpoch != f.epoch {
		return
	}
	if o := f.at(r.FlowSeq); o != nil && o.probe && !o.settled {
		for seq := f.base; int32(r.FlowSeq-seq) > 0; seq++ {
			c.settle(now, f, seq, Result{Fate: FateUnknown, Doubt: DoubtRouteDead})
		}
	}
	c.settle(now, f, r.FlowSeq, Result{Fate: FateLost, Drop: r.Reason, At: at})
	f.advance()
	f.progress = now
}

// Open is the number of requests whose fate is open.
func (c *Chip) Open() int { return c.open }
