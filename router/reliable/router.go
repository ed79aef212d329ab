package reliable

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"ttfabric/router/reliable/nexthop"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// MaxSide is the largest number of rows or columns of a mesh (RR Table 1).
const MaxSide = 32

// DefaultSlots is the number of places of an adaptive virtual channel. DefaultEscape is that of the
// other virtual channels, and of the endpoint for each priority.
const (
	DefaultSlots  = 16
	DefaultEscape = 4
)

// detour is the number of hops that a single failure can add to the longest route (nexthop.Prove).
const detour = 4

// portLocal is the port of the endpoint, behind those of the four links.
const portLocal = wire.NumDirections

// Config describes a router.
type Config struct {
	At       nexthop.Place
	Mesh     nexthop.Mesh
	Epoch    uint32        // incarnation of this router
	Slots    int           // places of an adaptive channel, 1 to MaxSlots; 0: DefaultSlots
	Escape   int           // places of each other channel, 1 to MaxSlots; 0: DefaultEscape
	Window   int           // packets of a flow that wait for a missing one, at least 1; 0: DefaultWindow
	Patience time.Duration // time that a flow waits for a missing packet; 0: DefaultPatience
	Seed     uint64
}

// place is a place for a packet in a virtual channel of a port.
type place struct {
	Copy
	port  uint8 // port by which the packet came
	vc    uint8
	slot  uint16
	p     Packet
	age   uint64 // number of the arrival at this router
	live  bool   // the link by which the packet came has not failed since
	stays bool
	dir   wire.Direction // of the states Sent and later: where the copy is that was sent
	outVC uint8
	out   uint16
}

// link is the sender's view of a link.
type link struct {
	up      bool
	free    [NumVCs][]uint16         // free places of the neighbour
	sent    [NumVCs][MaxSlots]*place // packets in the neighbour's places, until the token has left
	pending []*place                 // packets that the neighbour has not acknowledged, the oldest first
	frames  [][]byte                 // frames for the link, the oldest first
}

// Counters count what a router did.
type Counters struct {
	Injected, Accepted, Delivered int
	OnClass                       [3]int // hops by class of channel
	Expired                       int    // packets given up because of their TTL
	NoRoute                       int    // packets given up because no link leads to the destination
	Resent                        int    // packets sent again because the link ahead failed
	Generated                     int    // tokens made because the link behind failed
	Replicas                      int    // packets that came to their destination with a replica token
	Duplicates                    int    // packets discarded at their destination
	Forgotten                     int    // replicas that the destination's memory has lost
	Violations                    int    // frames that no correct neighbour sends
}

// Drop is a packet that a router has given up. If the token is unique, the packet is lost. If the
// token is a replica, another copy may arrive.
type Drop struct {
	Packet
	Token Token
	Why   string
}

// Router is one router.
type Router struct {
	cfg      Config
	rng      *rand.Rand
	links    [wire.NumDirections]link
	places   [portLocal + 1][NumVCs][]place
	held     []*place // packets that wait for a channel
	seqs     map[flowKey]uint64
	age      uint64
	replicas replicas
	order    orderer
	accepted []Packet
	ready    []Packet
	drops    []Drop
	Stats    Counters
}

// flowKey names a flow at its source.
type flowKey struct {
	dst      nexthop.Place
	priority uint8
}

// ErrBusy is the error of [Router.Inject] if all places of the endpoint are taken.
var ErrBusy = errors.New("all places of the endpoint are taken")

