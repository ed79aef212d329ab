package fabric

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"ttfabric/node/admin/api"
	"ttfabric/router/topo"
	"ttfabric/router/topo/pick"
	"ttfabric/wire"
)

// Healed says what [Chips.Heal] has ended, and what [Chips.Heal] has left.
type Healed struct {
	Cables  []topo.Link         // cables that were cut
	Service []topo.Link         // cables that were out of service
	Routers []api.RouterView    // ports that were paused or draining
	Gossip  []wire.FabricNodeID // chips whose gossip was cut
	Leaving []wire.FabricNodeID // chips that refused new requests
	Left    []string            // what Heal left, each with the command that ends it
	Silent  []wire.FabricNodeID // chips that run and do not answer
}

// Heal ends the disturbances that commands began on purpose. Heal repairs cut cables, puts cables
// back into service, resumes paused and draining routers, ends cuts of the gossip, and makes chips
// accept new requests. Heal changes no impairment, assigned fallback or compliance mode. Heal also
// changes no chip that does not run or answer. The field Left of the result names what Heal has not
// ended. If Heal returns an error, the result says what Heal put back before the error.
func (s *Chips) Heal(ctx context.Context) (h Healed, err error) {
	all, err := pick.Links(s.Topology, []string{"all"})
	if err != nil {
		return h, err
	}
	views, silent := Ask(ctx, s.Clients())
	s = NewChips(s.Topology, slices.DeleteFunc(s.Clients(), func(c *api.Client) bool { return slices.Contains(silent, c.Self()) })...)
	if h.Silent = silent; len(s.clients) == 0 {
		return h, fmt.Errorf("no chip answers within %v; 'ttfabric chip resume all' resumes paused chips", AskTime)
	}
	if h.Cables, _, err = s.Uncut(ctx, all); err != nil {
		return h, err
	}
	service, err := s.setService(ctx, liveOf(views), all, false)
	if h.Service = service.Changed; err != nil {
		return h, err
	}
	if h.Routers, err = s.resumeRouters(ctx); err != nil {
		return h, err
	}
	if h.Gossip, err = s.HealGossip(ctx, false); err != nil {
		return h, err
	}
	if h.Leaving, err = s.acceptRequests(ctx, views); err != nil {
		return h, err
	}
	return h, s.left(ctx, &h, views)
}

// acceptRequests makes the chips whose views say that they refuse new requests accept requests
// again, and returns these chips.
func (s *Chips) acceptRequests(ctx context.Context, views []api.ChipView) ([]wire.FabricNodeID, error) {
	var leaving []wire.FabricNodeID
	for i := range views {
		if views[i].Leaving {
			leaving = append(leaving, views[i].Chip)
		}
	}
	var accept sorted[wire.FabricNodeID]
	_, err := s.AtChips(ctx, leaving, func(ctx context.Context, c *api.Client) error {
		if err := c.Drain(ctx, false); err != nil {
			return err
		}
		accept.add(c.Self())
		return nil
	})
	return accept.byChip(s.Topology, func(n *wire.FabricNodeID) wire.FabricNodeID { return *n }), err
}

// resumeRouters resumes the paused and draining ports, and returns their states.
func (s *Chips) resumeRouters(ctx context.Context) ([]api.RouterView, error) {
	where := Where{}
	var views sorted[api.RouterView]
	if _, err := s.AtChips(ctx, s.All(), func(ctx context.Context, c *api.Client) error {
		vs, err := c.Routers(ctx)
		views.add(vs...)
		return err
	}); err != nil {
		return nil, err
	}
	for _, v := range views.list {
		if v.State == "paused" || v.State == "draining" {
			where[v.Chip] = append(where[v.Chip], v.Channel)
		}
	}
	if len(where) == 0 {
		return nil, nil
	}
	resumed, _, err := s.CommandRouters(ctx, where, "resume")
	return resumed, err
}

// left lists what is still impaired or assigned according to the chips, and the chips that Heal could
// not ask.
func (s *Chips) left(ctx context.Context, h *Healed, views []api.ChipView) error {
	ports, _, err := s.Impairments(ctx, PortsOf(s.Topology, s.All()), true)
	if err != nil {
		return err
	}
	if n := len(ports); n > 0 {
		h.Left = append(h.Left, fmt.Sprintf("impairments of %s; 'ttfabric netem reset all' ends them", topo.Count(n, "port")))
	}
	gossip, _, err := s.Gossip(ctx, s.All())
	if err != nil {
		return err
	}
	if n := len(slices.DeleteFunc(gossip, func(v api.GossipView) bool { return v.Options == "" })); n > 0 {
		h.Left = append(h.Left, fmt.Sprintf("impairments of the gossip of %s; 'ttfabric gossip heal' ends them", topo.Count(n, "chip")))
	}
	if n := s.assigned(views); n > 0 {
		h.Left = append(h.Left, fmt.Sprintf("assigned fallbacks of %s; 'ttfabric link fallback all --by auto' ends the assignments", topo.Count(n, "link")))
	}
	if raw := rawPorts(views); len(raw) > 0 {
		h.Left = append(h.Left, fmt.Sprintf("the compliance mode of %s; 'ttfabric router ttlink %s' ends it", topo.Count(len(raw), "port"), strings.Join(raw, " ")))
	}
	for _, n := range s.Topology.Nodes() {
		switch {
		case slices.Contains(h.Silent, n):
			h.Left = append(h.Left, fmt.Sprintf("chip %s, which does not answer; if it is paused, 'ttfabric chip resume %s' resumes it", n, n))
		case s.clients[n] == nil:
			h.Left = append(h.Left, fmt.Sprintf("chip %s, which does not run; 'ttfabric chip start %s' starts the chip", n, n))
		}
	}
	return nil
}

// rawPorts lists the ports in compliance mode, according to views of chips, in the form of arguments of
// commands.
func rawPorts(views []api.ChipView) (ports []string) {
	for i := range views {
		for k := range views[i].Links {
			if l := &views[i].Links[k]; l.Raw {
				ports = append(ports, fmt.Sprintf("%s:%d", views[i].Chip, l.Channel))
			}
		}
	}
	return ports
}

// assigned returns the number of links with an assigned fallback, according to views of chips.
func (s *Chips) assigned(views []api.ChipView) (n int) {
	ends := map[wire.PortID]bool{}
	for i := range views {
		for k := range views[i].Links {
			ends[wire.PortID{Node: views[i].Chip, Channel: views[i].Links[k].Channel}] = views[i].Links[k].Assigned
		}
	}
	for _, c := range s.Topology.Cables {
		if ends[c.A] || ends[c.B] {
			n++
		}
	}
	return n
}
