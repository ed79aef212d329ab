package chip

import (
	"fmt"
	"time"

	"ttfabric/node/losses"
	"ttfabric/router"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// port is one ethernet port: its link, and the packet that arrives on the link.
type port struct {
	topo.Port
	link    *ttlink.Link
	partial router.Slot // packet under assembly, or router.NoSlot
	up      bool        // the link is up
	crowded bool        // the link had credit, but no room, for a control packet
	cut     bool        // this chip has cut the cable itself, see Cut of [Inputs]
	offered bool        // the port's cable may carry the frames of the parallel links
	poor    bool        // the parallel links know that the port's cable is unreliable
	mail    mailbox
	owner   *owner
	writes  WriteStatus // L1 and MMIO writes that came over the cable
	raw     rawMode
	most    int // largest padded frame payload that the path takes, in bytes

	malformed losses.Count // malformed packets that came over the link
}

// ports holds the ethernet ports of a chip, in the order of their channels.
type ports struct {
	list      []port
	byChannel [wire.MaxChannels]int8 // index into list; -1 for a channel without a port
	turn      int                    // index of the port that PollTransmit asks first for a datagram
	unsettled bool                   // a link changed its state, its path or its quality since the last call of settle
}

// index returns the place of a channel's port in the list. index returns -1 for a
// channel without a port.
func (ps *ports) index(ch wire.Channel) int {
	if ch >= wire.MaxChannels {
		return -1
	}
	return int(ps.byChannel[ch])
}

// addPorts makes the links of all ports, and the router between the links.
func (c *machine) addPorts(now mono.Time) error {
	for i := range c.ports.byChannel {
		c.ports.byChannel[i] = -1
	}
	rc := router.Config{Slots: c.cfg.Slots, Grace: GraceDeadTimes * c.cfg.Profile.DeadTraffic, LocalFirst: c.cfg.LocalFirst, Timeout: c.cfg.Timeout,
		Place: c.tables.base.Place(c.cfg.Node), Dateline: c.cfg.Route.Ring == route.Dateline, Bubble: c.cfg.Route.Ring == route.Bubble}
	for i, p := range c.cfg.Topology.Ports(c.cfg.Node) {
		l, err := ttlink.New(ttlink.Config{
			Local: p.Local, Peer: p.Peer, Incarnation: c.cfg.Incarnation, Fabric: uint32(c.cfg.Topology.Hash()),
			MaxPayload: c.cfg.MaxPayload, Slots: c.cfg.Slots.Receiver, Window: c.cfg.Window,
			Profile: c.cfg.Profile, Phase: c.cfg.Phase, Seed: c.cfg.Seed + uint64(i), KeepUnreliable: c.cfg.KeepUnreliable, Source: c.readSource(i),
		})
		if err != nil {
			return fmt.Errorf("chip %s channel %d: %w", c.cfg.Node, p.Local.Channel, err)
		}
		c.ports.byChannel[p.Local.Channel] = int8(len(c.ports.list))
		c.ports.list = append(c.ports.list, port{Port: p, link: l, partial: router.NoSlot, most: c.cfg.MaxPayload})
		ring, wrap := c.tables.plan.Ring(p)
		rc.Ports = append(rc.Ports, router.PortConfig{Channel: p.Local.Channel, Dir: p.Dir, Plane: p.Plane,
			Ring: ring, Wrap: wrap, External: p.Peer.Node.Mesh != c.cfg.Node.Mesh})
	}
	c.pool = router.NewPool(0)
	rc.Pool, rc.Outdated = c.pool, c.outdated
	r, err := router.New(now, rc)
	if err != nil {
		return fmt.Errorf("chip %s: %w", c.cfg.Node, err)
	}
	c.router = r
	// The pool has room for all packets that the chip can hold at once. Packets lie in sender and
	// receiver channels, are under assembly, or are replies that wait.
	*c.pool = *router.NewPool(r.Buffers() + len(c.ports.list) + MaxReplies + 1)
	if err := c.addMailboxes(now); err != nil {
		return err
	}
	if err := c.addQueueRegisters(); err != nil {
		return err
	}
	return c.addOwners()
}

// Channels lists the chip's ports that have a cable, in the order of their channels.
func (c *machine) Channels() []topo.Port {
	ps := make([]topo.Port, len(c.ports.list))
	for i := range c.ports.list {
		ps[i] = c.ports.list[i].Port
	}
	return ps
}

// SetPath tells a port whether datagrams can reach the address of the port's peer. If the
// argument "on" is false, the link goes off: it sends nothing and drops received frames.
func (c *machine) SetPath(now mono.Time, ch wire.Channel, on bool) {
	if i := c.ports.index(ch); i >= 0 {
		if p := &c.ports.list[i]; !p.raw.setPath(on) {
			p.link.SetPath(now, on)
		}
		c.linkEvents(now, i)
	}
}

// SetMaxPayload sets the largest frame payload that the path of a port takes, in padded
// bytes.
func (c *machine) SetMaxPayload(now mono.Time, ch wire.Channel, n int) error {
	if i := c.ports.index(ch); i >= 0 {
		err := c.ports.list[i].link.SetMaxPayload(now, n)
		if err == nil {
			c.ports.list[i].most = n
		}
		c.linkEvents(now, i)
		return err
	}
	return fmt.Errorf("chip %s has no port on channel %d", c.cfg.Node, ch)
}

// Cut tells a port that this chip itself cuts the port's cable, or repairs it. The chip does not
// tell the link of the cut: the link goes down because of the silence. The chip then counts the
// cable as failed, and does not wait for the peer.
func (c *machine) Cut(now mono.Time, ch wire.Channel, on bool) {
	if i := c.ports.index(ch); i >= 0 {
		p := &c.ports.list[i]
		p.cut = on
		c.gone(now, i, on)
	}
}

// Refused tells a port that a host refused a datagram of the port. A host refuses datagrams if no
// process has the peer's socket, or if no route leads to the host. While the link is up, the link
// asks the peer, and goes down soon if the peer does not answer.
func (c *machine) Refused(now mono.Time, ch wire.Channel) {
	if i := c.ports.index(ch); i >= 0 {
		c.ports.list[i].link.Refused(now)
		c.gone(now, i, true)
	}
}

// gone tells the control plane whether a port whose link is down has lost its peer or its cable.
func (c *machine) gone(now mono.Time, i int, on bool) {
	if !c.ports.list[i].up {
		c.control.SetGone(now, i, on)
	}
}

// Carries reports whether the link of a port is up and sends its frames over the port's
// own cable.
func (c *machine) Carries(ch wire.Channel) bool {
	i := c.ports.index(ch)
	return i >= 0 && c.ports.list[i].link.Carries()
}

// ShortOfCredits reports whether the link of a port sends its frames over the port's own cable, and
// has run out of credits lately; see [ttlink.Link.ShortOfCredits].
func (c *machine) ShortOfCredits(now mono.Time, ch wire.Channel) bool {
	i := c.ports.index(ch)
	return i >= 0 && c.ports.list[i].link.Carries() && c.ports.list[i].link.ShortOfCredits(now)
}

// Up reports whether the link of a port is up, over any cable. The time "since" is the
// last change of the link's state. For a channel without a port, Up returns 0 and false.
func (c *machine) Up(ch wire.Channel) (since mono.Time, up bool) {
	i := c.ports.index(ch)
	if i < 0 {
		return 0, false
	}
	l := c.ports.list[i].link.Status()
	return l.Since, l.State == ttlink.StateUp
}

// answerTrips is the largest number of round trips that the answer to a hello may take.
const answerTrips = 4

// Ask makes a port's link send a hello, if the link is up over its own cable; see
// [ttlink.Link.Ask]. Ask returns the longest time that a working peer takes to answer. The result
// is the larger of two times: the silence that takes down a link under traffic, and answerTrips
// round trips.
func (c *machine) Ask(now mono.Time, ch wire.Channel) time.Duration {
	i := c.ports.index(ch)
	if i < 0 {
		return 0
	}
	l := c.ports.list[i].link
	l.Ask(now)
	p := c.cfg.Profile
	if p == (ttlink.Profile{}) {
		p = ttlink.ProfileLAN
	}
	return max(p.DeadTraffic, answerTrips*l.Status().RTT)
}

// linkEvents handles the events of a link. If an event concerns the fallback paths, linkEvents then
// calls settle.
func (c *machine) linkEvents(now mono.Time, i int) {
	c.takeEvents(now, i)
	c.settle(now)
}

// takeEvents passes the events of a link to the router, the control plane and the event
// log. At the start or end of a link session, takeEvents also frees the packet under
// assembly.
func (c *machine) takeEvents(now mono.Time, i int) {
	for p := &c.ports.list[i]; p.link.HasEvent(); {
		e, _ := p.link.PollEvent()
		switch e.Kind {
		case ttlink.EventUp:
			p.up = true
			c.router.SetPort(i, true)
			c.control.SetPort(now, i, true)
			c.carries(now, i, e.Path)
		case ttlink.EventPath:
			c.carries(now, i, e.Path)
		case ttlink.EventDown:
			p.up = false
			c.router.SetPort(i, false)
			c.control.SetPort(now, i, false)
			c.control.SetGone(now, i, p.cut || e.Reason == ttlink.DownPeerClosed || e.Reason == ttlink.DownPathOff || e.Reason == ttlink.DownCompliance)
			c.ports.unsettled = true
		case ttlink.EventUnreliable, ttlink.EventReliable:
			c.control.SetReliable(i, e.Kind == ttlink.EventReliable)
			c.ports.unsettled = true
		case ttlink.EventSessionStarted, ttlink.EventSessionEnded:
			// The missing pieces of a packet under assembly will not come, because the packet's
			// link session has ended.
			if p.partial != router.NoSlot {
				c.pool.Put(p.partial)
				p.partial = router.NoSlot
			}
			p.owner.reset()
			c.firmware.SessionEnded(now, p.Local.Channel)
			if e.Kind == ttlink.EventSessionEnded {
				c.sessionEnded(now, p, &e)
			} else {
				c.sessionStarted(now, p, &e)
			}
		}
		c.events.add(Event{At: now, Local: p.Local, Peer: p.Peer, Link: e})
	}
}
