package node

import (
	"fmt"
	"maps"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
)

// MaxFaultTime is the longest time that a caller may set after which the chip itself ends a fault.
const MaxFaultTime = 24 * time.Hour

// FaultEvent is a fault that was injected or ended.
type FaultEvent struct {
	Kind        fault.Kind
	Local, Peer wire.PortID       // the two ends of the cable, in the direction of the fault; set for kinds up to fault.KindRestored
	Options     fault.Options     // the impairment in force from now on
	For         time.Duration     // time after which the fault ends; 0: it stays
	Expired     bool              // the chip ended the fault because the time For was over
	Kernel      bool              // the kernel's netem injects the fault, not the chip
	Counts      fault.Counts      // datagrams that the fault hit; set once no impairment is in force any more
	Chip        wire.FabricNodeID // the chip that the process runs; set for kinds from fault.KindKilled on

	Gossip bool                // the fault concerns the gossip of Chip and not a cable
	From   []wire.FabricNodeID // the chips from which the gossip is cut off; none: all chips
}

// Impairment is the fault that somebody injects into the datagrams that one port sends.
type Impairment struct {
	Local, Peer wire.PortID
	Plane       wire.Plane
	Options     fault.Options // the impairment in force
	Seed        uint64        // seed of the random numbers, as the caller gave it
	Cut         bool
	Since       time.Time    // when the counters began; zero if no fault is in force
	Until       time.Time    // when options that were set for a time end; zero: never
	CutUntil    time.Time    // when the cut ends; zero: never
	Counts      fault.Counts // datagrams that the fault hit since the time Since
	Overfull    uint64       // datagrams dropped because too many waited for their delay to end
}

// portFault is the state of a port's impairment. The node's lock guards it.
type portFault struct {
	wrap           *transport.Impaired // nil: no fault is in force, and packets cost nothing extra
	seed           uint64
	kept           fault.Options // options without an end
	passing        fault.Change  // changes to kept that apply for a time
	cut            bool
	since          time.Time
	passEnd, cutUp ending
}

// ending is the time at which a port's fault ends.
type ending struct {
	at    time.Time // zero: never
	timer *time.Timer
}

// set arms the timer of the ending. With d of 0, set disarms the timer.
func (e *ending) set(d time.Duration, f func()) {
	if e.timer != nil {
		e.timer.Stop()
	}
	*e = ending{}
	if d > 0 {
		at := time.Now().Add(d)
		*e = ending{at, time.AfterFunc(d, f)}
	}
}

// due reports whether the time has come. A timer calls due. The timer may run while somebody
// changes the ending.
func (e *ending) due() bool { return !e.at.IsZero() && !time.Now().Before(e.at) }

// close closes the port and ends its impairment.
func (p *livePort) close() {
	p.fault.passEnd.set(0, nil)
	p.fault.cutUp.set(0, nil)
	p.out.Close()
}

// withPort runs f on a port of a running node. withPort holds the node's lock meanwhile.
func (n *Node) withPort(ch wire.Channel, d time.Duration, f func(p *livePort) error) error {
	if d < 0 || d > MaxFaultTime {
		return fmt.Errorf("a fault for the time %v: want a time up to %v, or 0 for no end", d, MaxFaultTime)
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
// datagram on. Options that c does not name stay. A seed restarts the random numbers. Ports with
// equal seeds have different random numbers. After d the options in c get their earlier values
// again. With d of 0 the options have no end. The latest d applies to all options that have an end.
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
			f.passEnd.set(d, func() { n.endImpairment(ch) })
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

// ResetImpairment removes the impairment of a channel's datagrams. A cut stays.
func (n *Node) ResetImpairment(ch wire.Channel) error {
	return n.withPort(ch, 0, func(p *livePort) error {
		f := &p.fault
		if f.kept == (fault.Options{}) && len(f.passing) == 0 {
			return nil
		}
		f.kept, f.passing, f.seed = fault.Options{}, nil, 0
		f.passEnd.set(0, nil)
		return n.enforce(p, FaultEvent{Kind: fault.KindReset})
	})
}

// Cut cuts the cable in the direction in which a channel sends, or repairs the cable. With d above
// 0 the chip itself repairs the cable after d.
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
		f.cutUp.set(d, func() { n.endCut(ch) })
		e := FaultEvent{Kind: fault.KindRestored, For: d}
		if on {
			e.Kind = fault.KindCut
		}
		return n.enforce(p, e)
	})
}

// endImpairment removes the options of a port's impairment that have reached their end.
func (n *Node) endImpairment(ch wire.Channel) {
	_ = n.withPort(ch, 0, func(p *livePort) error {
		f := &p.fault
		if !f.passEnd.due() {
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

// endCut repairs a cable whose cut has reached its end.
func (n *Node) endCut(ch wire.Channel) {
	_ = n.withPort(ch, 0, func(p *livePort) error {
		f := &p.fault
		if !f.cutUp.due() {
			return nil
		}
		f.cut, f.cutUp = false, ending{}
		return n.enforce(p, FaultEvent{Kind: fault.KindRestored, Expired: true})
	})
}

// enforce applies a port's fault to the port, and reports the fault.
func (n *Node) enforce(p *livePort, e FaultEvent) error {
	f := &p.fault
	o, err := f.passing.Apply(f.kept)
	switch {
	case err != nil:
		return err
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
	p.connect()
	n.noteFault(p, &e, o)
	e.Local, e.Peer, e.Options = wire.PortID{Node: n.cfg.Node, Channel: p.ch}, p.peer, o
	n.events.publish(Event{Time: time.Now(), Fault: &e})
	return nil
}

// spread is 2 to the power of 64 divided by the golden ratio. Multiplying by spread makes the seeds
// of neighbouring ports very different.
const spread = 0x9e3779b97f4a7c15

// dice returns the seed of a port's own random numbers.
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
		if f.wrap != nil {
			i.Counts, i.Overfull = f.wrap.Counts()
		}
		out = append(out, i)
	}
	return out
}

// TellFault publishes a fault that somebody injects into a chip's process. The process cannot
// report such a fault itself.
func (n *Node) TellFault(k fault.Kind, c wire.FabricNodeID) {
	n.events.publish(Event{Time: time.Now(), Fault: &FaultEvent{Kind: k, Chip: c}})
}

// TellImpairment publishes the kernel's new impairment of the datagrams that a channel sends.
func (n *Node) TellImpairment(k fault.Kind, ch wire.Channel, o fault.Options, d time.Duration) error {
	return n.withPort(ch, d, func(p *livePort) error {
		n.events.publish(Event{Time: time.Now(), Fault: &FaultEvent{Kind: k, Kernel: true, Options: o, For: d,
			Local: wire.PortID{Node: n.cfg.Node, Channel: ch}, Peer: p.peer}})
		return nil
	})
}
