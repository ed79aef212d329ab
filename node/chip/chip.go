// Package chip composes one fabric node: its links, its router, its memory
// and the flows that end there. It moves values between them and decides
// nothing of its own; pump.go names the stages of the data path in order.
//
// A chip is a pure machine. A live node drives it with sockets, a simulation
// with an event heap.
//
// # Order of calls
//
// After HandleDatagram, HandleRequest, SetPath or Tick, call [Chip.Pump] once
// for the whole batch, then drain [Chip.PollTransmit], [Chip.PollResult] and
// [Chip.PollEvent], and ask for [Chip.Deadline].
//
// # Flows
//
// A flow is what one chip sends another on one plane and, where both ways round a
// ring are equally long, one of these (see [Request]). Its packets take one
// path through channels that keep their order, so the destination sees a gap
// as soon as a later packet arrives. It answers with completions on the
// control channel that are cumulative and coalesced: "every request before n
// is settled, these were not performed". A source whose flow stalls sends a
// probe behind its requests; what the probe overtakes nobody is known to be
// lost. So the fate of every request becomes known, or is reported as unknown,
// and never as done when it wasn't.
//
// A multicast belongs to the flow of its group: all chips that its ranges
// reach from this one. To each member that is a flow like any other; the source
// keeps apart what each has answered (multicast.go).
package chip

