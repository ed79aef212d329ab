package fabric

import (
	"context"
	"slices"
	"sync"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Where names ports by chip. A chip without channels stands for the chip itself.
type Where map[wire.FabricNodeID][]wire.Channel

// Chips are the clients of the chips of a fabric that run.
type Chips struct {
	Topology *topo.Topology
	clients  map[wire.FabricNodeID]*api.Client
}

// Chips opens the APIs of the chips that run.
func (f *Fabric) Chips() (*Chips, error) {
	cs, _, err := f.Clients()
	if err != nil {
		return nil, err
	}
	return NewChips(f.Topology, cs...), nil
}

// NewChips are the chips of clients that are there already.
func NewChips(t *topo.Topology, cs ...*api.Client) *Chips {
	s := &Chips{t, map[wire.FabricNodeID]*api.Client{}}
	for _, c := range cs {
		s.Add(c)
	}
	return s
}

// Client is the client of a chip; nil where the chip is not among them.
func (s *Chips) Client(n wire.FabricNodeID) *api.Client { return s.clients[n] }

// Add puts a chip among them.
func (s *Chips) Add(c *api.Client) { s.clients[c.Self()] = c }

// Drop takes a chip off.
func (s *Chips) Drop(n wire.FabricNodeID) { delete(s.clients, n) }

// All are the chips, in the topology's order.
func (s *Chips) All() (out []wire.FabricNodeID) {
	for _, n := range s.Topology.Nodes() {
		if s.clients[n] != nil {
			out = append(out, n)
		}
	}
	return out
}

// Clients are the clients, in the topology's order.
func (s *Chips) Clients() (out []*api.Client) {
	for _, n := range s.All() {
		out = append(out, s.clients[n])
	}
	return out
}

// At asks the chips of where at once, each about its ports, and joins their
// errors. absent are the chips of where that do not run: they send nothing anyway.
func (s *Chips) At(ctx context.Context, where Where, do func(context.Context, *api.Client, []wire.Channel) error) (absent []wire.FabricNodeID, err error) {
	var cs []*api.Client
	for _, n := range s.Topology.Nodes() {
		if _, ok := where[n]; !ok {
			continue
		}
		if c := s.clients[n]; c != nil {
			cs = append(cs, c)
		} else {
			absent = append(absent, n)
		}
	}
	return absent, Tell(ctx, cs, AskTime, func(ctx context.Context, c *api.Client) error { return do(ctx, c, where[c.Self()]) })
}

// AtChips is [Chips.At] for whole chips.
func (s *Chips) AtChips(ctx context.Context, chips []wire.FabricNodeID, do func(context.Context, *api.Client) error) (absent []wire.FabricNodeID, err error) {
	where := Where{}
	for _, n := range chips {
		where[n] = nil
	}
	return s.At(ctx, where, func(ctx context.Context, c *api.Client, _ []wire.Channel) error { return do(ctx, c) })
}

// sorted is a collector of answers, which come in any order.
type sorted[T any] struct {
	mu   sync.Mutex
	list []T
}

func (s *sorted[T]) add(v ...T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, v...)
}

// byChip returns the answers in the topology's order of their chips.
func (s *sorted[T]) byChip(t *topo.Topology, chip func(*T) wire.FabricNodeID) []T {
	slices.SortStableFunc(s.list, func(a, b T) int { return t.Index(chip(&a)) - t.Index(chip(&b)) })
	return s.list
}

// Cut takes cables away, or puts them back with on false. With d, the chips put the cables back by themselves.
func (s *Chips) Cut(ctx context.Context, links []topo.Link, on bool, d time.Duration) (absent []wire.FabricNodeID, err error) {
	where, _ := spec.Ends(links, "both")
	return s.At(ctx, where, func(ctx context.Context, c *api.Client, chs []wire.Channel) error {
		return c.SetNetem(ctx, api.NetemBody{Channels: chs, Cut: &on, ForS: d.Seconds()})
	})
}

