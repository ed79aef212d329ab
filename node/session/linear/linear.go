// Package linear is the device API for a line or a ring of chips (Spec §4; tt-metal:
// tt_metal/fabric/hw/inc/linear/api.h). A program names chips by their distance in the direction of a
// link. The same program runs on a 2D fabric without changes.
//
// Each call takes one value for each link, or one value for all links. The value is the number of
// hops for a unicast, a [Range] for a multicast, or [Hops] for a sparse multicast. Package device
// describes links, prepared headers (SetState, WithState), and when a call returns.
//
// A unicast takes the route of the routing tables to the chip. On a ring, this route may lead in
// the other direction. A multicast stays in the direction of its link. A sparse multicast takes the
// shorter route to each chip.
//
// tt-metal has only the write as a sparse multicast, and no prepared header for it.
//
// tt-metal's fused scatter write with increment is missing, because the fabric has no such packet. A
// scatter write and an atomic increment with flush have the same effect, in two packets.
package linear

import (
	"errors"
	"fmt"

	"ttfabric/node/flow"
	"ttfabric/node/session/device"
	"ttfabric/wire"
)

// To says where a link leads.
type To struct {
	Dir   wire.Direction
	Plane wire.Plane
}

// Connect opens one link for each direction and plane, at most [device.MaxLinks] (tt-metal:
// open_connections). Connect returns an error if no cable of the chip leads to a chip of its mesh
// in one of these directions and planes.
func Connect(s device.Sender, to ...To) (device.Links, error) {
	planes := make([]wire.Plane, len(to))
	for i, t := range to {
		planes[i] = t.Plane
	}
	ls, err := device.NewLinks(s, planes...)
	for i := range ls {
		next, ok := s.Topology().Neighbour(s.Self(), to[i].Dir, to[i].Plane)
		if !ok || next.Mesh != s.Self().Mesh {
			return nil, fmt.Errorf("link %d: chip %s has no cable %s on plane %d within its mesh", i, s.Self(), to[i].Dir, to[i].Plane)
		}
		ls[i].Dir = to[i].Dir
	}
	return ls, err
}

// Range names consecutive chips in the direction of a link. The first chip is Start hops away
// (tt-metal: start_distance and range).
type Range struct{ Start, Count int }

// Hops is a set of chips in the direction of a link. Bit k stands for the chip k+1 hops away. In
// tt-metal, the hop mask of to_chip_sparse_multicast has 16 bits.
type Hops uint64

func unicast(ls device.Links, c wire.Command, hops []int) error {
	return ls.Set(c, func(i int, l *device.Link, h *flow.Request) error {
		n, err := device.Pick(hops, i, len(ls))
		if err == nil && n < 1 {
			err = fmt.Errorf("%d hops: want at least 1", n)
		}
		if err == nil {
			h.Dst, err = device.Away(l.Sender.Topology(), l.Sender.Self(), l.Dir, n)
		}
		return err
	})
}

func multicast(ls device.Links, c wire.Command, over []Range) error {
	return ls.Set(c, func(i int, l *device.Link, h *flow.Request) error {
		r, err := device.Pick(over, i, len(ls))
		if h.Ranges = device.Line(l.Dir, r.Start, r.Count); err == nil && !h.Ranges.Any() {
			err = fmt.Errorf("a range of %d chips from %d hops on: want at least one chip, 1 to 255 hops away", r.Count, r.Start)
		}
		return err
	})
}

func sparse(ls device.Links, c wire.Command, at []Hops) error {
	return ls.Set(c, func(i int, l *device.Link, h *flow.Request) error {
		mask, err := device.Pick(at, i, len(ls))
		if err == nil && mask == 0 {
			err = errors.New("the hop mask is empty")
		}
		h.Dst.Mesh = l.Sender.Self().Mesh
		for hops := 1; mask != 0 && err == nil; hops++ {
			var n wire.FabricNodeID
			if n, err = device.Away(l.Sender.Topology(), l.Sender.Self(), l.Dir, hops); mask&1 != 0 {
				h.Members.Add(n.Chip)
			}
			mask >>= 1
		}
		return err
	})
}
