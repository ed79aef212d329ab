// Package router is the fabric router of one chip (Spec §3). The router is a pure state machine.
// The router works only while its chip calls one of the router's methods.
//
// Every port has, per virtual channel, one receiver channel for packets that come in and four
// sender channels for packets that go out. Sender channel 0 takes the chip's own packets. Sender
// channels 1 to 3 take the packets that pass through from the other three directions (Spec §3.1.2).
// The first packet of a sender or receiver channel moves when the next channel or link on its route
// has room. Until then, the packet stays in its channel. In this package, a channel of packets is
// always a sender channel or a receiver channel. The router gives a reason for each packet that it
// drops.
//
//	Arrive → receiver channel → Step → sender channel → Next/Sent → the link
//	                          ↘ PollLocal → the chip
//
// The copies of a multicast move one by one. Each copy moves when the copy's sender channel has
// room (multicast.go).
//
// The chip calls the methods in this order: PollLocal, Step, Next for each port, PollFreed,
// PollDrop.
package router

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// SenderChannels is the number of sender channels of a 2D mesh router: one for the worker and one
// for each of three neighbours (Spec §3.1.2).
const SenderChannels = 4

// maxPlanes is the number of planes that the four-bit field in a packet's header can name (see
// package wire).
const maxPlanes = 16

// PortConfig describes one port of the router.
type PortConfig struct {
	Channel  wire.Channel
	Dir      wire.Direction
	Plane    wire.Plane
	Ring     bool // the cable is part of an axis that wraps
	Wrap     bool // the cable crosses the dateline of that axis
	External bool // the cable leads to another mesh
}

// Config describes a router.
type Config struct {
	Ports []PortConfig // at most one per direction and plane
	Slots SlotProfile
	Grace time.Duration // how long the router keeps the packets that wait to leave by a dead port

	// Dateline moves packets to another virtual channel when the packets cross the dateline of an
	// axis that wraps (Spec §2.3.1). Bubble lets packets enter such an axis only if the peer has
	// two free slots. LocalFirst serves the chip's own packets before the packets that pass
	// through. Without LocalFirst, the four sender channels of a virtual channel take turns.
	// LocalFirst exists to show the deadlock of Spec §6.1.
	Dateline, Bubble, LocalFirst bool

	Timeout Timeout
	Pool    *Pool
	Place   wire.Place // the chip's place in its mesh, for multicasts to a set of members

	// Outdated reports whether a packet could close a cycle with packets of the tables in force,
	// because other tables gave the packet its route. The router asks only about packets that would
	// have to wait for room. The router parks the packets for which Outdated returns true
	// (parked.go). If Outdated is nil, no packet is outdated.
	Outdated func(wire.PacketView) bool
}

// Drop is a packet that the router dropped. The caller of [Router.PollDrop] must return the slot to
// the pool.
type Drop struct {
	Slot    Slot
	Reason  wire.DropReason
	Channel wire.Channel
	Dir     wire.Direction // direction in which the packet, or the copy of a multicast, should have left; wire.NumSides: the router dropped a whole packet before it entered a sender channel
}

// Local is a packet for this chip. If the packet is not shared, the caller of [Router.PollLocal]
// must return the slot to the pool.
type Local struct {
	Slot   Slot
	Port   int
	Shared bool // the router still needs the slot for copies of a multicast: the caller reads the slot before the next call to the router, and does not return the slot to the pool
}

// Freed is a slot that became free in a receiver channel. The chip then grants the peer one more
// packet.
type Freed struct {
	Port int
	VC   wire.VC
}

type port struct {
	PortConfig
	up        bool
	out       bool      // the tables have taken the port out of service: while its link is down, packets that wait to leave by the port need a new route
	wasUp     bool      // the link has been up at least once
	dead      bool      // the link is down, and the chip no longer waits for the link: the grace period runs
	order     Command   // order in force: run, pause or drain
	downSince mono.Time // when the grace period began
	recv      [wire.NumVCs]ring
	send      [wire.NumVCs][SenderChannels]ring
	held      uint16           // set of virtual channels whose receiver channel holds packets, one bit for each virtual channel
	waiting   Skip             // set of sender channels that hold packets
	queued    int              // packets in all sender channels
	parked    int              // packets in sender channels beyond the channels' slots, see parked.go
	nextVC    wire.VC          // virtual channel that the round robin serves next
	nextCh    [wire.NumVCs]int // sender channel that the round robin of each virtual channel serves next
	offeredVC wire.VC          // virtual channel of the packet that Next last offered
	offeredCh int              // sender channel of the packet that Next last offered
	counters  [wire.NumClasses]Counters
}

