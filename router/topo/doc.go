// Package topo says who is cabled to whom.
//
// A [Topology] is one machine: its chips with their places in the grid, and
// the cables between their ethernet channels. It comes from one of three
// places:
//
//   - [Named] builds a machine known by name ("t3000") or generates one
//     ("mesh:4x8"). A new one is one file and one row of [Builders].
//   - [Load] reads a cluster descriptor, the YAML that Tenstorrent's user-mode
//     driver tt-umd writes about a real machine.
//   - [Load] also reads what [Topology.Encode] wrote, exactly. That is how
//     every process of a running fabric gets the same topology.
//
// # Orientation
//
// A mesh has Rows from North to South and Cols from West to East. Row 0 is the
// north edge, column 0 the west edge, as in the figures of Spec §2.2.1.1.1. A
// cluster descriptor's x is the column and grows to the East, its y is the row
// and grows to the South. Device ids are row-major: Row*Cols+Col. They are the
// fabric's own; tt-umd numbers the same chips in the order that it found them,
// and [Chip].UMD keeps that number so that both can be shown.
//
// # Planes
//
// Port k of one edge routes only over port k of the other edges (Spec §2.2.2).
// Which port is "port k" follows from one rule: the cables between two
// neighbours are sorted by the channel at their lower end (the one with the
// smaller [wire.PortID]); the k-th of them, from 0, belongs to plane k. The
// machine has as many planes as its thinnest edge has cables. A cable beyond
// that is kept, marked Unused, and never carries traffic.
//
// # What is not here yet
//
// One mesh, without wrap-around cables: rings, tori and several meshes are
// refused by name. [Topology].Meshes and every address carry a mesh id already,
// so that these are additions. Cables to chips of other hosts are checked but
// left out. A layout is never derived from the cabling ([ErrNoCoordinates]).
package topo
