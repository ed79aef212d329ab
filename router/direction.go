package router

import "ttfabric/wire"

// passThrough returns the number of a sender channel, 1 to 3, of a port towards d. Packets that
// came in by the side "from" use this channel.
func passThrough(d, from wire.Direction) int {
	n := 1
	for x := range wire.Direction(wire.NumDirections) {
		if x == from {
			return n
		}
		if x != d {
			n++
		}
	}
	panic("router: a packet came in from no side")
}

// side returns the side by which the packets in sender channel c, 1 to 3, of a port towards d came
// in.
func side(d wire.Direction, c int) wire.Direction {
	for x := range wire.Direction(wire.NumDirections) {
		if x != d && passThrough(d, x) == c {
			return x
		}
	}
	panic("router: no such pass-through channel")
}

func direction(action byte) (wire.Direction, bool) {
	switch action {
	case wire.RouteEast:
		return wire.East, true
	case wire.RouteWest:
		return wire.West, true
	case wire.RouteNorth:
		return wire.North, true
	case wire.RouteSouth:
		return wire.South, true
	}
	return 0, false
}
