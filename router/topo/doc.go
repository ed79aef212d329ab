// Package topo describes machines: which chips there are, and which ports are joined by cables.
//
// A [Topology] is one machine: its chips with their places in the grid, and the cables between
// their ethernet channels. A Topology comes from one of three places:
//
//   - [Named] builds a machine known by name ("t3000") or generates one ("torus:4x8"). A new
//     machine takes one file and one row of [Builders].
//   - [Load] reads what Tenstorrent's software writes about machines. One such file is a cluster
//     descriptor of the user-mode driver tt-umd, which describes the cables of one machine. The
//     other is a mesh graph descriptor of tt-metal, in YAML or textual protobuf. The mesh graph
//     descriptor says which meshes there are and how many cables join them.
//   - [Load] also reads exactly what [Topology.Encode] wrote. That is how every process of a
//     running fabric gets the same topology.
//
// # Orientation
//
// A mesh has Rows from North to South and Cols from West to East. Row 0 is the north edge, column 0
// the west edge, as in the figures of Spec §2.2.1.1.1. A cluster descriptor's x is the column and
// grows to the East, its y is the row and grows to the South.
//
// A descriptor without coordinates gives only the cabling. The chips are then laid out as a line,
// ring, mesh or torus with no more rows than columns. The smallest chip id for which this works is
// in the north-west corner. [Topology].Layout describes the result.
//
// Device ids are row-major: Row*Cols+Col. They are the fabric's own. tt-umd numbers the same chips
// in the order in which it found them. [Chip].UMD keeps tt-umd's number so that both can be shown.
//
// # Planes
//
// Port k of one edge routes only over port k of the other edges (Spec §2.2.2). One rule decides
// which port is "port k". The cables between two neighbours are sorted by the channel at their
// lower end (the end with the smaller [wire.PortID]). The k-th of them, from 0, belongs to plane k.
// The mesh has as many planes as its thinnest edge has cables. A cable beyond that number is kept,
// marked Unused, and never carries traffic.
//
// # Several meshes
//
// Meshes are joined by cables between exit nodes (Spec §2.2.1). Such a cable leaves each of its
// chips in a direction in which the chip has no neighbour. The two directions need not be opposite.
// The planes of these cables are counted as within a mesh. Cables beyond the plane count of either
// mesh are unused. So a direction and a plane of a chip lead to one place. A plane on which no
// cable joins two meshes does not lead from one to the other.
//
// A mesh graph descriptor may leave open which chips a connection joins. A fixed rule then chooses
// the chips. Chips of a torus have no free direction, so the shorter axis of such a torus gets no
// rings.
//
// # What is not here yet
//
// Cables to chips of other hosts are checked but left out. So are cables of a third dimension in a
// cluster descriptor without coordinates. The error names three things that a mesh graph descriptor
// may contain and that this package refuses: dimensions beyond two, express cables between chips
// that are not neighbours, and switches.
package topo
