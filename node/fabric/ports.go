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

// Where names ports: the channels of each chip. An entry without channels names the chip itself.
type Where map[wire.FabricNodeID][]wire.Channel

// Chips holds a client of the API of each running chip of a fabric.
type Chips struct {
	Topology *topo.Topology
	clients  map[wire.FabricNodeID]*api.Client
}

// Chips returns clients of the APIs of all running chips. Chips returns an error if no chip runs.
func (f *Fabric) Chips() (*Chips, error) {
	cs, _, err := f.Clients()
	if err != nil {
		return nil, err
	}
	return NewChips(f.Topology, cs...), nil
}

// NewChips returns a Chips with the given clients.
func NewChips(t *topo.Topology, cs ...*api.Client) *Chips {
	s := &Chips{t, map[wire.FabricNodeID]*api.Client{}}
	for _, c := range cs {
		s.Add(c)
	}
	return s
}

// Client returns the client of a chip, or nil if s has no client of the chip.
func (s *Chips) Client(n wire.FabricNodeID) *api.Client { return s.clients[n] }

// Add adds the client of a chip to s.
func (s *Chips) Add(c *api.Client) { s.clients[c.Self()] = c }

// Drop removes the client of a chip from s.
func (s *Chips) Drop(n wire.FabricNodeID) { delete(s.clients, n) }

// All returns the chips of s, in the topology's order.
func (s *Chips) All() (out []wire.FabricNodeID) {
	for _, n := range s.Topology.Nodes() {
		if s.clients[n] != nil {
			out = append(out, n)
		}
	}
	return out
}

// Clients returns the clients of s, in the topology's order.
func (s *Chips) Clients() (out []*api.Client) {
	for _, n := range s.All() {
		out = append(out, s.clients[n])
	}
	return out
}

// At calls the function "do" for each chip that the parameter "where" names, with the chip's
// channels. The calls run at the same time, and have [AskTime] to end. At joins the errors. The
// result "absent" lists the named chips that s has no client of. At does not call the function "do"
// for these chips.
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

// AtChips calls the function "do" for each of the given chips, as [Chips.At] does.
func (s *Chips) AtChips(ctx context.Context, chips []wire.FabricNodeID, do func(context.Context, *api.Client) error) (absent []wire.FabricNodeID, err error) {
	where := Where{}
	for _, n := range chips {
		where[n] = nil
	}
	return s.At(ctx, where, func(ctx context.Context, c *api.Client, _ []wire.Channel) error { return do(ctx, c) })
}

// sorted collects the answers of chips, and sorts the answers. Several goroutines may add
// answers at once.
type sorted[T any] struct {
	mu   sync.Mutex
	list []T
}

func (s *sorted[T]) add(v ...T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, v...)
}

// byChip returns the answers in the order in which the topology lists the chips. The
// function "chip" must return the chip of an answer.
func (s *sorted[T]) byChip(t *topo.Topology, chip func(*T) wire.FabricNodeID) []T {
	slices.SortStableFunc(s.list, func(a, b T) int { return t.Index(chip(&a)) - t.Index(chip(&b)) })
	return s.list
}

// Cut cuts cables if "on" is true, and puts cables back if "on" is false. If d is not 0, the chips
// put cut cables back by themselves after the time d. Of the chips at the cables, the result
// "absent" lists those that s has no client of.
func (s *Chips) Cut(ctx context.Context, links []topo.Link, on bool, d time.Duration) (absent []wire.FabricNodeID, err error) {
	where, _ := spec.Ends(links, "both")
	return s.At(ctx, where, func(ctx context.Context, c *api.Client, chs []wire.Channel) error {
		return c.SetNetem(ctx, api.NetemBody{Channels: chs, Cut: &on, ForS: d.Seconds()})
	})
}

