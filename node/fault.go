package node

import (
	"fmt"
	"maps"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
)

// MaxFaultTime is the longest duration that a caller may set for a fault. A chip ends a fault with
// a set duration by itself.
const MaxFaultTime = 24 * time.Hour

// FaultEvent reports that somebody injected a fault, or that a fault ended.
type FaultEvent struct {
	Kind        fault.Kind
	Local, Peer wire.PortID       // sending and receiving port of the faulty direction of the cable; set for kinds up to fault.KindRestored, unless Gossip is set
	Options     fault.Options     // the impairment in force from this event on
	For         time.Duration     // time after which the fault ends; 0: the fault has no set end
	Expired     bool              // the chip ended the fault because the fault's set duration was over
	Kernel      bool              // the kernel's netem injects the fault; false: the chip injects the fault
	Counts      fault.Counts      // datagrams that the fault hit; set if no fault is in force any more
	Chip        wire.FabricNodeID // the chip whose process or gossip the fault hits; set for kinds from fault.KindKilled on, and if Gossip is set

	Gossip bool                // the fault hits the gossip of Chip; false: the fault hits a cable or a process
	From   []wire.FabricNodeID // for fault.KindCut with Gossip: the chips from which this cut separates the gossip of Chip; empty: all chips
}

// Impairment is the fault injected into the datagrams that one port sends.
type Impairment struct {
	Local, Peer wire.PortID
	Plane       wire.Plane
	Options     fault.Options // the impairment in force
	Seed        uint64        // seed of the random numbers, as the caller gave it
	Cut         bool
	Since       time.Time    // when the counters began; zero if no fault is in force
	Until       time.Time    // when the options with a set duration end; zero: no option has a set duration
	CutUntil    time.Time    // when the cut ends; zero: never
	Counts      fault.Counts // datagrams that the fault hit since the time in Since
	Overfull    uint64       // datagrams dropped because too many delayed datagrams were waiting
}

// portFault is the state of a port's impairment. The node's lock guards each portFault.
type portFault struct {
	wrap           *transport.Impaired // transport that injects the fault; nil: no fault is in force
	seed           uint64
	kept           fault.Options // options without a set duration
	passing        fault.Change  // changes of the options in kept, with a set duration
	cut            bool
	since          time.Time
	passEnd, cutUp ending
}

// ending is the time at which a fault ends, and the timer for that time.
type ending struct {
	at    time.Time // when the fault ends; zero: never
	timer *time.Timer
}

// stop stops the timer.
func (e *ending) stop() {
	if e.timer != nil {
		e.timer.Stop()
	}
	*e = ending{}
}

// ends starts a timer that calls f after d, and stops the previous timer of e. If d is 0, ends only
// stops the previous timer.
func (n *Node) ends(e *ending, d time.Duration, f func()) {
	e.stop()
	if d == 0 {
		return
	}
	e.at = n.wall().Add(d)
	if h := n.mu.host; h != nil {
		h.After(d, f)
	} else {
		e.timer = time.AfterFunc(d, f)
	}
}

// due reports whether the fault must end at the time now. A timer's function calls due first,
// because somebody may have changed the ending just when the timer fired.
func (e *ending) due(now time.Time) bool { return !e.at.IsZero() && !now.Before(e.at) }

// close closes the port and stops the timers of its fault.
func (p *livePort) close() {
	p.fault.passEnd.stop()
	p.fault.cutUp.stop()
	p.out.Close()
}

// withPort runs f on the port with channel ch. withPort checks the fault's duration d, and returns
// ErrClosed for a closed node. f runs under the node's lock.
func (n *Node) withPort(ch wire.Channel, d time.Duration, f func(p *livePort) error) error {
	if d < 0 || d > MaxFaultTime {
		return fmt.Errorf("a fault with a duration of %v: want a duration up to %v, or 0 for no end", d, MaxFaultTime)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return ErrClosed
	}
	if int(ch) >= len(n.byCh) || n.byCh[ch] == nil {
		return fmt.Errorf("chip %s has no cable at channel %d", n.cfg.Node, ch)
	}
	return f(n.byCh[ch])
}

// SetImpairment changes the impairment of the datagrams that a channel sends, from the next
// datagram on. SetImpairment does not change options that c does not name. If seed is not nil, the
// random numbers restart with this seed. Ports with equal seeds still have different random
// numbers.
//
// If d is 0, the options in c have no set duration. If d is above 0, the options in c end after d,
// and the values without a set duration apply again. All earlier options that have a duration then
// get the duration d too.
func (n *Node) SetImpairment(ch wire.Channel, c fault.Change, seed *uint64, d time.Duration) error {
	return n.withPort(ch, d, func(p *livePort) error {
		f := &p.fault
		if _, err := c.Apply(fault.Options{}); err != nil {
			return err
		}
		if d > 0 {
			if f.passing == nil {
				f.passing = fault.Change{}
			}
			maps.Copy(f.passing, c)
			n.ends(&f.passEnd, d, func() { n.endImpairment(ch) })
		} else {
			f.kept, _ = c.Apply(f.kept)
			maps.DeleteFunc(f.passing, func(k, _ string) bool { _, named := c[k]; return named })
		}
		if seed != nil {
			f.seed = *seed
			if f.wrap != nil {
				f.wrap.Seed(n.dice(p))
			}
		}
		return n.enforce(p, FaultEvent{Kind: fault.KindSet, For: d})
	})
}

