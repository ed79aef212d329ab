// Package control is one chip's part of the control plane. The package collects what every chip
// says about its own ports, and finds which cables the tables must avoid.
//
// Each chip says in a numbered [wire.LinkState] which of its ports are out of service. A port is
// out of service if its link has been down for [Config.Hold], by its own cable and by any other
// cable. A port that an operator took out of service is also out of service. Each chip floods the
// newest link state of every chip to its neighbours, and gossip repairs what flooding missed. A
// cable is out of service if the chip at either end says that its port is. All connected chips
// therefore plan from the same link states, without a leader. The table epoch is a hash of the link
// states from which the tables were planned.
//
// Invariants: Control keeps the highest version of each chip's link state that it has heard. This
// chip's own link state has the highest version of all link states of this chip that exist. Every
// neighbour whose link is up has received each link state, or is still owed this link state.
package control

import (
	"cmp"
	"slices"
	"time"

	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// The times are our own choices, not the specification's.
const (
	Settle   = 5 * time.Millisecond   // time from a change of the link states until tables are planned: further changes often follow soon
	Throttle = 100 * time.Millisecond // shortest time between two plans
)

// Config describes one chip's part of the control plane.
type Config struct {
	Self  wire.FabricNodeID
	Ports []topo.Port
	Hold  time.Duration // a link that has been up before is out of service after being down for this time
	Boot  time.Duration // a link that has never been up is out of service when this time has passed since the start
}

// port is one of the chip's own ports.
type port struct {
	topo.Port
	up      bool
	since   mono.Time // when the link went down, or the start
	been    bool      // the link has been up before
	failed  bool      // the link has been down for Hold, or since the start for Boot
	avoided bool      // an operator took the port out of service
	told    uint64    // number of the latest change that was sent to the neighbour
}

// word is the newest link state of a chip.
type word struct {
	wire.LinkState
	changed uint64 // number of the latest change
}

// Control is the state machine of one chip's part of the control plane. A Control is not safe for
// concurrent use.
type Control struct {
	cfg     Config
	ports   []port
	words   []*word // link state of this chip first, then link states of the other chips heard from
	byNode  map[wire.FabricNodeID]*word
	self    *word
	changes uint64
	planAt  mono.Time // when tables must be planned; mono.Never: nothing has changed
	planned mono.Time // when tables were last planned
}

// New returns a Control for a chip whose links are all down and whose ports are all in service.
func New(now mono.Time, cfg Config) *Control {
	c := &Control{cfg: cfg, byNode: map[wire.FabricNodeID]*word{}, planAt: mono.Never}
	c.self = c.word(cfg.Self)
	for _, p := range cfg.Ports {
		c.ports = append(c.ports, port{Port: p, since: now})
	}
	return c
}

// word returns the link state of a chip. For a chip not heard from, word adds an empty link state.
func (c *Control) word(n wire.FabricNodeID) *word {
	w := c.byNode[n]
	if w == nil {
		w = &word{LinkState: wire.LinkState{Node: n}}
		c.words, c.byNode[n] = append(c.words, w), w
	}
	return w
}

// The owner calls SetPort when the link of port i came up or went down. A neighbour whose link came
// up is owed all link states.
func (c *Control) SetPort(now mono.Time, i int, up bool) {
	p := &c.ports[i]
	if p.up == up {
		return
	}
	p.up = up
	if up {
		p.been, p.told = true, 0
		c.judge(now)
	} else {
		p.since = now
	}
}

// Avoid takes port i out of service, whether its link works or not, or puts it back into service.
func (c *Control) Avoid(now mono.Time, i int, on bool) {
	c.ports[i].avoided = on
	c.judge(now)
}

// Avoided reports whether port i was taken out of service by [Control.Avoid].
func (c *Control) Avoided(i int) bool { return c.ports[i].avoided }

// failsAt returns the time at which a port that is down counts as failed.
func (c *Control) failsAt(p *port) mono.Time {
	if p.been {
		return p.since.Add(c.cfg.Hold)
	}
	return p.since.Add(c.cfg.Boot)
}

// Deadline returns the time at which Tick is due next, and false if Tick is not due.
func (c *Control) Deadline() (mono.Time, bool) {
	at := c.planAt
	for i := range c.ports {
		if p := &c.ports[i]; !p.up && !p.failed {
			at = mono.Min(at, c.failsAt(p))
		}
	}
	return at, at != mono.Never
}

// Tick runs the timers. Tick reports whether tables must be planned anew, from [Control.Out].
func (c *Control) Tick(now mono.Time) (plan bool) {
	c.judge(now)
	if now.Before(c.planAt) {
		return false
	}
	c.planAt, c.planned = mono.Never, now
	return true
}

// judge finds the ports that are out of service, and updates this chip's link state.
func (c *Control) judge(now mono.Time) {
	var out uint16
	for i := range c.ports {
		p := &c.ports[i]
		p.failed = !p.up && (p.failed || !now.Before(c.failsAt(p)))
		if p.failed || p.avoided {
			out |= 1 << p.Local.Channel
		}
	}
	if out != c.self.Out {
		c.self.Out = out
		c.say(now, c.self.Version+1)
	}
}

// say gives this chip's link state the given version number.
func (c *Control) say(now mono.Time, version uint32) {
	c.self.Version = version
	c.changes++
	c.self.changed = c.changes
	c.replan(now)
}

// replan sets the time at which tables must be planned: [Settle] from now, but at least [Throttle]
// after the previous plan.
func (c *Control) replan(now mono.Time) {
	if c.planAt == mono.Never {
		c.planAt = now.Add(Settle)
		if next := c.planned.Add(Throttle); c.planned != 0 && c.planAt.Before(next) {
			c.planAt = next
		}
	}
}

// Hear takes link states from a neighbour or from gossip. Hear ignores chips for which has reports
// false. Hear keeps a link state that is newer than the stored link state of the same chip. If
// others send a link state of this chip that is newer than its own, or that contradicts its own,
// this chip sends the next version.
func (c *Control) Hear(now mono.Time, words []wire.LinkState, has func(wire.FabricNodeID) bool) {
	for _, s := range words {
		if s.Node == c.cfg.Self {
			if c.self.changed == 0 && s.Version != 0 || s.Newer(&c.self.LinkState) || s.Version == c.self.Version && s.Out != c.self.Out {
				c.say(now, s.Version+1)
			}
			continue
		}
		if s.Version == 0 || !has(s.Node) {
			continue
		}
		w := c.word(s.Node)
		if w.changed != 0 && !s.Newer(&w.LinkState) {
			continue
		}
		if w.Out != s.Out {
			c.replan(now)
		}
		c.changes++
		w.LinkState, w.changed = s, c.changes
	}
}

// Owes reports whether the neighbour at port i is owed link states.
func (c *Control) Owes(i int) bool { return c.ports[i].up && c.ports[i].told < c.changes }

// Tell lists the link states that were not yet sent to the neighbour at port i. The list begins
// with the oldest change and has at most [wire.MaxLinkStates] entries. The result upTo is the
// argument for [Control.Told].
func (c *Control) Tell(i int) (words []wire.LinkState, upTo uint64) {
	var owed []*word
	for _, w := range c.words {
		if w.changed > c.ports[i].told {
			owed = append(owed, w)
		}
	}
	slices.SortFunc(owed, func(a, b *word) int { return cmp.Compare(a.changed, b.changed) })
	for _, w := range owed[:min(len(owed), wire.MaxLinkStates)] {
		words, upTo = append(words, w.LinkState), w.changed
	}
	return words, upTo
}

// The owner calls Told when it has sent the link states from [Control.Tell].
func (c *Control) Told(i int, upTo uint64) { c.ports[i].told = upTo }

// Self returns this chip's own link state.
func (c *Control) Self() wire.LinkState { return c.self.LinkState }

// Out lists the ports that are out of service according to their own chips, in no particular order.
func (c *Control) Out() []wire.PortID {
	var out []wire.PortID
	for _, w := range c.words {
		for ch := range wire.Channel(wire.MaxChannels) {
			if w.Out>>ch&1 != 0 {
				out = append(out, wire.PortID{Node: w.Node, Channel: ch})
			}
		}
	}
	return out
}
