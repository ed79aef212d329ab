package reliable

import (
	"math/bits"
	"math/rand/v2"

	"ttfabric/wire"
)

// Ports of a router (RR §2.3.1: output controller id 0 to 5). Ports 0 to 3 are the links in the
// directions of wire.Direction.
const (
	PortProcessor  = wire.NumDirections
	PortDiagnostic = wire.NumDirections + 1
	NumPorts       = wire.NumDirections + 2
	portDrop       = NumPorts // the packet has no route; its flits are discarded
)

// refusalLimit is the number of refusals after which an input controller bids with the highest
// priority (RR §2.3.3).
const refusalLimit = 7

// Policy says which channels a packet uses while no channel is faulty.
type Policy uint8

const (
	Adaptive  Policy = iota // all three computations of RR §4
	Ordered                 // the dimension-ordered computation only: one channel per priority and link
	OrderedIn               // the adaptive channels, too, but only in the dimension-ordered direction
)

var policyNames = [...]string{"adaptive", "dimension-ordered", "dimension-ordered, 3 channels"}

func (p Policy) String() string { return policyNames[p] }

// outVC is the sender's view of one virtual channel of a link (RR §2.3.2, "Flow Control Module").
//
// Invariant: 0 ≤ count ≤ bankBody+1. The channel is free if owner is nil and count is 0.
type outVC struct {
	owner *Bank // bank whose packet holds the channel
	in    uint8 // input controller and virtual channel of the owner
	vc    uint8
	count int // data and tail flits, and the token, that the receiver has not freed
}

// input is an input controller: five banks and the state of its virtual channel selection.
type input struct {
	banks    [NumVCs]Bank
	route    [NumVCs]Hop // meaningful if the port is a link
	port     [NumVCs]uint8
	out      [NumVCs]uint8 // output virtual channel
	next     uint8         // virtual channel that the round robin looks at first
	refused  int           // refusals in a row
	freed    [NumVCs]uint8 // acknowledgements that wait for a slot on the link
	copied   CopiedKind    // acknowledgement for the next slot on the link
	copiedVC uint8
	live     uint8 // bit v: bank v is not idle
}

// bid is what an input controller submits to the crossbar allocator in a flit time.
type bid struct {
	ok       bool
	vc       uint8
	hop      Hop
	port     uint8
	out      uint8
	flit     Flit
	priority uint8 // 1 or 2, or 3 after seven refusals
}

// Counters count what a router did and saw.
type Counters struct {
	Heads, Bodies, Tokens int // flits that crossed the crossbar
	OnClass               [3]int
	Refused               int // bids that the allocator refused
	LongestRefusal        int // most refusals in a row of one input controller
	Promoted              int // bids with the highest priority
	Padded                int // flit times with the crossbar off
	Dropped               int // packets, or pieces, without a route
	Backups               int // packets that backed up because the link ahead failed
	Generated             int // tokens generated because the link behind failed
	ParityErrors          int // slots discarded because of their parity
	Violations            int // flits and acknowledgements that no correct neighbour sends
}

// Router is one Reliable Router (RR §2.3). [Network] calls its steps once in each flit time.
type Router struct {
	at    Place
	cfg   *Config
	rng   *rand.Rand
	up    Dirs // links that are not faulty
	pe    Dirs // links with a parity error seen here
	ins   [NumPorts]input
	outs  [NumPorts][NumVCs]outVC
	send  [wire.NumDirections]Slot // slots of this flit time
	bids  [NumPorts]bid
	slot  int // flit times so far
	host  *host
	drops []uint64 // identifiers of packets without a route, until the network takes them
	Stats Counters
}

func newRouter(at Place, cfg *Config, rng *rand.Rand, up Dirs) *Router {
	return &Router{at: at, cfg: cfg, rng: rng, up: up, slot: rng.IntN(PadEvery), host: newHost(at)}
}

// receive takes the slot that the front end of link d has sampled.
func (r *Router) receive(d wire.Direction, s *Slot) {
	if !r.up.Has(d) {
		return
	}
	if !s.Up {
		r.fail(d)
		return
	}
	if s.Copied != CopiedNone {
		r.copied(d, s.CopiedVC)
	}
	for v := range uint8(NumVCs) {
		if s.Freed>>v&1 == 1 {
			r.freedBy(d, v)
		}
	}
	if s.Kind > Control {
		r.store(uint8(d), s.VC, s.Flit, s.User&stays != 0)
	}
}

// store puts a flit into its bank.
func (r *Router) store(port, vc uint8, f Flit, stay bool) bool {
	in := &r.ins[port]
	b, ok := &in.banks[vc], false
	switch {
	case f.Kind.Head():
		if ok = b.TakeHead(f, stay); ok {
			in.live |= 1 << vc
		}
	case f.Kind.Body():
		ok = b.TakeBody(f)
	default:
		ok = b.TakeToken(f.Kind)
	}
	if !ok {
		r.Stats.Violations++
	}
	return ok
}

