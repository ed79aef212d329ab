// Package chip composes one fabric node: its links, its router, its memory and
// the flows that begin and end there. A chip moves values between them and
// decides nothing of its own: the links (ttlink), the router (router), the
// tables (router/route, router/control), the memory (node/noc) and the flows
// (node/flow) decide. pump.go names the stages of the data path in order.
//
// A chip is a pure machine. A live node drives the chip with sockets, a
// simulation with an event heap.
//
// # Order of calls
//
// A step of a chip is one batch of inputs, then Pump, then all outputs:
//
//	c.HandleDatagram(now, ch, b) // as many as have come; likewise HandleRequest, SetPath, ...
//	c.Tick(now)                  // when Deadline has come
//	c.Pump(now)                  // once for the batch
//	for ch, t, ok := c.PollTransmit(now); ok; ch, t, ok = c.PollTransmit(now) { ... }
//	for r, ok := c.PollResult(); ok; r, ok = c.PollResult() { ... }
//	for e, ok := c.PollEvent(); ok; e, ok = c.PollEvent() { ... }
//	at, ok := c.Deadline()
package chip

import (
	"fmt"

	"ttfabric/node/flow"
	"ttfabric/node/noc"
	"ttfabric/router"
	"ttfabric/router/control"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Times of a chip; our own choices.
const (
	graceDeadTimes = 4 // grace period of a dead next hop, in times of the profile's DeadTraffic
	holdDeadTimes  = 2 // silence after which a link is out of service, in times of DeadTraffic
	bootDeadTimes  = 5 // the same for a link that has never been up, in times of DeadIdle
)

// Config describes a chip.
type Config struct {
	Node        wire.FabricNodeID
	Incarnation wire.Incarnation // of this start of the chip; random, not zero
	FlowEpoch   uint32           `json:"Life"` // first epoch of each flow from this chip; greater than in former incarnations, such as the start in milliseconds. 0: derived from Incarnation, which can cost a round trip
	Topology    *topo.Topology
	Route       route.Config
	Profile     ttlink.Profile     // times of the links; zero: ttlink.ProfileLAN
	Slots       router.SlotProfile // zero: router.SlotSpec
	MaxPayload  int                // largest padded frame payload, bytes; until SetMaxPayload says more
	Window      int                // bytes of a link's retransmit slab; 0: what the peer's slots can hold, if the peer has as many
	LocalFirst  bool               // see router.Config
	Timeout     router.Timeout     // zero: off
	TTL         uint16             // of new packets, in hops; 0: the hops of the longest route (Spec §7.2)
	MemoryLimit int64              // bytes of host memory for tiles; 0: the memory's default
	Seed        uint64
}

// Chip is one fabric node. Its inputs go to the machine, or through a wrapper
// such as a recorder, see [Chip.Wrap]. A Chip is not safe for concurrent use.
type Chip struct {
	Inputs
	state
}

// state makes all that can be read of the machine methods of [Chip]. The
// machine's own inputs are one level deeper than those of [Inputs], so that Go
// selects those of Inputs.
type state struct{ *machine }

// New returns a chip with all its ports off. The error names what in cfg makes no chip.
func New(now mono.Time, cfg Config) (*Chip, error) {
	c, err := newMachine(now, cfg)
	if err != nil {
		return nil, err
	}
	return &Chip{c, state{c}}, nil
}

// Wrap has all inputs go through what around returns for them. A wrapper that is
// to see every input must be installed before the first one.
func (c *Chip) Wrap(around func(Inputs) Inputs) { c.Inputs = around(c.Inputs) }

// Unwrap has all inputs go to the machine again.
func (c *Chip) Unwrap() { c.Inputs = c.machine }

// machine is what a chip is composed of.
type machine struct {
	cfg     Config
	ports   ports
	control *control.Control // which cables are in service
	tables  tables           // the routes around those that are not
	router  *router.Router
	pool    *router.Pool // of the router's packets
	memory  *noc.Memory
	source  *flow.Source // of the requests of this chip
	sink    *flow.Sink   // of the requests of others
	program program
	outbox  outbox

	events    eventLog
	sightings []Sighting
	counters  Counters                // of these, those that neither source nor sink counts
	refused   [wire.NumClasses]uint64 // packets that the router delivered here and the chip could not read, or that are for another chip
	scratch   scratch
}

// scratch is memory that is used anew for each packet.
type scratch struct {
	arriving   wire.Packet            // the packet that is being handled
	exceptions []wire.Exception       // of the completion that is being handled
	payload    []byte                 // of the control packet that is being sent
	route      [wire.MaxHops + 1]byte // of the packet that is being given another route
	members    []wire.FabricNodeID    // behind a dropped copy of a multicast
}

func newMachine(now mono.Time, cfg Config) (*machine, error) {
	if cfg.Slots.Name == "" {
		cfg.Slots = router.SlotSpec
	}
	if cfg.Profile.Name == "" {
		cfg.Profile = ttlink.ProfileLAN
	}
	if _, ok := cfg.Topology.Chip(cfg.Node); !ok {
		return nil, fmt.Errorf("chip %s: not in topology %s", cfg.Node, cfg.Topology)
	}
	c := &machine{cfg: cfg, sink: flow.NewSink()}
	c.source = flow.NewSource(flow.Config{Self: cfg.Node, Incarnation: cfg.Incarnation, Epoch: cfg.FlowEpoch}, (*network)(c))
	var err error
	if c.tables.base, err = route.New(cfg.Topology, cfg.Route); err != nil {
		return nil, err
	}
	c.enforce(c.tables.base)
	c.cfg.Slots = cfg.Slots.Only(c.tables.plan.VCs())
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

// Node is the chip's address.
func (c *machine) Node() wire.FabricNodeID { return c.cfg.Node }

// Incarnation is the chip's, from its configuration.
func (c *machine) Incarnation() wire.Incarnation { return c.cfg.Incarnation }

// Memory is the chip's tile memory.
func (c *machine) Memory() *noc.Memory { return c.memory }

// Tick does what time demands.
func (c *machine) Tick(now mono.Time) {
	for i := range c.ports.list {
		if d, ok := c.ports.list[i].link.Deadline(); ok && !d.After(now) {
			c.ports.list[i].link.Tick(now)
			c.linkEvents(now, i)
		}
	}
	c.source.Tick(now)
	if c.control.Tick(now) {
		c.install(now)
	}
}

// Deadline is when Tick, and the Pump behind it, is due next.
func (c *machine) Deadline() (mono.Time, bool) {
	at := mono.Never
	for i := range c.ports.list {
		if d, ok := c.ports.list[i].link.Deadline(); ok {
			at = mono.Min(at, d)
		}
	}
	if d, ok := c.router.Deadline(); ok {
		at = mono.Min(at, d)
	}
	if d, ok := c.source.Deadline(); ok {
		at = mono.Min(at, d)
	}
	if d, ok := c.control.Deadline(); ok {
		at = mono.Min(at, d)
	}
	if d, ok := c.program.deadline(); ok {
		at = mono.Min(at, d)
	}
	return at, at != mono.Never
}

// Close says goodbye on every link.
func (c *machine) Close(now mono.Time) {
	for i := range c.ports.list {
		c.ports.list[i].link.Close(now)
		c.linkEvents(now, i)
	}
}