// push adds a packet to a sender channel that takes it.
func (p *port) push(v wire.VC, c int, s Slot, at uint32) {
	q := &p.send[v][c]
	if q.full() {
		q.grow()
		p.parked++
	}
	q.push(s, at)
	p.waiting |= one(v, c)
	p.queued++
}

// pop removes the first packet of a sender channel.
func (p *port) pop(v wire.VC, c int) Slot {
	s := p.send[v][c].pop()
	p.removed(v, c, 1)
	return s
}

// removed updates the port's counts after the router took n packets out of a sender channel.
func (p *port) removed(v wire.VC, c int, n int) {
	q := &p.send[v][c]
	p.queued -= n
	p.parked -= max(0, q.n+n-q.size) - max(0, q.n-q.size)
	if q.n == 0 {
		q.shrink()
		p.waiting &^= one(v, c)
	}
}

// Router is the state machine of one chip's router. A Router is not safe for concurrent use.
type Router struct {
	cfg   Config
	vcs   []wire.VC // virtual channels with slots
	ports []port
	out   [wire.NumSides][maxPlanes]int8 // index of the port by direction and plane; -1: no port
	freed []Freed
	drops []Drop
	recvd int // packets in all receiver channels
	own   origins

	lastFirst []wire.VC // vcs in the order in which PollLocal serves them: control packets, then replies, then requests

	at     uint32    // milliseconds of the latest instant that the router knows, modulo 2³²
	paused int       // number of paused ports
	lookAt mono.Time // when the router next looks for packets that cannot move
	stuck  []Stuck
}

// New returns a router whose links are all down. New returns an error if two ports have the same
// direction and plane, or if a direction or plane does not exist.
func New(now mono.Time, cfg Config) (*Router, error) {
	r := &Router{cfg: cfg}
	for d := range r.out {
		for pl := range r.out[d] {
			r.out[d][pl] = -1
		}
	}
	for v, n := range cfg.Slots.Receiver {
		if n > 0 {
			r.vcs = append(r.vcs, wire.VC(v))
		}
	}
	r.lastFirst = slices.Clone(r.vcs)
	slices.SortStableFunc(r.lastFirst, func(a, b wire.VC) int { return int(b.Class()) - int(a.Class()) })
	for i, pc := range cfg.Ports {
		if pc.Dir >= wire.NumSides || pc.Plane >= maxPlanes {
			return nil, fmt.Errorf("router: port %d leads %s on plane %d: want one of five directions and a plane below %d", i, pc.Dir, pc.Plane, maxPlanes)
		}
		if r.out[pc.Dir][pc.Plane] >= 0 {
			return nil, fmt.Errorf("router: two ports lead %s on plane %d", pc.Dir, pc.Plane)
		}
		r.out[pc.Dir][pc.Plane] = int8(i)
		p := port{PortConfig: pc, downSince: now}
		for v := range wire.NumVCs {
			p.recv[v] = newRing(cfg.Slots.Receiver[v])
			for c := range SenderChannels {
				p.send[v][c] = newRing(cfg.Slots.Sender[v])
			}
		}
		r.own.add(pc.Plane)
		r.ports = append(r.ports, p)
	}
	return r, nil
}

// Buffers returns the largest number of packets that the router can hold: in all channels, and in
// the queues of this chip's own multicasts.
func (r *Router) Buffers() int {
	n := 0
	for _, v := range r.vcs {
		n += r.cfg.Slots.Receiver[v] + SenderChannels*r.cfg.Slots.Sender[v]
	}
	return n*len(r.ports) + r.own.buffers() + MaxParked
}

// Port returns the index of the port that leads in direction d on plane pl, and true. If the chip
// has no such port, Port returns false.
func (r *Router) Port(d wire.Direction, pl wire.Plane) (int, bool) {
	if d >= wire.NumSides || pl >= maxPlanes {
		return 0, false
	}
	i := r.out[d][pl]
	return int(i), i >= 0
}

// SetPort tells the router that the link of port i came up or went down. A link that goes down is
// silent at first: the router keeps the packets that wait for the link.
func (r *Router) SetPort(i int, up bool) {
	p := &r.ports[i]
	p.up, p.dead = up, false
	p.wasUp = p.wasUp || up
	p.unjudge()
}

// Inject puts a packet of this chip into sender channel 0 of a port, or parks the packet there.
// Inject reports false if the channel does not take the packet. Inject does not apply aloneLimit.
func (r *Router) Inject(i int, v wire.VC, s Slot) bool {
	p := &r.ports[i]
	if ok, _ := r.takes(p, v, 0, wire.PacketView(r.cfg.Pool.Bytes(s))); !ok {
		return false
	}
	p.push(v, 0, s, r.at)
	p.of(v).Injected++
	return true
}

