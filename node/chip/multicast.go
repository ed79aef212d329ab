package chip

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"ttfabric/router"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Limits of multicasts; our own choices.
const (
	MaxGroups  = 256                      // groups that a chip multicasts to, over all planes; a new one takes the place of the idle one that was used longest ago
	MaxMembers = wire.MaxChipsPerMesh - 1 // of a group: all chips of the mesh but the source
)

// MemberResult is what became of a multicast at one of its members.
type MemberResult struct {
	Node    wire.FabricNodeID
	Fate    Fate
	Outcome wire.Outcome      // of FateRefused
	Drop    wire.DropReason   // of FateLost: why, 0 where the member saw a gap
	At      wire.FabricNodeID // of FateLost with a Drop: where
	Doubt   Doubt             // of FateUnknown
}

// chipSet is a set of chips of one mesh.
type chipSet [wire.MaxChipsPerMesh / 64]uint64

func (s *chipSet) add(c wire.ChipID)      { s[c/64] |= 1 << (c % 64) }
func (s *chipSet) remove(c wire.ChipID)   { s[c/64] &^= 1 << (c % 64) }
func (s *chipSet) has(c wire.ChipID) bool { return s[c/64]>>(c%64)&1 != 0 }

// groupKey is what makes a group.
type groupKey struct {
	ranges wire.Ranges
	plane  wire.Plane
}

// groups are those of a source. Invariant: list[i] has number i+1, and is in byKey.
type groups struct {
	byKey map[groupKey]*outGroup
	list  []*outGroup
	uses  uint64
	past  map[wire.FabricNodeID][4]uint64 // fates at members of groups that are no more
}

// outGroup is the source's end of a group's flow. To each member it is a flow
// of its own: the members answer apart, and a request is settled when all have.
//
// Invariant: base ≤ next, ops[head+i] is request base+i, and a member's open
// is the number of requests that have it in open.
type outGroup struct {
	key     groupKey
	number  uint16
	members []groupMember // by chip
	all     chipSet
	ttl     uint16
	epoch   uint32
	life    life
	older   uint32 // not 0: a member knows this later epoch; another one is begun when nothing is open
	next    uint32
	base    uint32 // lowest request that some member has not settled
	ops     []groupOp
	head    int // of ops
	used    uint64
	heard   mono.Time // when a member last answered
	probed  mono.Time // when the last probe went out
	probes  int       // since a member fell silent
}

// groupMember is a member as its source sees it.
type groupMember struct {
	node     wire.FabricNodeID
	answered bool      // in this life of the flow
	next     uint32    // it has answered every request before it
	open     int       // requests that it has not settled
	progress mono.Time // when it last answered, or had nothing open
	fates    [4]uint64 // of the requests that it has settled, by Fate
}

// groupOp is one request of a group.
type groupOp struct {
	op
	open   chipSet // members that have not settled it
	left   int     // of these
	failed []MemberResult
}

func (g *outGroup) openOps() []groupOp { return g.ops[g.head:] }

// at returns the open request seq, nil if its fate is known or it was never sent.
func (g *outGroup) at(seq uint32) *groupOp {
	if i := seq - g.base; i < uint32(len(g.ops)-g.head) {
		return &g.ops[g.head+int(i)]
	}
	return nil
}

// member finds a chip among the members.
func (g *outGroup) member(n wire.FabricNodeID) *groupMember {
	i, ok := slices.BinarySearchFunc(g.members, n, func(m groupMember, n wire.FabricNodeID) int { return cmp.Compare(m.node.Chip, n.Chip) })
	if !ok || g.members[i].node != n {
		return nil
	}
	return &g.members[i]
}

// advance moves base past settled requests.
func (g *outGroup) advance() {
	for g.head < len(g.ops) && g.ops[g.head].settled {
		g.ops[g.head] = groupOp{}
		g.head++
		g.base++
	}
	if g.head == len(g.ops) {
		g.ops, g.head = g.ops[:0], 0
	} else if g.head > 64 && g.head > len(g.ops)/2 {
		n := copy(g.ops, g.ops[g.head:])
		clear(g.ops[n:])
		g.ops, g.head = g.ops[:n], 0
	}
}

