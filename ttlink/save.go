package ttlink

import (
	"fmt"

	"ttfabric/wire"
)

// This file is for snapshots of a fabric. A snapshot needs the packets that a link has sent and its
// peer has not received. A simulator that loads a snapshot makes two links count packets as sent and
// received.

// Ledger returns the packets on vc that this end has placed in the session, and the packets that this
// end has completely received in the session, both modulo 2³².
func (l *Link) Ledger(vc wire.VC) (sent, received uint32) { return l.tx.sent[vc], l.rx.recv[vc] }

// Pending calls f for each packet with an unacknowledged frame, the oldest first, with the packet's
// virtual channel and all bytes of the packet. Bytes of the first packet whose frames are
// acknowledged are 0, except the packet's headers. The bytes belong to f.
func (l *Link) Pending(f func(vc wire.VC, packet []byte)) {
	var b []byte
	for q := l.tx.base; q != l.tx.next; q = q.Add(1) {
		m := l.tx.slab.at(q)
		if !m.packet() {
			continue
		}
		off := int(m.dest % uint32(m.vc.SlotSize()))
		if off == 0 {
			b = nil
		} else if len(b) < off { // the frames before this one are acknowledged
			b = make([]byte, off)
			copy(b, l.tx.slab.cut)
		}
		if b = append(b[:off], l.tx.slab.payload(m)...); m.flags&wire.FlagEnd != 0 {
			f(m.vc, b)
			b = nil
		}
	}
}

// Assume makes a link that is up count n packets on vc as sent in this session, and as acknowledged
// by the peer. At the same instant, the owner of the peer must call [Link.Occupy] of the peer with
// the same numbers. Assume returns an error if the link is not up, has unacknowledged frames, or
// has no credits for the packets.
func (l *Link) Assume(vc wire.VC, n int) error {
	if l.state != StateUp || l.tx.base != l.tx.next || n < 0 || n > l.Credits(vc) {
		return fmt.Errorf("ttlink: %d packets on virtual channel %s: the link is %s, has %d unacknowledged frames, and credits for %d packets", n, vc, l.state, l.tx.slab.count, l.Credits(vc))
	}
	if n == 0 {
		return nil
	}
	t := &l.tx
	t.sent[vc] += uint32(n)
	t.acked[vc] += uint32(n)
	t.slot[vc] = (t.slot[vc] + uint32(n)) % t.slots[vc]
	k := &l.books.all[vc.Class()]
	k.Sent, k.Acked = k.Sent+uint64(n), k.Acked+uint64(n)
	return nil
}

// Occupy makes a link that is up count n packets on vc as received in this session. A link without a
// session counts the packets as received in an older session. The packets occupy slots until
// [Link.Free]. See [Link.Assume] for the call at the peer. Occupy returns an error if the link has a
// session and is not up, has received a part of a packet, or has no free slots for the packets.
func (l *Link) Occupy(vc wire.VC, n int) error {
	free := l.cfg.Slots[vc] - l.rx.occupied(int(vc))
	if l.state != StateUp && l.sess.id != 0 || l.rx.partial || n < 0 || n > free {
		return fmt.Errorf("ttlink: %d packets in the receiver channel of virtual channel %s: the link is %s, and %d slots are free", n, vc, l.state, free)
	}
	if n == 0 {
		return nil
	}
	r := &l.rx
	if l.sess.id == 0 {
		r.carried[vc] += uint32(n)
		return nil
	}
	r.recv[vc] += uint32(n)
	r.slot[vc] = (r.slot[vc] + uint32(n)) % uint32(l.cfg.Slots[vc])
	l.books.all[vc.Class()].Received += uint64(n)
	return nil
}