// Bypass reports whether the chip may give its own packet to the link of port i at once, without a
// sender channel. The link must be up, the port must run normally, and no packet may wait to leave
// by the port. With bubble flow control, the port's cable must not be part of a ring. If the link
// takes the packet, the chip calls [Router.Bypassed] to count the packet.
func (r *Router) Bypass(i int) bool {
	p := &r.ports[i]
	return p.up && p.order == CommandRun && p.queued == 0 && !(r.cfg.Bubble && p.Ring)
}

// Bypassed counts a packet of this chip that the chip gave to the link of port i without a sender
// channel.
func (r *Router) Bypassed(i int, v wire.VC) {
	c := r.ports[i].of(v)
	c.Injected++
	c.Sent++
}

// Arrive puts a packet into the receiver channel of port i and virtual channel v. The packet came
// in by port i, and [wire.ViewPacket] accepted it. The channel has room because the peer held a
// credit.
func (r *Router) Arrive(i int, v wire.VC, s Slot) {
	p := &r.ports[i]
	p.of(v).Received++
	p.recv[v].push(s, r.at)
	p.held |= 1 << v
	r.recvd++
}

// Idle reports whether a port's receiver channel for virtual channel v is empty and the port is not
// paused.
func (r *Router) Idle(i int, v wire.VC) bool {
	p := &r.ports[i]
	return p.recv[v].n == 0 && p.order != CommandPause
}

// CutThrough handles a packet that came in by port i. [Router.Idle] must be true for the packet's
// receiver channel. CutThrough reports whether the packet is for this chip alone. If so, CutThrough
// counts the packet as received and delivered, and the chip takes the packet without a receiver
// channel.
func (r *Router) CutThrough(i int, v wire.PacketView) bool {
	p := &r.ports[i]
	if v.Trunk() != wire.TrunkNone {
		if r.duties(v, i) != wire.PartHere {
			return false
		}
	} else if v.Action() != wire.RouteBit(p.Dir) {
		return false
	}
	c := p.of(v.VC())
	c.Received++
	c.Delivered++
	return true
}

// Step moves the first packets of the receiver channels, and this chip's own multicasts, while
// sender channels have room. Step drops packets that must be forwarded, but that have no route or a
// TTL of 0. Step drops all packets in the sender channels of a port whose link has been down for
// the grace period. Step also drops requests at draining ports. Step drops packets in stuck
// channels if the timeout's actions say so. Step reports whether it moved or dropped a packet.
func (r *Router) Step(now mono.Time) bool {
	r.SetTime(now)
	moved := r.own.n > 0 && r.depart()
	for i := range r.ports {
		p := &r.ports[i]
		if p.order != CommandPause {
			for held := p.held; held != 0; held &= held - 1 {
				v := wire.VC(bits.TrailingZeros16(held))
				for p.held>>v&1 != 0 && r.forward(i, v) {
					moved = true
				}
			}
		}
		if p.queued > 0 {
			moved = r.drain(i) || moved
			moved = r.expire(now, i) || moved
		}
	}
	if r.cfg.Timeout.After > 0 && !now.Before(r.lookAt) && r.look(now) {
		moved = true
	}
	return moved
}

// forward makes the routing decision for the first packet of a receiver channel. forward reports
// whether the packet moved or was dropped.
func (r *Router) forward(i int, v wire.VC) bool {
	p := &r.ports[i]
	pkt := wire.PacketView(r.cfg.Pool.Bytes(p.recv[v].peek()))
	if pkt.Trunk() != wire.TrunkNone {
		return r.spread(r.arrived(i, v))
	}
	action := pkt.Action()
	if action == wire.RouteBit(p.Dir) {
		return false // the action names the side by which the packet came in: the packet is for this chip, and PollLocal takes the packet
	}
	d, ok := direction(action)
	if !ok {
		r.drop(i, v, wire.DropNoRoute)
		return true
	}
	oi, ok := r.Port(d, p.Plane)
	if !ok {
		r.drop(i, v, wire.DropNoRoute)
		return true
	}
	out := &r.ports[oi]
	to := r.turn(v, pkt.Up(), pkt.Detour(), p, out)
	ch := passThrough(d, p.Dir)
	if ok, why := r.takes(out, to, ch, pkt); !ok {
		if why == 0 {
			return false
		}
		r.drop(i, v, why)
		return true
	}
	if !pkt.Advance() {
		r.drop(i, v, wire.DropTTL)
		return true
	}
	pkt.SetVC(to)
	out.push(to, ch, r.take(i, v), r.at)
	p.of(v).Forwarded++
	return true
}

