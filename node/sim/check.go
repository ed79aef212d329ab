package sim

import (
	"bytes"
	"fmt"
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/flow"
	"ttfabric/node/noc"
	"ttfabric/router/control"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// The checkers check these rules. The name of a rule is the field Rule of a [Failure]. Two other
// names, plan and start, say that the simulator could not set up a fault or a chip.
//
//   - invariants: after each step of a chip, the chip's links, slots, buffers and counts are
//     consistent.
//   - progress: after the end of all faults, the fabric comes to rest within [SettleTime]. The run
//     ends within [MaxEvents] events.
//   - one end: every request ends exactly once, and within maxOpen. The chips' own counts of ended
//     requests are right.
//   - exactly once: if a request ended as done, its destination performed the request exactly once.
//     If a request ended as refused or lost, no chip performed the request. If a request ended with
//     an unknown fate, its destination performed the request at most once.
//   - certain: if a request did not come to its destination, and the destination answers again in the
//     same life, the request does not end with an unknown fate. The rule holds only if the source had
//     heard the gossip before it accepted the request. If a router reports that no route leads to the destination, the
//     destination cannot answer, and the fate may be unknown.
//   - posted: the result of a flush reports at least the posted requests since the previous flush
//     that were not performed. All flushes of a flow report at most as many as were posted.
//   - order: a destination performs the requests of a flow in the order in which the source
//     accepted the requests.
//   - as asked: a destination performs exactly the command in the source's request.
//   - reads: a read returns the bytes that the earlier requests of its flow have left in the
//     memory.
//   - memory: at the end of an incarnation, the chip's memory equals the memory in the model.
//   - cause: if a request ended as lost or with an unknown fate, a link or chip on its route had a
//     fault while the request was open. Faults elsewhere harm no request.
//   - credits: when the fabric is at rest, every receiver slot is free, and the peer has a credit
//     for the slot.
//   - conservation: at the end of each incarnation and at rest, the chips' counts explain the fate
//     of every packet (losses.go). The counts of an ended incarnation that its neighbours know
//     agree with the incarnation's own counts.
//   - as routed: no packet leaves its plane, lacks a route, or uses up its TTL.
//   - admission: a chip refuses to start a request only if it has no room, or if it has no route
//     because of a fault.
//   - hosts: the requests of hosts to the base firmware follow the rules in hosts.go.
//   - reach: after the end of all faults, every chip can reach every chip on every plane, and all
//     chips of its mesh by multicasts.

// maxOpen is the longest time that a request may be open.
const maxOpen = 3 * control.GiveUp

// checkStep checks the invariants of a chip after one of its steps. If Quick is set, checkStep
// checks only after every 16th step.
func (s *Sim) checkStep(m *machine) {
	if s.cfg.bare || s.cfg.Quick && m.steps%16 != 0 {
		return
	}
	if err := m.chip.CheckInvariants(); err != nil {
		s.fail("invariants", "%s: %v", m.node, err)
	}
}

// ended checks the result of a request, and notes in the model that the request has ended.
func (s *Sim) ended(m *machine, r flow.Result) {
	if s.hosts != nil && s.hosts.packets.ended(m, &r) {
		return
	}
	if s.onResult != nil {
		s.onResult(m, r)
		return
	}
	if r.Token == 0 || r.Token > uint64(len(s.model.ops)) {
		s.fail("one end", "%s ends a request %d that nobody made", m.node, r.Token)
		return
	}
	o := s.model.ops[r.Token-1]
	if s.cfg.sabotage != noSabotage && !s.spoil(m, o, &r) {
		return
	}
	s.note(o.id, uint64(r.Fate), uint64(r.Outcome))
	if o.ended || !o.accepted || o.life != m.life {
		s.fail("one end", "%s ends op %d as %s: it was accepted: %v, ended before: %v", m.node, o.id, r.Fate, o.accepted, o.ended)
		return
	}
	o.ended, o.fate = true, r.Fate
	delete(m.life.open, o.id)
	s.report.Fates[r.Fate]++
	if o.req.Other {
		s.report.Other++
	}
	if r.Fate == flow.FatePosted {
		s.posted(m, o)
		return
	}
	if o.req.Flush {
		s.endedFlush(m, o, &r)
	}
	if r.Fate == flow.FateUnknown {
		s.report.Doubts[r.Doubt]++
	}
	if d := s.now.Sub(o.sent); d > maxOpen {
		s.fail("one end", "op %d from %s to %s was open for %v", o.id, m.node, o.req.Dst, d)
	}
	s.judgeFate(o, &r)
	s.proveAgain(m, o)
	if r.Fate != flow.FateDone {
		s.tracef("op %d %s from %s to %s plane %d ends: %s %s %s", o.id, o.req.Command.Type, m.node, o.req.Dst, o.plane, r.Fate, r.Outcome, r.Doubt)
	}
}

// judgeFate compares the fate that a source learned with what the destination really did.
func (s *Sim) judgeFate(o *op, r *flow.Result) {
	if o.group != 0 {
		s.judgeMulticast(o, r)
		return
	}
	isRead := o.req.Command.Type == wire.NocRead
	switch r.Fate {
	case flow.FateDone:
		switch {
		case o.want != wire.OutcomeDone:
			s.fail("exactly once", "op %d should have been refused as %s, but ended as done", o.id, o.want)
		case isRead:
			s.judgeRead(o, r)
		case !o.req.Probe && o.performed != 1:
			s.fail("exactly once", "op %d ended as done, but was performed %d times", o.id, o.performed)
		}
		return
	case flow.FateRefused:
		o.anew = s.unknownFlow(r.Outcome, o.dst)
		if r.Outcome != o.want && r.Outcome != wire.OutcomeAgain && r.Outcome != wire.OutcomeOverflow && !o.anew {
			s.fail("exactly once", "op %d was refused as %q; want %q", o.id, r.Outcome, o.want)
		}
	}
	if r.Fate != flow.FateUnknown && o.performed != 0 {
		s.fail("exactly once", "op %d ended as %s, but was performed", o.id, r.Fate)
	}
	if r.Fate == flow.FateUnknown && o.performed == 0 {
		s.judgeDoubt(o, o.dst, r.Doubt, r.Drop)
	}
	if r.Fate != flow.FateRefused && !s.troubled(o) {
		s.fail("cause", "op %d from %s to %s on plane %d ended as %s (%s %s), but its route has had no fault since %v",
			o.id, s.machines[o.src].node, o.req.Dst, o.plane, r.Fate, r.Drop, r.Doubt, o.sent)
	}
}

// unknownFlow reports whether the outcome o is a valid answer of the restarted chip dst: the chip's
// new incarnation does not know the flow.
func (s *Sim) unknownFlow(o wire.Outcome, dst int) bool {
	return o == wire.OutcomeUnknownFlow && len(s.model.lives[dst]) > 1
}

// judgeRead compares the data that a read returned with the data in the model. Any incarnation of
// the destination that lived while the read was open may have performed the read.
func (s *Sim) judgeRead(o *op, r *flow.Result) {
	for _, l := range s.model.lives[o.dst] {
		if l.end >= o.sent && l.begin <= s.now && bytes.Equal(r.Data, l.expected(&o.touches[0], o.index)) {
			return
		}
	}
	s.fail("reads", "op %d read %d bytes at %s of %s, but the memory never held these bytes", o.id, len(r.Data), o.req.Command.Addr, o.req.Dst)
}

// troubled reports whether the route of an op, or a route of its answers, is suspect. A route is
// suspect if one of its cables or chips has had a fault since shortly before the op was sent.
func (s *Sim) troubled(o *op) bool {
	src, dst := s.machines[o.src].node, o.req.Dst
	if src.Mesh != dst.Mesh && s.anyBad(o) { // other tables may have chosen a route through another mesh
		return true
	}
	return s.badWay(o, wire.ClassRequest, src, dst) || s.badWay(o, wire.ClassReply, dst, src) || s.badWay(o, wire.ClassControl, dst, src)
}

func (s *Sim) badWay(o *op, c wire.Class, src, dst wire.FabricNodeID) bool {
	routes := s.routes
	if o.req.Other {
		routes = routes.Other()
	}
	hops, _ := routes.Walk(c, o.plane, src, dst)
	for _, h := range hops {
		if s.badCable(o, h.At, h.To) {
			return true
		}
	}
	return false
}

// tableLag is the longest time that chips may use old tables after a change. The control plane
// limits the rate of changes, and slow cables delay link states.
const tableLag = time.Second

// The function "before" returns the time that is tableLag before t. At t, chips may still use
// tables from that time. The result is at least 1, because lastBad is 0 for a cable without any
// event.
func before(t mono.Time) mono.Time { return max(t-mono.Time(tableLag), 1) }

// anyBad reports whether any cable of the fabric has had a fault since shortly before an op was
// sent.
func (s *Sim) anyBad(o *op) bool {
	for _, c := range s.cables {
		if c.badSince(before(o.sent)) {
			return true
		}
	}
	return false
}

// badCable reports whether a cable between two chips on the op's plane has had a fault since
// shortly before the op was sent.
func (s *Sim) badCable(o *op, a, b wire.FabricNodeID) bool {
	for _, c := range s.cables {
		if c.Plane == o.plane && (c.A.Node == a && c.B.Node == b || c.A.Node == b && c.B.Node == a) && c.badSince(before(o.sent)) {
			return true
		}
	}
	return false
}

// performed checks a command that a chip has just performed on its memory, and performs the command
// on the model.
func (s *Sim) performed(m *machine, src wire.FabricNodeID, plane wire.Plane, other bool, cmd *wire.Command, mem *noc.Memory) {
	if s.hosts.performed(m, src, cmd, mem) {
		return
	}
	o := s.identify(cmd, mem)
	if o == nil {
		s.fail("as asked", "%s performed %+v from %s, but no op asked for this command", m.node, *cmd, src)
		return
	}
	s.note(o.id)
	asked := o.req.Command
	if asked.Type != wire.NocRead {
		asked.Size = uint16(len(o.req.Payload))
	}
	times, fate := o.at(m.index)
	if s.machines[o.src].node != src || times == nil || o.plane != plane || o.req.Other != other || asked != *cmd {
		s.fail("as asked", "%s performed %+v from %s on plane %d; op %d was %+v from %s to %s on plane %d",
			m.node, *cmd, src, plane, o.id, asked, s.machines[o.src].node, o.req.Dst, o.plane)
		return
	}
	if *times++; *times > 1 || (o.ended && fate != flow.FateUnknown) {
		s.fail("exactly once", "op %d was performed %d times by %s; ended: %v, as %s", o.id, *times, m.node, o.ended, fate)
	}
	f := o.flow(m.index)
	if last := m.life.last[f]; o.index < last {
		s.fail("order", "op %d, number %d of its flow from %s to %s, was performed after number %d", o.id, o.index, src, m.node, last-1)
	}
	m.life.last[f] = o.index + 1
	m.life.apply(o)
	if s.cfg.sabotage == sabotageTwice && o.touches[0].add {
		mem.Execute(&o.req.Command, o.req.Payload)
	}
}

// identify returns the op to which a performed command belongs, or nil. The op's id is the
// command's value. For the two kinds of writes without a value, the data that the command has just
// written begins with the id.
func (s *Sim) identify(cmd *wire.Command, mem *noc.Memory) *op {
	id := uint64(cmd.Value)
	at := cmd.Addr
	switch cmd.Type {
	case wire.NocScatterWrite:
		at = cmd.Scatter[0]
		fallthrough
	case wire.NocUnicastWrite:
		var b [minWrite]byte
		mem.Read(at, b[:])
		id = 0
		for i, v := range b {
			id |= uint64(v) << (8 * i)
		}
	}
	if id == 0 || id > uint64(len(s.model.ops)) {
		return nil
	}
	return s.model.ops[id-1]
}

// atRest reports whether the fabric is at rest. At rest, every chip lives, all links are up, and no
// tables avoid a fault. All requests have ended, no packet is under way, and all credits are at
// their senders.
func (s *Sim) atRest() bool { return s.unrest() == "" }

// unrest returns a text about the first part of the fabric that is not at rest. If the fabric is at
// rest, unrest returns "".
func (s *Sim) unrest() string {
	for _, m := range s.machines {
		switch {
		case m.chip == nil:
			return fmt.Sprintf("%s is dead", m.node)
		case len(m.backlog) > 0 || len(m.greedy) > m.taken:
			return fmt.Sprintf("%s has %d requests to send", m.node, len(m.backlog)+len(m.greedy)-m.taken)
		case len(m.life.open) > 0:
			return fmt.Sprintf("%s waits for the end of %d requests", m.node, len(m.life.open))
		case !m.chip.Quiet() || len(m.inbox) > 0:
			return fmt.Sprintf("%s has packets under way", m.node)
		}
	}
	for _, c := range s.cables {
		if !c.bothUp() {
			return fmt.Sprintf("the cable %s is up: %v", c, c.up)
		}
	}
	for _, m := range s.machines {
		if !m.chip.Intact() {
			return fmt.Sprintf("%s still uses tables that avoid faults", m.node)
		}
		for _, p := range m.chip.Status().Ports {
			l := &p.Link
			if l.WindowUsed != 0 || l.Unacked != 0 {
				return fmt.Sprintf("%s waits for the acknowledgement of %d frames", p.Local, l.Unacked)
			}
			if l.Occupied != [wire.NumVCs]int{} || l.Credits != l.PeerSlots {
				return fmt.Sprintf("credits: %s holds %v and has %v credits of %v", p.Local, l.Occupied, l.Credits, l.PeerSlots)
			}
		}
	}
	return s.hosts.unrest()
}

// provePairs sends requests from every chip to every chip on every plane, and multicasts from every
// chip to its mesh. provePairs sends all requests at once, after all faults have ended. A restarted
// chip may refuse a request of a flow that only its earlier incarnation knew. The source then sends
// another request, which must end as done.
func (s *Sim) provePairs() {
	if s.failure != nil {
		return
	}
	first := len(s.model.ops)
	for _, m := range s.machines {
		for dst := range s.machines {
			for p := range s.cfg.Topology.Planes() {
				for _, other := range []bool{false, true} {
					if other && !s.tied {
						continue
					}
					w, r := s.newOp(m.index, dst, wire.Plane(p)), s.newOp(m.index, dst, wire.Plane(p))
					w.req.Other, r.req.Other = other, other
					s.write(w, 200, false)
					s.read(r, 200)
					m.backlog = append(m.backlog, w, r)
				}
			}
		}
		for _, t := range s.provenTrees(m) {
			o := s.newMulticast(m, t)
			s.write(o, 200, false)
			m.backlog = append(m.backlog, o)
		}
	}
	s.report.Anew = 0
	for _, o := range s.model.ops[first:] {
		o.proof = true
	}
	for _, m := range s.machines {
		s.run(m)
	}
	if !s.runUntil(s.now.Add(SettleTime), s.atRest) {
		s.fail("reach", "%s", s.unrest())
		return
	}
	for _, o := range s.model.ops[first:] {
		if !o.ended || o.fate != flow.FateDone && !(o.proof && o.anew) {
			s.fail("reach", "op %d from %s to %s on plane %d, sent without any fault in force, ended: %v, as %s", o.id, s.machines[o.src].node, o.req.Dst, o.plane, o.ended, o.fate)
		}
	}
}

// proveAgain sends another request if a restarted chip has refused the request o of provePairs. A
// second refusal violates the rule reach.
func (s *Sim) proveAgain(m *machine, o *op) {
	if !o.proof || !o.anew || o.fate != flow.FateRefused {
		return
	}
	s.report.Anew++
	var n *op
	if o.group != 0 {
		n = s.newMulticast(m, o.req.Tree())
	} else {
		n = s.newOp(o.src, o.dst, o.plane)
		n.req.Other = o.req.Other
	}
	s.write(n, 200, false)
	m.backlog = append(m.backlog, n)
}

// checkMemory compares a chip's memory with the memory in the model.
func (s *Sim) checkMemory(m *machine) {
	if at, got, want, differ := m.life.compare(m.chip.Memory()); differ {
		s.fail("memory", "%s has %#x at %s; the model has %#x", m.node, got, at, want)
	}
}

// finalChecks checks the fabric at the end of the run, when the fabric is at rest.
func (s *Sim) finalChecks() {
	if s.failure != nil {
		return
	}
	for _, m := range s.machines {
		s.checkMemory(m)
		st := m.chip.Status()
		// Routers also drop a packet as malformed if it arrives on another plane or by a channel
		// that is not on its route.
		if d := &st.Counters.Dropped; d[wire.DropMalformed] != 0 || d[wire.DropNoRoute] != 0 || d[wire.DropTTL] != 0 {
			s.fail("as routed", "%s dropped %d packets as malformed or on a wrong plane, %d without a route, and %d whose TTL was used up",
				m.node, d[wire.DropMalformed], d[wire.DropNoRoute], d[wire.DropTTL])
		}
		for _, p := range st.Ports {
			s.report.Resent += p.Frames.Retransmitted
			s.checkCable(m, p)
		}
	}
	s.checkEnds()
	s.hosts.final()
	r := s.checkLosses()
	s.report.Dropped, s.report.Gone = r.Total.Dropped, len(r.Gone)
	if r.Total.InFlight != 0 {
		s.fail("conservation", "%d packets are under way at rest", r.Total.InFlight)
	}
	for _, o := range s.model.ops {
		if o.accepted && !o.ended && !o.orphan {
			s.fail("one end", "op %d never ended", o.id)
		}
		if o.performed > 1 || (o.ended && o.fate != flow.FateUnknown && o.fate != flow.FateDone && o.performed > 0) {
			s.fail("exactly once", "op %d was performed %d times and ended as %s", o.id, o.performed, o.fate)
		}
		for _, m := range o.members {
			if m.performed > 1 || (o.ended && m.fate != flow.FateUnknown && m.fate != flow.FateDone && m.performed > 0) {
				s.fail("exactly once", "multicast %d was performed %d times by %s and ended as %s there", o.id, m.performed, s.machines[m.machine].node, m.fate)
			}
		}
	}
}

// checkCable checks that one end of a cable has received as many packets as the other end has sent.
// checkCable skips cables with a session that has ended, and cables of restarted chips.
func (s *Sim) checkCable(m *machine, p chip.PortStatus) {
	e := s.byPort[p.Local]
	peer := e.cable.chips[1-e.side]
	if e.cable.renewed || len(s.model.lives[m.index]) > 1 || len(s.model.lives[peer.index]) > 1 {
		return
	}
	for _, q := range peer.chip.Status().Ports {
		if q.Local == p.Peer && q.Frames.PacketsReceived != p.Frames.PacketsSent {
			s.fail("conservation", "%s sent %d packets and %s received %d", p.Local, p.Frames.PacketsSent, q.Local, q.Frames.PacketsReceived)
		}
	}
}
