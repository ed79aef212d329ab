package snapshot

import (
	"errors"
	"fmt"
	"slices"

	"ttfabric/wire"
)

// side is a side of a chip, on a plane.
type side struct {
	node  wire.FabricNodeID
	dir   string
	plane wire.Plane
}

// tables checks the routing tables. Each route of L0 must lead over cables of the file to the route's
// destination. Each row of L1 must name a port of this mesh that leads to another mesh, or no port. A
// route that comes to a chip without a state counts as right.
func (c *checker) tables() error {
	sides := map[side]*PortState{}
	for i := range c.f.Chips {
		k := &c.f.Chips[i]
		for j := range k.Ports {
			p := &k.Ports[j]
			at := side{k.Node, p.Direction, p.Plane}
			if sides[at] != nil {
				return fmt.Errorf("chips[%d].ports[%d].direction: a second port leads %s on plane %d", i, j, p.Direction, p.Plane)
			}
			sides[at] = p
		}
	}
	for i := range c.f.Chips {
		k := &c.f.Chips[i]
		if err := atMost("routes", len(k.Tables.Routes), 16*len(ClassNames)); err != nil {
			return within(err, "chips[%d].tables", i)
		}
		for j := range k.Tables.Routes {
			if err := c.routes(sides, k, &k.Tables.Routes[j]); err != nil {
				return within(err, "chips[%d].tables.routes[%d]", i, j)
			}
		}
	}
	return nil
}

func (c *checker) routes(sides map[side]*PortState, k *Chip, r *Routes) error {
	if err := errors.Join(among("class", r.Class, ClassNames), atMost("l0", len(r.L0), wire.MaxChipsPerMesh), atMost("l1", len(r.L1), wire.MaxMeshes), atMost("planes", len(r.Planes), 16)); err != nil {
		return err
	}
	if len(r.Planes) == 0 || !slices.IsSorted(r.Planes) || len(slices.Compact(slices.Clone(r.Planes))) != len(r.Planes) || r.Planes[0] < 0 || slices.Max(r.Planes) > 15 {
		return fmt.Errorf("planes: %v: want growing planes below 16", r.Planes)
	}
	if int(k.Node.Chip) >= len(r.L0) {
		return fmt.Errorf("l0: %d entries, but the chip has the number %d", len(r.L0), k.Node.Chip)
	}
	for _, pl := range r.Planes {
		for dst, text := range r.L0 {
			if err := follow(c, sides, k.Node, wire.FabricNodeID{Mesh: k.Node.Mesh, Chip: wire.ChipID(dst)}, wire.Plane(pl), text); err != nil {
				return fmt.Errorf("l0[%d]: %w", dst, err)
			}
		}
	}
	for i, e := range r.L1 {
		switch {
		case e.Mesh >= wire.MaxMeshes || e.Mesh == k.Node.Mesh || (e.Exit == nil) != (e.Port == nil):
			return fmt.Errorf("l1[%d].mesh: %d: want another mesh, with exit and port or without both", i, e.Mesh)
		case e.Port == nil:
			continue
		case e.Port.Node != wire.FabricNodeID{Mesh: k.Node.Mesh, Chip: *e.Exit}:
			return fmt.Errorf("l1[%d].port: %s is no port of the exit node %d", i, *e.Port, *e.Exit)
		}
		if p := c.ports[*e.Port]; p == nil && c.chips[e.Port.Node] != nil || p != nil && p.Peer.Node.Mesh == k.Node.Mesh {
			return fmt.Errorf("l1[%d].port: %s leads to no other mesh", i, *e.Port)
		}
	}
	return nil
}

// follow follows a route of table L0. follow returns an error if the route does not end at its
// destination.
func follow(c *checker, sides map[side]*PortState, src, dst wire.FabricNodeID, pl wire.Plane, text string) error {
	switch {
	case text == "-" && src == dst, text == "x" && src != dst:
		return nil
	case text == "" || text == "-" || len(text) > wire.MaxHops || src == dst:
		return fmt.Errorf("%q: want at most %d directions to another chip, \"x\" for no route, and \"-\" for the chip itself", text, wire.MaxHops)
	}
	at := src
	for h := range text {
		p := sides[side{at, text[h : h+1], pl}]
		if p == nil {
			return fmt.Errorf("%q: %s has no cable %s on plane %d", text, at, text[h:h+1], pl)
		}
		if at = p.Peer.Node; c.chips[at] == nil {
			return nil // nobody knows where the cables of this chip lead
		}
	}
	if at != dst {
		return fmt.Errorf("%q: the route leads to %s", text, at)
	}
	return nil
}
