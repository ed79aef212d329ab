package ttlink

import (
	"fmt"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Delivery is one piece of a packet. Pieces come in order, without a gap, and once per session. A
// piece with Offset 0 begins a packet. If an [EventSessionEnded] comes before the last piece of a
// packet, the packet is void.
type Delivery struct {
	VC     wire.VC
	Slot   uint32 // number of the packet on its VC in the session, modulo the receiver channel's size
	Offset int    // offset of the piece in the packet, in bytes
	Data   []byte // a view into the datagram
	End    bool   // the last piece; the packet holds a slot until [Link.Free]
}

// receiver holds the state of the direction from the peer to this end.
//
// Invariant C1: recv[v]-freed[v]+carried[v] ≤ Config.Slots[v], with one more while a packet is under way.
type receiver struct {
	expected wire.Seq // number of the next expected data frame
	partial  bool     // part of a packet has come
	vc       wire.VC  // VC of the packet of which a part has come
	offset   int      // bytes that have come of the packet of which a part has come

	slot    [wire.NumVCs]uint32 // number of the next packet, modulo the channel's size
	recv    [wire.NumVCs]uint32 // packets delivered whole in this session
	freed   [wire.NumVCs]uint32 // slots freed in this session
	carried [wire.NumVCs]uint32 // slots of this session's channels that still hold packets of older sessions

	updateDue bool                // this end owes an acknowledgement, a grant or an answer to a solicit now
	grantsDue bool                // like updateDue, but no data frame can carry the update that this end owes
	ackAt     mono.Time           // latest time at which this end must send an acknowledgement; 0: this end owes no acknowledgement
	unacked   int                 // bytes of payload taken since this end last sent an acknowledgement
	granted   [wire.NumVCs]uint32 // the latest grants sent to the peer

	gap     bool      // the frame with number expected is missing, and later frames have come
	gapTo   wire.Seq  // one past the newest frame that came after the missing frame
	nacked  wire.Seq  // number of the missing frame in the latest NACK
	nackAt  mono.Time // when the NACK is repeated
	nacks   int       // repeats of the NACK for this missing frame, at most nackDoublings
	nackDue bool
}

// reset begins a session. The grants exclude slots that packets of older sessions occupy, until the
// owner frees these slots.
func (r *receiver) reset(first wire.Seq) {
	fresh := receiver{expected: first, updateDue: true, grantsDue: true}
	for v := range wire.NumVCs {
		fresh.carried[v] = uint32(r.occupied(v))
	}
	*r = fresh
}

// resume makes the updates due that tell the peer this end's state after a training.
func (r *receiver) resume() {
	r.gap, r.nackDue = false, false
	r.updateDue, r.grantsDue = true, true
}

// occupied counts the slots of VC v that hold a whole packet.
func (r *receiver) occupied(v int) int { return int(r.recv[v] - r.freed[v] + r.carried[v]) }

// grants returns the absolute credits. An absolute credit is the number of slots freed so far plus
// the channel's size, less the slots that packets of older sessions still occupy.
func (l *Link) grants() (g [wire.NumVCs]uint32) {
	for v := range l.cfg.Slots {
		g[v] = l.grant(wire.VC(v))
	}
	return g
}

func (l *Link) grant(v wire.VC) uint32 {
	return l.rx.freed[v] + uint32(l.cfg.Slots[v]) - l.rx.carried[v]
}

// Free gives back one receiver slot of vc. The slot held a delivered packet of this or an older
// session. The link then owes the peer one more credit. If no slot is occupied, Free panics.
func (l *Link) Free(vc wire.VC) {
	if vc >= wire.NumVCs || l.rx.occupied(int(vc)) == 0 {
		panic(fmt.Sprintf("ttlink: slot of VC %d freed that holds no packet: %+v", vc, l.rx))
	}
	if l.rx.carried[vc] > 0 {
		l.rx.carried[vc]--
	} else {
		l.rx.freed[vc]++
	}
	// A peer that still has more than half of its credits needs no new ones yet.
	if left := int32(l.rx.granted[vc] - l.rx.recv[vc]); left <= int32(l.cfg.Slots[vc]/2) {
		l.rx.updateDue, l.rx.grantsDue = true, true
	}
}

// handleData takes a data frame of the session.
func (l *Link) handleData(now mono.Time, f *wire.Frame) (Delivery, bool) {
	l.handleAck(now, f.RxSeq)
	r := &l.rx
	switch d := f.TxSeq.Sub(r.expected); {
	case d < 0:
		l.counters.Duplicates++
		r.updateDue = true // the earlier acknowledgement may have been lost
		return Delivery{}, false
	case d > 0:
		l.counters.Gaps++
		if d <= MaxFrames {
			l.noteGap(now, f.TxSeq)
		}
		return Delivery{}, false
	}
	if !l.continues(f) {
		return Delivery{}, false
	}
	d := Delivery{VC: f.VC, Slot: r.slot[f.VC], Offset: r.offset, Data: f.Payload, End: f.Flags&wire.FlagEnd != 0}
	r.expected = r.expected.Add(1)
	if r.gap && !r.expected.Before(r.gapTo) {
		r.gap, r.nackDue, r.updateDue = false, false, true
	}
	l.oweAck(now, len(f.Payload))
	l.counters.DataReceived++
	r.partial, r.vc, r.offset = true, f.VC, r.offset+len(f.Payload)
	if d.End {
		l.books.all[f.VC.Class()].Received++
		l.counters.PayloadReceived += uint64(r.offset)
		r.partial, r.offset = false, 0
		r.recv[f.VC]++
		if r.slot[f.VC]++; r.slot[f.VC] == uint32(l.cfg.Slots[f.VC]) {
			r.slot[f.VC] = 0
		}
	}
	return d, true
}

// oweAck notes that the link took a data frame of n bytes. The next data frame to the peer carries
// the acknowledgement. Otherwise an update carries the acknowledgement, after ackBytes or after
// ackDelay.
func (l *Link) oweAck(now mono.Time, n int) {
	r := &l.rx
	if r.unacked += n; r.unacked >= ackBytes {
		r.updateDue = true
	} else if r.ackAt == 0 {
		r.ackAt = now.Add(ackDelay)
	}
}

// acked notes that the link sends a frame that carries the acknowledgement.
func (r *receiver) acked() { r.ackAt, r.unacked = 0, 0 }

// continues reports whether the data frame, which is in order, fits the packets of the session. The
// frame must be the next piece of the packet under way, or begin the next packet within its
// credits.
func (l *Link) continues(f *wire.Frame) bool {
	r := &l.rx
	if !r.partial && int32(r.recv[f.VC]-l.grant(f.VC)) >= 0 {
		l.counters.CreditViolations++
		return false
	}
	if (r.partial && f.VC != r.vc) || len(f.Payload) == 0 || r.offset+len(f.Payload) > MaxPacket ||
		f.Dest != wire.SlotAddress(r.slot[f.VC], r.offset) || f.Flags&^wire.FlagEnd != 0 {
		l.counters.BadPieces++
		return false
	}
	return true
}

// noteGap asks for the missing frame. If another frame was missing last time, noteGap asks at once.
func (l *Link) noteGap(now mono.Time, seq wire.Seq) {
	r := &l.rx
	end := seq.Add(1)
	if !r.gap || r.gapTo.Before(end) {
		r.gapTo = end
	}
	if !r.gap || r.nacked != r.expected {
		r.gap, r.nacked, r.nackDue, r.nacks = true, r.expected, true, 0
		r.nackAt = now.Add(l.nackInterval())
	}
}

// nackInterval returns a round trip, within limits.
func (l *Link) nackInterval() time.Duration {
	return max(l.rtt.smoothed+2*l.rtt.variation, nackMin)
}

// tickReceive sends the acknowledgement that has waited long enough. It also repeats the NACK of a
// gap that has not closed, after a round trip, then after twice as long each time. The gap may be
// false: a broken or forged frame may have shown a gap for frames that the peer does not have.
func (l *Link) tickReceive(now mono.Time) {
	if l.rx.ackAt != 0 && !now.Before(l.rx.ackAt) {
		l.rx.updateDue, l.rx.ackAt = true, 0
	}
	if r := &l.rx; r.gap && !now.Before(r.nackAt) {
		if r.nacked != r.expected {
			r.nacks = 0
		}
		r.nacked, r.nackDue = r.expected, true
		r.nackAt = now.Add(l.nackInterval() << r.nacks)
		r.nacks = min(r.nacks+1, nackDoublings)
	}
}

// handleUpdate takes a sequence update of the session.
func (l *Link) handleUpdate(now mono.Time, f *wire.Frame) {
	u, err := wire.DecodeUpdate(f.Payload)
	if err != nil {
		l.counters.MalformedUpdates++
		return
	}
	l.counters.UpdatesReceived++
	l.handleAck(now, f.RxSeq)
	l.handleGrants(u.Grants)
	if f.Flags&wire.FlagNACK != 0 {
		l.handleNACK(now, f.RxSeq)
	}
	if f.Flags&wire.FlagSolicit != 0 {
		l.counters.SolicitsReceived++
		l.rx.updateDue, l.rx.grantsDue = true, true
	}
}
