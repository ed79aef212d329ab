package chip

import (
	"slices"

	"ttfabric/router"
	"ttfabric/router/route"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// The tables follow the faults: when the control plane (router/control) says
// that other cables are out of service, new tables are planned around them,
// proved together with what is still under way by the old ones, and put in
// force. All chips do so by themselves, from the same words; a packet says by
// which tables it was routed. What doesn't cross a fault keeps its way. A flow
// whose way changes goes on by the new one once its open requests have ended,
// so that its packets keep their order. A packet that waits to leave by a port
// out of service is caught, and sent on from here by the new tables; its fate
// is known as soon as it would have been without the fault.

// tables are what the chip remembers of those before the ones in force.
type tables struct {
	before  []uint32 // epochs of former tables, the newest last
	strict  bool     // packets of all other tables that may close a cycle with these are given up
	refused uint64   // tables that could have closed a cycle, or led astray: never put in force

	checked map[[2]uint32]route.Conflict // what proofs found, by the hashes of the tables before and after: a cable that flaps is proved once

	unreachable []wire.FabricNodeID // by the tables in force, of this mesh; of another mesh its first chip, for all
}

// maxEpochs is how many former tables are remembered, and maxChecked how many proofs.
const (
	maxEpochs  = 16
	maxChecked = 64
)

// Tables tells of new tables: an event.
type Tables struct {
	Epoch       uint32
	Out         []wire.PortID       // ports of cables out of service, both ends
	Unreachable []wire.FabricNodeID // chips of this mesh without a way from here; of another mesh its first chip, for all
	Strict      bool                // packets of the old tables that went round a fault, or to another mesh, were given up
	Refused     bool                // these tables could deadlock or lead astray, and were not put in force
}

// enforce puts a plan in force.
func (c *Chip) enforce(p *route.Plan) {
	c.plan, c.epoch, c.ttl = p, p.Hash(), uint16(max(p.Longest(), 1))
	m, _ := c.cfg.Topology.Mesh(c.cfg.Node.Mesh)
	c.ways = newWays(m.Rows*m.Cols, c.cfg.Topology.Planes(), p)
}

// install plans tables for what is in service now, and puts them in force if they are other ones.
func (c *Chip) install(now mono.Time) {
	p := c.base.Around(c.control.Out())
	if p.Hash() == c.epoch {
		return
	}
	conflict := c.replaces(p)
	if conflict == route.Unsound {
		c.tables.refused++
		c.events.add(Event{At: now, Tables: &Tables{Epoch: p.Hash(), Out: c.outOf(p), Refused: true}})
		return
	}
	t := &c.tables
	t.before = slices.DeleteFunc(append(t.before, c.epoch), func(e uint32) bool { return e == p.Hash() })
	if len(t.before) > maxEpochs {
		t.before = slices.Delete(t.before, 0, 1)
	}
	t.strict = conflict == route.OldDetours
	c.enforce(p)
	for i := range c.ports {
		q := &c.ports[i]
		out := p.Out(q.Local)
		c.router.SetOut(i, out)
		if out && !q.up { // what it holds must not come up when its sources have been told that it is lost
			q.link.Forsake(now)
			c.linkEvents(now, i)
		}
	}
	c.router.Purge(c.stale)
	c.redirectReplies()
	for _, f := range c.outOrder {
		c.reconsider(now, f)
	}
	t.unreachable = c.unreachable()
	c.events.add(Event{At: now, Tables: &Tables{Epoch: c.epoch, Out: c.outOf(p), Unreachable: t.unreachable, Strict: t.strict}})
	c.abandon(now)
}

// replaces proves that tables can take the place of those in force, or remembers it.
func (c *Chip) replaces(p *route.Plan) route.Conflict {
	t, k := &c.tables, [2]uint32{c.epoch, p.Hash()}
	found, ok := t.checked[k]
	if !ok {
		found = p.Replaces(c.plan)
		if t.checked == nil || len(t.checked) == maxChecked {
			t.checked = map[[2]uint32]route.Conflict{}
		}
		t.checked[k] = found
	}
	return found
}

// stale reports whether a packet may close a cycle with those of the tables in
// force: it was routed by others, goes round a fault or to another mesh, and
// either those others are not the ones before, or they were found to conflict.
// Tables that this chip has not heard of yet are taken for newer ones, unless
// a conflict forbids it.
func (c *Chip) stale(v wire.PacketView) bool {
	e := v.Epoch()
	if e == c.epoch || !v.Detour() && v.Src().Mesh == v.Dst().Mesh {
		return false
	}
	k := slices.Index(c.tables.before, e)
	return c.tables.strict || k >= 0 && k < len(c.tables.before)-1
}

// outOf lists the ports that a plan does without, in the order of the topology's cables.
func (c *Chip) outOf(p *route.Plan) (out []wire.PortID) {
	for _, k := range c.cfg.Topology.Cables {
		if p.Out(k.A) {
			out = append(out, k.A, k.B)
		}
	}
	return out
}

// unreachable lists who has no way from here on any plane.
func (c *Chip) unreachable() (list []wire.FabricNodeID) {
	for _, x := range c.cfg.Topology.Chips {
		if x.Node == c.cfg.Node || x.Node.Mesh != c.cfg.Node.Mesh && x.Node.Chip != 0 {
			continue
		}
		found := false
		for pl := range max(c.cfg.Topology.Planes(), 1) {
			found = found || c.way(flowKey{node: x.Node, plane: wire.Plane(pl)}, wire.ClassRequest).ok
		}
		if !found {
			list = append(list, x.Node)
		}
	}
	return list
}

// reconsider looks whether a flow has another way now.
func (c *Chip) reconsider(now mono.Time, f *outFlow) {
	if f.way == nil || len(f.via) > 0 {
		return
	}
	w := c.way(f.key, wire.ClassRequest)
	if w.same(f.way) {
		f.way, f.moving = w, false
		return
	}
	f.moving, f.moved = true, now
	c.settleMove(f)
}

// settleMove lets a flow take its new way if nothing of it is open by the old one.
func (c *Chip) settleMove(f *outFlow) {
	if f.moving && len(f.openOps()) == 0 {
		f.moving, f.way = false, nil
	}
}

// same reports whether two ways are one.
func (w *way) same(x *way) bool {
	return w.ok == x.ok && w.port == x.port && w.vc == x.vc && w.up == x.up && w.detour == x.detour && slices.Equal(w.route, x.route)
}

// redirect sends on the packets that are caught at ports out of service, or
// gives them up where the tables know no way. Copies of multicasts, and packets
// for other meshes, wait for the port to come back, for the grace period.
func (c *Chip) redirect() bool {
	moved := false
	c.router.Caught(func(k router.Caught) bool {
		v := wire.PacketView(c.pool.Bytes(k.Slot))
		if v.Trunk() != wire.TrunkNone || v.Dst().Mesh != c.cfg.Node.Mesh {
			return false
		}
		w := c.onward(v)
		if w.ok && !c.router.CanRedirect(k, w.port, w.vc) {
			return false // as it is: the port may come back before there is room
		}
		moved = true
		if !w.ok || !v.Reroute(w.route, w.up, w.detour) {
			c.router.DropCaught(k, wire.DropUnreachable)
			return true
		}
		v.SetEpoch(c.epoch)
		if v.SetVC(w.vc); c.cfg.TTL == 0 {
			v.Extend(c.ttl)
		}
		c.router.Redirect(k, w.port, w.vc)
		return true
	})
	return moved
}

// redirectReplies gives the read data that waits to be sent the routes of the tables in force.
func (c *Chip) redirectReplies() {
	kept := c.replies[:0]
	for _, s := range c.replies {
		v := wire.PacketView(c.pool.Bytes(s))
		if w := c.way(destination(v), wire.ClassReply); w.ok && v.Reroute(w.route, w.up, w.detour) {
			v.SetVC(w.vc)
			v.SetEpoch(c.epoch)
			v.Extend(c.ttl - 1)
			kept = append(kept, s)
		} else {
			c.counters.Dropped[wire.DropUnreachable]++
			c.pool.Put(s)
		}
	}
	c.replies = kept
}

// HandleLinkStates takes what gossip says of the ports of other chips. It
// repairs what did not come from neighbour to neighbour; it takes no link up or down.
func (c *Chip) HandleLinkStates(now mono.Time, words []wire.LinkState) {
	if c.tap != nil {
		c.tapWords(now, words)
	}
	c.control.Hear(now, words, c.plan.Has)
}

// LinkState is what this chip says of its own ports.
func (c *Chip) LinkState() wire.LinkState { return c.control.Self() }

// Avoid takes a channel's cable out of service, whether it works or not, so
// that new tables lead around it; or gives it back. It reports whether there is such a channel.
func (c *Chip) Avoid(now mono.Time, ch wire.Channel, on bool) bool {
	if c.tap != nil {
		c.tapSwitch(OpAvoid, now, ch, on)
	}
	i := c.portIndex(ch)
	if i >= 0 {
		c.control.Avoid(now, i, on)
	}
	return i >= 0
}

// Unreachable lists the chips of this mesh without a way from here, by the
// tables in force; of another mesh its first chip, for all.
func (c *Chip) Unreachable() []wire.FabricNodeID { return c.tables.unreachable }

// Intact reports whether the tables in force are those without faults.
func (c *Chip) Intact() bool { return c.epoch == c.base.Hash() }

// Plan is the routing in force.
func (c *Chip) Plan() *route.Plan { return c.plan }

// tellNeighbours sends what is news of the ports of this and other chips.
func (c *Chip) tellNeighbours(now mono.Time) bool {
	moved := false
	for i := range c.ports {
		for p := &c.ports[i]; p.up && c.control.Owes(i); {
			words, upTo := c.control.Tell(i)
			b := c.scratch[:0]
			for k := range words {
				b = words[k].Append(b)
			}
			c.scratch = b[:0]
			pkt := wire.Packet{Type: wire.PacketLinkState, VC: wire.VCControl, Plane: p.Plane, Src: c.cfg.Node, Dst: p.Peer.Node, Epoch: c.epoch,
				Route: wire.AppendRoute(nil, []wire.Direction{p.Dir}), Command: wire.Command{Type: wire.NocNone, Size: uint16(len(b))}, Payload: b}
			if !c.launch(now, i, &pkt) {
				break
			}
			c.control.Told(i, upTo)
			moved = true
		}
	}
	return moved
}

// hear takes the link states that a neighbour sent.
func (c *Chip) hear(now mono.Time, p *wire.Packet) {
	words, err := wire.DecodeLinkStates(p.Payload, nil)
	if err != nil {
		c.counters.Dropped[wire.DropMalformed]++
		return
	}
	c.control.Hear(now, words, c.plan.Has)
}
