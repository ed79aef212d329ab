// Package control is one chip's part of the control plane. The package collects link states. A link
// state says what a chip knows about its own ports. From the link states, the package finds the
// ports whose cables the tables must avoid.
//
// Each chip says in a numbered [wire.LinkState] which of its ports routes must avoid. After a
// port's link has been down for [Config.Hold], the port is silent, or out of service. A link is
// down while neither its own cable nor a fallback path works. Silence alone does not show that the
// peer is dead: the peer's process may wait for a processor. A silent port therefore goes out of
// service only with evidence (see [Control.SetGone]), or after [GiveUp]. The peer may say for
// [Config.Confirm] that the peer's end of the cable is silent, too. If this chip reaches the peer
// by other routes all this time, the peer is not late, but the cable has failed. The port then goes
// out of service, too. Routes avoid silent ports and ports out of service. The two kinds differ for
// packets to a chip that has no other ports. Packets to a chip behind silent ports wait. Routers
// drop packets to a chip behind ports out of service. A port also goes out of service if its link
// has not come up within [Config.Boot] of the start.
//
// An operator can also take a port out of service. The port's link then first
// moves to the cable of a parallel port, and the port stays in service (Spec §7.4.1). Parallel ports
// lead to the same chip in the same direction. If no parallel cable carries the link after four
// times [Config.Hold], the port goes out of service.
//
// Each chip floods the newest link state of every chip to its neighbours. Gossip repairs what
// flooding missed. Routes avoid a cable if the chip at either end says that routes must avoid its
// own port. All connected chips therefore plan from the same link states, without a leader. The
// table epoch is a hash of the machine, of the cables to avoid, and of the configuration of the
// routes.
//
// Invariants: For each chip, Control keeps the newest link state that Control has heard, as
// [wire.LinkState.Newer] decides. After a neighbour has sent this chip all its link states, this
// chip's own link state is at least as new as the neighbour's copy. Each link state has been sent
// to every neighbour whose link is up, or Control still owes the link state to that neighbour.
package control