// check finds that the counts of a group agree; it returns its open requests.
func (g *outGroup) check() (open int, err error) {
	by := map[wire.ChipID]int{}
	for _, o := range g.openOps() {
		n := 0
		for _, m := range g.members {
			if o.open.has(m.node.Chip) {
				by[m.node.Chip]++
				n++
			}
		}
		if n != o.left || o.settled != (n == 0) {
			return 0, fmt.Errorf("a request of group %d is open at %d members, counted as %d, settled: %v", g.number, n, o.left, o.settled)
		}
		if !o.settled {
			open++
		}
	}
	for _, m := range g.members {
		if m.open != by[m.node.Chip] {
			return 0, fmt.Errorf("member %s of group %d has %d requests open, counted as %d", m.node, g.number, by[m.node.Chip], m.open)
		}
	}
	return open, nil
}

// CheckMulticast says why a request's ranges cannot be multicast to; nil if they can.
func (c *Chip) CheckMulticast(r *Request) error {
	switch {
	case r.Command.Type == wire.NocRead && !r.Probe:
		return errors.New("a read cannot be multicast")
	case len(r.Via) > 0:
		return errors.New("a multicast takes its own way: it cannot be given hops")
	case r.Other:
		return errors.New("a multicast takes the ways that its ranges name: it cannot be given the other way round a ring")
	}
	_, err := c.base.Multicast(r.Plane, c.cfg.Node, r.Ranges)
	return err
}

// startGroup starts a multicast.
func (c *Chip) startGroup(now mono.Time, r *Request, client bool) Admission {
	switch {
	case len(r.Payload) > wire.MaxPayload:
		return TooLarge
	case len(c.results)-c.resHead >= MaxResults:
		return Busy
	case r.Command.Type == wire.NocRead && !r.Probe || len(r.Via) > 0 || r.Other:
		return BadRanges
	}
	g, a := c.group(r)
	if a != Accepted {
		return a
	}
	if len(g.openOps()) == 0 && (g.older != 0 || g.life.ending || g.life.known && now.Sub(g.heard) > FlowIdle) {
		g.renew()
	}
	if g.older != 0 || g.life.ending {
		return Busy
	}
	if len(g.openOps()) >= MaxOutstanding || !c.injectGroup(g, r, op{token: r.Token, sent: now, client: client}) {
		return Busy
	}
	return Accepted
}

// group finds the group of a request, or makes one.
func (c *Chip) group(r *Request) (*outGroup, Admission) {
	gs, k := &c.groups, groupKey{r.Ranges, r.Plane}
	if g := gs.byKey[k]; g != nil {
		return g, Accepted
	}
	// Faults change no trees: a copy is dropped where it meets one, and its members named.
	tree, err := c.base.Multicast(k.plane, c.cfg.Node, k.ranges)
	if err != nil {
		return nil, BadRanges
	}
	h := &k.ranges.Hops
	g := &outGroup{key: k, ttl: uint16(max(h[wire.East], h[wire.West])) + uint16(max(h[wire.North], h[wire.South]))}
	for _, b := range tree {
		if b.Member {
			g.members = append(g.members, groupMember{node: b.To})
			g.all.add(b.To.Chip)
		}
	}
	slices.SortFunc(g.members, func(a, b groupMember) int { return cmp.Compare(a.node.Chip, b.node.Chip) })
	if !gs.add(g, firstLife(&c.cfg)) {
		return nil, Busy
	}
	return g, Accepted
}

// add gives a group a number and its flow an epoch, the first one being that of
// the chip's life. The flow of a number that is used again goes on with another
// life. It fails while no group is idle.
func (gs *groups) add(g *outGroup, first uint32) bool {
	if gs.byKey == nil {
		gs.byKey = map[groupKey]*outGroup{}
	}
	if len(gs.list) < MaxGroups {
		gs.list = append(gs.list, g)
		g.number, g.epoch = uint16(len(gs.list)), first
	} else {
		var old *outGroup
		for _, o := range gs.list {
			if len(o.openOps()) == 0 && (old == nil || o.used < old.used) {
				old = o
			}
		}
		if old == nil {
			return false
		}
		delete(gs.byKey, old.key)
		gs.bury(old)
		gs.list[old.number-1] = g
		g.number, g.epoch = old.number, old.after()
	}
	gs.byKey[g.key] = g
	return true
}