// copied handles the acknowledgement that the neighbour in direction d has copied a flit forward: the
// owner of the channel invalidates its copy, and the node before learns that a place is free (RR §5.3).
func (r *Router) copied(d wire.Direction, vc uint8) {
	o := &r.outs[d][vc]
	if o.owner == nil || !o.owner.Copied() {
		r.Stats.Violations++
		return
	}
	r.ins[o.in].freed[o.vc]++
}

// freedBy handles the acknowledgement that the neighbour in direction d has released a flit.
func (r *Router) freedBy(d wire.Direction, vc uint8) {
	o := &r.outs[d][vc]
	if o.count == 0 {
		r.Stats.Violations++
		return
	}
	o.count--
}

// fail marks a link as faulty: packets routed by it back up, and packets that came by it get a replica
// token (RR §5.1, §5.3).
func (r *Router) fail(d wire.Direction) {
	if !r.up.Has(d) {
		return
	}
	r.up &^= 1 << d
	for v := range r.outs[d] {
		o := &r.outs[d][v]
		if o.owner != nil {
			r.Stats.Backups++
			if o.owner.FailAhead() {
				r.release(o.in, o.vc)
			}
		}
		*o = outVC{}
	}
	in := &r.ins[d]
	for v := range in.banks {
		if b := &in.banks[v]; b.State != Idle && b.token == Padding {
			b.FailBehind()
			r.Stats.Generated++
		}
		in.freed[v] = 0
	}
	in.copied = CopiedNone
}

// release ends a packet's use of a bank, and frees the token's place.
func (r *Router) release(in, vc uint8) {
	i := &r.ins[in]
	i.live &^= 1 << vc
	i.freed[vc]++
}

// step does the work of one flit time after the slots have been received: the optimistic routers, the
// virtual channel selection, the crossbar allocator, and the output controllers.
func (r *Router) step() {
	r.host.feed(r)
	r.slot++
	for d := range r.send {
		r.send[d] = Slot{Flit: Flit{Kind: Padding}, Up: true}
	}
	if r.slot%PadEvery == 0 && !r.cfg.NoPadding {
		r.Stats.Padded++
		return
	}
	for p := range r.ins {
		r.bids[p] = bid{}
		if r.ins[p].live != 0 {
			r.bids[p] = r.selectVC(uint8(p))
		}
	}
	r.allocate()
	r.acknowledge()
}

// selectVC picks one eligible virtual channel of an input controller, round robin (RR §2.3.1, §2.4).
func (r *Router) selectVC(p uint8) bid {
	in := &r.ins[p]
	for k := range uint8(NumVCs) {
		v := (in.next + k) % NumVCs
		if in.live>>v&1 == 0 {
			continue
		}
		b, ok := r.eligible(p, v)
		if !ok {
			continue
		}
		in.next = (v + 1) % NumVCs
		b.ok, b.vc, b.priority = true, v, 1+DecodeHead(in.banks[v].head.Data).Priority
		if in.refused >= refusalLimit {
			b.priority = 3
			r.Stats.Promoted++
		}
		return b
	}
	return bid{}
}

// eligible returns the bid of one virtual channel. A routed channel is eligible if it has a flit and
// the next node has room. A head is eligible if the optimistic router finds a free channel
// (RR §2.3.1).
func (r *Router) eligible(p, v uint8) (bid, bool) {
	in := &r.ins[p]
	b := &in.banks[v]
	if b.State == Backup {
		b.Resume()
		return bid{}, false
	}
	f, ok := b.Next()
	if !ok {
		return bid{}, false
	}
	if b.State == Routed {
		if port := in.port[v]; port >= wire.NumDirections || f.Kind.Token() || r.outs[port][in.out[v]].count < bankBody {
			return bid{hop: in.route[v], port: in.port[v], out: in.out[v], flit: f}, true
		}
		return bid{}, false
	}
	return r.optimistic(p, v, f)
}

// allocate decides which bids use which output. The allocator picks at random among the bids with the
// highest priority (RR §2.3.3).
func (r *Router) allocate() {
	for out := range uint8(portDrop + 1) {
		best, n := 0, 0
		for p := range r.bids {
			b := &r.bids[p]
			if !b.ok || b.port != out {
				continue
			}
			switch {
			case out == portDrop:
				r.cross(uint8(p), b)
			case n == 0 || b.priority > r.bids[best].priority:
				best, n = p, 1
			case b.priority == r.bids[best].priority:
				if n++; r.rng.IntN(n) == 0 {
					best = p
				}
			}
		}
		if n == 0 {
			continue
		}
		for p := range r.bids {
			if b := &r.bids[p]; b.ok && b.port == out && p != best {
				r.ins[p].refused++
				r.Stats.Refused++
				r.Stats.LongestRefusal = max(r.Stats.LongestRefusal, r.ins[p].refused)
			}
		}
		r.cross(uint8(best), &r.bids[best])
	}
}

