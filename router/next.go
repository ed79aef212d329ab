package router

import (
	"math/bits"

	"ttfabric/wire"
)

// Skip is a set of sender channels of one port, such as the channels that [Router.Next] passes
// over.
type Skip uint64

func one(v wire.VC, c int) Skip { return 1 << (int(v)*SenderChannels + c) }

// ControlChannels is the set of all sender channels for control packets.
var ControlChannels = controlChannels()

func controlChannels() (s Skip) {
	for v := range wire.VC(wire.NumVCs) {
		if v.Class() == wire.ClassControl {
			s |= all << (int(v) * SenderChannels)
		}
	}
	return s
}

// Offer is the packet that a port should send next.
type Offer struct {
	Slot  Slot
	VC    wire.VC
	Needs int  // number of free slots that the peer must have: 2 if a request or reply that is not on a detour enters a ring under bubble flow control, else 1
	All   Skip // the four sender channels of the packet's virtual channel: the chip skips these channels if the link has no credit for the virtual channel
	One   Skip // the packet's own sender channel: the chip skips this channel if the link has one credit and the packet needs two
}

// Next offers the packet that port i should send next. Next serves the virtual channels round
// robin. Within a virtual channel, Next also serves the sender channels round robin (Spec §3.1.1).
// With LocalFirst, Next instead serves the sender channel with the lowest number. Next passes over
// the sender channels in the set "skip", and over requests if the port drains. If the port is
// paused or its link is down, Next offers nothing. The packet stays in its channel until the chip
// calls [Router.Sent].
func (r *Router) Next(i int, skip Skip) (Offer, bool) {
	p := &r.ports[i]
	waiting := p.waiting &^ skip
	if !p.up || waiting == 0 || p.order == CommandPause {
		return Offer{}, false
	}
	// The bits of the set are in the order of the channels. Next rotates the set until the bits of
	// the virtual channel that is served next come first.
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

// all is the Skip that has the four sender channels of virtual channel 0.
const all = 1<<SenderChannels - 1

// Sent removes the packet that [Router.Next] offered, because the link took the packet. The caller
// must return the slot to the pool.
func (r *Router) Sent(i int) Slot {
	p := &r.ports[i]
	v, c := p.offeredVC, p.offeredCh
	p.nextVC, p.nextCh[v] = (v+1)%wire.NumVCs, (c+1)%SenderChannels
	p.of(v).Sent++
	return p.pop(v, c)
}