import (
	"cmp"
	"slices"
	"time"

	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// The specification names no values for these times. The values are our own choices.
const (
	Settle   = 5 * time.Millisecond   // delay from a change of the link states to the next plan of the tables, because further changes often follow soon
	Rejoin   = 100 * time.Millisecond // delay if no port failed and ports came back: the other links of a chip that was late come back soon, and each plan may cost packets that are on a detour
	Throttle = 100 * time.Millisecond // shortest time between two plans
	GiveUp   = 20 * time.Second       // time after which a silent port goes out of service; a process that waits for a processor for less than this time is late, but not dead
	GoneHold = 200 * time.Millisecond // how long the link of a port with evidence may be down, if no parallel cable can carry the link, and if Config.Hold is not shorter
	movesFor = 4                      // the link of an avoided port may take this many times Hold to move to a working parallel cable: the peer is alive, and new tables would cost more
	lateness = 2 * time.Millisecond   // a Tick that comes later than this after Deadline shows that the chip itself was late
)

// Config describes one chip's part of the control plane.
type Config struct {
	Self  wire.FabricNodeID
	Ports []topo.Port
	Hold  time.Duration // how long the link of a port in service may be down before routes avoid the port
	Boot  time.Duration // time after the start within which the link of a port must come up for the first time; otherwise Control takes the port out of service

	// Confirm is the time after which a silent port goes out of service, under two conditions. Both
	// ends say that their link is down, and other routes lead to the peer. A chip that was late needs
	// some time to find out which of its links are down, and Confirm must be longer than this time.
	// Otherwise, a route may only seem to lead to the peer, because a chip on the route does not know
	// yet that its own link to the peer is down.
	Confirm time.Duration

	// Reaches reports whether the tables in force have a route to another chip.
	Reaches func(wire.FabricNodeID) bool
}

// port is one of the chip's own ports.
type port struct {
	topo.Port
	up      bool
	since   mono.Time // when the link went down; before the link's first time up: when Control started
	been    bool      // the link has been up at least once
	by      int       // while the link is up: index of the port whose cable carries the link's frames
	failed  bool      // the link has been down for Hold, or has not come up within Boot of the start
	both    mono.Time // since when both ends say that the link is down, and this chip reaches the peer; 0: the peer does not say that the link is down
	gone    bool      // evidence shows that the peer or the cable has failed
	dead    bool      // the link has failed, and Control no longer waits for it
	avoided bool      // an operator took the port out of service
	moves   mono.Time // until when Control waits for the link of an avoided port to move to a parallel cable
	poor    bool      // the port's own cable is unreliable
	chosen  int       // index of the fallback port that an operator assigned; -1: none
	told    uint64    // number of the latest change that the neighbour has been sent
}

// word is the newest link state of a chip that Control has heard.
type word struct {
	wire.LinkState
	changed uint64    // number of the change by which Control learned this link state; 0: Control has heard nothing yet
	heard   mono.Time // when Control learned this link state
}

// Control is the state machine of one chip's part of the control plane. A Control is not safe for
// concurrent use.
type Control struct {
	cfg     Config
	ports   []port
	words   []*word // link state of this chip first, then link states of other chips in the order in which Control first heard them
	byNode  map[wire.FabricNodeID]*word
	self    *word
	changes uint64
	planAt  mono.Time // when new tables must be planned; mono.Never: no change since the last plan
	planned mono.Time // when tables were last planned; 0: never
}

// New returns a Control for a chip whose links are all down and whose ports are all in service.
func New(now mono.Time, cfg Config) *Control {
	c := &Control{cfg: cfg, byNode: map[wire.FabricNodeID]*word{}, planAt: mono.Never}
	c.self = c.word(cfg.Self)
	for i, p := range cfg.Ports {
		c.ports = append(c.ports, port{Port: p, since: now, by: i, chosen: -1})
	}
	return c
}

// word returns the link state of chip n. If Control has heard nothing from chip n, word adds an
// empty link state.
func (c *Control) word(n wire.FabricNodeID) *word {
	w := c.byNode[n]
	if w == nil {
		w = &word{LinkState: wire.LinkState{Node: n}}
		c.words, c.byNode[n] = append(c.words, w), w
	}
	return w
}

// SetPort tells Control that the link of port i came up or went down. When the link comes up,
// Control owes all link states to the neighbour. The port is then in service at once, unless an
// operator took the port out of service.
func (c *Control) SetPort(now mono.Time, i int, up bool) {
	p := &c.ports[i]
	if p.up == up {
		return
	}
	p.up, p.by, p.gone, p.both = up, i, false, 0
	if up {
		p.been, p.told = true, 0
	} else {
		p.since = now
	}
	c.moved(now)
}

// SetGone tells Control whether evidence shows that port i has lost its peer or its cable. Evidence
// is a close frame of the peer, a host that refuses the port's datagrams, or a cut by this chip
// itself. If the port's link stays down, the port with evidence goes out of service after
// [Config.Hold], and does not become silent first. If no parallel cable can carry the link, the
// port goes out of service after [GoneHold]. The end of the evidence puts no port back into
// service. A port comes back into service only when its link comes up. When a link changes its
// state, the evidence is forgotten.
func (c *Control) SetGone(now mono.Time, i int, on bool) {
	if p := &c.ports[i]; p.gone != on {
		p.gone = on
		c.judge(now)
	}
}

// Dead reports whether Control has given up the link of port i: the link is down, and the port is out
// of service.
func (c *Control) Dead(i int) bool { return c.ports[i].dead }

// SetPath tells Control that the cable of port k carries the frames of the link of port i. The link
// is up. If k equals i, the link uses its own cable.
func (c *Control) SetPath(now mono.Time, i, k int) {
	c.ports[i].by = k
	c.moved(now)
}

// moved gives the links of avoided ports time to move, because a link has changed its state or its
// path. moved then judges the ports.
func (c *Control) moved(now mono.Time) {
	for i := range c.ports {
		if p := &c.ports[i]; p.avoided && (!p.up || p.by == i) && !now.Before(p.moves) && !p.failed && c.self.Avoided()>>p.Local.Channel&1 == 0 {
			p.moves = now.Add(movesFor * c.cfg.Hold)
		}
	}
	c.judge(now)
}

// Avoid takes port i out of service if "on" is true, even if the port's link works. If a parallel
// cable can carry the link's frames, Control waits for four times [Config.Hold] until the link has
// moved there.
// A port whose link uses a parallel cable stays in service. If "on" is false, Avoid puts the port
// back into service.
func (c *Control) Avoid(now mono.Time, i int, on bool) {
	if p := &c.ports[i]; p.avoided != on {
		p.avoided, p.moves = on, now.Add(movesFor*c.cfg.Hold)
	}
	c.judge(now)
}

// Avoided reports whether [Control.Avoid] took port i out of service.
func (c *Control) Avoided(i int) bool { return c.ports[i].avoided }

// failsAt returns the time from which routes avoid a port if the port's link stays down.
func (c *Control) failsAt(i int) mono.Time {
	p := &c.ports[i]
	if !p.been {
		return p.since.Add(c.cfg.Boot)
	}
	if p.avoided && c.moves(i) {
		return p.since.Add(movesFor * c.cfg.Hold)
	}
	if p.gone && !c.moves(i) {
		return p.since.Add(min(c.cfg.Hold, GoneHold))
	}
	return p.since.Add(c.cfg.Hold)
}

// Deadline returns the time at which the chip must call Tick next. Deadline returns false if no
// timer runs.
func (c *Control) Deadline() (mono.Time, bool) {
	at := c.planAt
	for i := range c.ports {
		p := &c.ports[i]
		if !p.up && !p.failed {
			at = mono.Min(at, c.failsAt(i))
		} else if p.failed && !p.dead {
			at = mono.Min(at, p.since.Add(GiveUp))
			if p.both != 0 {
				at = mono.Min(at, p.both.Add(c.cfg.Confirm))
			}
		}
		if p.avoided && c.self.Out>>p.Local.Channel&1 == 0 && !c.carried(i) {
			at = mono.Min(at, p.moves)
		}
	}
	return at, at != mono.Never
}

// Tick runs the timers. Tick reports whether the chip must now plan new tables, without the ports
// of [Control.Out]. If Tick comes late, the chip itself was late, and could not hear its peers.
// Tick then gives the links that were down as much more time as the chip was late. Tick also gives
// these links some time to handle the datagrams that have come.
func (c *Control) Tick(now mono.Time) (plan bool) {
	if at, ok := c.Deadline(); ok && now.Sub(at) > lateness {
		for i := range c.ports {
			if p := &c.ports[i]; !p.up && !p.dead {
				p.since = p.since.Add(now.Sub(max(at, p.since)) + Settle)
			}
		}
	}
	c.judge(now)
	if now.Before(c.planAt) {
		return false
	}
	c.planAt, c.planned = mono.Never, now
	return true
}

// judge finds this chip's ports that are silent or out of service. If these ports have changed,
// judge makes a new version of this chip's link state.
func (c *Control) judge(now mono.Time) {
	var out, silent uint16
	for i := range c.ports {
		p := &c.ports[i]
		p.failed = !p.up && (p.failed || !now.Before(c.failsAt(i)))
		p.dead = p.failed && (p.dead || p.gone || p.avoided && !c.moves(i) || !p.been || !now.Before(p.since.Add(GiveUp)) || c.confirmed(now, p))
		switch {
		case p.dead, p.avoided && !c.carried(i) && !c.moving(now, i):
			out |= 1 << p.Local.Channel
		case p.failed:
			silent |= 1 << p.Local.Channel
		}
	}
	if out != c.self.Out || silent != c.self.Silent {
		before := c.self.LinkState
		c.self.Out, c.self.Silent = out, silent
		c.say(now, c.self.Version+1, &before)
	}
}

// moves reports whether a parallel cable works, to which the link of port i can move.
func (c *Control) moves(i int) bool {
	_, ok := c.Fallback(i)
	return ok
}

// confirmed reports whether both ends of a port's cable have said for Confirm that the link is
// down. This chip must have reached the peer by other routes all this time. A link state that the
// peer sent long before the link went down does not count. When the peer sent such an old link
// state, this chip may have been late, and now the peer may be late.
func (c *Control) confirmed(now mono.Time, p *port) bool {
	w := c.byNode[p.Peer.Node]
	switch {
	case w == nil || w.Avoided()>>p.Peer.Channel&1 == 0 || w.heard.Add(2*c.cfg.Hold).Before(p.since):
		p.both = 0
	case p.both == 0, !c.cfg.Reaches(p.Peer.Node): // without a route, both ends may be late: the time begins anew
		p.both = now
	default:
		return !now.Before(p.both.Add(c.cfg.Confirm))
	}
	return false
}

// moving reports whether Control still waits for the link of an avoided port to move to a parallel
// cable.
func (c *Control) moving(now mono.Time, i int) bool {
	if !now.Before(c.ports[i].moves) {
		return false
	}
	return c.moves(i)
}

// say gives this chip's link state the given version number, and marks the link state as changed. The
// argument "before" is the former link state.
func (c *Control) say(now mono.Time, version uint32, before *wire.LinkState) {
	c.self.Version = version
	c.changes++
	c.self.changed = c.changes
	c.replan(now, before, &c.self.LinkState)
}

// replan sets the time of the next plan, because a link state has changed. The time is [Settle] from
// now, or [Rejoin] if ports only came back, but at least [Throttle] after the previous plan. A plan
// that is due sooner stays.
func (c *Control) replan(now mono.Time, before, after *wire.LinkState) {
	at := now.Add(Settle)
	if after.Avoided()&^before.Avoided() == 0 && after.Out&^before.Out == 0 {
		at = now.Add(Rejoin)
	}
	if next := c.planned.Add(Throttle); c.planned != 0 && at.Before(next) {
		at = next
	}
	c.planAt = mono.Min(c.planAt, at)
}

// Hear takes link states from a neighbour or from gossip. Hear ignores link states of version 0,
// and link states of chips that are not in the fabric. For such chips, the function "has" returns
// false. Hear keeps each link state that is newer than the one that Control has of the same chip.
// Another chip can send a link state of this chip that is newer than this chip's own link state.
// Another chip can also send one of the same version with other ports. Another chip can also send
// an old link state of this chip before this chip has made any version since its start. In these
// cases this chip gives its own link state the version after the version that it heard.
func (c *Control) Hear(now mono.Time, words []wire.LinkState, has func(wire.FabricNodeID) bool) {
	for _, s := range words {
		if s.Node == c.cfg.Self {
			if c.self.changed == 0 && s.Version != 0 || s.Newer(&c.self.LinkState) || s.Version == c.self.Version && (s.Out != c.self.Out || s.Silent != c.self.Silent) {
				c.say(now, s.Version+1, &c.self.LinkState)
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
		if w.Out != s.Out || w.Silent != s.Silent {
			c.replan(now, &w.LinkState, &s)
		}
		c.changes++
		w.LinkState, w.changed, w.heard = s, c.changes, now
	}
	c.judge(now)
}

// Owes reports whether Control has link states that the neighbour at port i has not been sent.
func (c *Control) Owes(i int) bool { return c.ports[i].up && c.ports[i].told < c.changes }

// Tell lists link states that the neighbour at port i has not been sent. The list is in the order
// of the changes, oldest first, and has at most [wire.MaxLinkStates] entries. The result upTo is
// the argument for [Control.Told]. If the list is empty, upTo is 0, and the chip must not call
// Told.
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

// Told notes that the chip has sent the link states from [Control.Tell] to the neighbour at port i.
func (c *Control) Told(i int, upTo uint64) { c.ports[i].told = upTo }

// Self returns the link state that this chip says of its own ports.
func (c *Control) Self() wire.LinkState { return c.self.LinkState }

// Out lists the ports of the whole fabric that routes must avoid. The chips that own these ports
// say that the ports are silent or out of service. The list is in no particular order.
func (c *Control) Out() []wire.PortID {
	return c.list(func(w *word) uint16 { return w.Avoided() })
}

// Lost lists the ports of the whole fabric whose own chips say that the ports are out of service,
// without silent ports. The list is in no particular order.
func (c *Control) Lost() []wire.PortID {
	return c.list(func(w *word) uint16 { return w.LinkState.Out })
}

// list lists the ports of the whole fabric that are in a map of their chips' link states.
func (c *Control) list(ports func(*word) uint16) []wire.PortID {
	var out []wire.PortID
	for _, w := range c.words {
		for ch := range wire.Channel(wire.MaxChannels) {
			if ports(w)>>ch&1 != 0 {
				out = append(out, wire.PortID{Node: w.Node, Channel: ch})
			}
		}
	}
	return out
}
