// Package topo describes machines: which chips a machine has, and which ports its cables join.
//
// A [Topology] is one machine: its chips with their places in the grid, and the cables between
// their ethernet channels. A Topology comes from one of three places:
//
//   - [Named] builds a machine that has a name ("t3000") or generates a machine ("torus:4x8"). A
//     developer adds a new machine with one file and one row of [Builders].
//   - [Load] reads what Tenstorrent's software writes about machines. One such file is a cluster
//     descriptor of the user-mode driver tt-umd, which describes the cables of one machine. The
//     other is a mesh graph descriptor of tt-metal, in YAML or textual protobuf. The mesh graph
//     descriptor says which meshes there are and how many cables join them.
//   - [Load] also reads back exactly the topology that [Topology.Encode] wrote. In this way every
//     process of a running fabric gets the same topology.
//
// # Orientation
//
// A mesh has Rows from North to South and Cols from West to East. Row 0 is the north edge, column 0
// the west edge, as in the figures of Spec §2.2.1.1.1. A cluster descriptor's x is the column and
// grows to the East, its y is the row and grows to the South.
//
// A descriptor without coordinates gives only the cabling. The chips are then laid out as a line,
// ring, mesh or torus with no more rows than columns. The smallest chip id for which such a layout
// exists is in the north-west corner. [Topology].Layout describes the result.
//
// Device ids are row-major: Row*Cols+Col. Device ids are the fabric's own numbers. tt-umd numbers
// the same chips in the order in which it found them. [Chip].UMD keeps tt-umd's number so that both
// can be shown.
//
// # Planes
//
// Port k of one edge routes only over port k of the other edges (Spec §2.2.2). One rule decides
// which port is "port k". The cables between two neighbours are sorted by the channel at their
// lower end (the end with the smaller [wire.PortID]). The k-th of these cables, counted from 0,
// belongs to plane k. The mesh has as many planes as its thinnest edge has cables. The topology
// keeps a cable beyond this number, and marks the cable Unused. An unused cable never carries
// traffic.
//
// # Several meshes
//
// Meshes are joined by cables between exit nodes (Spec §2.2.1). Such a cable leaves each of its
// chips in a direction in which the chip has no neighbour. The two directions need not be opposite.
// The planes of these cables are counted in the same way as within a mesh. Cables beyond the plane
// count of either mesh are unused. A direction and a plane of a chip therefore lead to one place.
// If no cable of a plane joins two meshes, this plane does not lead from one mesh to the other.
//
// A mesh graph descriptor may leave open which chips a connection joins. A fixed rule then chooses
// the chips. Chips of a torus have no free direction. The shorter axis of such a torus therefore
// gets no rings.
//
// # What is not here yet
//
// Load checks cables to chips of other hosts but leaves them out. In a cluster descriptor without
// coordinates, Load leaves out the cables of a third dimension too. Load refuses a mesh graph
// descriptor with more than two dimensions, with express cables between chips that are not
// neighbours, or with switches. The error names the refused part.
package topo