// New returns a router whose links are all down.
func New(cfg Config) (*Router, error) {
	for _, d := range []struct {
		v         *int
		def, most int
	}{{&cfg.Slots, DefaultSlots, MaxSlots}, {&cfg.Escape, DefaultEscape, MaxSlots}, {&cfg.Window, DefaultWindow, 1 << 16}} {
		if *d.v == 0 {
			*d.v = d.def
		}
		if *d.v < 1 || *d.v > d.most {
			return nil, fmt.Errorf("%d slots or packets; want 1 to %d", *d.v, d.most)
		}
	}
	if cfg.Patience == 0 {
		cfg.Patience = DefaultPatience
	}
	m := cfg.Mesh
	if m.W < 1 || m.H < 1 || m.W > MaxSide || m.H > MaxSide || !m.Has(cfg.At) || cfg.Patience < 0 {
		return nil, fmt.Errorf("a router at %v in %v with a patience of %v; a mesh has at most %d rows and columns", cfg.At, m, cfg.Patience, MaxSide)
	}
	r := &Router{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 5)), seqs: map[flowKey]uint64{}}
	r.order = orderer{window: cfg.Window, patience: cfg.Patience, out: func(p Packet) {
		r.Stats.Delivered++
		r.ready = append(r.ready, p)
	}}
	for port := range r.places {
		for vc := range r.places[port] {
			n := cfg.Escape
			if port == portLocal && vc >= Priorities {
				continue
			}
			if port != portLocal && vc == VCAdaptive {
				n = cfg.Slots
			}
			ps := make([]place, n)
			for i := range ps {
				ps[i] = place{port: uint8(port), vc: uint8(vc), slot: uint16(i)}
			}
			r.places[port][vc] = ps
		}
	}
	return r, nil
}

// MaxTTL returns the hops that a packet may take: the longest route under any single failure.
func (r *Router) MaxTTL() uint8 { return uint8(r.cfg.Mesh.W + r.cfg.Mesh.H - 2 + detour) }

// Inject takes a packet from the endpoint. The router sets source, TTL, epoch and number. A bad address,
// priority or payload is an error; without a free place the error is [ErrBusy]. The packet is accepted
// when [Router.PollAccepted] returns the packet: from then on, the death of this router does not harm
// the packet.
func (r *Router) Inject(now mono.Time, p Packet) error {
	if !r.cfg.Mesh.Has(p.Dst) || p.Priority >= Priorities || len(p.Payload) > MaxPayload {
		return fmt.Errorf("a packet to %v with priority %d and %d bytes; want a node of %v, a priority up to %d and at most %d bytes", p.Dst, p.Priority, len(p.Payload), r.cfg.Mesh, Priorities-1, MaxPayload)
	}
	i := slices.IndexFunc(r.places[portLocal][p.Priority], func(s place) bool { return s.State == Free })
	if i < 0 && p.Dst != r.cfg.At {
		return ErrBusy
	}
	k := flowKey{p.Dst, p.Priority}
	p.Src, p.TTL, p.Epoch, p.Seq = r.cfg.At, r.MaxTTL(), r.cfg.Epoch, r.seqs[k]
	r.seqs[k]++
	r.Stats.Injected++
	if p.Dst == p.Src {
		r.accept(p)
		r.order.take(now, p)
		return nil
	}
	s := &r.places[portLocal][p.Priority][i]
	s.Inject()
	r.hold(s, p)
	return nil
}

func (r *Router) accept(p Packet) {
	r.Stats.Accepted++
	r.accepted = append(r.accepted, p)
}

// hold puts a packet that has come on the list of those that wait for a channel.
func (r *Router) hold(s *place, p Packet) {
	r.age++
	s.p, s.age, s.live = p, r.age, true
	if s.State == Held {
		r.held = append(r.held, s)
	}
}

// HandleFrame takes a frame of the neighbour in direction d. The bytes may change afterwards. A frame
// that no correct neighbour sends is counted, and has no effect.
func (r *Router) HandleFrame(now mono.Time, d wire.Direction, b []byte) {
	f, err := DecodeFrame(b)
	if err != nil || d >= wire.NumDirections || !r.links[d].up || !r.handle(now, d, &f) {
		r.Stats.Violations++
	}
}

