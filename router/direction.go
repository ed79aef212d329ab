package router

import "ttfabric/wire"

// passThrough returns the number, 1 to 3, of the sender channel for packets that pass through from
// the side "from" to direction d. The side and the direction must differ. Packets from side Z share
// a channel with packets that turn, and packets from South to Z share the channel of packets from
// North. A shared channel adds no dependency, because all its packets leave by one port on one
// virtual channel. No packet from Z shares a channel with packets that go straight on, because
// bubble flow control treats these packets differently.
func passThrough(d, from wire.Direction) int {
	switch {
	case d == wire.Z && from < wire.NumDirections:
		return min(int(from)+1, SenderChannels-1)
	case from == wire.Z && d < wire.NumDirections:
		from = wire.North
		if d >= wire.North {
			from = wire.East
		}
	}
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
	case wire.RouteZ:
		return wire.Z, true
	}
	return 0, false
}
