package node

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"ttfabric/membership"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// GossipNet is a [Membership] over a network. A caller can inject faults into a GossipNet, and read
// its state.
type GossipNet interface {
	Impair(o fault.Options, seed *uint64) error       // impairs the gossip datagrams that the chip sends
	Cut(alone bool, apart map[wire.FabricNodeID]bool) // cuts the chip's gossip off from all chips if alone is true, otherwise from the chips in apart; replaces the earlier cut
	FaultCounts() fault.Counts                        // gossip datagrams that injected faults have hit since the chip's start
	Status() []membership.PoolStatus                  // the state of each gossip pool of the chip
}

// GossipKeys are the keys that encrypt a chip's gossip; see gossip.Keys.
type GossipKeys interface {
	Install(key []byte) error
	Use(id string) error
	Remove(id string) error
	List() []membership.Key
}

// ErrPlainGossip is the error of requests for gossip keys in a fabric whose gossip is not
// encrypted.
var ErrPlainGossip = errors.New("the gossip of this fabric is not encrypted; 'ttfabric up --gossip-key generate' starts a fabric with encrypted gossip")

// GossipFault is the fault injected into a chip's gossip.
type GossipFault struct {
	Options  fault.Options // impairment of the gossip that the chip sends
	Seed     uint64
	Alone    bool                // the chip's gossip is cut off from all chips, in both directions
	Apart    []wire.FabricNodeID // chips from which this chip's gossip is cut off, sorted
	Until    time.Time           // when the options with a set duration end; zero: no option has a set duration
	CutUntil time.Time           // when the cuts end; zero: never
	Counts   fault.Counts        // gossip datagrams that injected faults have hit since the chip's start
}

// gossipFault is the state from which GossipFault is made. The node's lock guards the state.
type gossipFault struct {
	seed           uint64
	kept           fault.Options // options without a set duration
	passing        fault.Change  // changes of the options in kept, with a set duration
	alone          bool
	apart          map[wire.FabricNodeID]bool
	passEnd, cutUp ending
}

// withGossip runs f on the state of the chip's gossip fault and on the chip's pool. withGossip
// checks the fault's duration d, and returns ErrClosed for a closed node. f runs under the node's
// lock.
func (n *Node) withGossip(d time.Duration, f func(g *gossipFault, net GossipNet) error) error {
	if d < 0 || d > MaxFaultTime {
		return fmt.Errorf("a fault with a duration of %v: want a duration up to %v, or 0 for no end", d, MaxFaultTime)
	}
	net, ok := n.member.(GossipNet)
	if !ok {
		return fmt.Errorf("chip %s does not gossip over a network", n.cfg.Node)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return ErrClosed
	}
	return f(&n.gossip, net)
}

// ImpairGossip changes the impairment of the gossip datagrams that the chip sends. ImpairGossip
// does not change options that c does not name. If seed is not nil, the random numbers restart with
// this seed. The impairment takes no link down, because no link depends on gossip.
//
// If d is 0, the options in c have no set duration. If d is above 0, the options in c end after d,
// and the values without a set duration apply again. All earlier options that have a duration then
// get the duration d too.
func (n *Node) ImpairGossip(c fault.Change, seed *uint64, d time.Duration) error {
	return n.withGossip(d, func(g *gossipFault, net GossipNet) error {
		if _, err := c.Apply(fault.Options{}); err != nil {
			return err
		}
		if d > 0 {
			if g.passing == nil {
				g.passing = fault.Change{}
			}
			maps.Copy(g.passing, c)
			n.ends(&g.passEnd, d, n.endGossipImpairment)
		} else {
			g.kept, _ = c.Apply(g.kept)
			maps.DeleteFunc(g.passing, func(k, _ string) bool { _, named := c[k]; return named })
		}
		if seed != nil {
			g.seed = *seed
			dice := g.seed + spread*(uint64(n.cfg.Node.Mesh)<<16+uint64(n.cfg.Node.Chip))
			seed = &dice
		}
		return n.enforceGossip(g, net, seed, FaultEvent{Kind: fault.KindSet, For: d})
	})
}

