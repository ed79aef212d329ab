// Package control is the control plane's part in one chip: what every chip
// says of its own ports, and from that, which cables the tables do without.
//
// Each chip says which of its ports carry nothing: those whose link has been
// down for [Config.Hold], by its own cable and any other, and those that an
// operator took out of service. It says so in a [wire.LinkState], a numbered
// word; the newest of each chip is flooded from neighbour to neighbour, and
// repaired by gossip. A cable is out of service if either of its ends says so.
// So every chip that is connected with another plans from the same words, and
// nobody leads: the epoch of the tables is a hash of what they were planned from.
//
// Invariants: of each chip the highest version heard is kept; this chip's own
// word is the highest of itself; every neighbour whose link is up has been sent
// each word, or is owed it.
package control

import (
	"cmp"
	"slices"
	"time"

	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Times; our own choices.
const (
	Settle   = 5 * time.Millisecond   // from a change of the words until tables are planned: others follow soon
	Throttle = 100 * time.Millisecond // between two plans at least
)

// Config describes one chip's part.
type Config struct {
	Self  wire.FabricNodeID
	Ports []topo.Port
	Hold  time.Duration // a link that has been up is out of service after being down for so long
	Boot  time.Duration // one that never was, after so long from the start
}

// port is one of the chip's own.
type port struct {
	topo.Port
	up      bool
	since   mono.Time // when it went down, or the start
	been    bool      // up, ever
	failed  bool      // down for long enough
	avoided bool      // an operator's wish
	told    uint64    // changes up to this one have been sent to the neighbour
}

// word is the newest of a chip.
type word struct {
	wire.LinkState
	changed uint64 // number of the change that brought it
}

// Control is the machine. It is not safe for concurrent use.
type Control struct {
	cfg     Config
	ports   []port
	words   []*word // this chip's own first, then those of chips that have said anything
	byNode  map[wire.FabricNodeID]*word
	self    *word
	changes uint64
	planAt  mono.Time // when tables are to be planned; mono.Never: nothing has changed
	planned mono.Time // when they were last
}

// New returns the part of a chip all of whose links are down, with nothing out of service.
func New(now mono.Time, cfg Config) *Control {
	c := &Control{cfg: cfg, byNode: map[wire.FabricNodeID]*word{}, planAt: mono.Never}
	c.self = c.word(cfg.Self)
	for _, p := range cfg.Ports {
		c.ports = append(c.ports, port{Port: p, since: now})
	}
	return c
}

// word is a chip's, made if it has said nothing yet.
func (c *Control) word(n wire.FabricNodeID) *word {
	w := c.byNode[n]
	if w == nil {
		w = &word{LinkState: wire.LinkState{Node: n}}
		c.words, c.byNode[n] = append(c.words, w), w
	}
	return w
}

// SetPort says that the link of port i came up or went down. A neighbour that came up is owed all words.
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

// Avoid takes port i out of service, whether its link works or not, or gives it back.
func (c *Control) Avoid(now mono.Time, i int, on bool) {
	c.ports[i].avoided = on
	c.judge(now)
}

// Avoided reports whether port i was taken out of service by [Control.Avoid].
func (c *Control) Avoided(i int) bool { return c.ports[i].avoided }

// failsAt is when a port that is down counts as failed.
func (c *Control) failsAt(p *port) mono.Time {
	if p.been {
		return p.since.Add(c.cfg.Hold)
	}
	return p.since.Add(c.cfg.Boot)
}

// Deadline is when Tick is due next.
func (c *Control) Deadline() (mono.Time, bool) {
	at := c.planAt
	for i := range c.ports {
		if p := &c.ports[i]; !p.up && !p.failed {
			at = mono.Min(at, c.failsAt(p))
		}
	}
	return at, at != mono.Never
}

// Tick does what time demands. It reports whether tables are to be planned anew, from [Control.Out].
func (c *Control) Tick(now mono.Time) (plan bool) {
	c.judge(now)
	if now.Before(c.planAt) {
		return false
	}
	c.planAt, c.planned = mono.Never, now
	return true
}

// judge finds the ports that are out of service, and says so.
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

// say makes this chip's word another version.
func (c *Control) say(now mono.Time, version uint32) {
	c.self.Version = version
	c.changes++
	c.self.changed = c.changes
	c.replan(now)
}

// replan plans the tables a little later, but not too soon after the last time.
func (c *Control) replan(now mono.Time) {
	if c.planAt == mono.Never {
		c.planAt = now.Add(Settle)
		if next := c.planned.Add(Throttle); c.planned != 0 && c.planAt.Before(next) {
			c.planAt = next
		}
	}
}

// Hear takes words from a neighbour or from gossip. Those of chips that has
// knows are kept if they are newer; this chip's own makes it say the next version.
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

// Owes reports whether the neighbour at port i has words to hear.
func (c *Control) Owes(i int) bool { return c.ports[i].up && c.ports[i].told < c.changes }

// Tell lists the words that the neighbour at port i has not been sent, the
// oldest change first, at most [wire.MaxLinkStates]; upTo is for [Control.Told].
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

// Told says that what [Control.Tell] gave has been sent.
func (c *Control) Told(i int, upTo uint64) { c.ports[i].told = upTo }

// Self is this chip's own word.
func (c *Control) Self() wire.LinkState { return c.self.LinkState }

// Out lists the ports that are out of service by the words of their own chips, in no order.
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
