package route

import (
	"fmt"

	"ttfabric/wire"
)

// Flow is what one chip sends another.
type Flow struct {
	Src, Dst wire.FabricNodeID // of one chip that is both, nothing uses a channel
	Rate     float64           // packets, in whatever unit of time
	Split    bool              // half of them take the other way round, where there is one: see [Plan.Other]
}

// Out is one direction of a cable on a plane: the way out of a chip.
type Out struct {
	At  wire.FabricNodeID
	Dir wire.Direction
}

// Loads are what flows put on the channels that they use, in the unit of
// their rates: flits per cycle, where every chip sends packets of one flit at a rate of 1.
type Loads struct {
	Channels map[Out]float64
	Max      float64 // the largest of them; sources that send at 1/Max saturate it
	Busiest  Out     // a channel that has it
	Distance float64 // mean hops of a packet
}

// Loads adds up the flows of a class and plane over their ways (Dally and
// Towles, "Principles and Practices of Interconnection Networks", 2004, §3.3.1,
// where the largest is γ_max). Virtual channels of a cable count together,
// since they share its rate. The error names a flow without a way.
func (p *Plan) Loads(c wire.Class, pl wire.Plane, flows []Flow) (Loads, error) {
	l := Loads{Channels: map[Out]float64{}}
	rate := 0.0
	for _, f := range flows {
		ways := []*Plan{p}
		if f.Split && p.other != p {
			ways = append(ways, p.other)
		}
		rate += f.Rate
		for _, q := range ways {
			hops, ok := q.Walk(c, pl, f.Src, f.Dst)
			if !ok {
				return Loads{}, fmt.Errorf("no way from %s to %s on plane %d", f.Src, f.Dst, pl)
			}
			part := f.Rate / float64(len(ways))
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