func (r *Router) handle(now mono.Time, d wire.Direction, f *Frame) bool {
	l := &r.links[d]
	switch f.Kind {
	case KindCopied:
		s := l.sent[f.VC][f.Slot]
		if s == nil || !s.Copied() {
			return false
		}
		r.settle(now, s)
		return true
	case KindFreed:
		n := len(r.places[d][f.VC]) // neighbours have equal places
		if int(f.Slot) >= n || l.sent[f.VC][f.Slot] != nil || slices.Contains(l.free[f.VC], f.Slot) {
			return false
		}
		l.free[f.VC] = append(l.free[f.VC], f.Slot)
		return true
	}
	if int(f.Slot) >= len(r.places[d][f.VC]) {
		return false
	}
	s := &r.places[d][f.VC][f.Slot]
	if f.Kind == KindData {
		if !r.cfg.Mesh.Has(f.P.Src) || !r.cfg.Mesh.Has(f.P.Dst) || !s.Take(f.P.Dst == r.cfg.At) {
			return false
		}
		f.P.Payload = slices.Clone(f.P.Payload)
		s.stays = f.Stays
		r.hold(s, f.P)
		return true
	}
	t := Unique
	if f.Kind == KindReplica {
		t = Replica
	}
	if !s.live || !s.TakeToken(t) {
		return false
	}
	r.settle(now, s)
	return true
}

// HandleStored says that the neighbour in direction d has acknowledged the n oldest packets that this
// router has sent, and that were not acknowledged before.
func (r *Router) HandleStored(now mono.Time, d wire.Direction, n int) {
	l := &r.links[d]
	for ; n > 0 && len(l.pending) > 0; n-- {
		s := l.pending[0]
		l.pending = l.pending[1:]
		final := s.p.Dst == r.cfg.At.Step(d)
		if s.port == portLocal && s.token == Unique && !s.told {
			r.accept(s.p)
			s.told = true
		}
		if s.Stored(final) {
			r.tell(s)
		}
		r.settle(now, s)
	}
	r.Stats.Violations += n
}

// tell sends "copied" to the router from which the packet came.
func (r *Router) tell(s *place) {
	if s.port != portLocal && s.live {
		r.send(wire.Direction(s.port), &Frame{Kind: KindCopied, VC: s.vc, Slot: s.slot})
	}
}

func (r *Router) send(d wire.Direction, f *Frame) {
	r.links[d].frames = append(r.links[d].frames, f.Append(nil))
}

// settle lets the token of a packet go on, if the packet's work here is done.
func (r *Router) settle(now mono.Time, s *place) {
	state := s.State
	t := s.Leave()
	if t == NoToken {
		return
	}
	switch state {
	case Sent:
		kind := KindUnique
		if t == Replica {
			kind = KindReplica
		}
		r.links[s.dir].sent[s.outVC][s.out] = nil
		r.send(s.dir, &Frame{Kind: kind, VC: s.outVC, Slot: s.out})
	case Final:
		r.arrive(now, s.p, t)
	case Lost:
		why := "no link leads to the destination"
		if s.p.TTL == 0 {
			why = "the packet has taken too many hops"
		}
		r.drops = append(r.drops, Drop{s.p, t, why})
	}
	s.p = Packet{}
	if s.port != portLocal && r.links[s.port].up {
		r.send(wire.Direction(s.port), &Frame{Kind: KindFreed, VC: s.vc, Slot: s.slot})
	}
}

// arrive gives a packet to the endpoint. Only a replica token may mean that the packet has come before.
func (r *Router) arrive(now mono.Time, p Packet, t Token) {
	if t == Replica {
		r.Stats.Replicas++
		fresh, forgotten := r.replicas.add(packetID{p.flow(), p.Seq})
		if forgotten {
			r.Stats.Forgotten++
		}
		if !fresh {
			r.Stats.Duplicates++
			return
		}
	}
	r.order.take(now, p)
}

// LinkUp says that the link in direction d has begun a new session. A repaired link may come up at any
// time: nexthop.ProveRepair shows that no packets wait for each other then. The neighbour learns of each place
// that is free. Places with packets of an earlier session follow when they are free.
func (r *Router) LinkUp(_ mono.Time, d wire.Direction) {
	if r.links[d].up {
		return
	}
	r.links[d] = link{up: true}
	for vc := range r.places[d] {
		for i := range r.places[d][vc] {
			if r.places[d][vc][i].State == Free {
				r.send(d, &Frame{Kind: KindFreed, VC: uint8(vc), Slot: uint16(i)})
			}
		}
	}
}