import (
	"fmt"
	"time"

	"ttfabric/node/losses"
	"ttfabric/node/noc"
	"ttfabric/router"
	"ttfabric/router/control"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Limits and times of a chip; our own choices.
const (
	MaxOutstanding = 4096                   // requests of one flow whose fate is open
	MaxReplies     = 64                     // read data that waits for the reply channel, in packets
	MaxReports     = 256                    // drop reports that wait for the control channel
	MaxResults     = 1 << 16                // results that wait to be polled; more stop new requests
	ProbeAfter     = 250 * time.Millisecond // a flow without progress for so long sends a probe; the time doubles with each
	FlowTimeout    = 10 * time.Second       // a flow without progress for so long gives up: outcome unknown
	flowTick       = 50 * time.Millisecond  // how often open flows are looked at
	graceDeadTimes = 4                      // grace period of a dead next hop, in times of the profile's DeadTraffic
	holdDeadTimes  = 2                      // time down after which a link is out of service, in the same
	lastWords      = 100 * time.Millisecond // a flow whose destination became unreachable waits for so long for reports of what was dropped
	bootDeadTimes  = 5                      // the same of a link that has never been up, in times of DeadIdle
)

// Config describes a chip.
type Config struct {
	Node        wire.FabricNodeID
	Incarnation wire.Incarnation // of this process; random, not zero
	Life        uint32           // greater than in the chip's former lives, such as the start in milliseconds; orders what they sent. 0: any, which can cost a round trip
	Topology    *topo.Topology
	Route       route.Config
	Profile     ttlink.Profile     // times of the links; zero: ttlink.ProfileLAN
	Slots       router.SlotProfile // zero: router.SlotSpec
	MaxPayload  int                // largest padded frame payload, bytes; until [Chip.SetMaxPayload] says more
	Window      int                // bytes of a link's retransmit slab; 0: what the peer's slots can hold, if it has as many
	LocalFirst  bool               // see router.Config
	Timeout     router.Timeout     // zero: off
	TTL         uint16             // of new packets, in hops; 0: those of the longest route (Spec §7.2)
	MemoryLimit int64              // bytes of host memory for tiles; 0: the memory's default
	Seed        uint64
}

// port is one ethernet port: a link and what arrives on it.
type port struct {
	topo.Port
	link    *ttlink.Link
	partial router.Slot // packet under assembly, or router.NoSlot
	up      bool
	offered bool // its cable may carry the frames of the links beside it

	malformed losses.Count // what came over the link and was no packet
}

// Chip is the machine. It is not safe for concurrent use.
type Chip struct {
	cfg       Config
	control   *control.Control
	base      *route.Plan // without faults
	plan      *route.Plan // in force
	ways      ways
	tables    tables
	epoch     uint32
	ttl       uint16 // of new packets: the hops of the longest path (Spec §7.2)
	pool      *router.Pool
	router    *router.Router
	ports     []port
	byChannel [wire.MaxChannels]int8 // index into ports, -1 for none
	memory    *noc.Memory
	mail      []mailbox // by port
	client    Client
	pullAt    mono.Time // when the client is asked next, after refusals
	tap       Tap       // nil: nobody listens

	out       map[flowKey]*outFlow
	outOrder  []*outFlow // creation order, for determinism
	lastOut   *outFlow   // of the last request, as the next one's is mostly the same; nil before the first
	open      int        // requests whose fate is open, over all flows
	nextFlows mono.Time  // when open flows are looked at next
	reads     map[uint64]readRef
	nextID    uint64
	groups    groups // that this chip multicasts to

	in      map[flowKey]*inFlow
	lastIn  *inFlow       // of the last packet, likewise
	owed    []*inFlow     // flows that a completion is owed to
	replies []router.Slot // read data on its way to the reply channel
	reports []report      // drop reports on their way to the control channel

	sightings []Sighting
	results   []Result
	resHead   int
	events    eventLog
	counters  Counters
	refused   [wire.NumClasses]uint64 // of what was delivered here: could not be read, or is for another chip
	txPort    int
	scratch   []byte
	route     [wire.MaxHops + 1]byte // of the packet at hand
	arriving  wire.Packet            // the packet that is being handled
	excBuf    []wire.Exception
}

// New returns a chip with all its ports off.
func New(now mono.Time, cfg Config) (*Chip, error) {
	if cfg.Slots.Name == "" {
		cfg.Slots = router.SlotSpec
	}
	if cfg.Profile.Name == "" {
		cfg.Profile = ttlink.ProfileLAN
	}
	if _, ok := cfg.Topology.Chip(cfg.Node); !ok {
		return nil, fmt.Errorf("chip %s: not in topology %s", cfg.Node, cfg.Topology)
	}
	// Ids begin at the incarnation: the reply to a read of a former life must not match one of this life.
	c := &Chip{cfg: cfg, out: map[flowKey]*outFlow{}, in: map[flowKey]*inFlow{}, reads: map[uint64]readRef{}, nextID: uint64(cfg.Incarnation)}
	var err error
	if c.base, err = route.New(cfg.Topology, cfg.Route); err != nil {
		return nil, err
	}
	c.enforce(c.base)
	c.cfg.Slots = cfg.Slots.Only(c.plan.VCs())
	if cfg.Window == 0 {
		c.cfg.Window = windowFor(c.cfg.Slots)
	}
	if cfg.Route.Ring == route.Bubble && c.cfg.Slots.Receiver[wire.VCData] < 2 {
		return nil, fmt.Errorf("chip %s: slot profile %s has receiver channels of %d: bubble flow control needs two slots", cfg.Node, cfg.Slots.Name, c.cfg.Slots.Receiver[wire.VCData])
	}
	if c.memory, err = noc.New(cfg.Topology.Arch, cfg.MemoryLimit); err != nil {
		return nil, fmt.Errorf("chip %s: %w", cfg.Node, err)
	}
	c.memory.SetLife(cfg.Incarnation)
	if err := c.addPorts(now); err != nil {
		return nil, err
	}
	c.control = control.New(now, control.Config{Self: cfg.Node, Ports: c.Channels(),
		Hold: holdDeadTimes * cfg.Profile.DeadTraffic, Boot: bootDeadTimes * cfg.Profile.DeadIdle})
	return c, nil
}

// windowFor is a retransmit slab that holds as many packets as the peer's
// slots, with a quarter on top for the frames around their pieces.
func windowFor(p router.SlotProfile) int {
	n := 0
	for _, s := range p.Receiver {
		n += s * wire.MaxPacket * 5 / 4
	}
	return min(max(n, ttlink.MinWindow), ttlink.DefaultWindow)
}

func (c *Chip) addPorts(now mono.Time) error {
	for i := range c.byChannel {
		c.byChannel[i] = -1
	}
	rc := router.Config{Slots: c.cfg.Slots, Grace: graceDeadTimes * c.cfg.Profile.DeadTraffic, LocalFirst: c.cfg.LocalFirst, Timeout: c.cfg.Timeout,
		Dateline: c.cfg.Route.Ring == route.Dateline, Bubble: c.cfg.Route.Ring == route.Bubble}
	for i, p := range c.cfg.Topology.Ports(c.cfg.Node) {
		l, err := ttlink.New(ttlink.Config{
			Local: p.Local, Peer: p.Peer, Incarnation: c.cfg.Incarnation, Fabric: uint32(c.cfg.Topology.Hash()),
			MaxPayload: c.cfg.MaxPayload, Slots: c.cfg.Slots.Receiver, Window: c.cfg.Window,
			Profile: c.cfg.Profile, Seed: c.cfg.Seed + uint64(i),
		})
		if err != nil {
			return fmt.Errorf("chip %s channel %d: %w", c.cfg.Node, p.Local.Channel, err)
		}
		c.byChannel[p.Local.Channel] = int8(len(c.ports))
		c.ports = append(c.ports, port{Port: p, link: l, partial: router.NoSlot})
		ring, wrap := c.plan.Ring(p)
		rc.Ports = append(rc.Ports, router.PortConfig{Channel: p.Local.Channel, Dir: p.Dir, Plane: p.Plane,
			Ring: ring, Wrap: wrap, External: p.Peer.Node.Mesh != c.cfg.Node.Mesh})
	}
	c.pool = router.NewPool(0)
	rc.Pool = c.pool
	r, err := router.New(now, rc)
	if err != nil {
		return fmt.Errorf("chip %s: %w", c.cfg.Node, err)
	}
	c.router = r
	// Whatever all channels, assemblies and waiting replies can hold at once fits.
	*c.pool = *router.NewPool(r.Buffers() + len(c.ports) + MaxReplies + 1)
	return c.addMailboxes(now)
}

// Node is the chip's address.
func (c *Chip) Node() wire.FabricNodeID { return c.cfg.Node }

// Incarnation is that of this life of the chip.
func (c *Chip) Incarnation() wire.Incarnation { return c.cfg.Incarnation }

// Memory is the chip's tile memory.
func (c *Chip) Memory() *noc.Memory { return c.memory }

// Channels lists the chip's ethernet ports in use, by channel.
func (c *Chip) Channels() []topo.Port {
	ps := make([]topo.Port, len(c.ports))
	for i := range c.ports {
		ps[i] = c.ports[i].Port
	}
	return ps
}

// SetPath says whether the peer of a port can be addressed; hellos are sent only then.
func (c *Chip) SetPath(now mono.Time, ch wire.Channel, on bool) {
	if c.tap != nil {
		c.tapSwitch(OpSetPath, now, ch, on)
	}
	if i := c.portIndex(ch); i >= 0 {
		c.ports[i].link.SetPath(now, on)
		c.linkEvents(now, i)
	}
}

// SetMaxPayload says what the path of a port takes: padded payload bytes of one frame.
func (c *Chip) SetMaxPayload(now mono.Time, ch wire.Channel, n int) error {
	if c.tap != nil {
		c.tap.Call(OpSetMaxPayload, now, ch, n, nil)
	}
	err := c.setMaxPayload(now, ch, n)
	if c.tap != nil {
		c.tap.Size(err)
	}
	return err
}

func (c *Chip) setMaxPayload(now mono.Time, ch wire.Channel, n int) error {
	if i := c.portIndex(ch); i >= 0 {
		err := c.ports[i].link.SetMaxPayload(now, n)
		c.linkEvents(now, i)
		return err
	}
	return fmt.Errorf("chip %s has no port on channel %d", c.cfg.Node, ch)
}

func (c *Chip) portIndex(ch wire.Channel) int {
	if ch >= wire.MaxChannels {
		return -1
	}
	return int(c.byChannel[ch])
}

// Close says goodbye on every link. Drain PollTransmit once more afterwards.
func (c *Chip) Close(now mono.Time) {
	if c.tap != nil {
		c.tap.Call(OpClose, now, 0, 0, nil)
	}
	for i := range c.ports {
		c.ports[i].link.Close(now)
		c.linkEvents(now, i)
	}
}

// Tick does what time demands. Call it when Deadline has come.
func (c *Chip) Tick(now mono.Time) {
	if c.tap != nil {
		c.tap.Call(OpTick, now, 0, 0, nil)
	}
	for i := range c.ports {
		if d, ok := c.ports[i].link.Deadline(); ok && !d.After(now) {
			c.ports[i].link.Tick(now)
			c.linkEvents(now, i)
		}
	}
	if c.open > 0 && !c.nextFlows.After(now) {
		c.tickFlows(now)
	}
	if c.control.Tick(now) {
		c.install(now)
	}
}

// Deadline is when Tick, and the Pump behind it, is due next.
func (c *Chip) Deadline() (mono.Time, bool) {
	if c.tap != nil {
		c.tap.Call(OpDeadline, 0, 0, 0, nil)
	}
	at := c.deadline()
	if c.tap != nil {
		c.tap.Deadline(at, at != mono.Never)
	}
	return at, at != mono.Never
}

func (c *Chip) deadline() mono.Time {
	at := mono.Never
	for i := range c.ports {
		if d, ok := c.ports[i].link.Deadline(); ok {
			at = mono.Min(at, d)
		}
	}
	if d, ok := c.router.Deadline(); ok {
		at = mono.Min(at, d)
	}
	if c.open > 0 {
		at = mono.Min(at, c.nextFlows)
	}
	if d, ok := c.control.Deadline(); ok {
		at = mono.Min(at, d)
	}
	if c.client != nil && c.pullAt != 0 {
		at = mono.Min(at, c.pullAt)
	}
	if w, ok := c.client.(Waker); ok {
		if d, ok := w.Deadline(); ok {
			at = mono.Min(at, d)
		}
	}
	return at
}

// linkEvents passes on what a link has to tell.
func (c *Chip) linkEvents(now mono.Time, i int) {
	for p := &c.ports[i]; p.link.HasEvent(); {
		e, _ := p.link.PollEvent()
		switch e.Kind {
		case ttlink.EventUp:
			p.up = true
			c.router.SetPort(now, i, true)
			c.control.SetPort(now, i, true)
			c.offer(now, i, e.Path == ttlink.Own)
		case ttlink.EventPath:
			c.offer(now, i, e.Path == ttlink.Own)
		case ttlink.EventDown:
			p.up = false
			c.router.SetPort(now, i, false)
			c.control.SetPort(now, i, false)
			c.offer(now, i, false)
		case ttlink.EventSessionStarted, ttlink.EventSessionEnded:
			// The rest of a half-received packet belongs to a session that is over.
			if p.partial != router.NoSlot {
				c.pool.Put(p.partial)
				p.partial = router.NoSlot
			}
		}
		c.events.add(Event{At: now, Local: p.Local, Peer: p.Peer, Link: e})
	}
}
