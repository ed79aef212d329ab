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
	Impair(o fault.Options, seed *uint64) error       // impairs the datagrams that the chip sends
	Cut(alone bool, apart map[wire.FabricNodeID]bool) // cuts the chip off from all chips, or from the chips in apart; replaces the earlier cut
	FaultCounts() fault.Counts                        // faults injected since the start
	Status() []membership.PoolStatus                  // the state of each pool
}

// GossipKeys are the keys of encrypted gossip; see gossip.Keys.
type GossipKeys interface {
	Install(key []byte) error
	Use(id string) error
	Remove(id string) error
	List() []membership.Key
}

// ErrPlainGossip is the error of requests that need encrypted gossip if gossip is not encrypted.
var ErrPlainGossip = errors.New("the gossip of this fabric is not encrypted; 'ttfabric up --gossip-key generate' starts a fabric with encrypted gossip")

// GossipFault is the impairment of a chip's gossip.
type GossipFault struct {
	Options  fault.Options // impairment of the gossip that the chip sends
	Seed     uint64
	Alone    bool                // the gossip is cut off from all chips, in both directions
	Apart    []wire.FabricNodeID // chips from which this chip's gossip is cut off, sorted
	Until    time.Time           // when options that were set for a time end; zero: never
	CutUntil time.Time           // when the cuts end; zero: never
	Counts   fault.Counts        // faults injected since the start
}

// gossipFault is the state of a GossipFault. The node's lock guards it.
type gossipFault struct {
	seed           uint64
	kept           fault.Options // options without an end
	passing        fault.Change  // changes to kept that apply for a time
	alone          bool
	apart          map[wire.FabricNodeID]bool
	passEnd, cutUp ending
}

// withGossip runs f on the gossip of a running node. withGossip holds the node's lock meanwhile.
func (n *Node) withGossip(d time.Duration, f func(g *gossipFault, net GossipNet) error) error {
	if d < 0 || d > MaxFaultTime {
		return fmt.Errorf("a fault for the time %v: want a time up to %v, or 0 for no end", d, MaxFaultTime)
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

// ImpairGossip changes the impairment of the gossip that the chip sends. Options that c does not
// name stay. A seed restarts the random numbers. After d the options in c get their earlier values
// again. With d of 0 the options have no end. No link depends on gossip.
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
			g.passEnd.set(d, n.endGossipImpairment)
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

// If from is empty, CutGossip cuts the chip's gossip off from all chips. Otherwise CutGossip cuts
// the gossip off from the chips in from, in addition to earlier cuts. The caller must tell those
// chips to cut their gossip off from this chip too. With d above 0 the chip ends all cuts after d.
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
		g.cutUp.set(d, n.endGossipCut)
		return n.enforceGossip(g, net, nil, FaultEvent{Kind: fault.KindCut, For: d, From: from})
	})
}

// HealGossip undoes CutGossip. If all is true, HealGossip also undoes ImpairGossip.
func (n *Node) HealGossip(all bool) error {
	return n.withGossip(0, func(g *gossipFault, net GossipNet) error {
		cut := g.alone || len(g.apart) > 0
		set := all && (g.kept != fault.Options{} || len(g.passing) > 0)
		if cut {
			g.alone, g.apart = false, nil
			g.cutUp.set(0, nil)
			if err := n.enforceGossip(g, net, nil, FaultEvent{Kind: fault.KindRestored}); err != nil {
				return err
			}
		}
		if set {
			g.kept, g.passing, g.seed = fault.Options{}, nil, 0
			g.passEnd.set(0, nil)
			return n.enforceGossip(g, net, nil, FaultEvent{Kind: fault.KindReset})
		}
		return nil
	})
}

func (n *Node) endGossipImpairment() {
	_ = n.withGossip(0, func(g *gossipFault, net GossipNet) error {
		if !g.passEnd.due() {
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
		if !g.cutUp.due() {
			return nil
		}
		g.alone, g.apart, g.cutUp = false, nil, ending{}
		return n.enforceGossip(g, net, nil, FaultEvent{Kind: fault.KindRestored, Expired: true})
	})
}

// enforceGossip applies the fault to the pools, and publishes the fault.
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
	n.events.publish(Event{Time: time.Now(), Fault: &e})
	return nil
}

// Gossip returns the impairment of the chip's gossip, and the state of its pools. Gossip returns an
// error for a chip that does not gossip over a network.
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
