package route

import (
	"fmt"

	"ttfabric/wire"
)

// Flow is the traffic that one chip sends to another.
type Flow struct {
	Src, Dst wire.FabricNodeID // source and destination; if both are the same chip, the flow uses no channel
	Rate     float64           // packets per unit of time; the unit is the caller's choice
	Split    bool              // half of the packets take the opposite direction round rings, if there is such a route: see [Plan.Other]
}

// Out is one direction of a cable on a plane, named by the chip that it leads out of.
type Out struct {
	At  wire.FabricNodeID
	Dir wire.Direction
}

// Loads are the loads that flows put on the channels that they use, in the unit of the flows'
// rates. The unit is flits per cycle if every chip sends packets of one flit at a rate of 1.
type Loads struct {
	Channels map[Out]float64
	Max      float64 // the largest load; sources that send at 1/Max saturate the channel
	Busiest  Out     // a channel with the largest load
	Distance float64 // mean number of hops of a packet
}

// Loads adds up the flows of a class and plane over their routes (Dally and Towles, "Principles and
// Practices of Interconnection Networks", 2004, §3.3.1, where the largest load is γ_max). Virtual
// channels of a cable count together, since they share the cable's rate. The error names a flow
// without a route.
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
				return Loads{}, fmt.Errorf("no way from %s to %s on plane %d", f.Src, f.Dst, pl)
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
		for d := range wire.Direction(wire.NumDirections) {
			if o := (Out{chip.Node, d}); l.Channels[o] > l.Max {
				l.Max, l.Busiest = l.Channels[o], o
			}
		}
	}
	return l, nil
}