// LinkDown says that the session of the link in direction d has ended. Both ends must hear of the end
// before the link may come up again. Packets that were sent by the link are held, and go another way.
// Packets that came by the link get a replica token, if their token has not come.
func (r *Router) LinkDown(now mono.Time, d wire.Direction) {
	l := &r.links[d]
	if !l.up {
		return
	}
	sent := l.sent
	*l = link{}
	for vc := range sent {
		for _, s := range sent[vc] {
			if s != nil {
				s.FailAhead()
				r.Stats.Resent++
				r.held = append(r.held, s)
			}
		}
	}
	slices.SortFunc(r.held, func(a, b *place) int { return int(a.age) - int(b.age) })
	for vc := range r.places[d] {
		for i := range r.places[d][vc] {
			s := &r.places[d][vc][i]
			if s.State == Free || !s.live {
				continue
			}
			s.live = false
			if s.token == NoToken {
				r.Stats.Generated++
			}
			s.FailBehind()
			r.settle(now, s)
		}
	}
}

// up returns the links that work.
func (r *Router) up() (s nexthop.Dirs) {
	for d := range r.links {
		if r.links[d].up {
			s = s.With(wire.Direction(d))
		}
	}
	return s
}

// Step sends held packets, the oldest first: at most one by each link whose bit in ready is set. The
// age takes the place of the priorities and of the promotion of RR §2.3.3.
func (r *Router) Step(now mono.Time, ready nexthop.Dirs) {
	up, kept := r.up(), r.held[:0]
	for _, s := range r.held {
		if s.State == Held {
			r.route(now, s, up, &ready)
		}
		if s.State == Held {
			kept = append(kept, s)
		}
	}
	clear(r.held[len(kept):])
	r.held = kept
}

// route sends a held packet by a free channel (RR §4), or gives the packet up. Else the packet waits.
func (r *Router) route(now mono.Time, s *place, up nexthop.Dirs, ready *nexthop.Dirs) {
	pr := nexthop.Problem{At: r.cfg.At, Dst: s.p.Dst, Up: up, Stays: s.stays}
	if s.port < portLocal {
		pr.Came, pr.From = true, wire.Direction(s.port)
		pr.Ban = s.vc >= VCFault && !s.stays
	}
	hops, n := nexthop.RuleA.Escape(r.cfg.Mesh, &pr)
	if s.p.TTL == 0 || n == 0 && pr.Productive() == 0 {
		if s.p.TTL == 0 {
			r.Stats.Expired++
		} else {
			r.Stats.NoRoute++
		}
		if s.Drop() {
			r.tell(s)
		}
		r.settle(now, s)
		return
	}
	best, most := nexthop.Hop{}, 0
	for d := range (pr.Productive() & *ready).All() {
		free := len(r.links[d].free[VCAdaptive])
		if free > most || free == most && free > 0 && r.rng.IntN(2) == 0 {
			best, most = nexthop.Hop{Dir: d, Class: nexthop.ClassAdaptive}, free
		}
	}
	vc := uint8(VCAdaptive)
	if most == 0 {
		if n == 0 || !ready.Has(hops[0].Dir) {
			return
		}
		best, vc = hops[0], VCOrdered+s.p.Priority
		if best.Class == nexthop.ClassFault {
			vc = VCFault + s.p.Priority
		}
		if len(r.links[best.Dir].free[vc]) == 0 {
			return
		}
	}
	*ready &^= 1 << best.Dir
	r.forward(s, best, vc)
}

// forward sends a packet to a free place of a neighbour.
func (r *Router) forward(s *place, h nexthop.Hop, vc uint8) {
	l := &r.links[h.Dir]
	free := l.free[vc]
	slot := free[len(free)-1]
	l.free[vc] = free[:len(free)-1]
	s.Send()
	s.dir, s.outVC, s.out = h.Dir, vc, slot
	l.sent[vc][slot] = s
	l.pending = append(l.pending, s)
	r.Stats.OnClass[h.Class]++
	p := s.p
	p.TTL--
	r.send(h.Dir, &Frame{Kind: KindData, VC: vc, Slot: slot, Stays: h.Stays, P: p})
}