// cross moves the flit of a bid across the crossbar.
func (r *Router) cross(p uint8, b *bid) {
	in := &r.ins[p]
	in.refused = 0
	bank := &in.banks[b.vc]
	copied := bank.Pass(b.flit)
	var o *outVC
	if b.port < NumPorts {
		o = &r.outs[b.port][b.out]
	}
	switch {
	case b.flit.Kind.Head():
		r.Stats.Heads++
		in.route[b.vc], in.port[b.vc], in.out[b.vc] = b.hop, b.port, b.out
		if o == nil {
			r.Stats.Dropped++
			r.drops = append(r.drops, DecodeHead(b.flit.Data).User)
			break
		}
		*o = outVC{owner: bank, in: p, vc: b.vc}
		if b.port < wire.NumDirections {
			r.Stats.OnClass[b.hop.Class]++
		}
	case b.flit.Kind.Body():
		r.Stats.Bodies++
		r.body(p, b, o, copied)
	default:
		r.Stats.Tokens++
		if o != nil {
			o.owner = nil
			if b.port < wire.NumDirections {
				o.count++
			}
		}
		r.release(p, b.vc)
	}
	switch {
	case b.port < wire.NumDirections:
		s := &r.send[b.port]
		s.Flit, s.VC = b.flit, b.out
		if b.flit.Kind.Head() && b.hop.Stays {
			s.User = stays
		}
	case o != nil:
		r.host.eject(b.port, b.out, b.flit)
	}
}

// body does the flow control of a data or tail flit that crosses. With the Unique Token Protocol, the
// node before hears that the flit was copied. The host at the destination takes a flit at once, so
// nobody sends "copied" to this router, and the router invalidates its own copy.
func (r *Router) body(p uint8, b *bid, o *outVC, copied bool) {
	in := &r.ins[p]
	bank := &in.banks[b.vc]
	onward := b.port < wire.NumDirections
	if onward {
		o.count++
	}
	if r.cfg.NoTokens {
		bank.Copied()
		in.freed[b.vc]++
		if b.flit.Kind == Tail { // no token follows: the tail frees the channels
			bank.State = Idle
			in.live &^= 1 << b.vc
			if o != nil {
				o.owner = nil
			}
		}
		return
	}
	if copied && p < wire.NumDirections && r.up.Has(wire.Direction(p)) {
		in.copied, in.copiedVC = CopiedData, b.vc
		if b.flit.Kind == Tail {
			in.copied = CopiedTail
		}
	}
	if !onward {
		bank.Copied()
		in.freed[b.vc]++
	}
}

// acknowledge appends the acknowledgements and the state of the link to the slots of this flit time.
func (r *Router) acknowledge() {
	for d := range wire.Direction(wire.NumDirections) {
		in, s := &r.ins[d], &r.send[d]
		if !r.up.Has(d) {
			*s = Slot{Flit: Flit{Kind: Control}, PE: r.pe.Has(d)}
			continue
		}
		if in.copied != CopiedNone {
			s.Copied, s.CopiedVC, in.copied, in.copiedVC = in.copied, in.copiedVC, CopiedNone, 0
		}
		for v := range in.freed {
			if in.freed[v] > 0 {
				in.freed[v]--
				s.Freed |= 1 << v
			}
		}
		if s.Kind == Padding && (s.Copied != CopiedNone || s.Freed != 0) {
			s.Kind = Control
		}
	}
	for p := wire.NumDirections; p < NumPorts; p++ {
		r.ins[p].freed = [NumVCs]uint8{} // the host looks at the banks
	}
}

// parityError marks a link whose slot was discarded as faulty (RR §2.2).
func (r *Router) parityError(d wire.Direction) {
	if !r.up.Has(d) {
		return
	}
	r.Stats.ParityErrors++
	r.pe |= 1 << d
	r.fail(d)
}

// occupied returns the number of banks with a packet.
func (r *Router) occupied() (n int) {
	for p := range r.ins {
		n += bits.OnesCount8(r.ins[p].live)
	}
	return n
}

// check returns a description of a broken invariant, or "".
func (r *Router) check() string {
	if r.Stats.Violations > 0 {
		return "the router has received flits or acknowledgements that no correct neighbour sends"
	}
	for p := range r.ins {
		for v := range r.ins[p].banks {
			b := &r.ins[p].banks[v]
			if s := b.check(); s != "" {
				return s
			}
			if live := r.ins[p].live>>v&1 == 1; live != (b.State != Idle) {
				return "a bank's state does not fit the list of live banks"
			}
		}
	}
	for p := range r.outs {
		for v := range r.outs[p] {
			if o := &r.outs[p][v]; o.count < 0 || o.count > bankBody+1 || o.owner != nil && o.owner.State != Routed {
				return "an output channel has a wrong count or owner"
			}
		}
	}
	return ""
}
