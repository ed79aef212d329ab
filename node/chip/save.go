package chip

import (
	"bytes"
	"fmt"
	"slices"

	"ttfabric/node/snapshot"
	"ttfabric/router"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// This file writes the state of a chip into a snapshot, and reads a state from a snapshot.

// Save returns the state of the chip. If "payload" is true, the packets have their payloads. If
// "memory" is true, the result has the memory of the tiles. The method Routes of [Saved] adds the
// tables, which take longer. Call Save after Pump, or after another call of Save.
func (c *machine) Save(now mono.Time, payload, memory bool) *Saved {
	s := &Saved{plan: c.tables.planned}
	k := &s.Chip
	k.Node, k.Incarnation, k.FlowEpoch = c.cfg.Node, c.cfg.Incarnation, c.cfg.FlowEpoch
	var last uint64
	k.Flows, last = c.source.Save(now)
	k.LastID, k.Arrived, k.Jobs, k.Own = snapshot.Hex64(last), c.sink.Save(), c.kernels.Save(), c.router.SaveOwn(now, payload)
	st := c.Status()
	for i := range st.Ports {
		k.Ports = append(k.Ports, c.savePort(now, i, &st.Ports[i], payload))
	}
	k.Tables = snapshot.Tables{Epoch: snapshot.Hex32(st.Epoch), Out: []snapshot.Port{}, Silent: append([]wire.FabricNodeID{}, st.Silent...), Unreachable: append([]wire.FabricNodeID{}, st.Unreachable...)}
	for _, q := range st.Out {
		k.Tables.Out = append(k.Tables.Out, snapshot.Port(q))
	}
	k.Replies, k.Reports, k.Host, k.Queues = []snapshot.Packet{}, []snapshot.Report{}, []snapshot.Packet{}, []snapshot.Queue{}
	for _, r := range c.outbox.replies {
		k.Replies = append(k.Replies, snapshot.PacketOf(c.pool.Bytes(r.slot), payload))
	}
	for i := range c.outbox.reports {
		r := &c.outbox.reports[i]
		k.Reports = append(k.Reports, snapshot.Report{To: r.to, Data: r.DropReport.Append(nil)})
	}
	for _, f := range c.waiting.list {
		for _, r := range f.list {
			k.Host = append(k.Host, snapshot.PacketOf(r.p.Append(nil), payload))
		}
	}
	k.OwnHost = len(c.waiting.own.list)
	for _, t := range c.firmware.Tiles() {
		if q := (snapshot.Queue{Channel: t.Channel, Submitted: t.SQ.WrIdx, Taken: t.SQ.RdIdx, Completed: t.CQ.WrIdx, Fetched: t.CQ.RdIdx}); q != (snapshot.Queue{Channel: t.Channel}) {
			k.Queues = append(k.Queues, q)
		}
	}
	if memory {
		k.Memory = c.saveMemory()
	}
	return s
}

// Saved is the state of a chip for a snapshot.
type Saved struct {
	snapshot.Chip
	plan *planned
}

// Routes adds the routing tables to the state, and returns the state. Routes uses nothing that the
// chip changes later.
func (s *Saved) Routes() *snapshot.Chip {
	p := s.plan.plan
	s.Tables.Routes = []snapshot.Routes{}
	for c := range wire.Class(wire.NumClasses) {
		first := len(s.Tables.Routes)
		for pl := range wire.Plane(p.Topology().Planes()) {
			r := snapshot.Routes{Class: snapshot.ClassNames[c], Planes: []int{int(pl)}, L0: p.L0(c, pl, s.Node), L1: []snapshot.Exit{}}
			for _, x := range p.L1(c, pl, s.Node) {
				e := snapshot.Exit{Mesh: x.To, Up: x.OK && x.Up}
				if q := snapshot.Port(x.Exit.Local); x.OK {
					e.Exit, e.Port = &q.Node.Chip, &q
				}
				r.L1 = append(r.L1, e)
			}
			i := slices.IndexFunc(s.Tables.Routes[first:], func(q snapshot.Routes) bool { return q.Same(&r) })
			if i < 0 {
				s.Tables.Routes = append(s.Tables.Routes, r)
			} else {
				q := &s.Tables.Routes[first+i]
				q.Planes = append(q.Planes, int(pl))
			}
		}
	}
	return &s.Chip
}

// Options returns the options of the chip for a snapshot.
func (c *machine) Options() snapshot.Options {
	r := c.tables.base.Config()
	o := snapshot.Options{Engine: r.Engine, Order: r.Order.String(), Ring: r.Ring.String(), Exits: r.Exits.String(), Lines: r.Lines,
		Slots: c.cfg.Slots.Name, Profile: c.cfg.Profile.Name, TTL: int(c.cfg.TTL), StrictTTL: c.cfg.StrictTTL, LocalFirst: c.cfg.LocalFirst,
		MaxPayload: c.cfg.MaxPayload, Stuck: c.cfg.Timeout.String(), StuckAfter: int64(c.cfg.Timeout.After)}
	return o
}

func (c *machine) savePort(now mono.Time, i int, st *PortStatus, payload bool) snapshot.PortState {
	p := &c.ports.list[i]
	x := snapshot.PortState{Channel: p.Local.Channel, Direction: p.Dir.String(), Plane: p.Plane, Peer: snapshot.Port(p.Peer), Link: st.Link.State.String(),
		Session: snapshot.Hex32(st.Link.Session), By: p.Local.Channel, Fallback: st.Fallback, Assigned: st.Assigned, Avoided: st.Avoided, Out: st.Out, Silent: st.Silent,
		Router: st.Router.State.String(), Raw: st.Raw, Unacked: st.Link.Unacked, VCs: c.router.Save(now, i, payload), Pending: []snapshot.Packet{}}
	if st.Link.Miswired {
		found := snapshot.Port(st.Link.Found)
		x.Found = &found
	}
	if st.Link.State == ttlink.StateUp && st.Link.Path != ttlink.Own {
		x.By = st.Link.Path.Channel()
	}
	for k := range x.VCs {
		v := &x.VCs[k]
		vc := wire.VC(v.VC)
		if v.PeerSlots = st.Link.PeerSlots[vc]; st.Link.Session != 0 {
			v.Credits = max(0, st.Link.Credits[vc])
			v.Sent, v.Received = p.link.Ledger(vc)
		}
	}
	if p.partial != router.NoSlot {
		x.Partial = bytes.Clone(c.pool.Bytes(p.partial))
	}
	p.link.Pending(func(_ wire.VC, b []byte) {
		if _, err := wire.ViewPacket(b); err == nil {
			x.Pending = append(x.Pending, snapshot.PacketOf(b, payload))
		}
	})
	return x
}

// saveMemory returns the memory of the tiles, without pages of zeros, and without zeros at the ends of
// pages.
func (c *machine) saveMemory() []snapshot.Block {
	out := []snapshot.Block{}
	c.memory.Pages(func(x, y uint8, off uint64, b []byte) {
		end := len(bytes.TrimRight(b, "\x00"))
		begin := end - len(bytes.TrimLeft(b[:end], "\x00"))
		if begin < end {
			out = append(out, snapshot.Block{X: x, Y: y, At: off + uint64(begin), Data: bytes.Clone(b[begin:end])})
		}
	})
	return out
}

// Restore gives the chip the state st of a snapshot. The chip must be new, its links must be up, and
// its tables must be those of st. The function "peer" returns the state of the port at the other end
// of a cable. If the snapshot lacks this state, "peer" returns nil. At the same instant, the caller
// must restore the chips at the other ends of all cables. Packets that were under way to the other end are
// then under way again. Kernels do not run again. The recorder of a chip does not see Restore. After
// an error, the chip is of no use.
func (c *machine) Restore(now mono.Time, st *snapshot.Chip, peer func(wire.PortID) *snapshot.PortState) error {
	if e := snapshot.Hex32(c.tables.epoch); e != st.Tables.Epoch {
		return fmt.Errorf("tables.epoch: %08x, but the chip computes tables with the epoch %08x from the same topology, options and cables", uint32(st.Tables.Epoch), uint32(e))
	}
	for k := range st.Ports {
		i := c.ports.index(st.Ports[k].Channel)
		if i < 0 || st.Ports[k].Peer != snapshot.Port(c.ports.list[i].Peer) || st.Ports[k].Direction != c.ports.list[i].Dir.String() || st.Ports[k].Plane != c.ports.list[i].Plane {
			return fmt.Errorf("ports[%d]: the topology has no such port", k)
		}
		if err := c.restorePort(now, i, &st.Ports[k], peer(c.ports.list[i].Peer)); err != nil {
			return fmt.Errorf("ports[%d].%w", k, err)
		}
	}
	if err := c.router.RestoreOwn(now, st.Own); err != nil {
		return err
	}
	if err := c.source.Restore(now, st.Flows, uint64(st.LastID)); err != nil {
		return err
	}
	c.sink.Restore(st.Arrived)
	if err := c.restoreWaiting(now, st); err != nil {
		return err
	}
	for k, b := range st.Memory {
		if o := c.memory.Put(wire.NewNocAddr(b.X, b.Y, b.At), b.Data); o != wire.OutcomeDone {
			return fmt.Errorf("memory[%d]: %d bytes at %d of tile %d-%d: %s", k, len(b.Data), b.At, b.X, b.Y, o)
		}
	}
	return nil
}

// restorePort puts packets into the channels of port i. restorePort makes the link count the packets
// of both ends, and send the packets that were under way to the peer. If the link is not up, these
// packets wait in sender channel 0.
func (c *machine) restorePort(now mono.Time, i int, st, peer *snapshot.PortState) error {
	p := &c.ports.list[i]
	if peer != nil && !p.up {
		st, peer = st.Held(peer), nil
	}
	for k := range st.VCs {
		if err := p.link.Occupy(wire.VC(st.VCs[k].VC), len(st.VCs[k].Receiver)); err != nil {
			return fmt.Errorf("vcs[%d].receiver: %w", k, err)
		}
	}
	if err := c.router.Restore(now, i, st.VCs); err != nil {
		return err
	}
	if peer == nil {
		return nil
	}
	for k := range peer.VCs {
		v, n := wire.VC(peer.VCs[k].VC), len(peer.VCs[k].Receiver)
		if err := p.link.Assume(v, n); err != nil {
			return fmt.Errorf("peer: %w", err)
		}
		c.router.Assume(i, v, n)
	}
	for k := range peer.VCs {
		for m := range peer.VCs[k].InFlight {
			b, err := peer.VCs[k].InFlight[m].Raw()
			if err != nil {
				return fmt.Errorf("peer: in_flight[%d].%w", m, err)
			}
			v := wire.VC(peer.VCs[k].VC)
			if !p.link.Send(now, v, b) {
				return fmt.Errorf("peer: in_flight[%d]: the link has no room for the packet", m)
			}
			c.router.Assume(i, v, 1)
		}
	}
	return nil
}

// restoreWaiting puts packets into the lists of replies, reports and requests to host memory.
func (c *machine) restoreWaiting(now mono.Time, st *snapshot.Chip) error {
	if len(st.Replies) > MaxReplies || len(st.Reports) > MaxReports {
		return fmt.Errorf("replies, reports: %d and %d: want at most %d and %d", len(st.Replies), len(st.Reports), MaxReplies, MaxReports)
	}
	for k := range st.Replies {
		b, err := st.Replies[k].Raw()
		if err != nil {
			return fmt.Errorf("replies[%d].%w", k, err)
		}
		w, _ := c.way(destination(b), wire.ClassReply)
		s, ok := c.pool.Get(len(b))
		if !ok || !w.OK {
			return fmt.Errorf("replies[%d]: the chip has no room or no route for the reply", k)
		}
		copy(c.pool.Bytes(s), b)
		c.outbox.replies = append(c.outbox.replies, reply{s, c.ports.list[w.Port].Local.Channel})
	}
	for k := range st.Reports {
		r, err := wire.DecodeDropReport(st.Reports[k].Data)
		if err != nil {
			return fmt.Errorf("reports[%d].data: %w", k, err)
		}
		c.outbox.reports = append(c.outbox.reports, report{st.Reports[k].To, r})
	}
	for k := range st.Host {
		b, err := st.Host[k].Raw()
		if err != nil {
			return fmt.Errorf("host[%d].%w", k, err)
		}
		p, err := wire.DecodePacket(b)
		if err != nil || !c.memory.Hosted(&p.Command) || p.Type != wire.PacketRequest {
			return fmt.Errorf("host[%d].head: want a request to host memory", k)
		}
		c.request(now, &p)
	}
	return nil
}
