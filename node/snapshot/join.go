package snapshot

import (
	"slices"

	"ttfabric/wire"
)

// Join completes a file that has the states of the chips, each from its own cut. Join sorts the chips,
// finds the packets in flight, and lists the cables. A port whose field Complete is true has its
// packets in flight already. For any other port, Join takes the packets in flight from the pending
// packets of the peer: those that the peer has sent in the session, and the port has not received.
func (f *File) Join() {
	slices.SortFunc(f.Chips, func(a, b Chip) int { return a.Node.Compare(b.Node) })
	slices.SortFunc(f.NoAnswer, wire.FabricNodeID.Compare)
	ports := map[Port]*PortState{}
	for i := range f.Chips {
		for j := range f.Chips[i].Ports {
			p := &f.Chips[i].Ports[j]
			ports[Port{Node: f.Chips[i].Node, Channel: p.Channel}] = p
		}
	}
	for _, p := range ports {
		if q := ports[p.Peer]; q != nil && !p.Complete {
			p.Complete = p.fly(q)
		}
	}
	f.Cables = []Cable{}
	for i := range f.Chips {
		for j := range f.Chips[i].Ports {
			p := &f.Chips[i].Ports[j]
			at := Port{Node: f.Chips[i].Node, Channel: p.Channel}
			q := ports[p.Peer]
			if q != nil && q.Complete {
				p.Pending = nil
			}
			if p.Partial = nil; q == nil || wire.PortID(at).Less(wire.PortID(p.Peer)) || p.Found != nil {
				f.Cables = append(f.Cables, cable(at, p, q))
			}
		}
	}
}

// fly finds the packets in flight to port p from the packets that the peer q holds. fly returns false
// if the states contradict each other.
func (p *PortState) fly(q *PortState) bool {
	if p.Session == 0 || p.Session != q.Session {
		return true // the ends have no session in common, which could have packets in flight
	}
	sent := map[VCName]uint32{}
	for i := range q.VCs {
		sent[q.VCs[i].VC] = q.VCs[i].Sent
	}
	all := 0
	flying := map[VCName][]Packet{}
	for i := range p.VCs {
		v := &p.VCs[i]
		n := int(int32(sent[v.VC] - v.Received))
		var pending []Packet
		for k := range q.Pending {
			if wire.PacketView(q.Pending[k].Head).VC() == wire.VC(v.VC) {
				pending = append(pending, q.Pending[k])
			}
		}
		if n < 0 || n > len(pending) {
			return false
		}
		flying[v.VC] = append([]Packet{}, pending[len(pending)-n:]...)
		all += n
	}
	if all > 0 && len(p.Partial) > 0 { // the peer may have forgotten the payload that has arrived
		first := q.Pending[len(q.Pending)-all]
		vc := VCName(wire.PacketView(first.Head).VC())
		if head := len(first.Head); len(first.Payload) > 0 && len(p.Partial) > head && len(flying[vc]) > 0 {
			first.Payload = slices.Clone(first.Payload)
			copy(first.Payload, p.Partial[head:])
			flying[vc][0] = first
		}
	}
	for i := range p.VCs {
		p.VCs[i].InFlight = flying[p.VCs[i].VC]
	}
	return true
}

// cable returns the cable at a port as training found the cable. The parameter q is the state of the
// declared peer, or nil.
func cable(at Port, p, q *PortState) Cable {
	c := Cable{A: at, B: p.Peer, Plane: p.Plane, State: "down"}
	switch {
	case p.Found != nil:
		c.B, c.State = *p.Found, "miswired"
	case q == nil:
		c.State = "one end"
	case p.Link == "up" && q.Link == "up" && p.By == p.Channel && q.By == q.Channel:
		c.State = "up"
	case p.Link == "up" && q.Link == "up":
		c.State = "fallback"
	}
	return c
}

// Held returns a copy of the state p of a port whose link is down. In the copy, the packets that were in
// flight to the peer are at the front of sender channel 0.
func (p *PortState) Held(peer *PortState) *PortState {
	x := *p
	x.VCs = slices.Clone(p.VCs)
	for i := range x.VCs {
		v := &x.VCs[i]
		for j := range peer.VCs {
			if peer.VCs[j].VC == v.VC && len(peer.VCs[j].InFlight) > 0 {
				v.Senders = slices.Clone(v.Senders)
				v.Senders[0] = slices.Concat(peer.VCs[j].InFlight, v.Senders[0])
			}
		}
	}
	return &x
}
