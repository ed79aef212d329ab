package router

import (
	"math/bits"

	"ttfabric/wire"
)

// Skip is a set of sender channels that [Router.Next] passes over.
type Skip uint64

func one(v wire.VC, c int) Skip { return 1 << (int(v)*SenderChannels + c) }

// Offer is a packet that may be sent.
type Offer struct {
	Slot  Slot
	VC    wire.VC
	Needs int  // slots that must be free at the peer: 2 if the packet enters a ring under bubble flow control
	All   Skip // the sender channels of the packet's virtual channel: if this packet lacks credit, none of these channels can send
	One   Skip // the packet's own sender channel
}

// Next offers the packet that port i should send next. Next serves the virtual channels round
// robin. Within a virtual channel, Next serves the sender channels round robin too (Spec §3.1.1).
// Next passes over the sender channels in the skip set. The packet stays in its channel until
// [Router.Sent].
func (r *Router) Next(i int, skip Skip) (Offer, bool) {
	p := &r.ports[i]
	waiting := p.waiting &^ skip
	if !p.up || waiting == 0 || p.order == CommandPause {
		return Offer{}, false
	}
	// The channels are in the order of the set's bits. Next rotates the set until the channel whose
	// turn has come is first.
	for turn := int(p.nextVC) * SenderChannels; waiting != 0; {
		v := wire.VC(turn+bits.TrailingZeros64(bits.RotateLeft64(uint64(waiting), -turn))) / SenderChannels % wire.NumVCs
		four := uint(waiting>>(int(v)*SenderChannels)) & all
		c := bits.TrailingZeros(four)
		if !r.cfg.LocalFirst {
			c = (p.nextCh[v] + bits.TrailingZeros(four>>p.nextCh[v]|four<<(SenderChannels-p.nextCh[v]))) % SenderChannels
		}
		s := p.send[v][c].peek()
		if r.drained(p, s) {
			waiting &^= one(v, c)
			continue
		}
		p.offeredVC, p.offeredCh = v, c
		o := Offer{Slot: s, VC: v, Needs: 1, All: all << (int(v) * SenderChannels), One: one(v, c)}
		if r.cfg.Bubble && p.Ring && !v.Detour() && v.Class() != wire.ClassControl && c != passThrough(p.Dir, p.Dir.Opposite()) {
			o.Needs = 2
		}
		return o, true
	}
	return Offer{}, false
}

// all is the set of the sender channels of a virtual channel.
const all = 1<<SenderChannels - 1

// The owner calls Sent when the link took the packet that [Router.Next] offered. The slot belongs
// to the caller again.
func (r *Router) Sent(i int) Slot {
	p := &r.ports[i]
	v, c := p.offeredVC, p.offeredCh
	p.nextVC, p.nextCh[v] = (v+1)%wire.NumVCs, (c+1)%SenderChannels
	p.of(v).Sent++
	return p.pop(v, c)
}