// injectGroup sends the group's next packet; false while there is no room.
func (c *Chip) injectGroup(g *outGroup, r *Request, o op) bool {
	if !c.router.CanMulticast(g.key.plane) {
		return false
	}
	c.nextID++
	p := wire.Packet{Type: wire.PacketRequest, VC: wire.VCFor(wire.ClassRequest, false, false), Plane: g.key.plane, TTL: g.ttl, Src: c.cfg.Node, Dst: c.cfg.Node,
		Known: g.life.known, FlowEpoch: g.epoch, FlowSeq: g.next, FlowBase: g.base, ID: c.nextID, Epoch: c.epoch,
		Group: g.number, Trunk: c.plan.Trunk(), Ranges: g.key.ranges, Command: r.Command, Payload: r.Payload}
	if r.Probe {
		p.Type, p.Command, p.Payload = wire.PacketProbe, wire.Command{Type: wire.NocNone}, nil
	}
	p.Command.Size = uint16(len(p.Payload))
	s, ok := c.build(&p)
	if !ok {
		return false
	}
	c.router.Multicast(g.key.plane, s) // there is room
	for i := range g.members {
		m := &g.members[i]
		if m.open == 0 {
			m.progress = o.sent
		}
		m.open++
	}
	o.known = g.life.known
	g.ops = append(g.ops, groupOp{op: o, open: g.all, left: len(g.members)})
	g.next++
	c.groups.uses++
	g.used = c.groups.uses
	c.counters.Requests++
	if c.open++; c.open == 1 {
		c.nextFlows = o.sent.Add(flowTick)
	}
	return true
}

// settleMember ends one request of a group at one member, once.
func (c *Chip) settleMember(now mono.Time, g *outGroup, m *groupMember, seq uint32, r Result) {
	o := g.at(seq)
	if o == nil || !o.open.has(m.node.Chip) {
		return
	}
	r = g.life.judge(&o.op, r)
	o.open.remove(m.node.Chip)
	o.left--
	m.open--
	if !o.probe {
		m.fates[r.Fate]++
	}
	if r.Fate != FateDone {
		o.failed = append(o.failed, MemberResult{m.node, r.Fate, r.Outcome, r.Drop, r.At, r.Doubt})
	}
	if o.left > 0 {
		return
	}
	o.settled = true
	c.open--
	if !o.probe {
		c.finish(now, c.cfg.Node, &o.op, groupResult(o.failed))
	}
}

// groupResult sums up what became of a multicast at the members where it was not done.
func groupResult(failed []MemberResult) Result {
	if len(failed) == 0 {
		return Result{Fate: FateDone}
	}
	slices.SortFunc(failed, func(a, b MemberResult) int { return cmp.Compare(a.Node.Chip, b.Node.Chip) })
	worst := failed[0]
	for _, m := range failed {
		if m.Fate > worst.Fate {
			worst = m
		}
	}
	return Result{Fate: worst.Fate, Outcome: worst.Outcome, Drop: worst.Drop, At: worst.At, Doubt: worst.Doubt, Members: failed}
}

// groupOf finds the group of an answer and its member; false if there is none of that life.
func (c *Chip) groupOf(number uint16, pl wire.Plane, epoch uint32) (*outGroup, bool) {
	if number == 0 || int(number) > len(c.groups.list) {
		return nil, false
	}
	g := c.groups.list[number-1]
	return g, g.key.plane == pl && g.epoch == epoch
}

// groupCompletion settles what a member says is settled.
func (c *Chip) groupCompletion(now mono.Time, p *wire.Packet, k *wire.Completion) {
	g, ok := c.groupOf(p.Group, p.Plane, k.FlowEpoch)
	if g != nil && olderLife(g.epoch, k.FlowEpoch) {
		g.older = k.FlowEpoch
		if m := g.member(p.Src); m != nil {
			c.giveUpMember(now, g, m, DoubtOlder)
		}
		g.advance()
		return
	}
	if !ok || int32(k.Next-g.next) > 0 {
		c.counters.StaleCompletions++
		return
	}
	m := g.member(p.Src)
	if m == nil {
		c.counters.StaleCompletions++
		return
	}
	g.hear(now, m, k)
	if int32(g.base-m.next) > 0 {
		m.next = g.base
	}
	for _, e := range k.Exceptions {
		for seq := later(e.First, m.next); int32(seq-e.First) < int32(e.Count) && int32(k.Next-seq) > 0; seq++ {
			c.settleMember(now, g, m, seq, exceptionResult(e.Outcome))
		}
	}
	for ; int32(k.Next-m.next) > 0; m.next++ {
		c.settleMember(now, g, m, m.next, Result{Fate: FateDone})
	}
	g.advance()
	m.progress = now
}

