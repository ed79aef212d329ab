// Package topo describes machines: the chips of a machine, and the cables between their ports.
//
// A [Topology] is one machine: its chips with their rows and columns, and the cables between their
// ethernet channels. A program gets a Topology in one of three ways:
//
//   - [Named] builds a machine with a name ("t3000"), or generates a machine of a given size
//     ("torus:4x8"). A new machine needs one new file and one new entry in [Builders].
//   - [Load] reads two kinds of files that Tenstorrent's software uses. A cluster descriptor of
//     the user-mode driver tt-umd lists the chips and cables of one machine. A mesh graph
//     descriptor of tt-metal (YAML or textual protobuf) names meshes, and the numbers of cables
//     between them.
//   - [Load] also reads the files that [Topology.Encode] writes. Load then returns the topology
//     that Encode wrote, with the exceptions that Encode names. In this way every process of a
//     running fabric gets the same topology.
//
// # Orientation
//
// Rows are counted from North to South, and columns from West to East. Row 0 is the northernmost
// row of a mesh, and column 0 the westernmost column, as in the figures of Spec §2.2.1.1.1. In a
// cluster descriptor, x is the column and grows to the East, and y is the row and grows to the
// South.
//
// A cluster descriptor without coordinates gives only the cables. [Load] then arranges the chips
// as a line, ring, mesh or torus with at most as many rows as columns. Of the possible
// arrangements, Load takes one with the smallest possible chip id in the north-west corner.
// [Topology].Layout describes the result.
//
// The fabric numbers the chips of a mesh row by row: the number of a chip is Row*Cols+Col. The
// driver tt-umd numbers the same chips in the order in which tt-umd found them. Programs can show
// both numbers, because [Chip].UMD is tt-umd's number.
//
// # Planes
//
// An edge consists of two neighbours and the direction from one to the other. Each edge has one or
// more cables. A packet stays on one plane. On plane k, a packet uses cable k of every edge (Spec
// §2.2.2). The package sorts the cables of an edge by the channel at their lower end, which is the
// end with the smaller [wire.PortID]. The k-th of these cables, counted from 0, belongs to plane k.
// The number of planes of a mesh is the smallest number of cables on any of its edges. The package
// marks each cable beyond this number as Unused. An unused cable never carries traffic.
//
// # Several meshes
//
// Cables between exit nodes join meshes (Spec §2.2.1). At each end, such a cable leaves the chip in
// a direction in which the chip has no neighbour. The directions at the two ends need not be
// opposite. The planes of these cables are counted in the same way as within a mesh. A cable is
// used only if its plane exists in both meshes, where a mesh of one chip has every plane. For each
// direction and plane, a chip thus has at most one used cable. On a plane without a cable between
// two meshes, no packet crosses directly from one of these meshes to the other.
//
// A mesh graph descriptor need not say which chips a connection joins. [Load] then chooses the
// chips by a fixed rule. On Blackhole, an exit may leave in direction Z, so that the rings of a
// torus stay closed. The chips of a Wormhole torus have no free direction for exits. If a
// connection leads to such a torus, Load therefore turns the rings of one axis or of both axes into
// lines. In most cases, the rings of the shorter axis are enough.
//
// # Parts and missing cables
//
// Chips of a cluster descriptor that no cables join, directly or over other chips, become meshes of
// their own, see [Topology.Parts]. If chips on several shelves fit no grid together, the connected
// chips of each shelf become a mesh. Neighbours in a grid may lack a cable, see [Topology].Missing.
//
// # What is not supported
//
// In a cluster descriptor, Load checks the cables to chips of other hosts, but leaves them out of
// the topology, see [Topology].LeftOut. Load also leaves out the cables of a third dimension within a
// mesh. These are the cables of a Blackhole Galaxy between channels 8 or 9, as tt-umd numbers the
// channels. Between two meshes, these cables are exits in direction Z. Load refuses three kinds of mesh graph descriptors.
// The first kind has more than two dimensions. The second kind has express cables, which join chips
// that are not neighbours. The third kind has switches. The error names the part that Load refuses.
package topo
