package reliable

import (
	"time"

	"ttfabric/router/reliable/nexthop"
	"ttfabric/wire/mono"
)

// Limits of the destination's memory.
const (
	DefaultWindow   = 64                     // packets of a flow behind the first missing one
	DefaultPatience = 200 * time.Millisecond // time that a flow waits for a missing packet
	maxFlows        = 4096                   // flows whose order a destination remembers
	maxReplicas     = 4096                   // packets with a replica token that a destination remembers
)

// flowID names a flow at its destination.
type flowID struct {
	src      nexthop.Place
	priority uint8
	epoch    uint32
}

// packetID names a packet at its destination.
type packetID struct {
	flowID
	seq uint64
}

func (p *Packet) flow() flowID { return flowID{p.Src, p.Priority, p.Epoch} }

// replicas remembers the packets that came with a replica token. Only these can come twice.
type replicas struct {
	seen map[packetID]bool
	ring []packetID // at most maxReplicas, from the position next the oldest first
	next int
}

// add returns false if the packet is in the memory. Else add puts the packet there, and forgets the
// oldest packet of a full memory: then forgotten is true.
func (r *replicas) add(id packetID) (fresh, forgotten bool) {
	if r.seen[id] {
		return false, false
	}
	if r.seen == nil {
		r.seen = map[packetID]bool{}
	}
	r.seen[id] = true
	if len(r.ring) < maxReplicas {
		r.ring = append(r.ring, id)
		return true, false
	}
	delete(r.seen, r.ring[r.next])
	r.ring[r.next] = id
	r.next = (r.next + 1) % maxReplicas
	return true, true
}

// flow is the order of one flow. Invariant: all held packets have numbers from next+1 to
// next+window-1; until is meaningful if there are any.
type flow struct {
	id    flowID
	next  uint64 // number of the next packet to deliver
	held  map[uint64]Packet
	until mono.Time // when the flow stops waiting for the packet "next"
}

// orderer restores the order of flows at their destination. Adaptive routes change the order.
type orderer struct {
	window   int
	patience time.Duration
	flows    map[flowID]*flow
	recent   []*flow // in the order of their first packets, for forgetting
	waiting  []*flow // flows that hold packets
	out      func(Packet)
	late     int // packets that came after the flow had stopped waiting for them
	skipped  int // packets for which a flow has stopped waiting
	most     int // most packets held by one flow
}

// take takes a packet, which comes once, and passes on what is in order.
func (o *orderer) take(now mono.Time, p Packet) {
	f := o.flows[p.flow()]
	if f == nil {
		f = &flow{id: p.flow()}
		o.remember(f)
	}
	switch {
	case p.Seq < f.next:
		o.late++
		o.out(p)
		return
	case p.Seq == f.next:
		o.out(p)
		f.next++
		o.drain(now, f)
		return
	}
	if p.Seq >= f.next+uint64(o.window) {
		o.skipTo(now, f, p.Seq-uint64(o.window)+1)
		if p.Seq == f.next { // a window of one packet
			o.take(now, p)
			return
		}
	}
	if f.held == nil {
		f.held = map[uint64]Packet{}
	}
	if len(f.held) == 0 {
		f.until = now.Add(o.patience)
		o.waiting = append(o.waiting, f)
	}
	f.held[p.Seq] = p
	o.most = max(o.most, len(f.held))
}

// remember adds a flow. Of too many flows, the oldest one is forgotten, and its packets are delivered.
// All sources of the largest mesh have fewer flows to one destination. Only restarted sources add more.
func (o *orderer) remember(f *flow) {
	if o.flows == nil {
		o.flows = map[flowID]*flow{}
	}
	if len(o.recent) == maxFlows {
		old := o.recent[0]
		o.recent = append(o.recent[:0], o.recent[1:]...)
		o.flush(old)
		delete(o.flows, old.id)
	}
	o.recent = append(o.recent, f)
	o.flows[f.id] = f
}

// drain passes on the held packets that are in order now.
func (o *orderer) drain(now mono.Time, f *flow) {
	if len(f.held) == 0 {
		return
	}
	for p, ok := f.held[f.next]; ok; p, ok = f.held[f.next] {
		delete(f.held, f.next)
		o.out(p)
		f.next++
	}
	f.until = now.Add(o.patience)
	if len(f.held) == 0 {
		o.waiting = without(o.waiting, f)
	}
}

// skipTo passes on all held packets up to a number, and stops waiting for those that are missing.
func (o *orderer) skipTo(now mono.Time, f *flow, seq uint64) {
	for ; f.next < seq && len(f.held) > 0; f.next++ {
		p, ok := f.held[f.next]
		if !ok {
			o.skipped++
			continue
		}
		delete(f.held, f.next)
		o.out(p)
	}
	if f.next < seq {
		o.skipped += int(min(seq-f.next, 1<<30))
		f.next = seq
	}
	if len(f.held) == 0 {
		o.waiting = without(o.waiting, f)
		return
	}
	o.drain(now, f)
}

// flush passes on all held packets of a flow.
func (o *orderer) flush(f *flow) {
	for len(f.held) > 0 {
		o.skipTo(f.until, f, f.next+uint64(o.window))
	}
}

// tick lets flows that have waited too long go on with their next packet.
func (o *orderer) tick(now mono.Time) {
	for i := 0; i < len(o.waiting); {
		f := o.waiting[i]
		if f.until > now {
			i++
			continue
		}
		seq := f.next
		for ; ; seq++ {
			if _, ok := f.held[seq]; ok {
				break
			}
		}
		o.skipTo(now, f, seq)
		if i < len(o.waiting) && o.waiting[i] == f {
			i++
		}
	}
}

// deadline returns when the first flow stops waiting.
func (o *orderer) deadline() mono.Time {
	t := mono.Never
	for _, f := range o.waiting {
		t = min(t, f.until)
	}
	return t
}

func without(fs []*flow, f *flow) []*flow {
	for i := range fs {
		if fs[i] == f {
			return append(fs[:i], fs[i+1:]...)
		}
	}
	return fs
}
