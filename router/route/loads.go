package route

import (
	"fmt"

	"ttfabric/wire"
)

// Flow is the traffic from one chip to another, as a rate.
type Flow struct {
	Src, Dst wire.FabricNodeID // source and destination; if both are the same chip, the flow puts no load on any cable
	Rate     float64           // packets per unit of time; the caller chooses the unit
	Split    bool              // half of the packets take the opposite direction round rings, if [Plan.Other] has a different route
}

// Out is one direction of a cable. At is the chip at which packets enter the cable.
type Out struct {
	At  wire.FabricNodeID
	Dir wire.Direction
}

// Loads are the loads that flows put on cables, in packets per unit of time. If the packets have
// one flit and the rates are in packets per cycle, the loads are in flits per cycle.
type Loads struct {
	Channels map[Out]float64 // load of each direction of a cable; no entry: 0
	Max      float64         // the largest load; if all rates are divided by Max, the busiest cable is just saturated
	Busiest  Out             // a direction of a cable with the largest load
	Distance float64         // mean number of hops of a packet; 0: no traffic
}

// Loads adds up the rates of the flows along their routes, for packets of class c on plane pl. The
// method is that of Dally and Towles, "Principles and Practices of Interconnection Networks", 2004,
// §3.3.1, where the largest load is γ_max. All virtual channels of a cable count together, because
// they share the cable's rate. Loads returns an error that names a flow without a route.
func (p *Plan) Loads(c wire.Class, pl wire.Plane, flows []Flow) (Loads, error) {
	l := Loads{Channels: map[Out]float64{}}
	rate := 0.0
	for _, f := range flows {
		plans := []*Plan{p}
		if f.Split && p.other != p {
			plans = append(plans, p.other)
		}
		rate += f.Rate
		for _, q := range plans {
			hops, ok := q.Walk(c, pl, f.Src, f.Dst)
			if !ok {
				return Loads{}, fmt.Errorf("no route from %s to %s on plane %d", f.Src, f.Dst, pl)
			}
			part := f.Rate / float64(len(plans))
			l.Distance += part * float64(len(hops))
			for _, h := range hops {
				l.Channels[Out{h.At, h.Dir}] += part
			}
		}
	}
	if rate > 0 {
		l.Distance /= rate
	}
	for _, chip := range p.top.Chips {
		for d := range wire.Direction(wire.NumSides) {
			if o := (Out{chip.Node, d}); l.Channels[o] > l.Max {
				l.Max, l.Busiest = l.Channels[o], o
			}
		}
	}
	return l, nil
}