// CutNow are those of links that are cut in any direction. Chips that do not answer within a second are left out.
func (s *Chips) CutNow(ctx context.Context, links []topo.Link) []topo.Link {
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	where, _ := spec.Ends(links, "both")
	var views sorted[api.ImpairmentView]
	_, _ = s.At(ctx, where, func(ctx context.Context, c *api.Client, _ []wire.Channel) error {
		vs, err := c.Netem(ctx)
		views.add(vs...)
		return err
	})
	cut := map[wire.PortID]bool{}
	for _, v := range views.list {
		cut[wire.PortID{Node: v.Chip, Channel: v.Channel}] = v.Cut
	}
	return slices.DeleteFunc(slices.Clone(links), func(l topo.Link) bool { return !cut[l.A] && !cut[l.B] })
}

// Flap cuts cables again and again, each time for down, every so often, for
// total or, with 0, until ctx ends. Flap returns how often it cut the cables, when they are back.
func (s *Chips) Flap(ctx context.Context, links []topo.Link, every, down, total time.Duration) (n int, absent []wire.FabricNodeID, err error) {
	begin := time.Now()
	for n := 1; ; n++ {
		if absent, err = s.Cut(ctx, links, true, down); err != nil {
			return n, absent, err
		}
		back := time.Now().Add(down)
		next := begin.Add(time.Duration(n) * every)
		if total > 0 && next.Add(down).Sub(begin) > total {
			next = back
		}
		select {
		case <-ctx.Done():
			time.Sleep(time.Until(back))
			return n, absent, nil
		case <-time.After(time.Until(next)):
		}
		if next == back {
			return n, absent, nil
		}
	}
}

// Impair changes what is done to what ports send; body says what, but for the ports.
func (s *Chips) Impair(ctx context.Context, where Where, body api.NetemBody) (absent []wire.FabricNodeID, err error) {
	return s.At(ctx, where, func(ctx context.Context, c *api.Client, chs []wire.Channel) error {
		b := body
		b.Channels = chs
		return c.SetNetem(ctx, b)
	})
}

// ResetImpairments takes away what is done to what ports send. A cable that is cut stays cut.
func (s *Chips) ResetImpairments(ctx context.Context, where Where) (absent []wire.FabricNodeID, err error) {
	return s.At(ctx, where, func(ctx context.Context, c *api.Client, chs []wire.Channel) error {
		return c.ResetNetem(ctx, chs...)
	})
}

// Impairments are what is done to what ports send; with only, where something is.
func (s *Chips) Impairments(ctx context.Context, where Where, only bool) (views []api.ImpairmentView, absent []wire.FabricNodeID, err error) {
	var got sorted[api.ImpairmentView]
	absent, err = s.At(ctx, where, func(ctx context.Context, c *api.Client, chs []wire.Channel) error {
		all, err := c.Netem(ctx)
		got.add(slices.DeleteFunc(all, func(v api.ImpairmentView) bool { return !slices.Contains(chs, v.Channel) || only && !v.Active })...)
		return err
	})
	return got.byChip(s.Topology, func(v *api.ImpairmentView) wire.FabricNodeID { return v.Chip }), absent, err
}

// SetService takes cables out of service, or gives them back.
func (s *Chips) SetService(ctx context.Context, links []topo.Link, out bool) (absent []wire.FabricNodeID, err error) {
	where, _ := spec.Ends(links, "both")
	return s.At(ctx, where, func(ctx context.Context, c *api.Client, chs []wire.Channel) error {
		return c.SetService(ctx, chs, out)
	})
}

// CommandRouters tells the routers of ports what to do, and returns those ports.
func (s *Chips) CommandRouters(ctx context.Context, where Where, action string) (views []api.RouterView, absent []wire.FabricNodeID, err error) {
	var got sorted[api.RouterView]
	absent, err = s.At(ctx, where, func(ctx context.Context, c *api.Client, chs []wire.Channel) error {
		all, err := c.CommandRouter(ctx, api.RouterBody{Channels: chs, Action: action})
		got.add(slices.DeleteFunc(all, func(v api.RouterView) bool { return !slices.Contains(chs, v.Channel) })...)
		return err
	})
	slices.SortFunc(got.list, func(a, b api.RouterView) int {
		if (wire.PortID{Node: a.Chip, Channel: a.Channel}).Less(wire.PortID{Node: b.Chip, Channel: b.Channel}) {
			return -1
		}
		return 1
	})
	return got.list, absent, err
}

