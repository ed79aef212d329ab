package router

import (
	"fmt"

	"ttfabric/node/snapshot"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// This file writes the packets of a router into a snapshot, and reads packets from a snapshot.

// Save returns the channels of port i, in all virtual channels that have slots. Fields that belong to
// the link are 0 in the result. If "payload" is true, the packets have their payloads.
func (r *Router) Save(now mono.Time, i int, payload bool) []snapshot.VC {
	p := &r.ports[i]
	out := []snapshot.VC{}
	for _, v := range r.vcs {
		x := snapshot.VC{VC: snapshot.VCName(v), SenderSlots: r.cfg.Slots.Sender[v], ReceiverSlots: r.cfg.Slots.Receiver[v],
			Receiver: r.save(now, &p.recv[v], payload), InFlight: []snapshot.Packet{}}
		for c := range p.send[v] {
			x.Senders = append(x.Senders, r.save(now, &p.send[v][c], payload))
		}
		out = append(out, x)
	}
	return out
}

// SaveOwn returns the multicasts of this chip that wait for room in sender channels.
func (r *Router) SaveOwn(now mono.Time, payload bool) []snapshot.Own {
	out := []snapshot.Own{}
	for pl := range r.own.planes {
		if q := &r.own.planes[pl]; q.n > 0 {
			out = append(out, snapshot.Own{Plane: wire.Plane(pl), Packets: r.save(now, q, payload)})
		}
	}
	return out
}

// save returns the packets of a queue, in the order in which they leave.
func (r *Router) save(now mono.Time, q *ring, payload bool) []snapshot.Packet {
	out := make([]snapshot.Packet, 0, q.n)
	for k := range q.n {
		at := q.index(k)
		x := snapshot.PacketOf(r.cfg.Pool.Bytes(q.slots[at]), payload)
		x.Age = int64(millis(now) - q.at[at])
		if k == 0 {
			x.Parts = q.left &^ partsKnown
		}
		out = append(out, x)
	}
	return out
}

// Restore puts the packets of a snapshot into the empty channels of port i. Restore counts the packets
// of receiver channels as received, and the packets of sender channels as injected. Restore returns an
// error if a channel or the pool has no room for its packets, or if a packet does not fit its place.
func (r *Router) Restore(now mono.Time, i int, vcs []snapshot.VC) error {
	r.SetTime(now)
	p := &r.ports[i]
	for k := range vcs {
		x := &vcs[k]
		v := wire.VC(x.VC)
		if len(x.Receiver) > r.cfg.Slots.Receiver[v] {
			return fmt.Errorf("vcs[%d].receiver: %d packets, but the channel has %d slots", k, len(x.Receiver), r.cfg.Slots.Receiver[v])
		}
		if err := r.fill(now, &p.recv[v], i, x.Receiver, func(s Slot, at uint32) {
			p.of(v).Received++
			p.recv[v].push(s, at)
			p.held |= 1 << v
			r.recvd++
		}); err != nil {
			return fmt.Errorf("vcs[%d].receiver%w", k, err)
		}
		for c, list := range x.Senders {
			if len(list) > 0 && r.cfg.Slots.Sender[v] == 0 || p.parked+max(0, len(list)-r.cfg.Slots.Sender[v]) > MaxParked {
				return fmt.Errorf("vcs[%d].senders[%d]: %d packets, but the channel has %d slots, and the router parks at most %d packets", k, c, len(list), r.cfg.Slots.Sender[v], MaxParked)
			}
			if err := r.fill(now, &p.send[v][c], i, list, func(s Slot, at uint32) {
				p.push(v, c, s, at)
				p.of(v).Injected++
			}); err != nil {
				return fmt.Errorf("vcs[%d].senders[%d]%w", k, c, err)
			}
		}
	}
	return nil
}

// RestoreOwn puts the multicasts of a snapshot into the empty queues of this chip's multicasts.
func (r *Router) RestoreOwn(now mono.Time, own []snapshot.Own) error {
	r.SetTime(now)
	for k := range own {
		pl := own[k].Plane
		if q := &r.own.planes[pl]; len(own[k].Packets) > q.size {
			return fmt.Errorf("own[%d].packets: %d multicasts, but the queue of plane %d has room for %d", k, len(own[k].Packets), pl, q.size)
		}
		if err := r.fill(now, &r.own.planes[pl], -1, own[k].Packets, func(s Slot, at uint32) {
			r.own.planes[pl].push(s, at)
			r.own.n++
		}); err != nil {
			return fmt.Errorf("own[%d].packets%w", k, err)
		}
	}
	return nil
}

// fill puts packets into an empty queue. The packets came in by a port, or are this chip's own
// multicasts if the port is -1.
func (r *Router) fill(now mono.Time, q *ring, port int, packets []snapshot.Packet, push func(s Slot, at uint32)) error {
	if q.n > 0 {
		return fmt.Errorf(": the channel already holds %d packets", q.n)
	}
	for k := range packets {
		b, err := packets[k].Raw()
		if err != nil {
			return fmt.Errorf("[%d].%w", k, err)
		}
		s, ok := r.cfg.Pool.Get(len(b))
		if !ok {
			return fmt.Errorf("[%d]: the chip has no room for the packet", k)
		}
		copy(r.cfg.Pool.Bytes(s), b)
		push(s, millis(now)-uint32(packets[k].Age))
		if parts := packets[k].Parts; parts != 0 {
			if all := r.duties(wire.PacketView(b), port); parts&^all != 0 {
				return fmt.Errorf("[%d].parts: %#x, but at this chip the multicast has the parts %#x", k, parts, all)
			}
			q.left = parts | partsKnown
		}
	}
	return nil
}

// Assume counts n packets on virtual channel v as injected at port i, and as taken by the link. A
// snapshot has these packets at the other end of the cable. So the counts of the two ends agree.
func (r *Router) Assume(i int, v wire.VC, n int) {
	c := r.ports[i].of(v)
	c.Injected, c.Sent = c.Injected+uint64(n), c.Sent+uint64(n)
}
