package ttlink

import (
	"fmt"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Delivery is one piece of a received packet, or one frame of an L1 or MMIO write. In a session,
// each piece comes once, in the order in which the peer sent the pieces. A piece with Offset 0
// begins a packet. If the session ends before the last piece of a packet, the owner must discard
// the packet.
type Delivery struct {
	Kind   wire.Kind // wire.KindData: a piece of a packet; wire.KindWrite: words of an L1 write; wire.KindMMIO: a value for a register
	VC     wire.VC   // of a write: the transaction command queue at the peer; Slot and Offset are then 0
	End    bool      // the piece is the packet's last, and the packet occupies its slot until [Link.Free]; or the frame is the command's last
	Slot   uint32    // slot of the packet in the receiver channel of VC
	Addr   uint32    // of a write: address in the ethernet tile of this end's port
	Offset int       // offset of the piece in the packet, in bytes
	Data   []byte    // the bytes of the piece or the write, which lie in the received datagram
}

// receiver holds what this end knows about the frames and packets that it receives.
//
// Invariant C1: recv[v]-freed[v]+carried[v] is at most Config.Slots[v]. If partial is true and v is
// vc, the sum is at most Config.Slots[v]-1.
type receiver struct {
	expected wire.Seq // number of the next expected data frame or write
	partial  bool     // a part of a packet has been received
	vc       wire.VC  // VC of the partly received packet
	offset   int      // received bytes of the partly received packet

	slot    [wire.NumVCs]uint32 // slot of the next packet
	recv    [wire.NumVCs]uint32 // packets completely delivered in this session
	freed   [wire.NumVCs]uint32 // slots of packets of this session that were freed
	carried [wire.NumVCs]uint32 // slots that still hold packets of older sessions

	updateDue bool                // this end must now send an acknowledgement, grants, or the answer to a SOLICIT
	grantsDue bool                // this end must now send a sequence update; a data frame is not enough
	ackAt     mono.Time           // latest time for the next acknowledgement; 0: no received frame waits for an acknowledgement
	unacked   int                 // bytes of payload accepted since this end last sent an acknowledgement
	granted   [wire.NumVCs]uint32 // grants in the latest sequence update to the peer

	gap     bool      // the frame with the number expected is missing, and a later frame has come
	gapTo   wire.Seq  // number after the newest frame that has come
	nacked  wire.Seq  // number of the missing frame in the latest NACK
	nackAt  mono.Time // when this end repeats the NACK
	nacks   int       // number of repeated NACKs for this missing frame, at most nackDoublings
	nackDue bool
}

// reset prepares the receiver for a new session. Slots that packets of older sessions still occupy
// are not granted before the owner frees them.
func (r *receiver) reset(first wire.Seq) {
	fresh := receiver{expected: first, updateDue: true, grantsDue: true}
	for v := range wire.NumVCs {
		fresh.carried[v] = uint32(r.occupied(v))
	}
	*r = fresh
}

// resume makes this end send a sequence update after a training.
func (r *receiver) resume() {
	r.gap, r.nackDue = false, false
	r.updateDue, r.grantsDue = true, true
}

// occupied returns the number of slots of VC v that hold a complete packet.
func (r *receiver) occupied(v int) int { return int(r.recv[v] - r.freed[v] + r.carried[v]) }

// grants returns the present grant of each VC. A grant is the size of the receiver channel, plus
// the slots freed in this session, minus the slots with packets of older sessions.
func (l *Link) grants() (g [wire.NumVCs]uint32) {
	for v := range l.cfg.Slots {
		g[v] = l.grant(wire.VC(v))
	}
	return g
}

func (l *Link) grant(v wire.VC) uint32 {
	return l.rx.freed[v] + uint32(l.cfg.Slots[v]) - l.rx.carried[v]
}

// Free frees the receiver slot on vc of a delivered packet, of this or an older session. While
// packets of older sessions occupy slots of vc, each call frees a slot of such a packet. The peer
// gets one more credit with the next sequence update. If no slot of vc is occupied, Free panics.
func (l *Link) Free(vc wire.VC) {
	if vc >= wire.NumVCs || l.rx.occupied(int(vc)) == 0 {
		panic(fmt.Sprintf("ttlink: Free on VC %d, of which no slot holds a packet: %+v", vc, l.rx))
	}
	if l.rx.carried[vc] > 0 {
		l.rx.carried[vc]--
	} else {
		l.rx.freed[vc]++
	}
	// A peer whose credits still exceed half of the slots does not need a sequence update yet.
	if left := l.left(vc); left <= l.cfg.Slots[vc]/2 {
		l.rx.updateDue, l.rx.grantsDue = true, true
	}
}

// left returns the number of packets that the peer may still send on VC v by the grants in the latest
// sequence update.
func (l *Link) left(v wire.VC) int { return int(int32(l.rx.granted[v] - l.rx.recv[v])) }

// grantsHelp reports whether a sequence update would help the peer. The update helps if it grants
// more packets on a VC of which the peer has used up a quarter of the slots. A sequence update that
// leaves together with data frames costs little. The link therefore sends such an update earlier
// than an update without data frames.
func (l *Link) grantsHelp() bool {
	for v, slots := range l.cfg.Slots {
		if v := wire.VC(v); l.left(v) <= slots-slots/4 && l.rx.granted[v] != l.grant(v) {
			return true
		}
	}
	return false
}

// handleData processes a data frame or write of the session. If the frame is the next piece of a
// packet or the next write, handleData returns the piece or the write, and true.
func (l *Link) handleData(now mono.Time, f *wire.Frame) (Delivery, bool) {
	l.handleAck(now, f.RxSeq)
	r := &l.rx
	switch d := f.TxSeq.Sub(r.expected); {
	case d < 0:
		l.counters.Duplicates++
		r.updateDue = true // the acknowledgement of the frame may have been lost
		return Delivery{}, false
	case d > 0:
		l.counters.Gaps++
		if d <= MaxFrames {
			l.noteGap(now, f.TxSeq)
		}
		return Delivery{}, false
	}
	if write := f.Kind != wire.KindData; write && !l.writable(f) || !write && !l.continues(f) {
		return Delivery{}, false
	}
	r.expected = r.expected.Add(1)
	if r.gap && !r.expected.Before(r.gapTo) {
		r.gap, r.nackDue, r.updateDue = false, false, true
	}
	l.oweAck(now, len(f.Payload))
	l.counters.DataReceived++
	if f.Kind != wire.KindData {
		return l.receivedWrite(f), true
	}
	d := Delivery{Kind: f.Kind, VC: f.VC, Slot: r.slot[f.VC], Offset: r.offset, Data: f.Payload, End: f.Flags&wire.FlagEnd != 0}
	r.partial, r.vc, r.offset = true, f.VC, r.offset+len(f.Payload)
	if d.End {
		l.books.all[f.VC.Class()].Received++
		l.counters.PayloadReceived += uint64(r.offset)
		r.partial, r.offset = false, 0
		if r.recv[f.VC]++; l.left(f.VC) <= 0 {
			l.ranDry(now, f.VC, l.cfg.Slots[f.VC])
		}
		if r.slot[f.VC]++; r.slot[f.VC] == uint32(l.cfg.Slots[f.VC]) {
			r.slot[f.VC] = 0
		}
	}
	return d, true
}

// oweAck notes that a data frame or write with n bytes of payload must be acknowledged. The next data
// frame to the peer carries the acknowledgement. If no data frame is sent within ackDelay, or if ackBytes
// are unacknowledged, the link sends a sequence update.
func (l *Link) oweAck(now mono.Time, n int) {
	r := &l.rx
	if r.unacked += n; r.unacked >= ackBytes {
		r.updateDue = true
	} else if r.ackAt == 0 {
		r.ackAt = now.Add(ackDelay)
	}
}

// acked notes that the link sends a frame that acknowledges all accepted frames.
func (r *receiver) acked() { r.ackAt, r.unacked = 0, 0 }

// continues reports whether the data frame f, which has the expected number, is a valid piece. The
// frame must continue the partly received packet, or begin a packet for which the peer has a
// credit. The VC, destination address, length and flags of the frame must fit, too. continues
// counts an invalid frame.
func (l *Link) continues(f *wire.Frame) bool {
	r := &l.rx
	if !r.partial && int32(r.recv[f.VC]-l.grant(f.VC)) >= 0 {
		l.counters.CreditViolations++
		return false
	}
	if (r.partial && f.VC != r.vc) || len(f.Payload) == 0 || r.offset+len(f.Payload) > f.VC.SlotSize() ||
		f.Dest != wire.SlotAddress(f.VC, r.slot[f.VC], r.offset) || f.Flags&^wire.FlagEnd != 0 {
		l.counters.BadPieces++
		return false
	}
	return true
}

// noteGap notes that the frame seq came although an earlier frame is missing. At the first call for
// a missing frame, noteGap makes a NACK for the missing frame due.
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

// nackInterval returns the time before the first repetition of a NACK: about a round trip, but at
// least nackMin.
func (l *Link) nackInterval() time.Duration {
	return max(l.rtt.smoothed+2*l.rtt.variation, nackMin)
}

// tickReceive makes an acknowledgement due that has waited for ackDelay. If a frame is still
// missing, tickReceive also makes the NACK due again, and doubles the time until the next
// repetition.
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

// handleUpdate processes a sequence update of the session.
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
