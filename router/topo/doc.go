// Package topo says who is cabled to whom.
//
// A [Topology] is one machine: its chips with their places in the grid, and
// the cables between their ethernet channels. It comes from one of three
// places:
//
//   - [Named] builds a machine known by name ("t3000") or generates one
//     ("torus:4x8"). A new one is one file and one row of [Builders].
//   - [Load] reads what Tenstorrent's software writes about machines: a cluster
//     descriptor of the user-mode driver tt-umd, which says how one machine is
//     cabled, or a mesh graph descriptor of tt-metal, in YAML or textual
//     protobuf, which says which meshes there are and how many cables join them.
//   - [Load] also reads what [Topology.Encode] wrote, exactly. That is how
//     every process of a running fabric gets the same topology.
//
// # Orientation
//
// A mesh has Rows from North to South and Cols from West to East. Row 0 is the
// north edge, column 0 the west edge, as in the figures of Spec §2.2.1.1.1. A
// cluster descriptor's x is the column and grows to the East, its y is the row
// and grows to the South. Without coordinates places follow from the cabling:
// chips are laid out as a line, ring, mesh or torus, no higher than wide, the
// smallest id that can be in the north-west corner; [Topology].Layout says so.
// Device ids are row-major: Row*Cols+Col. They are the
// fabric's own; tt-umd numbers the same chips in the order that it found them,
// and [Chip].UMD keeps that number so that both can be shown.
//
// # Planes
//
// Port k of one edge routes only over port k of the other edges (Spec §2.2.2).
// Which port is "port k" follows from one rule: the cables between two
// neighbours are sorted by the channel at their lower end (the one with the
// smaller [wire.PortID]); the k-th of them, from 0, belongs to plane k. The
// mesh has as many planes as its thinnest edge has cables. A cable beyond that
// is kept, marked Unused, and never carries traffic.
//
// # Several meshes
//
// Meshes are joined by cables between exit nodes (Spec §2.2.1). Such a cable
// leaves each of its chips in a direction in which the chip has no neighbour;
// the two need not be opposite. Its planes are counted as within a mesh, and
// those beyond the plane count of either mesh are unused. So a direction and a
// plane of a chip lead to one place, and a plane on which two meshes are not
// joined does not lead from one to the other. Where a mesh graph descriptor
// leaves open which chips a connection joins, they are chosen by a fixed rule;
// of tori, which have no direction free, the shorter axis then has no rings.
//
// # What is not here yet
//
// Cables to chips of other hosts are checked but left out, and so are those of a
// third dimension in a cluster descriptor without coordinates. Dimensions of a
// mesh graph descriptor beyond two, express cables between chips that are not neighbours, and switches are
// refused by name.
package topo