// hear takes note of a member's completion of this life.
func (g *outGroup) hear(now mono.Time, m *groupMember, k *wire.Completion) {
	g.heard = now
	g.life.heard(k)
	if m.answered {
		return
	}
	m.answered = true
	g.life.known = !slices.ContainsFunc(g.members, func(m groupMember) bool { return !m.answered })
}

// after is the epoch of the next life of the flow of a group's number.
func (g *outGroup) after() uint32 {
	if g.older != 0 {
		return nextLife(g.older)
	}
	return nextLife(g.epoch)
}

// renew begins a new life of a group's flow; nothing of it is open.
func (g *outGroup) renew() {
	g.epoch, g.older, g.next, g.base, g.life = g.after(), 0, 0, 0, life{}
	for i := range g.members {
		g.members[i].next, g.members[i].answered = 0, false
	}
}

// later is the later of two sequence numbers.
func later(a, b uint32) uint32 {
	if int32(b-a) > 0 {
		return b
	}
	return a
}

// groupDropped settles a request for the members that a dropped copy had
// before it. A probe that was dropped tells that the way to them is dead: all
// before it is settled or will never be.
func (c *Chip) groupDropped(now mono.Time, r *wire.DropReport, at wire.FabricNodeID) {
	g, ok := c.groupOf(r.Group, r.Plane, r.FlowEpoch)
	if !ok || at.Mesh != c.cfg.Node.Mesh {
		return
	}
	o := g.at(r.FlowSeq)
	if o == nil {
		return
	}
	probe := o.probe
	for _, b := range c.plan.Beyond(nil, at, r.Dir, r.Trunk, r.Ranges) {
		m := g.member(b.To)
		if !b.Member || m == nil {
			continue
		}
		if o.open.has(m.node.Chip) && probe {
			for seq := g.base; int32(r.FlowSeq-seq) > 0; seq++ {
				c.settleMember(now, g, m, seq, Result{Fate: FateUnknown, Doubt: DoubtRouteDead})
			}
		}
		c.settleMember(now, g, m, r.FlowSeq, Result{Fate: FateLost, Drop: r.Reason, At: at})
		m.progress = now
	}
	g.advance()
}

// tickGroups probes groups of which a member has stalled, and gives up members that have for too long.
func (c *Chip) tickGroups(now mono.Time) {
	for _, g := range c.groups.list {
		if len(g.openOps()) == 0 || !c.silent(now, g) {
			g.probes = 0
			continue
		}
		wait := ProbeAfter << min(g.probes, 4)
		if g.probes > 0 && now.Sub(g.probed) < wait || len(g.openOps()) >= MaxOutstanding+16 {
			continue
		}
		if c.injectGroup(g, &Request{Probe: true}, op{sent: now, probe: true}) {
			g.probed = now
			g.probes++
			c.counters.Probes++
		}
	}
}

// silent reports whether a member with open requests has not answered for a
// while, and gives up those that haven't for FlowTimeout.
func (c *Chip) silent(now mono.Time, g *outGroup) (late bool) {
	for i := range g.members {
		m := &g.members[i]
		quiet := now.Sub(m.progress)
		switch {
		case m.open == 0:
		case quiet > FlowTimeout:
			c.giveUpMember(now, g, m, DoubtTimeout)
		case quiet >= ProbeAfter:
			late = true
		}
	}
	g.advance()
	return late
}

// giveUpMember ends all open requests of a group at one of its members.
func (c *Chip) giveUpMember(now mono.Time, g *outGroup, m *groupMember, why Doubt) {
	for seq := g.base; seq != g.next; seq++ {
		c.settleMember(now, g, m, seq, Result{Fate: FateUnknown, Doubt: why})
	}
	m.next = g.next
	c.counters.FlowResets++
}

// mine reports whether this chip is meant by a packet that the router delivers here.
func (c *Chip) mine(p *wire.Packet) bool {
	if p.Trunk == wire.TrunkNone {
		return p.Dst == c.cfg.Node
	}
	return p.Dst == p.Src && p.Src != c.cfg.Node && p.Src.Mesh == c.cfg.Node.Mesh && p.Group <= MaxGroups
}

// ofCopy adds what a report says of a multicast's copy; false where the copy leads nowhere.
func (r *report) ofCopy(d router.Drop, v wire.PacketView) bool {
	if v.Trunk() == wire.TrunkNone {
		return true
	}
	r.Group, r.Dir, r.Trunk, r.Ranges = v.Group(), d.Dir, v.Trunk(), v.Ranges()
	return d.Dir < wire.NumDirections
}
