package chip

import (
	"time"

	"ttfabric/node/snapshot"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// This file takes a consistent cut through a live fabric (Chandy and Lamport, "Distributed Snapshots",
// 1985). A chip begins its cut when somebody asks for the cut, or when the first mark comes from a
// neighbour. The chip then saves its state, and sends a mark over each link that is up. The mark is an
// MMIO write to [wire.MarkRegister]. All frames of a link have one order, so the mark comes behind the
// packets that the chip sent before its cut. Until a mark comes over a link, the packets that come
// over this link were under way at the cut. Between the cut and the mark, the chip gives the link no
// packet. Otherwise the peer would take this packet for a packet from before the cut.

// Times of a cut, our own choices.
const (
	CutTime = 2 * time.Second  // longest time for the marks; after this time, the chip hands over its state without the missing marks
	cutKeep = 15 * time.Second // time for which a chip keeps the state of its cut, if nobody fetches the state; a mark of an older cut has no effect for this time
)

// cutting is the latest cut of a chip.
type cutting struct {
	number uint32 // 0: none
	at     mono.Time
	saved  *Saved // nil: somebody has fetched the state, or cutKeep is over
	ports  []portCut
	due    bool // a port has not sent its mark yet
	over   bool // CutTime has passed
}

// portCut is the part of a cut at one port.
type portCut struct {
	waits  bool // the link was up at the cut, so that a mark should come
	due    bool // the mark waits for the transaction command queue
	told   bool // the queue has the mark
	last   lastOf
	marked bool // the peer's mark has come
	many   bool // before the mark, more packets came than the receiver channel has slots, so the peer sends no marks
}

// Mark begins a cut with a number, see [Inputs].
func (c *machine) Mark(now mono.Time, number uint32) {
	k := &c.cut
	if number == 0 || k.number != 0 && now.Sub(k.at) < cutKeep && int32(number-k.number) <= 0 {
		return
	}
	c.host.now = now
	c.abandon(now)
	c.returnCredits()
	*k = cutting{number: number, at: now, due: true, ports: make([]portCut, len(c.ports.list))}
	k.saved = c.Save(now, number&wire.CutPayload != 0, number&wire.CutMemory != 0)
	for i := range k.ports {
		up := c.ports.list[i].up && !c.ports.list[i].raw.on
		k.ports[i].waits, k.ports[i].due = up, up
	}
	c.sendMarks()
}

// sendMarks gives the marks of a cut to the links. sendMarks reports whether a link may take packets
// again.
func (c *machine) sendMarks() (moved bool) {
	k := &c.cut
	if !k.due {
		return false
	}
	k.due = false
	for i := range k.ports {
		x, p := &k.ports[i], &c.ports.list[i]
		if x.due && p.up && c.startRegister(p.Local.Channel, 0, wire.MarkRegister, k.number) == wire.OutcomeDone {
			x.due, x.told, x.last = false, true, lastCommand(p, 0)
		}
		if x.told {
			p.link.PlaceWrites()
			if x.last.numbered(p) {
				x.told, moved = false, true
			}
		}
		k.due = k.due || x.due || x.told
	}
	return moved
}

// holds reports whether port i must give its link no packet, because the mark of a cut has no sequence
// number yet.
func (k *cutting) holds(i int) bool { return k.due && (k.ports[i].due || k.ports[i].told) }

// expire ends the wait for marks after CutTime, and frees the state after cutKeep.
func (k *cutting) expire(now mono.Time) {
	switch {
	case k.number == 0:
	case !now.Before(k.at.Add(cutKeep)):
		*k = cutting{}
	case !k.over && !now.Before(k.at.Add(CutTime)):
		k.over, k.due = true, false
	}
}

// deadline returns the time at which expire has work.
func (k *cutting) deadline() mono.Time {
	switch {
	case k.number == 0:
		return mono.Never
	case !k.over:
		return k.at.Add(CutTime)
	}
	return k.at.Add(cutKeep)
}

// came notes a packet that has come over the link of port i. If the peer's mark has not come yet, the
// packet was under way at the cut. The view v is nil for a malformed packet, which is no part of the
// state.
func (k *cutting) came(i int, vc wire.VC, v wire.PacketView) {
	if k.saved == nil || k.over || !k.ports[i].waits || k.ports[i].marked {
		return
	}
	st := &k.saved.Ports[i]
	for j := range st.VCs {
		x := &st.VCs[j]
		switch {
		case wire.VC(x.VC) != vc:
		case v == nil:
			x.Received++
		case len(x.Receiver)+len(x.InFlight) >= x.ReceiverSlots:
			k.ports[i].many = true
		default:
			x.InFlight = append(x.InFlight, snapshot.PacketOf(v, k.number&wire.CutPayload != 0))
		}
	}
}

// marked handles the mark of a cut that has come over the link of port i.
func (c *machine) marked(now mono.Time, i int, number uint32) {
	c.Mark(now, number)
	if c.cut.number == number {
		c.cut.ports[i].marked = true
	}
}

// CutState returns the state of the chip at a cut. If marks are still to come, CutState returns nil and
// true. If the chip does not have the state of this cut, or somebody has fetched the state, CutState
// returns nil and false.
func (c *machine) CutState(now mono.Time, number uint32) (s *Saved, known bool) {
	k := &c.cut
	if k.number != number || k.saved == nil {
		return nil, false
	}
	if now.Before(k.at.Add(CutTime)) {
		for i := range k.ports {
			if k.ports[i].waits && !k.ports[i].marked {
				return nil, true
			}
		}
	}
	s, k.saved = k.saved, nil
	for i := range k.ports {
		st := &s.Ports[i]
		if st.Complete = k.ports[i].marked && !k.ports[i].many; st.Complete {
			continue
		}
		for j := range st.VCs { // perhaps the peer sent some of these packets after its own cut
			st.VCs[j].InFlight = []snapshot.Packet{}
		}
	}
	return s, true
}
