// Package chip composes one fabric node: its links, its router, its memory, and the flows that
// begin or end at the node. A chip moves values between these parts. The parts make all decisions:
// links (ttlink), router (router), tables (router/route, router/control), memory (node/noc) and
// flows (node/flow). The file pump.go lists the stages of the data path in order.
//
// A chip is a pure machine. A live node drives the chip with sockets. A simulation drives the chip
// with an event heap.
//
// # Order of calls
//
// The caller works in steps. In each step, the caller passes a batch of inputs to the chip, then
// calls Pump once, and then takes all outputs:
//
//	c.HandleDatagram(now, ch, b) // once for each datagram; also HandleRequest, SetPath and the other inputs
//	c.Tick(now)                  // if the time that Deadline returned has come
//	c.Pump(now)                  // once in each step
//	for ch, t, ok := c.PollTransmit(now); ok; ch, t, ok = c.PollTransmit(now) { ... }
//	for r, ok := c.PollResult(); ok; r, ok = c.PollResult() { ... }
//	for e, ok := c.PollEvent(); ok; e, ok = c.PollEvent() { ... }
//	at, ok := c.Deadline()
package chip

import (
	"fmt"
	"time"

	"ttfabric/node/flow"
	"ttfabric/node/kernel"
	"ttfabric/node/noc"
	"ttfabric/router"
	"ttfabric/router/control"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// The grace period of the router is GraceDeadTimes times ttlink.Profile.DeadTraffic. After a port
// has been out of service for the grace period, the router drops the packets that wait to leave by
// the port. The value of GraceDeadTimes is our own choice.
const GraceDeadTimes = 4

// The time control.Config.Confirm is confirmTimes times the sum of DeadIdle and Hold of the link
// profile. A chip that was late finds that a link is down after at most twice DeadIdle. The chip
// tells the other chips after the further time Hold.
const confirmTimes = 2

// If a cable has never been up, it goes out of service after the time Boot of the link profile. One
// machine may have to start all chips of a fabric, one after the other. If the fabric has more than
// bootChips chips, each further chip therefore makes this time longer by bootPerChip.
const (
	bootChips   = 32
	bootPerChip = 250 * time.Millisecond
)

// Config describes a chip.
type Config struct {
	Node        wire.FabricNodeID
	Incarnation wire.Incarnation // random number of this run of the chip, not 0

	// FlowEpoch is the first epoch of each flow from this chip. FlowEpoch must be greater than in
	// all earlier incarnations of the chip. An example is the time of the chip's start in
	// milliseconds. If FlowEpoch is 0, the chip derives the epoch from Incarnation. In this case, a
	// destination may refuse the first requests.
	FlowEpoch uint32 `json:"Life"`
	Topology  *topo.Topology
	Behaviour
	Phase      mono.Time // idle links send at this instant, and at every multiple of Profile.Keepalive before and after it, see ttlink.Config
	MaxPayload int       // largest padded payload of a frame, in bytes; SetMaxPayload can change this length later
	Window     int       // length of a link's retransmit slab, in bytes; 0: the chip computes the length from Slots, as if the peer had the same Slots
	Seed       uint64    // seed of the links' random numbers

	Kernels    kernel.Table              `json:"-"` // kernels that the chip can run; a replay needs the same kernels
	KernelSeed uint64                    // seed of random delays of kernels, see [kernel.Config]; 0: no delays
	Running    func(kernel fmt.Stringer) `json:"-"` // see [kernel.Config]
}

// Behaviour says how a chip behaves. All chips of a fabric must have the same Route.
type Behaviour struct {
	Route          route.Config
	Profile        ttlink.Profile     // times of the links; zero: ttlink.ProfileLAN
	Slots          router.SlotProfile // slots of each receiver channel; zero: router.SlotSpec
	LocalFirst     bool               // the router serves the chip's own packets before packets that pass through; false: own packets and packets that pass through take turns
	KeepUnreliable bool               // a link keeps sending over its own cable even if the cable is unreliable, see ttlink.Config
	Timeout        router.Timeout     // what the router does about a sender or receiver channel whose first packet cannot move for the time Timeout.After (Spec §7.3); zero: nothing
	StrictTTL      bool               // the chip drops a packet that comes in with a TTL of 0, also if the packet is for this chip (Spec §7.2); false: the chip takes the packet
	TTL            uint16             // TTL of this chip's unicast requests and probes, in hops; 0: enough for the longest route (Spec §7.2)
	MemoryLimit    int64              // bytes of host memory for tiles; 0: the memory's default
}

// Chip is one fabric node. A caller can put a wrapper, such as a recorder, around the
// inputs of a Chip: see [Chip.Wrap]. A Chip is not safe for concurrent use.
type Chip struct {
	Inputs
	state
}

// The type "state" embeds the machine, so that [Chip] has the machine's methods that read state. A
// Chip also has the methods of [Inputs], which lie one level less deep than the methods of the
// machine. If both have a method of the same name, Go therefore selects the method of Inputs.
type state struct{ *machine }

// New returns a chip whose links are all off. If cfg is wrong, New returns an error that says what
// is wrong.
func New(now mono.Time, cfg Config) (*Chip, error) {
	c, err := newMachine(now, cfg)
	if err != nil {
		return nil, err
	}
	return &Chip{c, state{c}}, nil
}

// Wrap calls the function "around" with the present Inputs, and sends all later inputs
// to the Inputs that "around" returns. To see every input, a wrapper must be installed
// before the first input.
func (c *Chip) Wrap(around func(Inputs) Inputs) { c.Inputs = around(c.Inputs) }

// Unwrap ends the effect of [Chip.Wrap]: all later inputs go directly to the machine.
func (c *Chip) Unwrap() { c.Inputs = c.machine }

// machine holds the parts of a chip.
type machine struct {
	cfg       Config
	ports     ports
	control   *control.Control // control plane, which knows which cables are silent or out of service
	tables    tables           // routing tables; the tables in force avoid the cables that are silent or out of service
	router    *router.Router
	pool      *router.Pool // buffers of the router's packets
	memory    *noc.Memory
	source    *flow.Source // flows of this chip's own requests
	sink      *flow.Sink   // flows of other chips' requests
	program   program
	kernels   programs // kernels on this chip's tiles
	firmwares          // what the host and the base firmware of the ethernet tiles use
	outbox    outbox
	observed

	events    eventLog
	sightings []Sighting              // traced packets that came in
	counters  Counters                // all counters except the counters of source and sink
	refused   [wire.NumClasses]uint64 // for each class: number of packets that the router delivered to this chip, and that the chip refused as malformed, for another chip, or from an unknown chip
	scratch   scratch
}

// observed holds what the chip keeps for people: the data rates, and the state at a cut.
type observed struct {
	rates rates
	cut   cutting // the latest cut for a snapshot
}

// The type "scratch" holds memory that the chip reuses for each packet.
type scratch struct {
	arriving   wire.Packet            // packet that the chip handles now
	exceptions []wire.Exception       // exceptions of the completion that the chip handles now
	read       []byte                 // data of the read that the chip performs now; nil before the first read
	payload    []byte                 // payload of the control packet that the chip sends now
	route      [wire.MaxHops + 1]byte // route of the packet that the chip reroutes now
	members    []wire.FabricNodeID    // members that a dropped copy of a multicast would have reached
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
	c := &machine{cfg: cfg, sink: flow.NewSink(cfg.Incarnation.Life())}
	c.source = flow.NewSource(flow.Config{Self: cfg.Node, Incarnation: cfg.Incarnation, Epoch: cfg.FlowEpoch}, (*network)(c))
	var err error
	if c.tables.base, err = route.New(cfg.Topology, cfg.Route); err != nil {
		return nil, err
	}
	c.enforce(c.tables.base)
	c.tables.hope = c.newPlanned(c.tables.base)
	if c.cfg.StrictTTL {
		c.tables.spare = 1
	}
	c.tables.setTTL()
	c.cfg.Slots = cfg.Slots.Only(c.tables.plan.VCs())
	if cfg.Window == 0 {
		c.cfg.Window = windowFor(c.cfg.Slots)
	}
	if cfg.Route.Ring == route.Bubble && c.cfg.Slots.Receiver[wire.VCData] < 2 {
		return nil, fmt.Errorf("chip %s: slot profile %s gives virtual channel 0 %d slots, but bubble flow control needs at least 2", cfg.Node, cfg.Slots.Name, c.cfg.Slots.Receiver[wire.VCData])
	}
	if c.memory, err = noc.New(cfg.Topology.Arch, cfg.MemoryLimit); err != nil {
		return nil, fmt.Errorf("chip %s: %w", cfg.Node, err)
	}
	self, _ := cfg.Topology.Chip(cfg.Node)
	if err := c.memory.Harvest(noc.Harvested(self.Harvested)); err != nil {
		return nil, fmt.Errorf("chip %s: %w", cfg.Node, err)
	}
	c.memory.Translate(!self.Untranslated)
	c.memory.SetLife(cfg.Incarnation)
	if err := c.addKernels(); err != nil {
		return nil, fmt.Errorf("chip %s: %w", cfg.Node, err)
	}
	if err := c.addFirmware(); err != nil {
		return nil, fmt.Errorf("chip %s: %w", cfg.Node, err)
	}
	if err := c.addPorts(now); err != nil {
		return nil, err
	}
	if err := c.addBoard(now); err != nil {
		return nil, err
	}
	c.control = control.New(now, control.Config{Self: cfg.Node, Ports: c.Channels(),
		Hold: cfg.Profile.Hold, Confirm: confirmTimes * (cfg.Profile.DeadIdle + cfg.Profile.Hold), Reaches: c.reaches, Boot: cfg.Profile.Boot + time.Duration(max(0, len(cfg.Topology.Chips)-bootChips))*bootPerChip})
	return c, nil
}

// windowFor returns the length of a retransmit slab, in bytes. The slab has room for one packet of
// the largest size for each receiver slot in p. The length is a quarter more than this room,
// because the frames also have headers. The result is at least [ttlink.MinWindow] and at most
// [ttlink.DefaultWindow].
func windowFor(p router.SlotProfile) int {
	n := 0
	for _, s := range p.Receiver {
		n += s * wire.MaxPacket * 5 / 4
	}
	return min(max(n, ttlink.MinWindow), ttlink.DefaultWindow)
}

// Node returns the chip's address.
func (c *machine) Node() wire.FabricNodeID { return c.cfg.Node }

// Incarnation returns the chip's incarnation, from the configuration of the chip.
func (c *machine) Incarnation() wire.Incarnation { return c.cfg.Incarnation }

// Memory returns the chip's tile memory.
func (c *machine) Memory() *noc.Memory { return c.memory }

// Tick handles the deadlines of the links, the flows and the control plane that have passed. The
// next call of Pump handles the deadlines of the router and of the program inside the chip.
func (c *machine) Tick(now mono.Time) {
	c.host.now = now
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
	for i := range c.ports.list {
		if c.control.Dead(i) {
			c.router.SetDead(now, i)
		}
	}
}

// Deadline returns the time at which the caller must next call Tick and then Pump. If no part of
// the chip has a deadline, Deadline returns false.
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
	if d, ok := c.kernels.Deadline(); ok {
		at = mono.Min(at, d)
	}
	at = mono.Min(at, c.kernels.verdictAt())
	if d, ok := c.firmware.Deadline(); ok {
		at = mono.Min(at, d)
	}
	at = mono.Min(at, c.waiting.deadline())
	at = mono.Min(at, c.cut.deadline())
	return at, at != mono.Never
}

// Close ends all jobs and closes every link. A link that is up still sends a close frame to its peer.
func (c *machine) Close(now mono.Time) {
	c.closeJobs(now)
	for i := range c.ports.list {
		c.ports.list[i].link.Close(now)
		c.linkEvents(now, i)
	}
}