// Uncut puts cables back. The result "back" lists the cables that were cut, in one or both
// directions, and were put back in at least one of these directions. Of the chips at the cables,
// the result "absent" lists those that s has no client of.
func (s *Chips) Uncut(ctx context.Context, links []topo.Link) (back []topo.Link, absent []wire.FabricNodeID, err error) {
	where, _ := spec.Ends(links, "both")
	var ended sorted[wire.PortID]
	absent, err = s.At(ctx, where, func(ctx context.Context, c *api.Client, chs []wire.Channel) error {
		views, err := c.Netem(ctx)
		if err != nil {
			return err
		}
		if err := c.SetNetem(ctx, api.NetemBody{Channels: chs, Cut: new(bool)}); err != nil {
			return err
		}
		for _, v := range views {
			if v.Cut {
				ended.add(wire.PortID{Node: c.Self(), Channel: v.Channel})
			}
		}
		return nil
	})
	return slices.DeleteFunc(slices.Clone(links), func(l topo.Link) bool {
		return !slices.Contains(ended.list, l.A) && !slices.Contains(ended.list, l.B)
	}), absent, err
}

// Flap cuts cables repeatedly. The parameter "every" is the time from the start of one cut to the
// start of the next. The parameter "down" is the length of a cut. The parameter "total" limits the
// time from the start of the first cut to the end of the last cut. If total is 0, Flap continues
// until ctx ends. Flap returns when the cables are back, or at once if a cut fails. The result n is
// the number of cuts.
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

// Impair changes the impairments of the datagrams that ports send. The parameter "body" has
// the changes. Impair ignores body.Channels.
func (s *Chips) Impair(ctx context.Context, where Where, body api.NetemBody) (absent []wire.FabricNodeID, err error) {
	return s.At(ctx, where, func(ctx context.Context, c *api.Client, chs []wire.Channel) error {
		b := body
		b.Channels = chs
		return c.SetNetem(ctx, b)
	})
}

// ResetImpairments ends all impairments of the datagrams that ports send. A cut cable stays cut.
func (s *Chips) ResetImpairments(ctx context.Context, where Where) (absent []wire.FabricNodeID, err error) {
	return s.At(ctx, where, func(ctx context.Context, c *api.Client, chs []wire.Channel) error {
		return c.ResetNetem(ctx, chs...)
	})
}

// Impairments returns the impairments of the datagrams that ports send. If only is
// true, Impairments leaves out ports without an impairment.
func (s *Chips) Impairments(ctx context.Context, where Where, only bool) (views []api.ImpairmentView, absent []wire.FabricNodeID, err error) {
	var got sorted[api.ImpairmentView]
	absent, err = s.At(ctx, where, func(ctx context.Context, c *api.Client, chs []wire.Channel) error {
		all, err := c.Netem(ctx)
		got.add(slices.DeleteFunc(all, func(v api.ImpairmentView) bool { return !slices.Contains(chs, v.Channel) || only && !v.Active })...)
		return err
	})
	return got.byChip(s.Topology, func(v *api.ImpairmentView) wire.FabricNodeID { return v.Chip }), absent, err
}

// CommandRouters gives a command to the routers of ports, and returns the state of these ports
// afterwards. The parameter "action" is a command of 'ttfabric router', such as "pause".
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

// RetrainPorts returns the ports to which a retrain command for the given links must go.
// RetrainPorts returns one end of each link, at a running chip if one of the two chips runs. The
// peer of this end trains again by itself. If damping holds the cable at the peer, the peer also
// needs the command, and RetrainPorts also returns the peer.
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

// PortsOf returns all ports of the given chips.
func PortsOf(t *topo.Topology, chips []wire.FabricNodeID) Where {
	where := Where{}
	for _, n := range chips {
		for _, p := range t.Ports(n) {
			where[n] = append(where[n], p.Local.Channel)
		}
	}
	return where
}

// Gossip asks the given chips for the state of their gossip.
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

// CutGossip cuts the gossip between two sets of chips. If d is not 0, the chips end the cut
// by themselves after the time d.
func (s *Chips) CutGossip(ctx context.Context, one, other []wire.FabricNodeID, d time.Duration) (absent []wire.FabricNodeID, err error) {
	if len(one) == 1 && len(one)+len(other) == len(s.Topology.Chips) {
		// A cut without From separates the chip from all other chips, also from chips that
		// start later.
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

// HealGossip ends the cuts of the gossip at all running chips. If "all" is true, HealGossip also
// ends the impairments of the gossip. The result "healed" lists the chips at which HealGossip ended
// a cut or an impairment.
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