// turn returns the virtual channel by which a packet leaves by port out. If the configuration has a
// dateline, a packet that crosses the dateline changes to a virtual channel behind the dateline.
// The packet leaves this virtual channel when it turns or leaves the mesh. If packets kept this
// virtual channel after a turn, cycles of waiting packets would close on every torus of 4×4 chips
// or more. A packet on a detour round a fault uses the virtual channels for detours until the
// packet leaves the mesh.
func (r *Router) turn(v wire.VC, up, detour bool, in, out *port) wire.VC {
	if detour && !out.External {
		return wire.DetourVC(v.Class(), up)
	}
	behind := v.Dateline() && !in.External && !out.External && (in.Dir == out.Dir.Opposite())
	return wire.VCFor(v.Class(), up, behind || (out.Wrap && r.cfg.Dateline))
}

// First returns the virtual channel by which a packet of this chip leaves by port i.
func (r *Router) First(i int, c wire.Class, up, detour bool) wire.VC {
	if detour && !r.ports[i].External {
		return wire.DetourVC(c, up)
	}
	return wire.VCFor(c, up, r.ports[i].Wrap && r.cfg.Dateline)
}

// take removes the first packet of a receiver channel, and notes that a slot became free.
func (r *Router) take(i int, v wire.VC) Slot {
	s := r.ports[i].recv[v].pop()
	r.taken(i, v, 1)
	return s
}

// taken updates the counts after the router took n packets out of a receiver channel, and notes
// that n slots became free.
func (r *Router) taken(i int, v wire.VC, n int) {
	for range n {
		r.freed = append(r.freed, Freed{i, v})
	}
	r.recvd -= n
	if p := &r.ports[i]; p.recv[v].n == 0 {
		p.held &^= 1 << v
	}
}

func (r *Router) drop(i int, v wire.VC, why wire.DropReason) {
	if h := r.arrived(i, v); r.view(h).Trunk() != wire.TrunkNone && r.parts(h) {
		r.dropCopies(h, why)
		return
	}
	r.ports[i].of(v).Dropped[why]++
	r.drops = append(r.drops, Drop{r.take(i, v), why, r.ports[i].Channel, wire.NumSides})
}

// expire drops all packets in the sender channels of port i if the port's grace period has ended.
// expire reports whether it dropped a packet.
func (r *Router) expire(now mono.Time, i int) bool {
	if now.Before(r.graceEnd(&r.ports[i])) {
		return false
	}
	return r.empty(i, wire.DropNextHopDead) > 0
}

// PollLocal returns the next packet that has arrived for this chip.
func (r *Router) PollLocal() (Local, bool) {
	if r.recvd == 0 {
		return Local{}, false
	}
	for i := range r.ports {
		p := &r.ports[i]
		if p.held == 0 || p.order == CommandPause {
			continue
		}
		for _, v := range r.lastFirst {
			if p.held>>v&1 == 0 {
				continue
			}
			pkt := wire.PacketView(r.cfg.Pool.Bytes(p.recv[v].peek()))
			if pkt.Trunk() != wire.TrunkNone {
				if l, ok := r.member(r.arrived(i, v)); ok {
					return l, true
				}
			} else if pkt.Action() == wire.RouteBit(p.Dir) {
				p.of(v).Delivered++
				return Local{Slot: r.take(i, v), Port: i}, true
			}
		}
	}
	return Local{}, false
}

// PollFreed returns the next slot that became free in a receiver channel.
func (r *Router) PollFreed() (Freed, bool) {
	if len(r.freed) == 0 {
		return Freed{}, false
	}
	f := r.freed[len(r.freed)-1]
	r.freed = r.freed[:len(r.freed)-1]
	return f, true
}

// PollDrop returns the next packet that the router dropped.
func (r *Router) PollDrop() (Drop, bool) {
	if len(r.drops) == 0 {
		return Drop{}, false
	}
	d := r.drops[0]
	r.drops = r.drops[1:]
	return d, true
}

// Deadline returns the next instant at which a grace period ends or the router looks for packets
// that cannot move. If no grace period and no timeout runs, Deadline reports false.
func (r *Router) Deadline() (mono.Time, bool) {
	at := mono.Never
	for i := range r.ports {
		at = mono.Min(at, r.graceEnd(&r.ports[i]))
	}
	if r.cfg.Timeout.After > 0 && r.InFlight() > 0 {
		at = mono.Min(at, r.lookAt)
	}
	return at, at != mono.Never
}

// InFlight returns the number of packets in all channels of the router, and of this chip's own
// multicasts that wait.
func (r *Router) InFlight() int {
	n := r.recvd + r.own.n
	for i := range r.ports {
		n += r.ports[i].queued
	}
	return n
}
