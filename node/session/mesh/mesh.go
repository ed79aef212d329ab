// Package mesh is the device API for a 2D fabric (Spec §4; tt-metal:
// tt_metal/fabric/hw/inc/mesh/api.h). A program names chips by their addresses, in all meshes of
// the fabric.
//
// Each call takes one value for each link, or one value for all links. The value is the address of
// a chip for a unicast, or a [Target] for a multicast. Package device describes links, prepared
// headers (SetState, WithState), and when a call returns. A link of this package stands for a
// routing plane.
//
// tt-metal's fused scatter write with increment is missing, because the fabric has no such packet. A
// scatter write and an atomic increment with flush have the same effect, in two packets.
package mesh

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"ttfabric/node/flow"
	"ttfabric/node/session/device"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Connect opens one link for each plane, at most [device.MaxLinks] (tt-metal: open_connections).
func Connect(s device.Sender, planes ...wire.Plane) (device.Links, error) {
	return device.NewLinks(s, planes...)
}

// Target names the chips of a multicast. The zero value names no chip.
type Target struct {
	ranges  wire.Ranges // hops from the sender
	mesh    wire.MeshID
	members wire.Members
	start   bool // the members lie around a start, so the sender is left out
}

// Around returns the chips within ranges of hops from the sender, without the sender (tt-metal:
// MeshMcastRange).
func Around(r wire.Ranges) Target { return Target{ranges: r} }

// From returns the chips within ranges of hops from a chip "start", and start itself. The chip
// "start" may be in any mesh (tt-metal: dst_dev_id, dst_mesh_id and MeshMcastRange). If the sender
// is among the chips, the multicast leaves out the sender. The error says which hop leaves the
// mesh.
func From(t *topo.Topology, start wire.FabricNodeID, r wire.Ranges) (Target, error) {
	to := Target{mesh: start.Mesh, members: wire.MembersOf(start.Chip), start: true}
	if _, ok := t.Chip(start); !ok {
		return to, fmt.Errorf("chip %s is not in the fabric", start)
	}
	m, _ := t.Mesh(start.Mesh)
	h := &r.Hops
	if int(h[wire.East])+int(h[wire.West]) >= m.Cols || int(h[wire.North])+int(h[wire.South]) >= m.Rows {
		return to, fmt.Errorf("ranges %s: mesh %d has %d rows and %d columns: a chip would be named twice", r, m.ID, m.Rows, m.Cols)
	}
	return to, to.grow(t, start, wire.NumSides, r)
}

// grow adds the chips that a multicast with ranges r reaches from chip "at". The multicast entered
// this chip by its side "from". The choice of the trunk does not change which chips the multicast
// reaches.
func (to *Target) grow(t *topo.Topology, at wire.FabricNodeID, from wire.Direction, r wire.Ranges) error {
	parts := r.Parts(from)
	if parts&wire.PartHere != 0 {
		to.members.Add(at.Chip)
	}
	for d := range wire.Direction(wire.NumDirections) {
		if parts>>d&1 == 0 {
			continue
		}
		next, ok := t.Neighbour(at, d, 0)
		if !ok || next.Mesh != at.Mesh {
			return fmt.Errorf("chip %s has no neighbour %s in its mesh", at, d)
		}
		if err := to.grow(t, next, d.Opposite(), r.Copy(wire.TrunkX, d, from == d.Opposite())); err != nil {
			return err
		}
	}
	return nil
}

// Chips returns a target of the given chips, which must belong to one mesh. tt-metal has multicasts
// to any chips (sparse multicasts) only on a line.
func Chips(chips ...wire.FabricNodeID) (Target, error) {
	var to Target
	if len(chips) == 0 {
		return to, errNoChips
	}
	to.mesh = chips[0].Mesh
	for _, n := range chips {
		if n.Mesh != to.mesh || !n.Valid() {
			return to, fmt.Errorf("chips %s and %s: a multicast goes to chips of one mesh", chips[0], n)
		}
		to.members.Add(n.Chip)
	}
	return to, nil
}

// Len returns the number of chips of the target. The number includes a sender that [From] leaves
// out of the multicast.
func (to Target) Len() int {
	if to.members.Any() {
		return to.members.Len()
	}
	return to.ranges.Members()
}

// String returns the target in the form of [ParseTarget].
func (to Target) String() string {
	if to.members.Any() {
		return fmt.Sprintf("M%d:%s", to.mesh, to.members)
	}
	return to.ranges.String()
}

// ParseTarget reads a target: ranges of hops from the sender, such as "E2,N1" or "E2-4" (see
// [wire.ParseRanges]), or chips of one mesh, such as "M1:0-3,7". The error names the value and the
// accepted forms.
func ParseTarget(s string) (Target, error) {
	mesh, chips, ok := strings.Cut(strings.ToUpper(s), ":")
	if !ok {
		r, err := wire.ParseRanges(s)
		return Target{ranges: r}, err
	}
	bad := func(why any) (Target, error) {
		return Target{}, fmt.Errorf("target %q: %v; want chips of one mesh, such as M1:0-3,7, or hops by direction, such as E2,N1", s, why)
	}
	id, err := strconv.ParseUint(strings.TrimPrefix(mesh, "M"), 10, 16)
	if err != nil || id >= wire.MaxMeshes || !strings.HasPrefix(mesh, "M") {
		return bad(fmt.Sprintf("%q is no mesh", mesh))
	}
	m, err := wire.ParseMembers(chips)
	if err != nil {
		return bad(err)
	}
	return Target{mesh: wire.MeshID(id), members: m}, nil
}

var errNoChips = errors.New("a multicast to no chips: want at least one")

func unicast(ls device.Links, c wire.Command, dst []wire.FabricNodeID) error {
	return ls.Set(c, func(i int, _ *device.Link, h *flow.Request) (err error) {
		h.Dst, err = device.Pick(dst, i, len(ls))
		return err
	})
}

func multicast(ls device.Links, c wire.Command, targets []Target) error {
	return ls.Set(c, func(i int, l *device.Link, h *flow.Request) error {
		to, err := device.Pick(targets, i, len(ls))
		self := l.Sender.Self()
		h.Dst, h.Ranges, h.Members = self, to.ranges, to.members
		if to.members.Any() {
			h.Dst = wire.FabricNodeID{Mesh: to.mesh}
		}
		if to.start && to.mesh == self.Mesh {
			h.Members.Remove(self.Chip)
		}
		if err == nil && !h.Many() {
			err = errNoChips
		}
		return err
	})
}
