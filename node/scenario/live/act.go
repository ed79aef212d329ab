package live

import (
	"context"
	"errors"
	"slices"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/scenario"
	"ttfabric/router/topo"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// do carries out one action of the scenario.
func (g *stage) do(ctx context.Context, a *scenario.Action) error {
	if len(a.Links) > 0 {
		return g.doLinks(ctx, a)
	}
	for _, n := range a.Chips {
		if err := g.doChip(ctx, a, n); err != nil {
			return err
		}
	}
	return nil
}

// doLinks carries out an action on links. doLinks leaves out the ends at chips that do not
// run, because the scenario may have killed these chips.
func (g *stage) doLinks(ctx context.Context, a *scenario.Action) (err error) {
	switch a.Verb {
	case scenario.LinkDown, scenario.LinkUp:
		g.cut = with(g.cut, a.Links)
		_, err = g.chips.Cut(ctx, a.Links, a.Verb == scenario.LinkDown, a.For)
		return err
	case scenario.LinkReroute:
		r, err := g.chips.SetService(ctx, a.Links, true)
		g.rerouted = with(g.rerouted, r.Changed)
		return err
	case scenario.LinkRestore:
		if _, err = g.chips.SetService(ctx, a.Links, false); err == nil {
			g.rerouted = slices.DeleteFunc(g.rerouted, func(l topo.Link) bool { return slices.Contains(a.Links, l) })
		}
		return err
	case scenario.NetemReset:
		where, _ := spec.Ends(a.Links, "both")
		_, err = g.chips.ResetImpairments(ctx, where)
		return err
	}
	g.impaired = with(g.impaired, a.Links)
	where, err := spec.Ends(a.Links, a.Step.Direction)
	if err == nil {
		_, err = g.chips.Impair(ctx, where, api.NetemBody{Options: a.Step.Netem, Seed: a.Step.Dice, ForS: a.For.Seconds()})
	}
	return err
}

// The function "with" returns the links of list and more, each once.
func with(list, more []topo.Link) []topo.Link {
	for _, l := range more {
		if !slices.Contains(list, l) {
			list = append(list, l)
		}
	}
	return list
}

// doChip carries out an action on chip n. Package fabric makes another chip report a kill,
// a pause or a restart as an event.
func (g *stage) doChip(ctx context.Context, a *scenario.Action, n wire.FabricNodeID) error {
	switch a.Verb {
	case scenario.ChipKill:
		g.forget(n)
		return g.f.KillChip(ctx, n)
	case scenario.ChipStart:
		return errors.Join(g.f.StartChip(ctx, n, spec.Records{}), g.meet(ctx, n))
	case scenario.ChipRestart:
		g.forget(n)
		return errors.Join(g.f.RestartChip(ctx, n, spec.Records{}), g.meet(ctx, n))
	case scenario.ChipPause:
		g.paused[n] = g.chips.Client(n)
		g.chips.Drop(n)
		return g.f.PauseChip(ctx, n)
	case scenario.ChipResume:
		return g.resume(ctx, n)
	case scenario.GossipSet:
		return g.doGossip(ctx, a, n)
	}
	return nil
}

// resume lets the paused chip n run again.
func (g *stage) resume(ctx context.Context, n wire.FabricNodeID) error {
	if err := g.f.ResumeChip(ctx, n); err != nil {
		return err
	}
	if cl := g.paused[n]; cl != nil {
		g.chips.Add(cl)
	}
	delete(g.paused, n)
	return nil
}

// doGossip carries out an action on the gossip of chip n.
func (g *stage) doGossip(ctx context.Context, a *scenario.Action, n wire.FabricNodeID) error {
	cl := g.chips.Client(n)
	if cl == nil {
		return &fabric.NotRunningError{Chip: n}
	}
	g.gossip[n] = true
	ctx, cancel := context.WithTimeout(ctx, fabric.AskTime)
	defer cancel()
	what := a.Step.Gossip
	b := api.GossipBody{Options: fault.Change{}, Cut: what.Down, ForS: a.For.Seconds()}
	if what.Delay > 0 {
		b.Options["delay"] = what.Delay.String()
	}
	if what.Loss != "" {
		b.Options["loss"] = what.Loss
	}
	if len(b.Options) == 0 && !b.Cut {
		return cl.HealGossip(ctx, true)
	}
	return cl.SetGossip(ctx, b)
}

// forget removes chip n from the stage. The caller then kills the chip.
func (g *stage) forget(n wire.FabricNodeID) {
	g.chips.Drop(n)
	delete(g.paused, n)
	delete(g.views, n)
}

// meet adds chip n, which has just started, to the stage.
func (g *stage) meet(ctx context.Context, n wire.FabricNodeID) error {
	cl, err := g.f.Client(n)
	if err == nil {
		g.chips.Add(cl)
		g.listen(ctx, cl)
	}
	return err
}

// putBack ends all faults that the scenario caused. putBack resumes paused chips, and starts the
// chips that ran before the run and do not run any more. putBack then repairs cut cables, puts
// cables back into service, and ends the impairments of links and of gossip. Cables that an
// operator took out of service stay out of service. A restarted chip has lost the content of its
// memory.
func (g *stage) putBack(ctx context.Context) error {
	var errs []error
	for _, n := range g.t.Nodes() {
		if g.paused[n] != nil {
			errs = append(errs, g.resume(ctx, n))
		}
	}
	for _, n := range g.first {
		if _, ok := g.f.Where(n); ok {
			continue
		}
		err := g.f.StartChip(ctx, n, spec.Records{})
		if err == nil {
			var cl *api.Client
			if cl, err = g.f.Client(n); err == nil {
				g.chips.Add(cl)
			}
		}
		errs = append(errs, err)
	}
	_, cut := g.chips.Cut(ctx, g.cut, false, 0)
	where, _ := spec.Ends(g.impaired, "both")
	_, impaired := g.chips.ResetImpairments(ctx, where)
	_, out := g.chips.SetService(ctx, g.rerouted, false)
	errs = append(errs, cut, impaired, out)
	var chips []wire.FabricNodeID
	for n := range g.gossip {
		chips = append(chips, n)
	}
	_, err := g.chips.AtChips(ctx, chips, func(ctx context.Context, cl *api.Client) error { return cl.HealGossip(ctx, true) })
	return errors.Join(append(errs, err)...)
}