// RetrainPorts are the ports that have to be told so that links train anew: one
// end that runs, which the other follows, and an end that holds its cable down,
// which would not follow by that cable.
func (s *Chips) RetrainPorts(ctx context.Context, links []topo.Link) Where {
	links = slices.Clone(links)
	for i, l := range links {
		if s.clients[l.A.Node] == nil {
			links[i].A, links[i].B = l.B, l.A
		}
	}
	where, _ := spec.Ends(links, "a-to-b")
	var far []*api.Client
	of := map[wire.PortID]bool{}
	for _, l := range links {
		if c := s.clients[l.B.Node]; c != nil && !slices.Contains(far, c) {
			far = append(far, c)
		}
		of[l.B] = true
	}
	views, _ := Ask(ctx, far)
	for _, v := range views {
		for _, l := range v.Links {
			if l.Held && of[wire.PortID{Node: v.Chip, Channel: l.Channel}] {
				where[v.Chip] = append(where[v.Chip], l.Channel)
			}
		}
	}
	return where
}

// PortsOf are all ports of chips.
func PortsOf(t *topo.Topology, chips []wire.FabricNodeID) Where {
	where := Where{}
	for _, n := range chips {
		for _, p := range t.Ports(n) {
			where[n] = append(where[n], p.Local.Channel)
		}
	}
	return where
}

// Gossip is how the gossip of chips fares.
func (s *Chips) Gossip(ctx context.Context, chips []wire.FabricNodeID) (views []api.GossipView, absent []wire.FabricNodeID, err error) {
	var got sorted[api.GossipView]
	absent, err = s.AtChips(ctx, chips, func(ctx context.Context, c *api.Client) error {
		v, err := c.Gossip(ctx)
		if err == nil {
			got.add(v)
		}
		return err
	})
	return got.byChip(s.Topology, func(v *api.GossipView) wire.FabricNodeID { return v.Chip }), absent, err
}

// CutGossip takes the gossip between two sets of chips away. With d, the chips put it back by themselves.
func (s *Chips) CutGossip(ctx context.Context, one, other []wire.FabricNodeID, d time.Duration) (absent []wire.FabricNodeID, err error) {
	if len(one) == 1 && len(one)+len(other) == len(s.Topology.Chips) {
		// The chip is cut off from all others, also from those that start later.
		return s.AtChips(ctx, one, func(ctx context.Context, c *api.Client) error {
			return c.SetGossip(ctx, api.GossipBody{Cut: true, ForS: d.Seconds()})
		})
	}
	return s.AtChips(ctx, slices.Concat(one, other), func(ctx context.Context, c *api.Client) error {
		from := other
		if slices.Contains(other, c.Self()) {
			from = one
		}
		return c.SetGossip(ctx, api.GossipBody{Cut: true, From: from, ForS: d.Seconds()})
	})
}

// HealGossip takes back the cuts of the gossip and, with all, its impairments. healed are the chips of which something was taken back.
func (s *Chips) HealGossip(ctx context.Context, all bool) (healed []wire.FabricNodeID, err error) {
	var got sorted[wire.FabricNodeID]
	_, err = s.AtChips(ctx, s.All(), func(ctx context.Context, c *api.Client) error {
		v, err := c.Gossip(ctx)
		if err != nil || !v.Alone && len(v.Apart) == 0 && (!all || v.Options == "") {
			return err
		}
		if err := c.HealGossip(ctx, all); err != nil {
			return err
		}
		got.add(v.Chip)
		return nil
	})
	return got.byChip(s.Topology, func(n *wire.FabricNodeID) wire.FabricNodeID { return *n }), err
}
