package topo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ttfabric/wire"
)

// Axes are the axes of a mesh that a fabric uses.
type Axes uint8

// The axes that a fabric can use. A fabric with one axis is a 1D fabric (Spec §3).
const (
	BothAxes Axes = iota
	OnlyX         // rows only
	OnlyY         // columns only
	numAxes
)

var axesNames = [numAxes]string{"", "x", "y"}

// String returns "x", "y", or "" for both axes.
func (a Axes) String() string {
	if a < numAxes {
		return axesNames[a]
	}
	return fmt.Sprintf("axes %d", uint8(a))
}

// Has reports whether the fabric uses the axis of direction d.
func (a Axes) Has(d wire.Direction) bool {
	switch a {
	case OnlyX:
		return d == wire.East || d == wire.West
	case OnlyY:
		return d == wire.North || d == wire.South
	}
	return true
}

// shiftMark separates the name of a machine from the words of [Topology.Downshift].
const shiftMark = "@"

// ShiftHelp describes the words of [Topology.Downshift], for people.
const ShiftHelp = "mesh or line (no axis wraps), open-x or open-y (rows or columns do not wrap), x or y (rows or columns only, each a 1D fabric), planes=N (at most N routing planes)"

// SplitShift splits a name such as "torus:4x4@mesh,planes=1" into the name of the machine and the
// words of [Topology.Downshift].
func SplitShift(name string) (machine, words string, shifted bool) {
	i := strings.LastIndex(name, shiftMark)
	if i < 0 {
		return name, "", false
	}
	return name[:i], name[i+1:], true
}

// Downshift returns the same machine with a fabric that does not use all cables: a "functionally
// downshifted topology where all available ethernet links are not utilized" (Spec §3). The words,
// with commas between them, are those of [ShiftHelp]. The cables that the fabric does not use are
// Unused. The name of the new topology ends in "@" and the words. Downshift returns an error for
// an unknown word, and for a word that changes nothing.
func (t *Topology) Downshift(words string) (*Topology, error) {
	s := *t
	s.ix, s.Name = nil, t.Name+shiftMark+words
	s.Meshes, s.Cables, s.Missing = slices.Clone(t.Meshes), slices.Clone(t.Cables), slices.Clone(t.Missing)
	for _, word := range strings.Split(words, ",") {
		if err := s.shift(word); err != nil {
			return nil, fmt.Errorf("topology %s: %w", t.Name, err)
		}
	}
	return &s, s.finish()
}

// shift applies one word of [Topology.Downshift].
func (t *Topology) shift(word string) error {
	changed := false
	set := func(x *bool, to bool) bool {
		was := *x
		*x = *x && !to
		return was != *x
	}
	open := func(x, y bool) {
		for i := range t.Meshes {
			m := &t.Meshes[i]
			if set(&m.WrapX, x) {
				m.OpenX, changed = true, true
			}
			if set(&m.WrapY, y) {
				m.OpenY, changed = true, true
			}
		}
	}
	only := func(a Axes) {
		for i := range t.Meshes {
			m := &t.Meshes[i]
			changed = changed || m.Axes == BothAxes && m.Rows > 1 && m.Cols > 1
			m.Axes = a
		}
	}
	switch number, planes := strings.CutPrefix(word, "planes="); {
	case planes:
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > wire.MaxChannels {
			return fmt.Errorf("downshift %q: want planes=N with N from 1 to %d", word, wire.MaxChannels)
		}
		changed = n < t.Planes()
		t.MaxPlanes = n
	case word == "mesh", word == "line":
		open(true, true)
	case word == "open-x":
		open(true, false)
	case word == "open-y":
		open(false, true)
	case word == "x":
		only(OnlyX)
	case word == "y":
		only(OnlyY)
	default:
		return fmt.Errorf("downshift %q: want %s", word, ShiftHelp)
	}
	if !changed {
		return fmt.Errorf("downshift %q changes nothing, because the machine has no such cables to leave unused", word)
	}
	return nil
}

// cabled returns the mesh with the wraps of all cables, also of cables that the fabric does not use.
func (m Mesh) cabled() Mesh {
	m.WrapX, m.WrapY = m.WrapX || m.OpenX, m.WrapY || m.OpenY
	return m
}

// idle returns why the fabric does not use a cable within a mesh, or "" if a downshift leaves the
// cable in use. The direction of the cable must be set. A cable that wraps leads West or North from
// its lower end.
func (t *Topology) idle(c *Cable) string {
	m, ok := t.Mesh(c.A.Node.Mesh)
	switch {
	case !ok || c.External():
		return ""
	case !m.Axes.Has(c.Dir):
		return fmt.Sprintf("the fabric uses only the %s axis of mesh %d", m.Axes, m.ID)
	case m.OpenX && c.Dir == wire.West:
		return fmt.Sprintf("the fabric uses the rows of mesh %d as lines, not as rings", m.ID)
	case m.OpenY && c.Dir == wire.North:
		return fmt.Sprintf("the fabric uses the columns of mesh %d as lines, not as rings", m.ID)
	}
	return ""
}

// Idle returns why a downshift leaves a cable unused, see [Topology.Downshift]. If no downshift
// concerns the cable, Idle returns "".
func (t *Topology) Idle(c Cable) string {
	if why := t.idle(&c); why != "" {
		return why
	}
	if t.MaxPlanes > 0 && int(c.Plane) >= t.MaxPlanes {
		return fmt.Sprintf("the fabric uses at most %s", Count(t.MaxPlanes, "plane"))
	}
	return ""
}
