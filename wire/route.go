package wire

// Route actions in tt-metal's 2D encoding (fabric_common.h). A route has one byte for each router
// after the source: the router's action. One of the low five bits of the action names a direction.
// If the packet came in from this direction, the router delivers the packet. Otherwise the router
// forwards the packet in this direction. An action of 0 means "no route".
const (
	RouteEast  = 1
	RouteWest  = 2
	RouteNorth = 4
	RouteSouth = 8
	RouteZ     = 16
)

// RouteBit returns the action that names direction d.
func RouteBit(d Direction) byte { return 1 << d }

// AppendRoute appends to b the actions for a path, a list of directions. The source sends the
// packet in the first direction, which has no action. Each following router forwards the packet in
// the next direction. The last action names the side by which the packet enters the destination,
// which means delivery (tt-metal, encode_2d_unicast).
func AppendRoute(b []byte, path []Direction) []byte {
	if len(path) == 0 {
		return b
	}
	for _, d := range path[1:] {
		b = append(b, RouteBit(d))
	}
	return append(b, RouteBit(path[len(path)-1].Opposite()))
}
