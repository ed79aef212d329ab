package chip

import "ttfabric/wire"

// A chip remembers, for flows from other meshes, the tables that routed the last packet of the flow.
// The flows share numEntrants places, in sets of entrantWays. A flow has a place in one set. The
// values are our own choice. All places take 256 KiB.
const (
	numEntrants = 8192
	entrantWays = 4
)

// entrants holds, for flows from other meshes, the tables that routed the last packet of the flow.
// A flow may take the place of another flow, if entrantWays flows have a place in its set.
type entrants []entrant

// flowName names a flow from another mesh.
type flowName struct {
	src, dst wire.FabricNodeID
	group    uint16
	plane    wire.Plane
	other    bool
}

type entrant struct {
	flowName
	epoch  uint32   // epoch of the flow
	seq    uint32   // number of the last packet in its flow
	tables *planned // the tables that routed the last packet; nil: no packet of the flow has come yet
}

// of returns the place of the flow that a request or probe belongs to. For packets without a flow,
// of returns nil. If no place is free, the flow takes the place of a flow that took the tables in
// force, or else of any other flow.
func (e *entrants) of(v wire.PacketView, force *planned) *entrant {
	epoch, _ := v.Flow()
	if t := v.Type(); t != wire.PacketRequest && t != wire.PacketProbe {
		return nil
	}
	if *e == nil {
		*e = make(entrants, numEntrants)
	}
	k := flowName{src: v.Src(), dst: v.Dst(), group: v.Group(), plane: v.Plane(), other: v.Other()}
	set := (*e)[k.hash()%(numEntrants/entrantWays)*entrantWays:][:entrantWays]
	at := -1
	for i := range set {
		switch x := &set[i]; {
		case x.tables != nil && x.flowName == k:
			if x.epoch != epoch {
				*x = entrant{flowName: k, epoch: epoch}
			}
			return x
		case x.tables == nil || at < 0 && x.tables == force:
			at = i
		}
	}
	if at < 0 {
		at = int(k.hash() >> 32 % entrantWays)
	}
	set[at] = entrant{flowName: k, epoch: epoch}
	return &set[at]
}

// open returns the tables that routed the last packet of packet v's flow, if the request of the last
// packet is open. Otherwise open returns nil.
func (x *entrant) open(v wire.PacketView) *planned {
	if x == nil || int32(v.FlowBase()-x.seq) > 0 {
		return nil
	}
	return x.tables
}

// took notes the tables that route packet v of the flow.
func (x *entrant) took(v wire.PacketView, by *planned) {
	if x != nil {
		_, x.seq = v.Flow()
		x.tables = by
	}
}

// hash returns a number that spreads flows over the sets.
func (k *flowName) hash() uint64 {
	const golden = 0x9E3779B97F4A7C15 // 2⁶⁴ divided by the golden ratio; a multiplication by this constant spreads numbers evenly (Knuth, The Art of Computer Programming, volume 3, §6.4)
	h := (uint64(k.src.Mesh)<<16 | uint64(k.src.Chip)) * golden
	h = (h>>32 ^ uint64(k.dst.Mesh)<<16 ^ uint64(k.dst.Chip)) * golden
	h = (h>>32 ^ uint64(k.group)<<16 ^ uint64(k.plane)) * golden
	return h >> 16
}
