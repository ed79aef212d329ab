package topo

import "ttfabric/wire"

// PlaneCount counts the cables from one chip to a neighbour in one direction.
type PlaneCount struct {
	Declared int `json:"declared"` // cables that the fabric routes (MGD)
	Expected int `json:"expected"` // cables that should exist (FSD)
	Live     int `json:"live"`     // expected cables that are live (PSD)
}

// Planes returns the number of routing planes: the number of routed cables, but at most the number
// of cables that should exist. A cable that is down does not lower the number of planes.
func (n PlaneCount) Planes() int { return min(n.Declared, n.Expected) }

// Downed returns the number of missing cables that the fabric needs.
func (n PlaneCount) Downed() int { return max(0, n.Planes()-n.Live) }

// UnusedDowned returns the number of missing cables that the fabric does not need.
func (n PlaneCount) UnusedDowned() int { return max(0, n.Expected-n.Live) - n.Downed() }

// Registered returns the number of live cables that the fabric routes. Health uses this number for
// cables between meshes, where tt-metal counts no planes.
func (n PlaneCount) Registered() int { return min(n.Declared, n.Live) }

// DirectionHealth describes the cables from one chip in one direction in which cables should exist.
type DirectionHealth struct {
	Chip      wire.FabricNodeID `json:"chip"`       // chip from which the cables lead
	Direction string            `json:"direction"`  // direction as a letter; NoDirection: the fabric routes none of these cables
	Peer      wire.FabricNodeID `json:"peer"`       // chip to which the cables lead
	External  bool              `json:"inter_mesh"` // whether the cables lead to another mesh
	PlaneCount
	Usable int `json:"planes"`        // within a mesh: smallest number of routing planes on any edge of this row or column; between meshes: see PlaneCount.Registered
	Down   int `json:"downed"`        // number of missing cables that the fabric needs, see PlaneCount.Downed
	Unused int `json:"unused_downed"` // number of missing cables that the fabric does not need, see PlaneCount.UnusedDowned
}

// NoDirection stands for the direction of cables that the fabric does not route.
const NoDirection = "NONE"
