package fabric

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// CutOff is a set of chips to which the other chips have no route any more.
type CutOff struct {
	Plane wire.Plane // the plane without a route; meaningless if All is true
	All   bool       // no plane has a route
	Chips []wire.FabricNodeID
}

// String returns the names of the chips, and the plane.
func (c CutOff) String() string {
	names := make([]string, len(c.Chips))
	for i, n := range c.Chips {
		names[i] = n.String()
	}
	s := strings.Join(names, ", ")
	if !c.All {
		s += fmt.Sprintf(" on plane %d", c.Plane)
	}
	return s
}

// CutOffError says that a change of service was refused, because it would cut chips off.
type CutOffError struct{ Sets []CutOff }

// Error returns a text that names the chips.
func (e *CutOffError) Error() string {
	sets := make([]string, len(e.Sets))
	for i, s := range e.Sets {
		sets[i] = s.String()
	}
	return fmt.Sprintf("the command would cut off %s from the other chips, and no cable was taken out of service; --force takes the cables out of service nevertheless", strings.Join(sets, ", and "))
}

// Service is what a change of service did.
type Service struct {
	Changed []topo.Link         // cables of which at least one end was put back into service, or taken out of service
	Absent  []wire.FabricNodeID // chips that do not run, at cables that were to change
}

// TakeOut takes cables out of service. Cables that are out of service already do not count as
// changed. If the change would leave further chips than those in "removed" without a route, TakeOut
// changes nothing and returns a [CutOffError]. With "force", TakeOut also carries out a change that
// leaves chips without a route.
func (f *Fabric) TakeOut(ctx context.Context, links []topo.Link, removed []wire.FabricNodeID, force bool) (Service, error) {
	s, err := f.Chips()
	if err != nil {
		return Service{}, err
	}
	live := s.live(ctx)
	if !force {
		p, err := f.Plan()
		if err != nil {
			return Service{}, err
		}
		if sets := cutOff(p.Around(live.without(f.Topology, nil)), p.Around(live.without(f.Topology, links)), removed); len(sets) > 0 {
			return Service{}, &CutOffError{sets}
		}
	}
	return s.setService(ctx, live, links, true)
}

// SetService takes cables out of service, or puts them back, even if chips lose all routes. A cable
// that is already in the wanted state does not count as changed. See [Fabric.TakeOut].
func (s *Chips) SetService(ctx context.Context, links []topo.Link, out bool) (Service, error) {
	return s.setService(ctx, s.live(ctx), links, out)
}

// PutBack puts cables back into service. Cables that were in service do not count as changed.
func (f *Fabric) PutBack(ctx context.Context, links []topo.Link) (Service, error) {
	s, err := f.Chips()
	if err != nil {
		return Service{}, err
	}
	return s.SetService(ctx, links, false)
}

// setService takes cables out of service, or puts them back. setService skips a cable if both ends
// are already in the wanted state. If a chip does not answer, setService assumes that the chip's
// ends are not in the wanted state. If the chip then does not carry out the change either, the
// error names the chip.
func (s *Chips) setService(ctx context.Context, live live, links []topo.Link, out bool) (r Service, err error) {
	asWanted := func(p wire.PortID) bool {
		end, answers := live[p]
		return end.avoided == out && (answers || s.clients[p.Node] == nil)
	}
	wanted := slices.DeleteFunc(slices.Clone(links), func(l topo.Link) bool { return asWanted(l.A) && asWanted(l.B) })
	where, _ := spec.Ends(wanted, "both")
	var told sorted[wire.FabricNodeID]
	r.Absent, err = s.At(ctx, where, func(ctx context.Context, c *api.Client, chs []wire.Channel) error {
		if err := c.SetService(ctx, chs, out); err != nil {
			return err
		}
		told.add(c.Self())
		return nil
	})
	changed := func(p wire.PortID) bool { return slices.Contains(told.list, p.Node) && !asWanted(p) }
	r.Changed = slices.DeleteFunc(wanted, func(l topo.Link) bool { return !changed(l.A) && !changed(l.B) })
	return r, err
}

// live is what the running chips say about their ports. live has no entries for ports of chips that
// do not answer.
type live map[wire.PortID]liveEnd

type liveEnd struct {
	avoided bool // an operator took the port out of service
	carries bool // the link is up by its own cable
}

// live asks the running chips about their ports.
func (s *Chips) live(ctx context.Context) live {
	views, _ := Ask(ctx, s.Clients())
	return liveOf(views)
}

func liveOf(views []api.ChipView) live {
	m := live{}
	for i := range views {
		for k := range views[i].Links {
			l := &views[i].Links[k]
			m[wire.PortID{Node: views[i].Chip, Channel: l.Channel}] = liveEnd{l.Avoided, l.State == "up" && l.By == nil}
		}
	}
	return m
}