// ResetImpairment removes the impairment of the datagrams that a channel sends. If the cable is
// cut, the cable stays cut.
func (n *Node) ResetImpairment(ch wire.Channel) error {
	return n.withPort(ch, 0, func(p *livePort) error {
		f := &p.fault
		if f.kept == (fault.Options{}) && len(f.passing) == 0 {
			return nil
		}
		f.kept, f.passing, f.seed = fault.Options{}, nil, 0
		f.passEnd.stop()
		return n.enforce(p, FaultEvent{Kind: fault.KindReset})
	})
}

// Cut cuts the cable in the direction in which the channel sends if the argument "on" is true. If
// "on" is false, Cut repairs that direction of the cable. If "on" is true and d is above 0, the
// chip itself repairs the cable after d.
func (n *Node) Cut(ch wire.Channel, on bool, d time.Duration) error {
	return n.withPort(ch, d, func(p *livePort) error {
		f := &p.fault
		if !on && !f.cut {
			return nil
		}
		f.cut = on
		if !on {
			d = 0
		}
		n.ends(&f.cutUp, d, func() { n.endCut(ch) })
		e := FaultEvent{Kind: fault.KindRestored, For: d}
		if on {
			e.Kind = fault.KindCut
		}
		return n.enforce(p, e)
	})
}

// endImpairment removes the options of a port's impairment whose set duration is over.
func (n *Node) endImpairment(ch wire.Channel) {
	_ = n.withPort(ch, 0, func(p *livePort) error {
		f := &p.fault
		if !f.passEnd.due(n.wall()) {
			return nil
		}
		f.passing, f.passEnd = nil, ending{}
		e := FaultEvent{Kind: fault.KindReset, Expired: true}
		if f.kept != (fault.Options{}) {
			e.Kind = fault.KindSet
		}
		return n.enforce(p, e)
	})
}

// endCut repairs a cable if the set duration of its cut is over.
func (n *Node) endCut(ch wire.Channel) {
	_ = n.withPort(ch, 0, func(p *livePort) error {
		f := &p.fault
		if !f.cutUp.due(n.wall()) {
			return nil
		}
		f.cut, f.cutUp = false, ending{}
		return n.enforce(p, FaultEvent{Kind: fault.KindRestored, Expired: true})
	})
}

// enforce makes the port inject the fault that the port's state describes, and publishes the event
// e.
func (n *Node) enforce(p *livePort, e FaultEvent) error {
	f := &p.fault
	o, err := f.passing.Apply(f.kept)
	switch {
	case err != nil:
		return err
	case n.mu.host != nil:
		if err := n.enforceHosted(p, o, &e); err != nil {
			return err
		}
	case o == fault.Options{} && !f.cut:
		if f.wrap != nil {
			e.Counts, _ = f.wrap.Counts()
			f.wrap.Unwrap()
			f.wrap, f.since = nil, time.Time{}
		}
	case f.wrap == nil:
		if f.wrap, err = transport.Impair(p.pipe, n.dice(p), o); err != nil {
			return err
		}
		f.since = time.Now()
	default:
		if err := f.wrap.Set(o); err != nil {
			return err
		}
	}
	if f.wrap != nil {
		f.wrap.Cut(f.cut)
	}
	n.chip.Cut(n.now(), p.ch, f.cut)
	p.connect()
	n.noteFault(p, &e, o)
	e.Local, e.Peer, e.Options = wire.PortID{Node: n.cfg.Node, Channel: p.ch}, p.peer, o
	n.events.publish(Event{Time: n.wall(), Fault: &e})
	n.hostRuns()
	return nil
}

// spread is 2 to the power of 64, divided by the golden ratio. Each port adds another multiple of
// spread to the seed. The seeds of neighbouring ports therefore differ in many bits.
const spread = 0x9e3779b97f4a7c15

// dice returns the seed of a port's random numbers, which differs from port to port.
func (n *Node) dice(p *livePort) uint64 {
	return p.fault.seed + spread*(uint64(n.cfg.Node.Mesh)<<32+uint64(n.cfg.Node.Chip)<<16+uint64(p.ch))
}

// Impairments returns the impairment of each port, sorted by channel.
func (n *Node) Impairments() []Impairment {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []Impairment
	for _, p := range n.ports {
		f := &p.fault
		i := Impairment{Local: wire.PortID{Node: n.cfg.Node, Channel: p.ch}, Peer: p.peer, Plane: p.plane, Seed: f.seed,
			Cut: f.cut, Since: f.since, Until: f.passEnd.at, CutUntil: f.cutUp.at}
		i.Options, _ = f.passing.Apply(f.kept)
		if h := n.mu.host; h != nil && (f.cut || i.Options != fault.Options{}) {
			i.Counts = h.Faults(p.ch)
		} else if f.wrap != nil {
			i.Counts, i.Overfull = f.wrap.Counts()
		}
		out = append(out, i)
	}
	return out
}

// TellFault publishes a fault that somebody injects into the process of chip c. This node publishes
// the fault because a killed or paused process cannot publish its own fault.
func (n *Node) TellFault(k fault.Kind, c wire.FabricNodeID) {
	n.events.publish(Event{Time: n.wall(), Fault: &FaultEvent{Kind: k, Chip: c}})
}

// TellImpairment publishes a change of the impairment that the kernel's netem injects into a
// channel's datagrams. The impairment has the options o for the duration d. If d is 0, the
// impairment has no set end.
func (n *Node) TellImpairment(k fault.Kind, ch wire.Channel, o fault.Options, d time.Duration) error {
	return n.withPort(ch, d, func(p *livePort) error {
		n.events.publish(Event{Time: n.wall(), Fault: &FaultEvent{Kind: k, Kernel: true, Options: o, For: d,
			Local: wire.PortID{Node: n.cfg.Node, Channel: ch}, Peer: p.peer}})
		return nil
	})
}