// CutGossip cuts the chip's gossip off from the chips in the argument "from", in addition to
// earlier cuts. The caller must also tell each of these chips to cut its gossip off from this chip.
// If "from" is empty, CutGossip cuts the gossip off from all chips. If d is above 0, the chip ends
// all cuts of its gossip after d. If d is 0, no cut has a set end any more.
func (n *Node) CutGossip(from []wire.FabricNodeID, d time.Duration) error {
	return n.withGossip(d, func(g *gossipFault, net GossipNet) error {
		for _, c := range from {
			if _, ok := n.cfg.Topology.Chip(c); !ok || c == n.cfg.Node {
				return fmt.Errorf("cannot cut the gossip of chip %s off from chip %s: want another chip of topology %s", n.cfg.Node, c, n.cfg.Topology.Name)
			}
		}
		if g.apart == nil {
			g.apart = map[wire.FabricNodeID]bool{}
		}
		for _, c := range from {
			g.apart[c] = true
		}
		g.alone = g.alone || len(from) == 0
		n.ends(&g.cutUp, d, n.endGossipCut)
		return n.enforceGossip(g, net, nil, FaultEvent{Kind: fault.KindCut, For: d, From: from})
	})
}

// HealGossip ends all cuts of the chip's gossip. If "all" is true, HealGossip also removes the
// impairment of the gossip.
func (n *Node) HealGossip(all bool) error {
	return n.withGossip(0, func(g *gossipFault, net GossipNet) error {
		cut := g.alone || len(g.apart) > 0
		set := all && (g.kept != fault.Options{} || len(g.passing) > 0)
		if cut {
			g.alone, g.apart = false, nil
			g.cutUp.stop()
			if err := n.enforceGossip(g, net, nil, FaultEvent{Kind: fault.KindRestored}); err != nil {
				return err
			}
		}
		if set {
			g.kept, g.passing, g.seed = fault.Options{}, nil, 0
			g.passEnd.stop()
			return n.enforceGossip(g, net, nil, FaultEvent{Kind: fault.KindReset})
		}
		return nil
	})
}

func (n *Node) endGossipImpairment() {
	_ = n.withGossip(0, func(g *gossipFault, net GossipNet) error {
		if !g.passEnd.due(n.wall()) {
			return nil
		}
		g.passing, g.passEnd = nil, ending{}
		e := FaultEvent{Kind: fault.KindReset, Expired: true}
		if g.kept != (fault.Options{}) {
			e.Kind = fault.KindSet
		}
		return n.enforceGossip(g, net, nil, e)
	})
}

func (n *Node) endGossipCut() {
	_ = n.withGossip(0, func(g *gossipFault, net GossipNet) error {
		if !g.cutUp.due(n.wall()) {
			return nil
		}
		g.alone, g.apart, g.cutUp = false, nil, ending{}
		return n.enforceGossip(g, net, nil, FaultEvent{Kind: fault.KindRestored, Expired: true})
	})
}

// enforceGossip makes the chip's pool inject the fault that g describes, and publishes the event e.
func (n *Node) enforceGossip(g *gossipFault, net GossipNet, seed *uint64, e FaultEvent) error {
	o, err := g.passing.Apply(g.kept)
	if err == nil {
		err = net.Impair(o, seed)
	}
	if err != nil {
		return err
	}
	net.Cut(g.alone, g.apart)
	e.Gossip, e.Chip, e.Options = true, n.cfg.Node, o
	if o == (fault.Options{}) && !g.alone && len(g.apart) == 0 {
		e.Counts = net.FaultCounts()
	}
	n.events.publish(Event{Time: n.wall(), Fault: &e})
	return nil
}

// Gossip returns the fault injected into the chip's gossip, and the state of the chip's gossip
// pools. If the chip does not gossip over a network, or the node is closed, Gossip returns an
// error.
func (n *Node) Gossip() (f GossipFault, pools []membership.PoolStatus, err error) {
	err = n.withGossip(0, func(g *gossipFault, net GossipNet) error {
		f = GossipFault{Seed: g.seed, Alone: g.alone, Until: g.passEnd.at, CutUntil: g.cutUp.at, Counts: net.FaultCounts()}
		f.Options, _ = g.passing.Apply(g.kept)
		for c := range g.apart {
			f.Apart = append(f.Apart, c)
		}
		slices.SortFunc(f.Apart, wire.FabricNodeID.Compare)
		pools = net.Status()
		return nil
	})
	return f, pools, err
}

// GossipKeys returns the keys that encrypt the chip's gossip. If gossip is not encrypted,
// GossipKeys returns [ErrPlainGossip].
func (n *Node) GossipKeys() (GossipKeys, error) {
	if n.cfg.Keys == nil {
		return nil, ErrPlainGossip
	}
	return n.cfg.Keys, nil
}