// The method "without" returns one end of each cable that the tables would avoid if the cables in
// "links" were out of service too. A link whose own cable is out of service, or does not work, uses
// a parallel cable. The tables therefore avoid a cable only if no parallel cable carries frames
// (Spec §7.4.1). If the chip at one end of a cable does not answer, only the answer of the other
// end counts.
func (m live) without(t *topo.Topology, links []topo.Link) (out []wire.PortID) {
	taken := map[wire.PortID]bool{}
	for _, l := range links {
		taken[l.A], taken[l.B] = true, true
	}
	carried := map[[2]wire.FabricNodeID]map[wire.Direction]bool{}
	each := func(do func(c topo.Cable, group map[wire.Direction]bool, d wire.Direction)) {
		for _, c := range t.Cables {
			if c.Unused {
				continue
			}
			k := [2]wire.FabricNodeID{c.A.Node, c.B.Node}
			if carried[k] == nil {
				carried[k] = map[wire.Direction]bool{}
			}
			do(c, carried[k], direction(t, c.A))
		}
	}
	each(func(c topo.Cable, group map[wire.Direction]bool, d wire.Direction) {
		a, oneAnswers := m[c.A]
		b, otherAnswers := m[c.B]
		if !oneAnswers {
			a.carries = b.carries
		} else if !otherAnswers {
			b.carries = a.carries
		}
		if !taken[c.A] && !a.avoided && !b.avoided && a.carries && b.carries {
			group[d] = true
		}
	})
	each(func(c topo.Cable, group map[wire.Direction]bool, d wire.Direction) {
		if !group[d] {
			out = append(out, c.A)
		}
	})
	return out
}

// direction returns the direction in which a port leads.
func direction(t *topo.Topology, p wire.PortID) wire.Direction {
	for _, q := range t.Ports(p.Node) {
		if q.Local == p {
			return q.Dir
		}
	}
	return wire.NumSides
}

// cutOff compares two plans. A change may split a set of chips that could all reach each other
// before. For each such set, cutOff returns all parts except the largest. cutOff ignores the chips
// in "removed". If all planes have the same result, cutOff returns it once.
func cutOff(before, after *route.Plan, removed []wire.FabricNodeID) (sets []CutOff) {
	var chips []wire.FabricNodeID
	for _, n := range before.Topology().Nodes() {
		if !slices.Contains(removed, n) {
			chips = append(chips, n)
		}
	}
	planes := max(before.Topology().Planes(), 1)
	same := true
	for pl := range planes {
		var lost []wire.FabricNodeID
		for _, whole := range groups(before, wire.Plane(pl), chips) {
			parts := groups(after, wire.Plane(pl), whole)
			largest := 0
			for i := range parts {
				if len(parts[i]) > len(parts[largest]) {
					largest = i
				}
			}
			for i := range parts {
				if i != largest {
					lost = append(lost, parts[i]...)
				}
			}
		}
		c := CutOff{Plane: wire.Plane(pl), Chips: lost}
		same = same && (len(sets) == pl && (pl == 0 || slices.Equal(sets[0].Chips, lost)))
		if len(lost) > 0 {
			sets = append(sets, c)
		}
	}
	if same && len(sets) == planes {
		return []CutOff{{All: true, Chips: sets[0].Chips}}
	}
	return sets
}

// groups splits chips into groups whose members have routes to each other on a plane.
func groups(p *route.Plan, pl wire.Plane, chips []wire.FabricNodeID) (gs [][]wire.FabricNodeID) {
	var buf [wire.MaxHops]wire.Direction
	joined := func(a, b wire.FabricNodeID) bool {
		_, there := p.Route(buf[:0], wire.ClassRequest, pl, a, b)
		if there {
			_, there = p.Route(buf[:0], wire.ClassRequest, pl, b, a)
		}
		return there
	}
	for _, n := range chips {
		i := slices.IndexFunc(gs, func(g []wire.FabricNodeID) bool { return joined(g[0], n) })
		if i < 0 {
			gs = append(gs, nil)
			i = len(gs) - 1
		}
		gs[i] = append(gs[i], n)
	}
	return gs
}

// Line is a row or column of chips of a mesh.
type Line struct {
	Links []topo.Link         // cables with at least one end at a chip of the line, except cables that carry no traffic
	Chips []wire.FabricNodeID // chips of the line
}

// LineOf finds a row or column of a mesh. The argument "kind" is "row", "column" or "col". The
// error names a value that is out of range, or a line without cables.
func LineOf(t *topo.Topology, mesh int, kind, number string) (Line, error) {
	m, ok := t.Mesh(wire.MeshID(max(mesh, 0)))
	if !ok || mesh < 0 || mesh >= wire.MaxMeshes {
		return Line{}, spec.Usagef("--mesh %d: topology %s has no such mesh", mesh, t)
	}
	lines := map[string]int{"row": m.Rows, "column": m.Cols, "col": m.Cols}[kind]
	if lines == 0 {
		return Line{}, spec.Usagef("%q: want row or column", kind)
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n >= lines {
		return Line{}, spec.Usagef("%s %q: want 0 to %d, the %ss of mesh %d", kind, number, lines-1, kind, mesh)
	}
	var line Line
	for _, c := range t.Chips {
		if c.Node.Mesh == m.ID && (kind == "row" && c.Row == n || kind != "row" && c.Col == n) {
			line.Chips = append(line.Chips, c.Node)
		}
	}
	for _, c := range t.Cables {
		if !c.Unused && (slices.Contains(line.Chips, c.A.Node) || slices.Contains(line.Chips, c.B.Node)) {
			line.Links = append(line.Links, topo.Link{A: c.A, B: c.B, Plane: c.Plane})
		}
	}
	if len(line.Links) == 0 {
		return Line{}, spec.Usagef("%s %d of mesh %d has no cables to take out of service or put back", kind, n, mesh)
	}
	return line, nil
}
