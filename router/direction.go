package router

import "ttfabric/wire"

// passThrough returns the number, 1 to 3, of the sender channel for packets that pass through from
// the side "from" to direction d. The side and the direction must differ.
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
	panic("router: a packet came in by a side that does not exist")
}

// side returns the side by which the packets in sender channel c, 1 to 3, came in. The channel's
// port leads in direction d.
func side(d wire.Direction, c int) wire.Direction {
	for x := range wire.Direction(wire.NumDirections) {
		if x != d && passThrough(d, x) == c {
			return x
		}
	}
	panic("router: a sender channel for packets that pass through has a number from 1 to 3")
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
