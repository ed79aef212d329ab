// Package mgd reads mesh graph descriptors 2.0 of tt-metal. A mesh graph descriptor names meshes,
// and asks for numbers of cables between them. Package topo builds a machine from a descriptor.
// Package assign finds the chips of an existing machine that can be the meshes.
package mgd

import "fmt"

// MaxConnections is the largest number of connections of one descriptor.
const MaxConnections = 1 << 16

// Error is a fault in the content of a descriptor.
type Error struct {
	Line   int // number of the line, counted from 1; 0: the fault concerns the file as a whole
	Reason string
}

// Error returns the fault in the form "line 3: reason", or "reason" if Line is 0.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Reason
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Reason)
}

// Limits are the limits of a fabric, and the names of architectures.
type Limits struct {
	Meshes   int // largest number of meshes, and 1 more than the highest mesh_id
	Chips    int // largest number of chips of a mesh
	Channels int // largest number of cables between two neighbours
	// Arch returns the name of an architecture that a file names, and whether there is this architecture.
	Arch func(string) (name string, ok bool)
}

// count returns the largest number of cables that one connection can ask for: the number of channels of all
// chips of the largest mesh.
func (l *Limits) count() uint64 { return uint64(l.Chips * l.Channels) }

// Graph is the content of a descriptor: the meshes, and the connections between them.
type Graph struct {
	Arch   string // name of the architecture of all chips
	Meshes []Mesh
	Links  []Link
	Pins   []Pin
	Notes  []string // sentences for people about what the reader decided
}

// Mesh is a grid of chips.
type Mesh struct {
	ID           int
	Rows, Cols   int
	WrapX, WrapY bool // each row is a ring; each column is a ring
	Across, Down int  // number of cables between neighbours in a row, and between neighbours in a column
	Relaxed      bool // the policy is RELAXED: two neighbours may have fewer cables, but at least one
	HostRows     int  // number of hosts in a column of the mesh; 0: the file does not give the hosts
	HostCols     int  // number of hosts in a row of the mesh
	Line         int  // line of the file
}

// AnyChip says that an end of a connection does not give its chip.
const AnyChip = -1

// End is one end of a connection.
type End struct {
	Meshes []int // indices in Graph.Meshes; if there are several, the connection may end at any of them
	Chip   int   // number of the chip in its mesh, row by row, or AnyChip
}

// Link is a connection: it asks for cables between two meshes.
type Link struct {
	A, B    End
	Count   int  // number of cables
	Relaxed bool // the policy is RELAXED: the connection may get fewer cables, but at least one
	Z       bool // the cables leave both meshes in direction Z, as long as the chips have this direction free (assign_z_direction)
	Line    int  // line of the file
}

// Place says where in a host a chip may be: on one of some trays, at one of some locations of the
// tray.
type Place struct {
	Trays, Locations []int // sorted; from 0 to MaxPlace
}

// MaxPlace is the highest number of a tray, and of a location on a tray.
const MaxPlace = 255

// Pin says that each of some chips of a mesh is at one of some places, on any host. Any of the chips
// may be at any of the places.
type Pin struct {
	Mesh   int   // index in Graph.Meshes
	Chips  []int // numbers of the chips in the mesh, row by row
	Places []Place
	Line   int // line of the file
}

// fits reports whether a mesh may have the given numbers of rows and columns.
func (l *Limits) fits(rows, cols int) bool {
	return rows >= 1 && cols >= 1 && rows <= l.Chips && cols <= l.Chips && rows*cols <= l.Chips
}
